package textbook

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock/lease"
	"lastitem/internal/step"
)

// NewSetNXExpire returns the second rung: the key gets an expiry, by a second command. It is what the answers of the time
// before SET had NX and PX (Redis 2.6.12) show, and what setIfAbsent followed by expire still is.
//
// What breaks it: its holder dies between the two commands. The key has no expiry, and nobody ever holds the lock again.
//
//	A   SETNX ── kill -9
//	B            SETNX no ── sleep ── SETNX no ── ...       stuck
//
// And all that breaks [NewSetNXTTL].
func NewSetNXExpire(c redis.UniversalClient, ttl time.Duration, steps *step.Stream) *SetNX {
	l := &SetNX{name: "setnx-expire", c: c, ttl: ttl, steps: steps}
	l.take, l.drop = l.setNXThenExpire, l.del
	return l
}

// setNXThenExpire is two commands; [step.Acquiring] lies between them.
func (l *SetNX) setNXThenExpire(ctx context.Context, key, owner string) (bool, time.Time, error) {
	ok, sent, err := l.setNX(ctx, key, owner)
	if err != nil || !ok {
		return false, sent, err
	}
	l.steps.At(ctx, step.Acquiring, key)
	ctx, cancel := lease.Detached(ctx)
	defer cancel()
	sent = time.Now()
	if err := l.c.PExpire(ctx, key, l.ttl).Err(); err != nil {
		return true, sent, err // the key is taken back, which the write-ups do not even do; only while this process lives
	}
	return true, sent, nil
}
