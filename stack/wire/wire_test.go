package wire_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"lastitem/stack/wire"
	"lastitem/stack/wire/codec"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, testenv.IgnoreServers()) }

// BenchmarkProxy says what a command costs past a proxy: the difference between the two.
func BenchmarkProxy(b *testing.B) {
	s := testenv.Redis(b)
	addr := s.Client.Options().Addr
	p, err := wire.NewProxy("redis", addr, codec.Redis)
	testkit.Must(b, err)
	b.Cleanup(p.Close)
	for name, addr := range map[string]string{"direct": addr, "proxied": p.Addr} {
		b.Run("redis/"+name, func(b *testing.B) {
			o := *s.Client.Options()
			o.Addr = addr
			c := testkit.Closing(b, redis.NewClient(&o))
			for b.Loop() {
				if err := c.Get(b.Context(), s.Prefix+"stock:{101}").Err(); err != nil && err != redis.Nil { //nolint:errorlint // it is that
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("digest", func(b *testing.B) {
		for b.Loop() {
			codec.SQLDigest("UPDATE product_stock SET stock = 99, fence = 2, lease_seq = lease_seq + 1, version = version + 1 " +
				"WHERE id = 101 AND fence <= 2")
		}
	})
	b.Run("key", func(b *testing.B) {
		for b.Loop() {
			codec.Key("lastitem:lock:handoff:{101}:ended:0123456789abcdef0123456789abcdef")
		}
	})
}

// tap puts a tap before a server.
func tap(t *testing.T, r *wire.Recorder, addr string, codec wire.Codec) string {
	t.Helper()
	tap, err := r.Tap("server", addr, codec)
	testkit.Must(t, err)
	t.Cleanup(tap.Close)
	return tap.Addr
}

// recorded are the texts of the calls so far; each must have been answered.
func recorded(t *testing.T, r *wire.Recorder) (texts []string) {
	t.Helper()
	for _, c := range r.Between(time.Time{}, time.Now()) {
		if c.Server != "server" || !c.Answered.After(c.Sent) && !c.Push {
			t.Errorf("%s: on %s, sent %v, answered %v", c.Text, c.Server, c.Sent, c.Answered)
		}
		texts = append(texts, c.Text)
	}
	return texts
}

func want(t *testing.T, want, got []string) {
	t.Helper()
	testkit.Same(t, got, want, "calls")
}

// A tap that is closed has closed both of its connections, and a server that is not there is a connection that ends.
func TestTapEnds(t *testing.T) {
	t.Parallel()
	var r wire.Recorder
	tap, err := r.Tap("server", "127.0.0.1:1", codec.Redis)
	testkit.Must(t, err)
	c := testkit.Closing(t, redis.NewClient(&redis.Options{Addr: tap.Addr, MaxRetries: -1, DialerRetries: 1}))
	ctx := testkit.Within(t, 30*time.Second)
	if err := c.Ping(ctx).Err(); err == nil || ctx.Err() != nil {
		t.Errorf("a ping to nobody: %v, %v; want an error at once", err, ctx.Err())
	}
	tap.Close()
	tap.Close()
	if err := c.Ping(ctx).Err(); err == nil {
		t.Error("a ping by a tap that is closed: no error")
	}
}

// Answers of every shape pass, a held one waits, and Consul's blocking query is a poll.
func TestHTTPAnswers(t *testing.T) {
	t.Parallel()
	server := testkit.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/chunks":
			for range 3 {
				_, _ = io.WriteString(w, strings.Repeat("c", 1000))
				w.(http.Flusher).Flush()
			}
		case "/sized":
			_, _ = io.WriteString(w, strings.Repeat("s", 3000))
		case "/close":
			w.Header().Set("Connection", "close")
			w.Header().Set("Transfer-Encoding", "identity")
			_, _ = io.WriteString(w, strings.Repeat("e", 3000))
		case "/none":
			w.WriteHeader(http.StatusNoContent)
		default:
			http.Error(w, "no", http.StatusConflict)
		}
	}))
	p := newProxy(t, server.Listener.Addr().String(), codec.HTTP)
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	do := func(method, path string) (int, int) {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+p.Addr+path, nil)
		testkit.Must(t, err)
		res, err := client.Do(req)
		testkit.Must(t, err)
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		testkit.Must(t, err)
		return res.StatusCode, len(body)
	}
	held := p.Add(wire.Rule{Answer: true, Match: is("GET /sized")})
	go func() { reached(t, held); held.Pass() }()
	for _, c := range []struct {
		method, path string
		status, size int
	}{
		{"GET", "/chunks", 200, 3000}, {"GET", "/sized", 200, 3000}, {"HEAD", "/sized", 200, 0}, {"GET", "/none", 204, 0},
		{"POST", "/no?index=7", 409, 3}, {"GET", "/no?index=7", 409, 3}, {"GET", "/close", 200, 3000},
		{"GET", "/none", 204, 0},
	} {
		if status, size := do(c.method, c.path); status != c.status || size != c.size {
			t.Errorf("%s %s: %d with %d bytes, want %d with %d", c.method, c.path, status, size, c.status, c.size)
		}
	}
	testkit.Until(t, "all is answered", func() bool { return len(p.Unanswered()) == 0 })
	for _, c := range p.Since(0) {
		if c.Answered.IsZero() || (c.Failed == "409") != strings.HasPrefix(c.Pattern[4:], "/no?") &&
			c.Pattern[:4] == "GET " || c.Poll != (c.Text == "GET /no?index=7") {
			t.Errorf("%+v", c)
		}
	}
}

