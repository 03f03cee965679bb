package writeups_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/testenv"
)

// lossy loses the answer to the first DECR that passes: the server has done it, the connection breaks.
type lossy struct {
	net.Conn
	lose   *atomic.Bool
	broken atomic.Bool
}

func (l *lossy) Write(b []byte) (int, error) {
	if bytes.Contains(bytes.ToLower(b), []byte("decr")) && l.lose.CompareAndSwap(true, false) {
		l.broken.Store(true)
	}
	return l.Conn.Write(b)
}

func (l *lossy) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if l.broken.Load() {
		return 0, io.EOF
	}
	return n, err
}

// A client that sends a command again when its answer does not come.
func TestClientSendsAgain(t *testing.T) {
	t.Parallel()
	s := tell(t)
	server := testenv.Redis(t)
	s.prefix = server.Prefix
	o, err := redis.ParseURL(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, came, left string
		retries          int
	}{
		{"retries: 3, the default", "8", "8", 3},
		{"retries: none", "(error) EOF", "9", -1},
	} {
		var lose atomic.Bool
		lose.Store(true)
		own := *o
		own.MaxRetries = c.retries
		own.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return &lossy{Conn: conn, lose: &lose}, err
		}
		unlucky := redis.NewClient(&own)
		t.Cleanup(func() { _ = unlucky.Close() })
		a := client{s, "A", unlucky}
		s.note("%s", c.name)
		a.do("OK", "SET @stock 10")
		a.do(c.came, "DECR @stock")
		a.do(c.left, "GET @stock")
	}
	s.note("one order; the first client took two units, the second does not know whether it took one")
}

// A message comes at least once: its consumer did the work and died before it said so.
func TestRedeliveryDeductsTwice(t *testing.T) {
	t.Parallel()
	s := tell(t)
	_, c := s.redis("A", "B")
	a, b := c[0], c[1]
	a.do("OK", "SET @stock 10")
	a.do("OK", "XGROUP CREATE @orders workers 0 MKSTREAM")
	a.do("1-1", "XADD @orders 1-1 order 4711")
	got := a.quietly("XREADGROUP GROUP workers a COUNT 1 STREAMS @orders >")
	if !strings.Contains(got, "4711") {
		t.Fatalf("A was given %s", got)
	}
	s.says("A", "XREADGROUP GROUP workers a STREAMS orders >", "order 4711")
	a.do("9", "DECR @stock")
	s.note("A is killed before XACK")
	got = b.quietly("XAUTOCLAIM @orders workers b 0 0")
	if !strings.Contains(got, "4711") {
		t.Fatalf("B was given %s", got)
	}
	s.says("B", "XAUTOCLAIM orders workers b 0 0", "order 4711")
	b.do("8", "DECR @stock")
	b.do("1", "XACK @orders workers 1-1")
	s.note("one order, two units taken: the deduction needs an idempotency row in its own transaction")
}
