package writeups_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock/locktest"
	"lastitem/internal/testenv"
)

// A client that sends a command again when its answer does not come.
func TestClientSendsAgain(t *testing.T) {
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
		relay := locktest.NewRelay(t, o.Addr)
		relay.Losing(false, func(sent []byte) func([]byte) bool { // Redis has done the DECR
			if !bytes.Contains(bytes.ToLower(sent), []byte("decr")) {
				return nil
			}
			return func([]byte) bool { return true }
		})
		own := *o
		own.Addr, own.MaxRetries = relay.Addr().String(), c.retries
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
	s, a, b := withAB(t)
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
