package stock

import (
	"lastitem/contract/ledger"
	"lastitem/internal/store/sqldb"
	"lastitem/say/text"
)

// reserveSQL holds a unit as sql-atomic sells one: stock = stock - n WHERE stock >= n, together with the reservation's
// row, in one transaction. A confirm, a cancel and the sweep lock the reservation, read the clock after that, and
// change its state by an UPDATE that names the state and the deadline that it leaves: the one that changes the row has
// won, and only it gives units back or makes an order.
//
//	A   hold ── pays for a while ──── confirm: UPDATE ... WHERE state = 'held': one row ── order
//	sweep        the deadline ········ the row is locked: SKIP LOCKED, the next sweep looks again
var reserveSQL = Mode{
	Name: "reserve-sql",
	Title: text.Of("hold: conditional update and a reservation, one transaction; its end: UPDATE ... WHERE state = " +
		"'held', by the database's clock"),
	Needs:    []Backend{NeedSQL},
	Stores:   []Store{SQL},
	Cart:     true,
	Reserves: true,
	Way:      &byCounter,
	Adjusts:  true,
	Claims:   firstEnd,
	New:      func(d Deps) (Deductor, error) { return reserving{d, byCounter}, nil },
}

var byCounter = sqldb.Way{Act: ledger.Reserve, Take: takeOfRun, Give: giveToRun}

// takeOfRun takes from the counter what is there, while the product is in the run that the hold has read.
func takeOfRun(tx sqldb.ReservationTx, _ string, item ledger.ReservationItem) (*int64, bool, error) {
	left, ok, err := tx.TakeReservation(item)
	return &left, ok, err
}

// giveToRun adds to the counter, unless another run has begun: its units are not this one's.
func giveToRun(tx sqldb.ReservationTx, item ledger.ReservationItem, _ ...string) { tx.GiveToRun(item) }
