package textbook

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/step"
)

// NewSetNXExpire returns the second step: the key gets an expiry, by a second command. That was the usual code before
// SET had NX and PX (Redis 2.6.12), and setIfAbsent followed by expire still does it.
//
// What breaks it: its holder dies between the two commands. The key has no expiry, and nobody ever holds the lock
// again.
//
//	A   SETNX ── kill -9
//	B            SETNX no ── sleep ── SETNX no ── ...       stuck
//
// And everything that breaks [NewSetNXTTL].
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
	ctx, cancel := lock.Detached(ctx)
	defer cancel()
	sent = time.Now()
	if err := l.c.PExpire(ctx, key, l.ttl).Err(); err != nil {
		return true, sent, err // the caller deletes the key, which the write-ups do not do; but only a living process can
	}
	return true, sent, nil
}
