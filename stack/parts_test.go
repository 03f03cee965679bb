package stack

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/testkit"
)

// NginxCheck writes the private nginx's configuration into dir and returns the command that checks it.
func NginxCheck(path, dir string) (argv []string, err error) {
	conf, err := renderNginx(edge{listen: "127.0.0.1:20000", targets: []string{"127.0.0.1:1", "127.0.0.1:2"}})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, conf, 0o600); err != nil {
		return nil, err
	}
	number, _ := version(path, "-v")
	return append(nginxArgv(path, number, dir, file), "-t"), nil
}

func TestMarkLogs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		testkit.Must(t, err)
		defer f.Close()
		_, err = f.WriteString(text)
		testkit.Must(t, err)
	}
	s := &Stack{Dir: dir, Replicas: []Service{{Name: "replica 1"}, {Name: "replica 2"}, {Name: "replica 3"}}}
	write("replica-1.log", "before\n")
	since := s.MarkLogs()
	if got := since(5); got != nil {
		t.Errorf("nothing logged: %q, want nothing", got)
	}
	write("replica-1.log", "one\ntwo\nthree\n")
	write("replica-2.log", "only\n") // no log yet when it was marked
	testkit.Same(t, since(2), []string{"replica 1: two", "replica 1: three", "replica 2: only"}, "lines since the mark")
	write("replica-3.log", strings.Repeat(strings.Repeat("x", 99)+"\n", 1000)+"last\n")
	got := since(3)
	if want := "replica 3: " + strings.Repeat("x", 99); len(got) != 7 || got[4] != want || got[6] != "replica 3: last" {
		t.Errorf("of a long log: %d lines, want 7 with whole ones of the third replica at the end: %q", len(got), got)
	}
}

// Each replica is told the address that Via gives for it, where a server has one at all.
func TestVia(t *testing.T) {
	t.Parallel()
	s := startStack(t, Options{Replicas: 2, Backend: Embedded, Only: []string{Kafka},
		Via: func(x Service, replica int) (string, error) {
			return fmt.Sprintf("%s-%d.example:1", x.Name, replica), nil
		}})
	for i, r := range s.Replicas {
		env := envOf(t, r.Addr)
		want := map[string]string{
			"SHOP_REDIS": fmt.Sprintf("redis://redis-%d.example:1/0", i+1),
			"SHOP_KAFKA": fmt.Sprintf("kafka-%d.example:1", i+1),
			"SHOP_SQL":   s.SQL.URL, // a file
			"SHOP_ETCD":  "",
		}
		for name, value := range want {
			testkit.Is(t, env[name], value, "replica %d: %s", i+1, name)
		}
	}
}

func TestViaFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("no more files")
	s, err := Start(t.Context(), Options{Replicas: 1, Backend: Embedded, Only: []string{},
		Via: func(Service, int) (string, error) {
			return "", broken
		}})
	if err == nil {
		_ = s.Close()
	}
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "replica 1 to redis") {
		t.Errorf("Start() = %v, want %q with the replica and the server", err, broken)
	}
}

// A replica that is started again long after its first start is given the same time to join its group of consumers.
func TestReplicaReadyAfterRestart(t *testing.T) {
	var available atomic.Bool
	replica := testkit.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/modes/kafka" && !available.Load() {
			_, _ = io.WriteString(w, `{"available":false,"why":"it is joining"}`)
		} else {
			_, _ = io.WriteString(w, `{"available":true}`)
		}
	}))
	addr := strings.TrimPrefix(replica.URL, "http://")
	synctest.Test(t, func(t *testing.T) {
		s := &Stack{Kafka: Service{URL: "k:1"}, opts: Options{Log: t.Logf}}
		ready := s.replicaReady("1")
		for _, start := range []string{"first", "second"} {
			available.Store(false)
			if err := ready(t.Context(), addr); err == nil || err.Error() != "it is joining" {
				t.Errorf("%s start: ready = %v before it has joined, want why not", start, err)
			}
			available.Store(true)
			testkit.Is(t, ready(t.Context(), addr), nil, "%s start: ready", start)
			time.Sleep(2 * kafkaWithin)
		}
		available.Store(false)
		_ = ready(t.Context(), addr)
		time.Sleep(2 * kafkaWithin)
		if err := ready(t.Context(), addr); err != nil {
			t.Errorf("a replica that does not join in time: ready = %v, want nil: it goes on without the mode", err)
		}
	})
}

// A stack logs in the language of its user; what the catalog lacks stays as it is.
func TestChineseLog(t *testing.T) {
	t.Parallel()
	var said []string
	log := func(format string, _ ...any) { said = append(said, format) }
	inLanguage("zh", log)("replica %s: at %s")
	inLanguage("en", log)("replica %s: at %s")
	inLanguage("zh", log)("something else")
	if want := []string{"副本 %s：%s", "replica %s: at %s", "something else"}; !slices.Equal(said, want) {
		t.Errorf("said %q, want %q", said, want)
	}
}

