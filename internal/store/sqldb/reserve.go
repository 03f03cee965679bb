package sqldb

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"lastitem/contract/ledger"
	"lastitem/internal/store"
)

// A reservation in SQL is a row of reservation and one of reservation_item per product. Every transaction locks in this
// order: the reservation, the payment, the buyers' rows, the product rows by id; the hot row comes last, and only
// COMMIT follows it. The clock is the database's, read in a statement after the lock on the reservation. What decides
// is an UPDATE that names the state and the deadline that it leaves: if it changes no row, somebody else was first, the
// transaction fails, and the loser reads what is. The statements of an end go in one packet with COMMIT.

// errOvertaken says that somebody else changed the reservation between the read and the write: begin again.
var errOvertaken = fmt.Errorf("%w: the reservation changed meanwhile", store.ErrConflict)

// ReservationTx is a transaction in which reservations begin, change and end.
type ReservationTx struct{ *Tx }

// Way is how a mode holds units in SQL: the statements that tell such modes apart. What follows from a state, and when
// it may change, is the same for all of them.
type Way struct {
	// Act is what it does to the product: Reserve, ReserveComputed or ReserveUnits.
	Act ledger.Act
	// Take takes the units of an item, if so many are free, and returns how many are left; nil = not known.
	Take func(tx ReservationTx, reservation string, item ledger.ReservationItem) (left *int64, ok bool, err error)
	// Give puts the units of ended reservations back; item has their sum. It may not have happened before COMMIT.
	Give func(tx ReservationTx, item ledger.ReservationItem, reservations ...string)
	// Trusting says that a change of the state begins with a plain read, and then writes without naming the state that it
	// has read.
	Trusting bool
	// Unlimited says that what the mode sells to a buyer does not count for his limit.
	Unlimited bool
	// Final says that an order of the mode takes no return: its units were counted in another store too.
	Final bool
}

// Reserve holds the items of h (no product twice, sorted by product) for the given time, see [ledger.HoldFor], all or
// nothing. It fills in
// the runs, the deadline and the times, and returns the stock that it left of the only product, nil = not known.
func (t ReservationTx) Reserve(
	h ledger.Reservation, hold time.Duration, way Way,
) (made ledger.Reservation, left *int64, err error) {
	h.Items = slices.Clone(h.Items)
	limits := make([]soldProduct, len(h.Items))
	for i := range h.Items {
		limits[i], err = t.enter(&h.Items[i], way.Act)
		if errors.Is(err, store.ErrSegmented) {
			err = &ledger.ProductError{Err: store.ErrReservationUnsupported, ProductID: h.Items[i].ProductID}
		}
		if err != nil {
			return h, nil, err
		}
	}
	longest := slices.MinFunc(limits, func(a, b soldProduct) int { return cmp.Compare(a.longest, b.longest) })
	micros, ok := ledger.HoldFor(hold, longest.longest)
	if !ok {
		return h, nil, tooLong(longest.id, hold, longest.longest)
	}
	now := limits[0].now
	h.State, h.CreatedMicros, h.ChangedMicros, h.ExpiresMicros = ledger.Held, now, now, now+micros
	h.Late = ledger.LateRehold
	for i, item := range h.Items {
		if limits[i].late != ledger.LateRehold { // all or nothing: one line that is refunded late refunds the cart
			h.Late = limits[i].late
		}
		if err := t.takeOfBuyer(h.Buyer, item, limits[i]); err != nil {
			return h, nil, err
		}
	}
	t.insertReservation(h) // sent with the take, so that one that counts what is held does not count it
	for _, item := range h.Items {
		have, ok, err := way.Take(t, h.ID, item)
		if err != nil {
			return h, nil, err
		}
		if !ok {
			return h, nil, t.short(item, way)
		}
		left = have
	}
	if len(h.Items) > 1 {
		left = nil
	}
	return h, left, nil
}

// tooLong refuses a hold or an extension, in milliseconds.
func tooLong(product int64, hold time.Duration, longest int64) error {
	return &ledger.ShortError{Err: store.ErrTooLong, ProductID: product, Requested: hold.Milliseconds(),
		Available: longest / 1000}
}

// TakeBy takes units for an order of a buyer in a mode's way, without a hold. It returns how many are left, nil = not
// known, and the run that they were taken in, for [Tx.BoughtBy].
func (t ReservationTx) TakeBy(
	way Way, order, buyer string, product, quantity int64,
) (left *int64, run int64, err error) {
	item, act := ledger.ReservationItem{ProductID: product, Quantity: quantity}, way.Act
	if act == ledger.Reserve {
		act = ledger.Sell
	}
	p, err := t.enter(&item, act)
	if err != nil {
		return nil, 0, err
	}
	if err := t.takeOfBuyer(buyer, item, p); err != nil {
		return nil, 0, err
	}
	left, ok, err := way.Take(t, order, item)
	if err == nil && !ok {
		err = t.short(item, way)
	}
	return left, item.Run, err
}

// enter reads a product for an act, and says on it how it is sold from now on. An item that has a run must be of the
// product's.
func (t ReservationTx) enter(item *ledger.ReservationItem, act ledger.Act) (p soldProduct, err error) {
	if p, err = t.sold(item.ProductID); err != nil {
		return p, err
	}
	if item.Run != 0 && item.Run != p.run {
		return p, store.ErrNoOrder
	}
	item.Run = p.run
	next, ok := p.sold.After(act)
	switch {
	case p.sold == ledger.InSegments:
		return p, &ledger.ProductError{Err: store.ErrSegmented, ProductID: item.ProductID}
	case !ok:
		return p, &ledger.ProductError{Err: store.ErrReservationUnsupported, ProductID: item.ProductID}
	case next == p.sold:
		return p, nil
	}
	way, segments := columns(next, 0)
	n, err := t.affected(t.q.HoldWay, way, segments, item.ProductID, p.run, way)
	if err != nil || n > 0 {
		return p, err
	}
	now, err := t.sold(item.ProductID)
	if err == nil && now.run == p.run && now.sold == p.sold { // a unit was taken from the counter
		err = &ledger.ProductError{Err: store.ErrReservationUnsupported, ProductID: item.ProductID}
	}
	return p, cmp.Or(err, errOvertaken)
}

