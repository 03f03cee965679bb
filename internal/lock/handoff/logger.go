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

var troubleTexts = [troubles]string{
	renewalFailed:  "lock: a renewal was not answered; it is repeated",
	leaseEnded:     "lock: a lease was lost before its release",
	grantLate:      "lock: a grant came so late that the lock had to be asked for again",
	messageMissed:  "lock: a message was lost; a poll has found that out",
	resubscribed:   "lock: the subscription was lost, and is back",
	cleanupFailed:  "lock: a cancel was not answered; it is repeated",
	rightMissing:   "lock: the user of the Redis client lacks a right; see Engine.Check",
	cleanupDropped: "lock: a cancel was given up; the lock may stay taken until its TTL is over",
}

// logInterval is the least time between two lines about the same kind of trouble. The later one says how many were left out.
const logInterval = 10 * time.Second

// backgroundLog writes trouble to a logger, which may be nil. Each line has a goroutine, so that a handler may block, or call the engine.
type backgroundLog struct {
	log     *slog.Logger
	mu      sync.Mutex
	last    [troubles]time.Duration // when the last line was written, on the engine's clock; 0 = never
	omitted [troubles]int           // lines since then
	closed  bool
	running sync.WaitGroup
}

// report counts trouble, and logs it unless a line about its kind was written a moment ago. Key and err may be left out. The engine's mutex
// may be held.
func (e *Engine) report(t trouble, key string, err error) {
	add(e.m.of(t), 1)
	b := &e.log
	if b.log == nil {
		return
	}
	now := e.now()
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
		b.log.LogAttrs(context.Background(), slog.LevelWarn, troubleTexts[t], attrs...) //nolint:sloglint // the table has literals only
	})
}

// close waits for the last line; none is written any more.
func (b *backgroundLog) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.running.Wait()
}
