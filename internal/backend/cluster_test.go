package backend

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"lastitem/internal/store"
	"lastitem/internal/store/redisdb"
	"lastitem/testkit"
)

// A client of a cluster whose master is gone asks the others who has the slots now. Both servers here say that they
// have all of them.
func TestClusterClientAsksAnewAfterAFailure(t *testing.T) {
	t.Parallel()
	first, second := miniredis.RunT(t), miniredis.RunT(t)
	c, err := OpenRedis("redis://"+first.Addr()+",redis://"+second.Addr(), 2)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	testkit.Must(t, c.Set(t.Context(), "before", 1, 0).Err())
	if second.Exists("before") {
		first = second
	}
	first.Close()
	began := time.Now()
	testkit.Until(t, "the other server is used", func() bool { return c.Set(t.Context(), "after", 1, 0).Err() == nil })
	if took := time.Since(began); took > reloadEvery {
		t.Errorf("the other server was used after %s, want %s at most", took, reloadEvery)
	}
}

// Each master of a cluster is out by itself: at once if it refuses, at the second silence if it does not answer, and
// not for requests if it says that the cluster is down. When another takes over, the client of the requests knows it
// before a request may be sent, and the connections to the old one end.
func TestMastersAreOutByThemselves(t *testing.T) {
	t.Parallel()
	a, b, heir := miniredis.RunT(t), miniredis.RunT(t), miniredis.RunT(t)
	var second atomic.Value
	second.Store(b.Addr())
	client := func() *redis.ClusterClient {
		c := redis.NewClusterClient(&redis.ClusterOptions{
			MaxRedirects: -1, MaxRetries: -1, DialerRetries: 1,
			ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) { // product 1 has slot 9842, 2 has 5649
				return []redis.ClusterSlot{
					{Start: 8192, End: 16383, Nodes: []redis.ClusterNode{{Addr: a.Addr()}}},
					{Start: 0, End: 8191, Nodes: []redis.ClusterNode{{Addr: second.Load().(string)}}},
				}, nil
			},
		})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	m := &masters{c: client(), requests: &reloader{}, mark: newMark("", Health{})}
	m.requests.c.Store(client())
	s := &Set{masters: m, Redis: redisdb.New(m.requests.c.Load(), ""), healths: map[string]*health{}}
	hung, waiting := net.Pipe() // a request that waits for an answer of b
	m.requests.conns.Store(hung, ":"+b.Port())
	say := func(said string, to ...*miniredis.Miniredis) func() {
		return func() {
			for _, r := range to {
				r.SetError(said)
			}
		}
	}
	for _, step := range []struct {
		name       string
		do         func()
		named      string // in the error of the probe
		first, any bool   // requests for product 1, and for any, are refused
		second     error  // those for 2
	}{
		{"well", func() {}, "", false, false, nil},
		{"full", say("OOM is full", b), b.Port() + ": OOM", false, false, store.ErrRefused},
		{"the cluster is down", say("CLUSTERDOWN Hash slot not served", b), "CLUSTERDOWN", false, false, nil},
		{"well again", say("", b), "", false, false, nil},
		{"silent once", b.Close, b.Port() + ": dial", false, false, nil},
		{"silent twice", func() {}, b.Port() + ": dial", false, false, net.ErrClosed},
		{"replaced", func() { second.Store(heir.Addr()) }, "", false, false, nil},
		{"all full", say("OOM is full", a, heir), "OOM", true, true, store.ErrRefused},
	} {
		step.do()
		if err := m.ask(t.Context()); err == nil != (step.named == "") ||
			err != nil && !strings.Contains(err.Error(), step.named) {
			t.Errorf("%s: the probe found %v, want %q", step.name, err, step.named)
		}
		if err := s.Down("redis", 1); err != nil != step.first {
			t.Errorf("%s: product 1: %v", step.name, err)
		}
		err := s.Down("redis", 1, 2)
		if err == nil != (step.second == nil) || errors.Is(step.second, store.ErrRefused) != errors.Is(err,
			store.ErrRefused) {
			t.Errorf("%s: products 1 and 2: %v, want %v", step.name, err, step.second)
		}
		if err := s.Down("redis"); err != nil != step.any || s.some("redis") == step.any {
			t.Errorf("%s: any: %v", step.name, err)
		}
	}
	if err := m.requests.c.Load().Set(t.Context(), "{2}", 1, 0).Err(); !strings.Contains(err.Error(), "OOM") {
		t.Errorf("a request for the new master: %v, want it sent there", err)
	}
	_ = waiting.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := waiting.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the connection to the old master has %v, want its end", err)
	}
}
