package locktest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"lastitem/internal/lock"
	"lastitem/internal/step"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// Main runs the tests of a package for its TestMain, and fails if they leave goroutines running.
func Main(m *testing.M) {
	// The parallel tests wait for sessions to end and time-outs to pass, not for the CPU. A -parallel flag on the command
	// line has precedence.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	redis.SetLogger(quiet{}) // before any client reads the logger
	goleak.VerifyTestMain(dialled{m}, testenv.IgnoreServers())
}

// quiet is a logger that drops everything: the clients of killed nodes would report every attempt to dial.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// dialled ends when the pools of go-redis have stopped dialling. A pool whose server cannot be reached tries once a
// second, in a goroutine that learns after its sleep that the pool was closed; goleak waits for half a second only. A
// pool that does not stop is a leak, and is still found.
type dialled struct{ *testing.M }

func (m dialled) Run() int {
	code := m.M.Run()
	stacks := make([]byte, 1<<20)
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		n := runtime.Stack(stacks, true)
		if !bytes.Contains(stacks[:n], []byte("/internal/pool.(*ConnPool).tryDial(")) {
			break
		}
	}
	return code
}

// RedisProcess makes a locker on a client of its own.
type RedisProcess func(t *testing.T, c *redis.Client, ttl time.Duration, st *step.Stream) lock.Locker

// OnRedis runs a test on a real Redis and on an embedded one, at the same time.
func OnRedis(t *testing.T, test func(t *testing.T, s *testenv.RedisServer)) {
	testkit.Each(t, map[string]func(testing.TB) *testenv.RedisServer{"redis": testenv.Redis,
		"miniredis": testenv.Miniredis}, func(t *testing.T, server func(testing.TB) *testenv.RedisServer) {
		test(t, server(t))
	})
}

// RedisKind returns a kind of lock on s that has a lease time.
func RedisKind(s *testenv.RedisServer, name string, process RedisProcess) Kind {
	const lateTTL = 600 * time.Millisecond
	return Kind{
		Name: name, Key: KeysUnder(s.Prefix + name), LeaseTime: true,
		Process: func(t *testing.T, st *step.Stream) lock.Locker {
			return process(t, RedisClient(t, s), 30*time.Second, st)
		},
		Late: &Late{TTL: lateTTL, Process: func(t *testing.T, through func(string) string) lock.Locker {
			return process(t, RedisClient(t, &testenv.RedisServer{URL: Redirected(t, s.URL, through)}), lateTTL, nil)
		}},
	}
}

// Redirected replaces the host and port of a URL.
func Redirected(t *testing.T, address string, through func(string) string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = through(u.Host)
	return u.String()
}

// NeverEnds is the reason why, for some kinds of locks, no grant can come too late.
const NeverEnds = "no lease of this kind ends by itself"

// RedisClient returns a connection pool of its own, as another process would have.
func RedisClient(t testing.TB, s *testenv.RedisServer) *redis.Client {
	t.Helper()
	opt, err := redis.ParseURL(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	opt.MaxRetries, opt.ContextTimeoutEnabled = -1, true
	// on a busy machine a slow server is not down
	opt.DialTimeout, opt.ReadTimeout, opt.WriteTimeout = testenv.Still, testenv.Still, testenv.Still
	c := redis.NewClient(opt)
	t.Cleanup(func() { _ = c.Close() })
	Tell(t, c)
	return c
}

// Monitor returns the commands that a server runs from now on, and their connection, which closes with the test.
func Monitor(t *testing.T, s *testenv.RedisServer) (*bufio.Scanner, net.Conn) {
	t.Helper()
	o := s.Client.Options()
	conn, err := net.Dial("tcp", o.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	lines, commands := bufio.NewScanner(conn), []string{"MONITOR"}
	if o.Password != "" {
		commands = []string{strings.Join(strings.Fields("AUTH "+o.Username+" "+o.Password), " "), "MONITOR"}
	}
	for _, command := range commands {
		if _, err := fmt.Fprintf(conn, "%s\r\n", command); err != nil || !lines.Scan() || lines.Text() != "+OK" {
			t.Fatalf("the server answers %q to %.7s", lines.Text(), command)
		}
	}
	return lines, conn
}

// Bubble returns a Redis inside a synctest bubble, where hours pass in milliseconds. cut makes every connection fail
// from then on.
func Bubble(t *testing.T) (c *redis.Client, m *miniredis.Miniredis, cut func()) {
	t.Helper()
	m = miniredis.NewMiniRedis()
	m.ClockTTL(true)
	var mu sync.Mutex // several goroutines may dial at once
	var dead bool
	var conns []net.Conn
	c = redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:1", MaxRetries: -1, ContextTimeoutEnabled: true,
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			if dead {
				return nil, &net.OpError{Op: "dial", Err: errors.New("cut")}
			}
			conn, err := m.Dial()
			if err != nil {
				return nil, err
			}
			conns = append(conns, conn)
			return conn, nil
		},
	})
	t.Cleanup(func() {
		_ = c.Close()
		m.Close()
	})
	Tell(t, c)
	return c, m, func() {
		mu.Lock()
		defer mu.Unlock()
		dead = true
		for _, conn := range conns {
			_ = conn.Close()
		}
	}
}

// TTL is the TTL of the leases in a bubble.
const TTL = 30 * time.Second