// short says why a take failed: too little, or a run that has just ended, or units that are free and locked.
func (t ReservationTx) short(item ledger.ReservationItem, way Way) error {
	p, err := t.sold(item.ProductID)
	if err != nil {
		return err
	}
	if way.Act != ledger.Reserve {
		if p.stock, err = t.freeOf(way, item); err != nil {
			return err
		}
	}
	if p.run != item.Run || p.stock >= item.Quantity {
		return errOvertaken
	}
	return &ledger.ShortError{Err: store.ErrShort, ProductID: item.ProductID, Available: p.stock, Requested: item.Quantity}
}

// freeOf counts the free units of a product that has no counter, by a plain read.
func (t ReservationTx) freeOf(way Way, item ledger.ReservationItem) (n int64, err error) {
	query := t.q.HoldFree
	if way.Act == ledger.ReserveUnits {
		query = t.q.UnitsFree
	}
	err = t.conn.QueryRowContext(t.ctx, query, item.ProductID, item.Run).Scan(&n)
	return n, statementError(err)
}

// Free counts the units of a counted product that are neither held nor ordered.
func (t ReservationTx) Free(item ledger.ReservationItem) (int64, error) {
	return t.freeOf(Way{Act: ledger.ReserveComputed}, item)
}

// TakeReservation takes units from the counter if they are there, while the product is in the item's run.
func (t ReservationTx) TakeReservation(item ledger.ReservationItem) (left int64, ok bool, err error) {
	return t.take(t.q.HoldTake, item.Quantity, item.ProductID, item.Quantity, item.Run)
}

// GiveToRun puts units back into the run that they were taken in, at COMMIT.
func (t ReservationTx) GiveToRun(item ledger.ReservationItem) {
	t.later(t.q.HoldGive, item.Quantity, item.ProductID, item.Run)
}

// TakeUnits gives free units to a reservation; ok is false if too few are free that nobody else has locked.
func (t ReservationTx) TakeUnits(reservation string, item ledger.ReservationItem) (ok bool, err error) {
	from := t.places.next(item.ProductID, item.Quantity)
	ids, err := t.freeUnits(item, from)
	again := err == nil && from > 0 && int64(len(ids)) < item.Quantity
	if again {
		ids, err = t.freeUnits(item, 0)
	}
	if err != nil || int64(len(ids)) < item.Quantity {
		return false, err
	}
	t.places.found(item.ProductID, ids[len(ids)-1], again)
	t.later(list(t.q.UnitsOwn, len(ids)), append([]any{reservation, item.ProductID, item.Run}, anys(ids)...)...)
	return true, nil
}

// freeUnits locks free units from a place on that nobody else has locked, at most as many as item wants.
func (t ReservationTx) freeUnits(item ledger.ReservationItem, from int64) (ids []int64, err error) {
	return allRows(t.ctx, t.conn, column[int64], t.q.UnitsTake, item.ProductID, item.Run, from, item.Quantity)
}

// GiveUnits frees as many units of reservations as item has, at COMMIT.
func (t ReservationTx) GiveUnits(item ledger.ReservationItem, reservations ...string) {
	args := slices.Concat([]any{item.ProductID, item.Run}, anys(reservations), []any{item.Quantity})
	t.later(list(t.q.UnitsGive, len(reservations)), args...)
}

func (t ReservationTx) insertReservation(h ledger.Reservation) {
	t.later(t.q.HoldInsert, h.ID, null(h.Key), h.Mode, h.Replica, null(h.Buyer), h.State, h.ExpiresMicros,
		h.Late, h.CreatedMicros, h.ChangedMicros)
	for _, item := range h.Items {
		t.later(t.q.HoldItemInsert, h.ID, item.ProductID, item.Run, item.Quantity)
	}
	t.note(h, "", ledger.Held, h.Replica, h.CreatedMicros)
}

// takeOfBuyer takes the units from the limit, if the product has one.
func (t ReservationTx) takeOfBuyer(buyer string, item ledger.ReservationItem, p soldProduct) error {
	if buyer == "" || !p.perBuyer.Valid {
		return nil
	}
	if err := t.exec(t.q.BuyerRow, item.ProductID, item.Run, buyer); err != nil {
		return err
	}
	n, err := t.affected(t.q.BuyerTake, item.Quantity, item.ProductID, item.Run, buyer, item.Quantity, p.perBuyer.Int64)
	if err != nil || n > 0 {
		return err
	}
	return limitReached(item.ProductID, p.perBuyer.Int64, item.Quantity)
}

// limitReached refuses a buyer's surplus. It names no reservation: whoever knows an id may act on it, and anybody may
// give a buyer's name.
func limitReached(product, limit, requested int64) error {
	return &ledger.ShortError{Err: store.ErrLimit, ProductID: product, Requested: requested, Available: limit}
}

// now reads the database's clock.
func (t ReservationTx) now() (micros int64, err error) {
	err = t.conn.QueryRowContext(t.ctx, t.q.Clock).Scan(&micros)
	return micros, statementError(err)
}

// note records a change of state for the judge, right after the statement that makes it.
func (t ReservationTx) note(h ledger.Reservation, was, now ledger.ReservationState, replica string, at int64) {
	t.later(t.q.HoldEvent, h.ID, was, now, h.ExpiresMicros, replica, at)
}
