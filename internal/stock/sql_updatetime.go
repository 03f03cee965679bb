package stock

import (
	"lastitem/contract/ledger"
	"lastitem/internal/store/sqldb"
	"lastitem/say/text"
)

// sqlUpdatetime is sql-version with a column that most tables already have: updated_at. It records when a row was
// written, not how often: a DATETIME has whole seconds, and two writes in one second leave the same time.
//
//	A   SELECT 5, 12:00:07 ──────────────────────────────────── UPDATE = 4 WHERE updated_at = 12:00:07: one row ── order
//	B        SELECT 5, 12:00:07 ── UPDATE = 4, 12:00:07 ── order
var sqlUpdatetime = Mode{
	Name:   "sql-updatetime",
	Title:  text.Of("Optimistic by the row's update time: two writes in one tick"),
	Needs:  []Backend{NeedSQL},
	Stores: []Store{SQL},
	Claims: map[Store]Claims{SQL: {Threads: "O"}},
	New: func(d Deps) (Deductor, error) {
		return optimistic{d, func(tx *sqldb.Tx, o ledger.Order, read sqldb.Row) (bool, error) {
			return tx.SetUpdated(o.ProductID, *o.Remaining, read.UpdatedAt)
		}}, nil
	},
}
