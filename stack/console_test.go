package stack

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/redis/go-redis/v9"

	"lastitem/testkit"
)

// consoleBesides returns the URL of every kind of balancer that has a console beside the shop. The console tells who
// asked it, and its stream sends two events and then stays open.
func consoleBesides(t *testing.T) map[string]string {
	t.Helper()
	replica := testkit.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "the list")
	}))
	targets, addr := []string{replica.Listener.Addr().String()}, testkit.Console(t)
	return startEdges(t, Options{Only: []string{}, Console: addr}, NewBalancer(targets, WithConsole(addr)), targets)
}

// A browser that opens the address of the balancer is sent to the console, curl is not; what begins with /console/ goes
// there as it is.
func TestConsoleBesideTheShop(t *testing.T) {
	t.Parallel()
	for kind, url := range consoleBesides(t) {
		for _, c := range []struct{ path, accept, location, body string }{
			{"/", "*/*", "", "the list"},
			{"/", "text/html,application/xhtml+xml", "/console/", ""},
			{"/", "application/json, Text/HTML;q=0.9", "/console/", ""},
			{"/modes", "text/html", "", "the list"},
			{"/console/", "text/html", "", "GET /console/ of localhost:8080"},
			{"/console/api/search?q=a%20b", "*/*", "", "GET /console/api/search?q=a%20b of localhost:8080"},
		} {
			res, body := testkit.Ask(t, "GET", url+c.path, nil, "Accept", c.accept, "Host", "localhost:8080")
			if res.Header.Get("Location") != c.location || c.location == "" && body != c.body {
				t.Errorf("%s: GET %s for %s = %s to %q %q, want %q %q", kind, c.path, c.accept, res.Status,
					res.Header.Get("Location"), body, c.location, c.body)
			}
		}
	}
}

// The console's events pass at once, while the stream stays open.
func TestConsoleEventsAreNotBuffered(t *testing.T) {
	t.Parallel()
	for _, url := range consoleBesides(t) {
		testkit.ConsoleEvents(t, url)
	}
}

// Without a console a browser gets the list too, and there is no such path.
func TestNoConsole(t *testing.T) {
	t.Parallel()
	replica := testkit.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "shop "+r.URL.Path)
	}))
	for kind, url := range edges(t, replica.Listener.Addr().String()) {
		for _, path := range []string{"/", "/console/"} {
			res, body := testkit.Ask(t, "GET", url+path, nil, "Accept", "text/html", "Host", "localhost:8080")
			if body != "shop "+path {
				t.Errorf("%s: GET %s = %s %q, want the shop's answer", kind, path, res.Status, body)
			}
		}
	}
}

// With Restart a part that loses its data by dying ends the stack, and the error says what is gone.
func TestRestartSaysWhatIsLost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		backend string // of Options.Only
		kind    string // of Options.Backend
		part    string
		want    string
	}{
		{Redis, Embedded, "redis", "its data were in memory"},
		{Kafka, Embedded, Kafka, "its topics were in memory"},
		{Redis, Local, "redis", "its data were in memory"},
		{Redlock, Local, redlockName(2), "its locks were in memory"},
		{Consul, Local, Consul, "its sessions and keys were in memory"},
	} {
		t.Run(c.kind+"/"+c.part, func(t *testing.T) {
			t.Parallel()
			if c.kind == Local {
				wants(t, c.backend)
			}
			s := startStack(t, Options{Only: []string{c.backend}, Backend: c.kind, Restart: true})
			testkit.Must(t, syscall.Kill(s.PID(c.part), syscall.SIGKILL))
			wantDied(t, s, c.part+" has died: signal: killed (not started again: "+c.want+")")
		})
	}
}

