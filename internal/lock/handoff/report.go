package handoff

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// trouble is something that goes wrong in the background, where no caller gets an error.
type trouble uint8

const (
	renewalFailed trouble = iota
	leaseEnded
	grantLate
	messageMissed
	resubscribed
	cleanupFailed
	cleanupDropped
	rightMissing
	troubles
)

// troubleTable has the line of each kind of trouble in the log, and its counter.
var troubleTable = [troubles]struct {
	text    string
	counter func(*meter) Adder
}{
	renewalFailed: {"lock: a renewal was not answered; it is repeated", func(m *meter) Adder { return m.RenewFailed }},
	leaseEnded:    {"lock: a lease was lost before its release", func(m *meter) Adder { return m.Lost }},
	grantLate: {"lock: a grant came so late that the lock had to be asked for again",
		func(m *meter) Adder { return m.GrantLate }},
	messageMissed: {"lock: a message was lost; a poll has found that out", func(m *meter) Adder { return m.Missed }},
	resubscribed:  {"lock: the subscription was lost, and is back", func(m *meter) Adder { return m.Resubscribed }},
	cleanupFailed: {"lock: a cancel was not answered; it is repeated", func(m *meter) Adder { return m.CleanupFailed }},
	cleanupDropped: {"lock: a cancel was given up; the lock may stay taken until its TTL is over",
		func(m *meter) Adder { return m.CleanupDropped }},
	rightMissing: {"lock: the user of the Redis client lacks a right; see Engine.Check",
		func(m *meter) Adder { return m.RightMissing }},
}

// logInterval is the least time between two lines about the same kind of trouble. The later one says how many were left
// out.
const logInterval = 10 * time.Second

// backgroundLog writes trouble to a logger, which may be nil. Each line has a goroutine, so that a handler may block,
// or call the engine.
type backgroundLog struct {
	clock
	m       *meter
	log     *slog.Logger
	mu      sync.Mutex
	last    [troubles]time.Duration // when the last line was written, on the engine's clock; 0 = never
	omitted [troubles]int           // lines since then
	closed  bool
	running sync.WaitGroup
}

// report counts trouble, and logs it unless a line about its kind was written a moment ago. Key and err may be left
// out. The engine's mutex may be held.
func (b *backgroundLog) report(t trouble, key string, err error) {
	add(troubleTable[t].counter(b.m), 1)
	if b.log == nil {
		return
	}
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	if b.last[t] > 0 && now-b.last[t] < logInterval {
		b.omitted[t]++
		return
	}
	b.last[t] = max(now, 1)
	attrs := make([]slog.Attr, 0, 3)
	if key != "" {
		attrs = append(attrs, slog.String("lock_key", key))
	}
	if err != nil {
		attrs = append(attrs, slog.Any("err", err))
	}
	if b.omitted[t] > 0 {
		attrs = append(attrs, slog.Int("omitted", b.omitted[t]))
		b.omitted[t] = 0
	}
	b.running.Go(func() {
		b.log.LogAttrs(context.Background(), slog.LevelWarn, troubleTable[t].text, attrs...) //nolint:sloglint // the table has literals only
	})
}

// reportRights reports that the user of the client lacks a right, where the caller may not hear of it.
func (b *backgroundLog) reportRights(err error) {
	if rightsMissing(err) {
		b.report(rightMissing, "", err)
	}
}

// close waits for the last line; none is written any more.
func (b *backgroundLog) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.running.Wait()
}

// An Adder is a counter or a gauge. Those of Prometheus are Adders.
type Adder interface{ Add(float64) }

// An Observer is a histogram of seconds.
type Observer interface{ Observe(float64) }

// Metrics count and measure what an engine does; each field may be nil. They are per engine and not per key, because
// keys are many. Several goroutines may call them at once, also with the engine's mutex held, so they must not call the
// engine.
type Metrics struct {
	// Waiting and Held are gauges: callers waiting in Acquire, and leases held.
	Waiting, Held Adder
	// Wait is the time from Acquire to the grant, Hold the time from there to Release. Handoff is the time from the
	// release of a contended lock (estimated, if another process released it) to the return of the next Acquire.
	Wait, Hold, Handoff Observer
	// Acquired counts leases; Contended those that had to wait; TimedOut waits that ended with ErrBusy; Lost leases that
	// ended with ErrLost; RenewFailed renewals without an answer; Skipped waiters that a grant skipped because their
	// process was gone, or silent.
	Acquired, Contended, TimedOut, Lost, RenewFailed, Skipped Adder
	// GrantLate counts grants that came so late that they had to be asked for again; Missed messages that were lost, and
	// whose grant a poll found; Resubscribed subscriptions that were lost and are back; CleanupFailed cancels without an
	// answer, which are repeated; CleanupDropped cancels that were given up; RightMissing requests that Redis refused to
	// the user of the client.
	GrantLate, Missed, Resubscribed, CleanupFailed, CleanupDropped, RightMissing Adder
}

// meter is Metrics whose fields may be nil.
type meter struct{ Metrics }

func add(a Adder, n float64) {
	if a != nil {
		a.Add(n)
	}
}

func observe(o Observer, d time.Duration) {
	if o != nil {
		o.Observe(d.Seconds())
	}
}

func (m *meter) skipped(n int64) {
	if n > 0 {
		add(m.Skipped, float64(n))
	}
}
