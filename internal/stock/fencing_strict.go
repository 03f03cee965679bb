package stock

import (
	"context"

	"lastitem/internal/store/sqldb"
	"lastitem/say/text"
)

// fencingStrict takes a token once: the read must raise the row's, not merely match it. After a failover that turned
// the counter back, holders are refused until the count has passed what the row has seen. That is slow but not wrong.
//
//	A   lock 33 ── raise 32 to 33, read 1 ────────────────────────────────── write 0 as 33
//	                 failover: the counter says 32 again
//	B                    lock 33 ── raise 33 to 33: refused, nothing happened
//	C                                                                              lock 34 ── raise 33 to 34, read 0: sold out
var fencingStrict = Mode{
	Name:    "fencing-strict",
	Title:   text.Of("A fencing token that the read raises strictly: one seen twice is refused"),
	Needs:   []Backend{NeedRedis, NeedSQL},
	Stores:  []Store{SQL},
	Holds:   holdsLease,
	Counter: true,
	Claims:  guardedWrite,
	New: func(d Deps) (Deductor, error) {
		return fenced(d, func(ctx context.Context, product int64, fence uint64) (sqldb.Row, bool, error) {
			return d.SQL.ReadFenced(ctx, product, fence, true)
		}), nil
	},
}
