package handoff_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
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
		if _, err := l.Acquire(lock.WithWait(t.Context(), time.Second), "k{1}"); !errors.Is(err, lock.ErrBusy) {
			t.Fatalf("Acquire = %v, want ErrBusy", err)
		}
		m.want(t, "timed out", map[string]float64{"held": 1, "acquired": 1, "waiting": 1, "timed out": 1})
		time.Sleep(time.Second)
		_ = first.Release(t.Context())
		second := <-got
		time.Sleep(5 * time.Second)
		if inner, err := l.Acquire(lock.WithReentry(second.Context()), "k{1}"); err != nil { // an entry is not a hold
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

// lines is a log in memory. Its handler calls the engine, as a handler may that counts or shows what is held.
type lines struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

// about returns the lines that contain text.
func (l *lines) about(text string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.out.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// troubled returns the options of an engine that logs to lines and counts.
func troubled() (handoff.Options, *lines, metrics) {
	l := &lines{}
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

func wantTrouble(t *testing.T, l *lines, m metrics, counter, text string) {
	t.Helper()
	synctest.Wait()
	if found := l.about(text); len(found) == 0 || m[counter].value() < 1 {
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
		found := l.about("renewal was not answered")
		if n := m["renew failed"].value(); len(found) < 2 || len(found) > 3 || n < 1000 {
			t.Errorf("%d lines for %g renewals without an answer", len(found), n)
		}
		if last := found[len(found)-1]; !strings.Contains(last, "omitted=") || !strings.Contains(last, "lock_key=k") ||
			!strings.Contains(last, "err=") {
			t.Errorf("line %q, want key, error and how many were omitted", last)
		}
		wantTrouble(t, l, m, "lost", "a lease was lost")
		if token := l.about("v2-"); len(token) > 0 {
			t.Errorf("a token is in the log: %s", token[0])
		}
		links[0].heal()
		for _, lease := range leases {
			_ = lease.Release(t.Context())
		}
	})
}

func TestLoggerHearsOfMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, links := network(t, 2)
		o, l, m := troubled()
		waiter, rival := links[0].process(t, o).Fair(), links[1].process(t, handoff.Options{}).Fair()
		held := locktest.Obtain(t, rival, "k{1}")
		got, _ := waits(t.Context(), waiter, "k{1}")
		links[0].dropMessages()
		locktest.Release(t, held)
		locktest.Release(t, <-got)
		wantTrouble(t, l, m, "missed", "a message was lost")

		held = locktest.Obtain(t, rival, "k{1}")
		got, _ = waits(t.Context(), waiter, "k{1}")
		links[0].cut()
		time.Sleep(5 * time.Second)
		wantTrouble(t, l, m, "resubscribed", "the subscription was lost")
		locktest.Release(t, held)
		locktest.Release(t, <-got)
	})
}

func TestLoggerHearsOfCleanups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, links := network(t, 2)
		o, l, counted := troubled()
		e := links[0].process(t, o)
		_, err := m.Lpush("list", "x")
		testkit.Must(t, err)
		locktest.WantUnavailable(lock.WithWait(t.Context(), time.Second), t, e.Handoff(), "list", "Acquire of a list")
		wantTrouble(t, l, counted, "cleanup dropped", "a cancel was given up")

		held := locktest.Obtain(t, links[1].process(t, handoff.Options{}).Fair(), "k{1}")
		ctx, cancel := context.WithCancel(t.Context())
		_, failed := waits(ctx, e.Fair(), "k{1}")
		links[0].replies.Store(true)
		cancel()
		<-failed
		time.Sleep(10 * time.Second)
		wantTrouble(t, l, counted, "cleanup failed", "a cancel was not answered")
		links[0].heal()
		locktest.Release(t, held)
	})
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
				if n := m["late"].value(); n < 1 || len(l.about("")) > 0 {
					t.Errorf("%g late grants counted, log %q", n, l.about(""))
				}
				return
			}
			wantTrouble(t, l, m, "late", "a grant came so late")
		})
	}
}
