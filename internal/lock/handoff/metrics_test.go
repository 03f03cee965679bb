package handoff_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/testkit"
	"lastitem/testkit/locktest"
)

// metric is an Adder and an Observer.
type metric struct {
	mu  sync.Mutex
	sum float64
	n   int
}

func (m *metric) Add(n float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sum += n
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
	for _, name := range []string{"waiting", "held", "acquired", "contended", "timed out", "lost", "renew failed",
		"skipped"} {
		testkit.Is(t, m[name].value(), want[name], "%s: %s", when, name)
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
		_, err := l.Acquire(lock.WithWait(t.Context(), time.Second), "k{1}")
		testkit.IsError(t, err, lock.ErrBusy, "Acquire")
		m.want(t, "timed out", map[string]float64{"held": 1, "acquired": 1, "waiting": 1, "timed out": 1})
		time.Sleep(time.Second)
		_ = first.Release(t.Context())
		second := <-got
		time.Sleep(5 * time.Second)
		released(t, locktest.Acquire(lock.WithReentry(second.Context()), t, l, "k{1}")) // an entry is not a hold
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
		locktest.ReleaseLost(t, lost, "Release")
		m.want(t, "lost, as the release finds", map[string]float64{"acquired": 2, "lost": 2})

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
		m.want(t, "in the end", map[string]float64{"acquired": 3, "lost": 2, "timed out": 1, "skipped": 1})
	})
}

// troubled returns the options of an engine that logs and counts.
func troubled() (handoff.Options, *testkit.Log, metrics) {
	l := &testkit.Log{}
	m, hooks := newMetrics()
	for name, to := range map[string]*handoff.Adder{
		"late": &hooks.GrantLate, "missed": &hooks.Missed, "resubscribed": &hooks.Resubscribed,
		"cleanup failed": &hooks.CleanupFailed, "cleanup dropped": &hooks.CleanupDropped,
	} {
		m[name] = &metric{}
		*to = m[name]
	}
	return handoff.Options{Logger: slog.New(slog.NewTextHandler(l, nil)), Metrics: hooks}, l, m
}

// about returns the lines that contain text.
func about(l *testkit.Log, text string) []string {
	lines := slices.Collect(strings.Lines(l.String()))
	return slices.DeleteFunc(lines, func(line string) bool { return !strings.Contains(line, text) })
}

func wantTrouble(t *testing.T, l *testkit.Log, m metrics, counter, text string) {
	t.Helper()
	synctest.Wait()
	if found := about(l, text); len(found) == 0 || m[counter].value() < 1 {
		t.Errorf("%d lines about %q, %s = %g, want some", len(found), text, counter, m[counter].value())
	}
}

// A thousand renewals that are not answered are three lines in half a minute, and no secret is in them.
func TestLoggerIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, links := network(t, 1)
		o, l, m := troubled()
		e := links[0].process(t, o)
		var leases []lock.Lease
		for i := range 100 {
			leases = append(leases, locktest.Obtain(t, e.Fair(), "k"+string(rune('a'+i%26))+strings.Repeat("x", i)))
		}
		links[0].replies.Store(true)
		time.Sleep(locktest.TTL)
		synctest.Wait()
		found := about(l, "renewal was not answered")
		if n := m["renew failed"].value(); len(found) < 2 || len(found) > 3 || n < 1000 {
			t.Errorf("%d lines for %g renewals without an answer", len(found), n)
		}
		if last := found[len(found)-1]; !strings.Contains(last, "omitted=") || !strings.Contains(last, "lock_key=k") ||
			!strings.Contains(last, "err=") {
			t.Errorf("line %q, want key, error and how many were omitted", last)
		}
		wantTrouble(t, l, m, "lost", "a lease was lost")
		if token := about(l, "v2-"); len(token) > 0 {
			t.Errorf("a token is in the log: %s", token[0])
		}
		links[0].heal()
		for _, lease := range leases {
			_ = lease.Release(t.Context())
		}
	})
}

func TestLoggerHearsOfMessagesAndCancels(t *testing.T) {
	for text, c := range map[string]struct {
		counter string
		happens func(s *scene, leave func())
	}{
		"a message was lost": {"missed", func(s *scene, _ func()) {
			s.links[1].dropMessages()
			locktest.Release(s.T, s.held)
			time.Sleep(3 * time.Second) // a poll
		}},
		"the subscription was lost": {"resubscribed", func(s *scene, _ func()) {
			s.links[1].cut()
			time.Sleep(5 * time.Second)
		}},
		"a cancel was given up": {"cleanup dropped", func(s *scene, _ func()) {
			_, err := s.m.Lpush("list", "x")
			testkit.Must(s, err)
			locktest.WantUnavailable(lock.WithWait(s.Context(), time.Second), s.T, s.ls[1], "list", "Acquire of a list")
		}},
		"a cancel was not answered": {"cleanup failed", func(s *scene, leave func()) {
			s.links[1].replies.Store(true)
			leave()
			time.Sleep(10 * time.Second)
		}},
	} {
		inBubble(t, text, func(t *testing.T) {
			o, l, m := troubled()
			s := newScene(t, o, "fair", "fair")
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			waits(ctx, s.ls[1], "k{1}")
			c.happens(s, leave)
			wantTrouble(t, l, m, c.counter, text)
		})
	}
}

// An answer that takes most of the TTL is a late grant. Without a logger nothing is logged, and all is counted.
func TestLoggerHearsOfLateGrants(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			_, links := network(t, 1)
			o, l, m := troubled()
			if o.TTL = 150 * time.Millisecond; quiet {
				o.Logger = nil
			}
			e := links[0].process(t, o)
			links[0].slow.Store(int64(140 * time.Millisecond))
			locktest.WantUnavailable(lock.WithWait(t.Context(), time.Second), t, e.Handoff(), "k{1}",
				"Acquire with a TTL shorter than the way")
			links[0].slow.Store(0)
			if quiet {
				if n := m["late"].value(); n < 1 || len(about(l, "")) > 0 {
					t.Errorf("%g late grants counted, log %q", n, about(l, ""))
				}
				return
			}
			wantTrouble(t, l, m, "late", "a grant came so late")
		})
	}
}
