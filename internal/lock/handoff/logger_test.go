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
	"lastitem/internal/lock/locktest"
)

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
		if last := found[len(found)-1]; !strings.Contains(last, "omitted=") || !strings.Contains(last, "lock_key=k") || !strings.Contains(last, "err=") {
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
		if _, err := m.Lpush("list", "x"); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Handoff().Acquire(lock.WithWait(t.Context(), time.Second), "list"); !errors.Is(err, lock.ErrUnavailable) {
			t.Errorf("Acquire of a list = %v, want ErrUnavailable", err)
		}
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
			if _, err := e.Handoff().Acquire(lock.WithWait(t.Context(), time.Second), "k{1}"); !errors.Is(err, lock.ErrUnavailable) {
				t.Errorf("Acquire with a TTL shorter than the way = %v, want ErrUnavailable", err)
			}
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
