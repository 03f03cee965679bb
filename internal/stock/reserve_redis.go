package stock

import (
	"context"
	"errors"

	"lastitem/internal/idempotency"
	"lastitem/internal/store/redisdb"
	"lastitem/say/text"
)

// reserveRedis keeps count, reservations, payments and orders of a product in one slot, and each change is one script:
// nobody sees half of it, and the clock is the server's. A key of its own would expire by itself, but nobody would give
// its units back; a sorted set of deadlines and a sweep do.
//
//	hold      count - 1, reservation, deadline ── one script
//	confirm   held, and before the deadline? ── order ── one script
//	sweep     the overdue ones: count + 1 ── one script
var reserveRedis = Mode{
	Name: "reserve-redis",
	Title: text.Of("hold, confirm, cancel and sweep are a script each, over the keys of one slot, by the clock of " +
		"Redis; a sale without a hold is redis-lua's"),
	Needs:    []Backend{NeedRedis},
	Stores:   []Store{Redis},
	Reserves: true,
	Adjusts:  true,
	Claims: map[Store]Claims{
		Redis: {Threads: ".", Replicas: ".", Slow: "–", Late: "–", Pause: ".", Crash: ".", Failover: "A", Retry: ".",
			LateWrite: ".", Expiry: "."},
	},
	New: func(d Deps) (Deductor, error) { return reserveRedisDeductor{redisLuaDeductor{d}}, nil },
}

type reserveRedisDeductor struct{ redisLuaDeductor }

// Reserve holds the units in one script, together with the key.
func (r reserveRedisDeductor) Reserve(ctx context.Context, req ReserveRequest) (Reserved, error) {
	h, err := r.deps.newHold(req)
	if err == nil {
		err = Begin(ctx)
	}
	if err != nil {
		return Reserved{}, err
	}
	made, left, earlier, err := r.deps.Reservations.Reserve(ctx, h, req.For)
	if busy, ok := errors.AsType[*redisdb.KeyBusyError](err); ok {
		return Reserved{}, &idempotency.InFlightError{Held: busy.Held, Left: busy.Left, Cause: err}
	}
	if err != nil {
		return Reserved{}, shortage(err)
	}
	out := Reserved{Hold: made, Remaining: &left, Replayed: earlier}
	if len(req.Key) > 0 { // what it says of the first moment is the same each time
		answer := req.Held(made, &left)
		out.Stored = &answer
	}
	return out, nil
}
