package sqldb

import (
	"cmp"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lastitem/contract/ledger"
	"lastitem/internal/store"
)

// lockedReservation is a reservation that a transaction changes: it has locked it, unless the way is a trusting one.
type lockedReservation struct {
	ledger.Reservation
	way   Way
	now   int64 // the database's time after the lock
	times int   // how often it may be extended

	longest  int64                   // extension in microseconds, by the rules of
	shortest int64                   // this product
	was      ledger.ReservationState // when it was read
	gone     bool                    // an item is of a run that has ended
	ended    bool                    // it was ended in this transaction, and its units are not given back yet
}

// due is the state that a reservation must have by now: one that is overdue, or of a run that has ended, is not held.
func (h *lockedReservation) due() ledger.ReservationState {
	switch {
	case h.State == ledger.Held && h.gone:
		return ledger.Void
	case h.State == ledger.Held && h.now >= h.ExpiresMicros:
		return ledger.Expired
	}
	return h.State
}

// readReservation reads a reservation by HoldRead or HoldLock, and after that its items and the time. Its State is
// what the row says.
func (t ReservationTx) readReservation(query, id string) (h lockedReservation, err error) {
	row := func(rows *sql.Rows) error {
		return rows.Scan(&h.ID, &h.Key, &h.Mode, &h.Replica, &h.Buyer, &h.State, &h.ExpiresMicros, &h.ExtendedMicros,
			&h.Late, &h.CreatedMicros, &h.ChangedMicros)
	}
	item := func(rows *sql.Rows) error {
		var i ledger.ReservationItem
		var run, longest int64
		var times int
		err := rows.Scan(&i.ProductID, &i.Quantity, &i.Run, &run, &longest, &times, &h.now)
		if len(h.Items) == 0 || longest < h.longest {
			h.longest, h.shortest = longest, i.ProductID
		}
		if len(h.Items) == 0 || times < h.times {
			h.times = times
		}
		h.Items, h.gone = append(h.Items, i), h.gone || i.Quantity > 0 && run != i.Run
		return err
	}
	if t.packets {
		err = eachRow(t.ctx, t.conn, query+";\n"+t.q.HoldItems, []any{id, id}, row, item)
	} else if err = eachRow(t.ctx, t.conn, query, []any{id}, row); err == nil {
		err = eachRow(t.ctx, t.conn, t.q.HoldItems, []any{id}, item)
	}
	if err == nil && h.ID == "" {
		err = store.ErrNoReservation
	}
	return h, err
}

// move changes the state, if the reservation is still as it was read; otherwise the transaction fails: see the
// statement hold_event. In a trusting way it does so whatever it is.
func (t ReservationTx) move(h *lockedReservation, to ledger.ReservationState, replica string) {
	if h.way.Trusting {
		t.later(t.q.HoldSet, to, h.now, h.ID)
	} else {
		t.later(t.q.HoldMove, to, h.now, h.ID, h.State, h.ExpiresMicros)
	}
	t.note(h.Reservation, h.State, to, replica, h.now)
	h.State, h.ChangedMicros = to, h.now
}

// release gives the units of reservations back, each into the run that it was taken in: the buyers' first, then once
// per product, in the order of the products.
func (t ReservationTx) release(holds ...*lockedReservation) error {
	type place struct {
		product, run int64
		mode         string
	}
	type given struct {
		units  int64
		ids    []string
		way    Way
		buyers map[string]int64
	}
	back := map[place]*given{}
	for _, h := range holds {
		for _, item := range h.Items {
			if item.Quantity == 0 { // a line that was cancelled before
				continue
			}
			at := place{item.ProductID, item.Run, h.Mode}
			if back[at] == nil {
				back[at] = &given{way: h.way, buyers: map[string]int64{}}
			}
			back[at].units += item.Quantity
			back[at].ids = append(back[at].ids, h.ID)
			if h.Buyer != "" {
				back[at].buyers[h.Buyer] += item.Quantity
			}
		}
	}
	places := slices.SortedFunc(maps.Keys(back), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.product, b.product), cmp.Compare(a.run, b.run), cmp.Compare(a.mode, b.mode))
	})
	for _, at := range places {
		t.giveToBuyers(at.product, at.run, back[at].buyers)
	}
	for _, at := range places {
		g := back[at]
		item := ledger.ReservationItem{ProductID: at.product, Run: at.run, Quantity: g.units}
		if g.way.Give == nil {
			return unknownMode(at.mode)
		}
		g.way.Give(t, item, g.ids...)
	}
	return nil
}

// giveToBuyers gives units back to the limits of buyers, in the order of their rows.
func (t ReservationTx) giveToBuyers(product, run int64, units map[string]int64) {
	if len(units) == 0 {
		return
	}
	var cases, names []any
	for _, buyer := range slices.Sorted(maps.Keys(units)) {
		cases, names = append(cases, buyer, units[buyer]), append(names, buyer)
	}
	const one = " WHEN ? THEN ?"
	query := strings.Replace(t.q.BuyersGive, one, strings.Repeat(one, len(units)), 1)
	t.later(list(query, len(units)), slices.Concat(cases, []any{product, run}, names)...)
}

// unknownMode says that a replica of another version has made the reservation: a payment in time is still taken.
func unknownMode(name string) error {
	return fmt.Errorf("%w: sql: no mode %q here", store.ErrUnavailable, name)
}
