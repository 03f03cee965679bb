package stock

import (
	"lastitem/contract/ledger"
	"lastitem/internal/store/sqldb"
	"lastitem/say/text"
)

// reserveUnit has a row per unit. A hold takes the first free rows that nobody else has locked, so two holds never wait
// for each other, and no row is hot. It is sold out only if too few rows are free, locked or not: a rival's rows may
// come back with its rollback.
//
//	A   SELECT ... WHERE free LIMIT 1 FOR UPDATE SKIP LOCKED: unit 1 ── UPDATE unit 1 ── COMMIT
//	B   SELECT ... WHERE free LIMIT 1 FOR UPDATE SKIP LOCKED: unit 2 ── UPDATE unit 2 ── COMMIT
var reserveUnit = Mode{
	Name:     "reserve-unit",
	Title:    text.Of("hold: the first free rows of a table of units, FOR UPDATE SKIP LOCKED"),
	Needs:    []Backend{NeedMySQL},
	Stores:   []Store{SQL},
	Reserves: true,
	Way:      &byRows,
	Adjusts:  true,
	Claims:   firstEnd,
	New:      func(d Deps) (Deductor, error) { return reserving{d, byRows}, nil },
}

var byRows = sqldb.Way{Act: ledger.ReserveUnits, Take: takeRows, Give: giveRows}

// takeRows writes the reservation on free rows.
func takeRows(tx sqldb.ReservationTx, id string, item ledger.ReservationItem) (*int64, bool, error) {
	ok, err := tx.TakeUnits(id, item)
	return nil, ok, err
}

// giveRows makes them free again.
func giveRows(tx sqldb.ReservationTx, item ledger.ReservationItem, ids ...string) {
	tx.GiveUnits(item, ids...)
}
