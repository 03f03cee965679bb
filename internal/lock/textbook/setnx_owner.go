package textbook

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/step"
)

// NewSetNXOwner returns the fourth step: the value is unique to the owner, and a release deletes the key only after it
// has read that value back.
//
// What breaks it: GET and DEL are two commands. After the comparison the key may expire and a rival may take it, but
// the DEL does not check again.
//
//	A   GET = mine ········· (expires) ············ DEL
//	B                            SET NX PX ── work ──── ...
//	C                                               SET NX PX ── work       two inside
//
// And work that takes longer than the TTL, which breaks [Lua] too.
func NewSetNXOwner(c redis.UniversalClient, ttl time.Duration, steps *step.Stream) *SetNX {
	l := &SetNX{name: "setnx-owner", c: c, ttl: ttl, steps: steps}
	l.take, l.drop = l.setNXPX, l.getThenDel
	return l
}

// getThenDel is two commands; [step.Releasing] lies between them.
func (l *SetNX) getThenDel(ctx context.Context, key, owner string) (int64, error) {
	get, cancel := lock.Detached(ctx)
	defer cancel()
	holder, err := l.c.Get(get, key).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, err
	}
	if holder != owner {
		l.steps.At(ctx, step.Releasing, key)
		return 0, nil
	}
	return l.del(ctx, key, owner)
}
