package handoff_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
)

// metric is an Adder and an Observer.
type metric struct {
	mu       sync.Mutex
	sum, max float64
	n        int
}

func (m *metric) Add(n float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sum += n
	m.max = max(m.max, m.sum)
}

func (m *metric) Observe(n float64) {
	m.Add(n)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.n++
}

func (m *metric) value() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sum
}

// metrics are those of one engine, by name.
type metrics map[string]*metric

func newMetrics() (metrics, handoff.Metrics) {
	m := metrics{}
	of := func(name string) *metric {
		m[name] = &metric{}
		return m[name]
	}
	return m, handoff.Metrics{
		Waiting: of("waiting"), Held: of("held"), Wait: of("wait"), Hold: of("hold"), Handoff: of("hand-off"),
		Acquired: of("acquired"), Contended: of("contended"), TimedOut: of("timed out"), Lost: of("lost"),
		RenewFailed: of("renew failed"), Skipped: of("skipped"),
	}
}

// want fails where a counter or gauge is not what it is said to be; those that are left out are zero.
func (m metrics) want(t *testing.T, when string, want map[string]float64) {
	t.Helper()
	for _, name := range []string{"waiting", "held", "acquired", "contended", "timed out", "lost", "renew failed", "skipped"} {
		if got := m[name].value(); got != want[name] {
			t.Errorf("%s: %s = %g, want %g", when, name, got, want[name])
		}
	}
}

func TestEngineMetrics(t *testing.T) {
	both(t, func(t *testing.T, name string) {
		_, links := network(t, 1)
		m, hooks := newMetrics()
		l := pick(links[0].process(t, handoff.Options{Metrics: hooks}), name)
		first := locktest.Obtain(t, l, "k{1}")
		m.want(t, "held", map[string]float64{"held": 1, "acquired": 1})
		got, _ := waits(t.Context(), l, "k{1}")
		m.want(t, "waited for", map[string]float64{"held": 1, "acquired": 1, "waiting": 1})
		if _, err := l.Acquire(lock.WithWait(t.Context(), time.Second), "k{1}"); !errors.Is(err, lock.ErrBusy) {
			t.Fatalf("Acquire = %v, want ErrBusy", err)
		}
		m.want(t, "timed out", map[string]float64{"held": 1, "acquired": 1, "waiting": 1, "timed out": 1})
		time.Sleep(time.Second)
		_ = first.Release(t.Context())
		second := <-got
		time.Sleep(5 * time.Second)
		if inner, err := l.Acquire(second.Context(), "k{1}"); err != nil { // an entry is not a hold
			t.Error(err)
		} else {
			_ = inner.Release(t.Context())
		}
		_ = second.Release(t.Context())
		synctest.Wait()
		m.want(t, "released", map[string]float64{"acquired": 2, "contended": 1, "timed out": 1})
		for histogram, want := range map[string]struct {
			n   int
			sum float64
		}{"wait": {2, 2}, "hold": {2, 7}, "hand-off": {1, 0}} {
			h := m[histogram]
			if h.n != want.n || h.sum < want.sum-0.001 || h.sum > want.sum+0.01 {
				t.Errorf("%s: %d of %g s in all, want %d of %g s", histogram, h.n, h.sum, want.n, want.sum)
			}
		}
	})
}

func TestEngineMetricsOfFailures(t *testing.T) {
	both(t, func(t *testing.T, name string) {
		server, links := network(t, 3)
		m, hooks := newMetrics()
		l := pick(links[0].process(t, handoff.Options{Metrics: hooks}), name)

		lost := locktest.Obtain(t, l, "k{1}")
		server.Del("k{1}")
		<-lost.Context().Done()
		synctest.Wait()
		m.want(t, "lost", map[string]float64{"acquired": 1, "lost": 1})
		_ = lost.Release(t.Context())

		lost = locktest.Obtain(t, l, "k{1}")
		server.Del("k{1}")
		if err := lost.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("Release = %v, want ErrLost", err)
		}
		m.want(t, "lost, as the release finds", map[string]float64{"acquired": 2, "lost": 2})

		unrenewed := locktest.Obtain(t, l, "k{2}")
		links[0].replies.Store(true)
		time.Sleep(locktest.TTL * 2 / 3)
		if got := m["renew failed"].value(); got < 1 {
			t.Errorf("without an answer to a renewal: renew failed = %g, want some", got)
		}
		links[0].heal()
		time.Sleep(locktest.TTL)
		if err := unrenewed.Release(t.Context()); err != nil {
			t.Errorf("Release after renewals failed for a while = %v", err)
		}

		ctx, cancel := context.WithCancel(t.Context())
		held := locktest.Obtain(t, pick(links[1].process(t, handoff.Options{}), name), "k{3}")
		_, failed := waits(ctx, l, "k{3}")
		cancel()
		<-failed
		_ = held.Release(t.Context())

		held = locktest.Obtain(t, l, "k{4}")
		waits(t.Context(), pick(links[2].process(t, handoff.Options{}), name), "k{4}")
		links[2].powerOff()
		links[2].cut()
		synctest.Wait()
		_ = held.Release(t.Context())
		synctest.Wait()
		want := map[string]float64{"acquired": 4, "lost": 2, "timed out": 1, "skipped": 1, "renew failed": m["renew failed"].value()}
		m.want(t, "in the end", want)
	})
}
