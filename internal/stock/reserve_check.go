package stock

import (
	"lastitem/contract/ledger"
	"lastitem/internal/store/sqldb"
	"lastitem/say/text"
)

// reserveCheck has no counter: what is free is what there was, without what is held and what is ordered. It sums that
// up, compares, and inserts its reservation. Two requests do not see each other's row before it is committed.
//
//	A   SELECT initial - held - ordered: 1 left ── INSERT reservation ── COMMIT
//	B      SELECT initial - held - ordered: 1 left ── INSERT reservation ── COMMIT     two holds of the last unit
var reserveCheck = Mode{
	Name:     "reserve-check",
	Title:    text.Of("hold: insert the reservation if initial - held - ordered suffices, without a lock"),
	Needs:    []Backend{NeedMySQL},
	Stores:   []Store{SQL},
	Reserves: true,
	Way:      &bySum,
	Adjusts:  true,
	Claims:   map[Store]Claims{SQL: {Threads: "O"}},
	New:      func(d Deps) (Deductor, error) { return reserving{d, bySum}, nil },
}

var bySum = sqldb.Way{Act: ledger.ReserveComputed, Take: takeOfSum, Give: giveNothing}

// takeOfSum compares and writes nothing: the row that its caller inserts is the taking, and is not in the sum yet. It
// does not tell how many units are left: two that overlap would tell the same number.
func takeOfSum(tx sqldb.ReservationTx, _ string, item ledger.ReservationItem) (*int64, bool, error) {
	free, err := tx.Free(item)
	return nil, free >= item.Quantity, err
}

// giveNothing has nothing to give back: a reservation that has ended is in no sum.
func giveNothing(sqldb.ReservationTx, ledger.ReservationItem, ...string) {}