// openZooKeeper is a client of ZooKeeper at an address.
func openZooKeeper(t *testing.T, addr string) *zk.Conn {
	t.Helper()
	c, _, err := zk.Connect([]string{addr}, 20*time.Second, zk.WithLogInfo(false))
	testkit.Must(t, err)
	t.Cleanup(c.Close)
	return c
}

func TestZooKeeper(t *testing.T) {
	t.Parallel()
	var r wire.Recorder
	server := testenv.ZooKeeper(t)
	c := openZooKeeper(t, tap(t, &r, server.Addr, codec.ZooKeeper))
	_, err := c.Create(server.Prefix, []byte("1"), 0, zk.WorldACL(zk.PermAll))
	testkit.Must(t, err)
	_, _, err = c.Children(server.Prefix)
	testkit.Must(t, err)
	testkit.Must(t, c.Delete(server.Prefix, -1))
	want(t, []string{"create " + server.Prefix, "getChildren2 " + server.Prefix, "delete " + server.Prefix},
		recorded(t, &r))
}

// A command and an answer are held, and the event of a watch is lost, while the session lives.
func TestZooKeeperCuts(t *testing.T) {
	t.Parallel()
	s := testenv.ZooKeeper(t)
	p := newProxy(t, s.Addr, codec.ZooKeeper)
	far, near := openZooKeeper(t, p.Addr), openZooKeeper(t, s.Addr)
	path := func(n int) string { return fmt.Sprint(s.Prefix, "-", n) }
	holdWrites(t, p, named("create"), func(n int) error {
		_, err := far.Create(path(n), nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		return err
	}, func() (n int64, err error) {
		for ; ; n++ {
			there, _, err := near.Exists(path(int(n)))
			if err != nil || !there {
				return n, err
			}
		}
	})
	watched := path(0)
	_, _, events, err := far.ExistsW(watched)
	testkit.Must(t, err)
	lost := p.Add(wire.Rule{Push: true, Match: func(c wire.Call) bool { return c.Text == "deleted "+watched }})
	testkit.Must(t, near.Delete(watched, -1))
	reached(t, lost)
	lost.Drop(false)
	if there, _, err := far.Exists(watched); there || err != nil {
		t.Errorf("the node is there: %t, %v", there, err)
	}
	select {
	case e := <-events:
		t.Errorf("the lost event came: %+v", e)
	default:
	}
	if len(p.Unanswered()) > 0 {
		t.Error(p.Unanswered())
	}
}
