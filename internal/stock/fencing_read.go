package stock

import (
	"context"

	"lastitem/internal/store/sqldb"
	"lastitem/say/text"
)

// fencingRead shows the row its token before it reads: from then on every older holder is refused, whether its
// successor has written yet or not. No pause breaks it. Two holders with the same token do: a failover of the lock's
// Redis can set the counter back and issue a token twice.
//
//	A   lock 33 ── raise to 33, read 1 ──── (TTL over) ──────────────────────── write as 33: refused, the row has seen 34
//	B                                           lock 34 ── raise to 34, read 1 ──────────── write 0 as 34
var fencingRead = Mode{
	Name:    "fencing-read",
	Title:   text.Of("A fencing token that the read raises too (>=)"),
	Needs:   []Backend{NeedRedis, NeedSQL},
	Stores:  []Store{SQL},
	Holds:   holdsLease,
	Counter: true,
	Claims: map[Store]Claims{
		SQL: {Threads: ".", Replicas: ".", Slow: ".", Late: ".", Pause: ".", Crash: ".", Failover: "O", Retry: "D",
			LateWrite: "."},
	},
	New: func(d Deps) (Deductor, error) {
		return fenced(d, func(ctx context.Context, product int64, fence uint64) (sqldb.Row, bool, error) {
			return d.SQL.ReadFenced(ctx, product, fence, false)
		}), nil
	},
}