// With RTT each replica reaches Redis through a proxy of its own, which adds the round trip; the log says what is as
// near as before, and the proxies end with the stack.
func TestRTT(t *testing.T) {
	t.Parallel()
	const rtt = 20 * time.Millisecond
	s := startStack(t, Options{Replicas: 2, Backend: Embedded, Only: []string{Kafka}, RTT: rtt})
	addresses := map[string]bool{s.Redis.Addr: true}
	for _, r := range s.Replicas {
		env := envOf(t, r.Addr)
		if env["SHOP_KAFKA"] != s.Kafka.URL || env["SHOP_SQL"] != s.SQL.URL {
			t.Errorf("%s: Kafka at %q and SQL at %q, want the servers themselves", r.Name, env["SHOP_KAFKA"], env["SHOP_SQL"])
		}
		near := strings.TrimSuffix(strings.TrimPrefix(env["SHOP_REDIS"], "redis://"), "/0")
		addresses[near] = true
		began := time.Now()
		err := answers(t.Context(), near, command("PING"), func(line []byte) bool { return string(line) == "+PONG\r\n" })
		if err != nil || time.Since(began) < rtt {
			t.Errorf("%s: PING took %v (%v), want %v or more", r.Name, time.Since(began), err, rtt)
		}
	}
	if len(addresses) != 3 {
		t.Errorf("Redis is at %v, want its own address and one for each replica", addresses)
	}
	var said string
	s.opts.Log, s.opts.Lang = func(format string, args ...any) { said = fmt.Sprintf(format, args...) }, "zh"
	s.delays.log(&s.opts, s.servers())
	if want := "rtt：各副本到 redis 的往返时间为 20ms；不含 sql（SQLite 是本地文件）、kafka（broker 通告的是自己的地址）"; said != want {
		t.Errorf("the log says %q, want %q", said, want)
	}
	testkit.Must(t, s.Close())
	for address := range addresses {
		if c, err := net.DialTimeout("tcp", address, 5*time.Second); err == nil {
			_ = c.Close()
			t.Errorf("%s still listens", address)
		}
	}
}

// coordinationBackends are those that are installed or, by SHOP_TEST_REQUIRE, must be.
func coordinationBackends(t *testing.T) (all []string, missing error) {
	t.Helper()
	for _, b := range []string{Etcd, ZooKeeper, Consul} {
		if _, err := Find(b); err == nil {
			all = append(all, b)
		} else {
			testkit.Without(t, b, err)
			missing = errors.Join(missing, err)
		}
	}
	return all, missing
}

func TestCoordinationStartsAndEnds(t *testing.T) {
	t.Parallel()
	testkit.NotQuick(t, "etcd, ZooKeeper or Consul")
	all, missing := coordinationBackends(t)
	if len(all) == 0 {
		testkit.Missing(t, "etcd, ZooKeeper or Consul", missing)
	}
	s := startStack(t, Options{Only: all})
	tr := partsOf(s)
	for _, b := range all {
		sv := *s.extra(b)
		if versionNumber.FindString(sv.Kind) == "" || !strings.HasSuffix(sv.URL, sv.Addr) || sv.PID == 0 {
			t.Errorf("%s = %+v, want a version, a URL and a process", b, sv)
		}
		t.Logf("%s: %s", b, sv.Kind)
	}
	if s.ZooKeeper.Addr != "" {
		testkit.Is(t, zooKeeperSession(t.Context(), s.ZooKeeper.Addr), nil, "ZooKeeper gives no session")
	}
	if s.Consul.URL != "" {
		wantSession(t, s.Consul.URL)
	}
	if s.Redis.PID != 0 || s.SQL.URL != "" {
		t.Errorf("started %q and %q, which were not asked for", s.Redis.Kind, s.SQL.Kind)
	}
	wantCleanEnd(t, s, tr)
}

// wantSession fails unless the agent makes sessions, which it does later than it writes keys.
func wantSession(t *testing.T, url string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url+"/v1/session/create", http.NoBody)
	testkit.Must(t, err)
	res, err := probes.Do(req)
	testkit.Must(t, err)
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		t.Errorf("a session is refused with %s", res.Status)
	}
}

// Consul knows the port grpc_tls from 1.14 on, and nginx the flag -e from 1.19.5 on.
func TestAtLeast(t *testing.T) {
	t.Parallel()
	for version, want := range map[string][2]bool{
		"1.8.7": {}, "1.13.9": {}, "1.14.0": {true, false}, "1.19.4": {true, false}, "1.19.5": {true, true},
		"1.22": {true, true}, "2.0.0": {true, true}, "": {},
	} {
		testkit.Is(t, [2]bool{atLeast(version, 1, 14), atLeast(version, 1, 19, 5)}, want,
			"%q is at least 1.14 and 1.19.5", version)
	}
}
