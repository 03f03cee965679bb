package textbook

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/step"
)

// NewSetNXTTL returns the third step: SET NX PX, key and expiry in one command, so a dead holder's key goes away by
// itself.
//
// What breaks it: a holder that outlives its TTL. A rival enters, and the late DEL, which does not check the owner,
// lets a third client in while the rival is inside.
//
//	A   SET NX PX ── work ········· (expires) ········ DEL
//	B                                  SET NX PX ── work ──────── ...
//	C                                                      SET NX PX ── work       two inside
func NewSetNXTTL(c redis.UniversalClient, ttl time.Duration, steps *step.Stream) *SetNX {
	l := &SetNX{name: "setnx-ttl", c: c, ttl: ttl, steps: steps}
	l.take, l.drop = l.setNXPX, l.del
	return l
}

// setNXPX takes the key and starts its expiry in one command.
func (l *SetNX) setNXPX(ctx context.Context, key, owner string) (bool, time.Time, error) {
	ctx, cancel := lock.Detached(ctx)
	defer cancel()
	sent := time.Now()
	err := l.c.SetArgs(ctx, key, owner, redis.SetArgs{Mode: "NX", TTL: l.ttl}).Err()
	if errors.Is(err, redis.Nil) {
		return false, sent, nil
	}
	return err == nil, sent, err
}