// A store that writes to files is killed and started again, and what it had confirmed is there.
func TestRestartKeepsData(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		backend    string
		conf       []string // for Redis
		write, get func(t *testing.T, s *Stack) error
	}{
		{Redis, []string{"appendonly yes"}, func(t *testing.T, s *Stack) error {
			return redisDoes(t, s, func(c *redis.Client) error { return c.Set(t.Context(), "k", "v", 0).Err() })
		}, func(t *testing.T, s *Stack) error {
			return redisDoes(t, s, func(c *redis.Client) error { return c.Get(t.Context(), "k").Err() })
		}},
		{Etcd, nil, func(t *testing.T, s *Stack) error {
			return etcdSays(t, s, "put", `{"key":"aw==","value":"dg=="}`, "revision")
		},
			func(t *testing.T, s *Stack) error { return etcdSays(t, s, "range", `{"key":"aw=="}`, `"dg=="`) }},
		{ZooKeeper, nil, func(t *testing.T, s *Stack) error {
			return zooKeeperDoes(t, s, func(c *zk.Conn) error {
				_, err := c.Create("/k", []byte("v"), 0, zk.WorldACL(zk.PermAll))
				return err
			})
		}, func(t *testing.T, s *Stack) error {
			return zooKeeperDoes(t, s, func(c *zk.Conn) error {
				if v, _, err := c.Get("/k"); err != nil || string(v) != "v" {
					return errors.Join(errors.New("it has "+string(v)), err)
				}
				return nil
			})
		}},
	} {
		t.Run(c.backend, func(t *testing.T) {
			t.Parallel()
			wants(t, c.backend)
			s := startStack(t, Options{Only: []string{c.backend}, Backend: Local, Restart: true, RedisConf: c.conf})
			testkit.Must(t, c.write(t, s))
			before := s.PID(c.backend)
			testkit.Must(t, syscall.Kill(before, syscall.SIGKILL))
			for end := time.Now().Add(readyWithin); s.PID(c.backend) == before; time.Sleep(readyPolling) {
				if s.Err() != nil || time.Now().After(end) {
					t.Fatalf("%s does not come back: %v", c.backend, s.Err())
				}
			}
			testkit.Is(t, c.get(t, s), nil, "%s after it was started again", c.backend)
		})
	}
}

func redisDoes(t *testing.T, s *Stack, do func(*redis.Client) error) error {
	t.Helper()
	o, err := redis.ParseURL(s.Redis.URL)
	if err != nil {
		return err
	}
	c := redis.NewClient(o)
	return errors.Join(do(c), c.Close())
}

func etcdSays(t *testing.T, s *Stack, op, ask, want string) error {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.Etcd.URL+"/v3/kv/"+op, strings.NewReader(ask))
	if err != nil {
		return err
	}
	res, err := probes.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err == nil && !strings.Contains(string(body), want) {
		err = errors.New(string(body))
	}
	return err
}

type silent struct{}

func (silent) Printf(string, ...any) {}

func zooKeeperDoes(t *testing.T, s *Stack, do func(*zk.Conn) error) error {
	t.Helper()
	c, _, err := zk.Connect([]string{s.ZooKeeper.Addr}, 10*time.Second, zk.WithLogger(silent{}))
	if err != nil {
		return err
	}
	defer c.Close()
	return do(c)
}

// A restart that fails says how long it waits, and that is how long.
func TestRestartSaysWhenItTriesAgain(t *testing.T) {
	t.Parallel()
	s := startStack(t, Options{Only: []string{}})
	type said struct {
		wait time.Duration
		at   time.Time
	}
	tries, enough := make(chan said, 1), make(chan struct{})
	s.opts.Log = func(format string, args ...any) {
		if strings.HasSuffix(format, "trying again in %v") {
			select {
			case tries <- said{args[2].(time.Duration), time.Now()}:
			case <-enough:
			}
		}
	}
	revived := make(chan struct{})
	go func() {
		defer close(revived)
		never := func(site) ([]string, error) { return nil, errors.New("no") }
		s.procs.revive(part{sv: server{name: "x", setup: never}}, "killed")
	}()
	last := <-tries
	for range 3 {
		next := <-tries
		if took := next.at.Sub(last.at); took < last.wait || next.wait != 2*last.wait {
			t.Errorf("tried after %v, then again in %v, want %v or more, and twice that", took, next.wait, last.wait)
		}
		last = next
	}
	close(enough)
	testkit.Check(t, s.Close())
	<-revived
}
