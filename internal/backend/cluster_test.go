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
	"lastitem/internal/testenv/wait"
)

// A client of a cluster whose master is gone asks the others who has the slots now. Both servers here say that they have all of them.
func TestClusterClientAsksAnewAfterAFailure(t *testing.T) {
	t.Parallel()
	first, second := miniredis.RunT(t), miniredis.RunT(t)
	c, err := OpenRedis("redis://"+first.Addr()+",redis://"+second.Addr(), 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.Set(t.Context(), "before", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if second.Exists("before") {
		first = second
	}
	first.Close()
	began := time.Now()
	wait.Until(t, "the other server is used", func() bool { return c.Set(t.Context(), "after", 1, 0).Err() == nil })
	if took := time.Since(began); took > reloadEvery {
		t.Errorf("the other server was used after %s, want %s at most", took, reloadEvery)
	}
}

// Each master of a cluster is out by itself: at once if it refuses, at the second silence if it does not answer, and not for requests if it says
// that the cluster is down. When another takes over, the client of the requests knows it before a request may be sent.
func TestMastersAreOutByThemselves(t *testing.T) {
	t.Parallel()
	a, b, heir := miniredis.RunT(t), miniredis.RunT(t), miniredis.RunT(t)
	const half = 8192
	ofA, ofB := "stock:{1}", "stock:{2}" // slots 9842 and 5649
	var second atomic.Pointer[string]
	addr := b.Addr()
	second.Store(&addr)
	client := func() *redis.ClusterClient {
		c := redis.NewClusterClient(&redis.ClusterOptions{
			MaxRedirects: -1, MaxRetries: -1, DialerRetries: 1,
			ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
				return []redis.ClusterSlot{
					{Start: half, End: 2*half - 1, Nodes: []redis.ClusterNode{{Addr: a.Addr()}}},
					{Start: 0, End: half - 1, Nodes: []redis.ClusterNode{{Addr: *second.Load()}}},
				}, nil
			},
		})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	m := &masters{c: client(), requests: &reloader{}, mark: newMark("", Health{})}
	m.requests.c.Store(client())
	s := &Set{masters: m, Redis: store.NewRedis(m.requests.c.Load(), ""), healths: map[string]*health{}}
	probe := func() error { return m.ask(t.Context()) }
	want := func(when string, outB, outAll bool) {
		t.Helper()
		if err := errors.Join(m.down(ofA), s.Down("redis", 1)); (err != nil) != outAll {
			t.Errorf("%s: a request for the other master: %v", when, err)
		}
		if err := s.Down("redis", 1, 2); (err != nil) != outB {
			t.Errorf("%s: a request for both masters: %v, want an error: %t", when, err, outB)
		}
		if err := s.Down("redis"); (err != nil) != outAll {
			t.Errorf("%s: a request for any: %v, want an error: %t", when, err, outAll)
		}
	}
	if err := probe(); err != nil {
		t.Fatal(err)
	}
	want("well", false, false)
	b.SetError("OOM command not allowed when used memory > 'maxmemory'.")
	if err := probe(); err == nil || !strings.Contains(err.Error(), b.Port()+": OOM") || !s.some("redis") {
		t.Errorf("a probe of a full master: %v, want its name", err)
	}
	want("full", true, false)
	if err := m.down(ofB); !errors.Is(err, store.ErrRefused) {
		t.Errorf("down of a full master = %v, want ErrRefused", err)
	}
	b.SetError("CLUSTERDOWN Hash slot not served")
	if err := probe(); err == nil {
		t.Error("a probe of a cluster that is down found nothing")
	}
	want("the cluster is down", false, false)
	b.SetError("")
	_ = probe()
	want("well again", false, false)
	b.Close()
	_ = probe()
	want("silent once", false, false)
	_ = probe()
	want("silent twice", true, false)
	old, err := m.requests.c.Load().MasterForKey(t.Context(), ofB)
	if err != nil {
		t.Fatal(err)
	}
	hung, waiting := net.Pipe() // a request that waits for an answer
	m.requests.conns.Store(hung, old.Options().Addr)
	addr = heir.Addr()
	second.Store(&addr)
	if err := probe(); err != nil {
		t.Errorf("a probe after the failover: %v", err)
	}
	want("failed over", false, false)
	if n, err := waiting.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the connection to the old master brings %d bytes, %v, want its end", n, err)
	}
	if node, err := m.requests.c.Load().MasterForKey(t.Context(), ofB); err != nil || !strings.HasSuffix(node.Options().Addr, heir.Port()) {
		t.Errorf("the client of the requests knows %v, %v, want the new master", node, err)
	}
	a.SetError("OOM")
	heir.SetError("OOM")
	_ = probe()
	want("all full", true, true)
	if s.some("redis") {
		t.Error("some masters are out, want all")
	}
}
