package sqldb

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
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

// Way is how a mode holds units in SQL: the statements that tell such modes apart. What follows from a state, and when
// it may change, is the same for all of them.
type Way struct {
	// Act is what it does to the product: Reserve, ReserveComputed or ReserveUnits.
	Act ledger.Act
	// Take takes the units of an item, if so many are free, and returns how many are left; nil = not known.
	Take func(tx *Tx, reservation string, item ledger.ReservationItem) (left *int64, ok bool, err error)
	// Give puts the units of ended reservations back; item has their sum. It may not have happened before COMMIT.
	Give func(tx *Tx, item ledger.ReservationItem, reservations ...string)
	// Trusting says that a change of the state begins with a plain read, and then writes without naming the state that it
	// has read.
	Trusting bool
	// Unlimited says that what the mode sells to a buyer does not count for his limit.
	Unlimited bool
}

// HoldBy sets how each mode that holds does it. Call it before the first hold.
func (s *Store) HoldBy(way func(mode string) Way) { s.way = way }

// reservationProduct is what a hold must know of a product.
type reservationProduct struct {
	run, stock int64
	sold       ledger.Sold
	perBuyer   sql.NullInt64
	late       string
	now        int64 // the time of the read
}

// Reserve holds the items of h (no product twice, sorted by product) for the given time, all or nothing. It fills in
// the runs, the deadline and the times, and returns the stock that it left of the only product, nil = not known.
func (t *Tx) Reserve(
	h ledger.Reservation, hold time.Duration, way Way,
) (made ledger.Reservation, left *int64, err error) {
	h.Items = slices.Clone(h.Items)
	limits := make([]reservationProduct, len(h.Items))
	for i := range h.Items {
		limits[i], err = t.enter(&h.Items[i], way.Act)
		if errors.Is(err, store.ErrSegmented) {
			err = &ledger.ProductError{Err: store.ErrReservationUnsupported, ProductID: h.Items[i].ProductID}
		}
		if err != nil {
			return h, nil, err
		}
	}
	now := limits[0].now
	h.State, h.CreatedMicros, h.ChangedMicros, h.ExpiresMicros = ledger.Held, now, now, now+hold.Microseconds()
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

// TakeBy takes units for an order of a buyer in a mode's way, without a hold. It returns how many are left, nil = not
// known, and the run that they were taken in, for [Tx.BoughtBy].
func (t *Tx) TakeBy(way Way, order, buyer string, product, quantity int64) (left *int64, run int64, err error) {
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

// BoughtBy writes the run, and the buyer if he is known, on an order that no reservation was made for: it counts in
// that run only, and a return gives the buyer's units back. Run 0 is the present one of a row that the transaction has
// locked.
func (t *Tx) BoughtBy(buyer, order string, product, run int64) error {
	if run == 0 {
		p, err := t.reservationProduct(product)
		if err != nil {
			return err
		}
		run = p.run
	}
	return t.exec(t.q.OrderBuyer, run, nullString(buyer), order, product)
}

// enter reads a product for an act, and says on it how it is sold from now on. An item that has a run must be of the
// product's.
func (t *Tx) enter(item *ledger.ReservationItem, act ledger.Act) (p reservationProduct, err error) {
	if p, err = t.reservationProduct(item.ProductID); err != nil {
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
	now, err := t.reservationProduct(item.ProductID)
	if err == nil && now.run == p.run && now.sold == p.sold { // a unit was taken from the counter
		err = &ledger.ProductError{Err: store.ErrReservationUnsupported, ProductID: item.ProductID}
	}
	return p, cmp.Or(err, errOvertaken)
}

// short says why a take failed: too little, or a run that has just ended, or units that are free and locked.
func (t *Tx) short(item ledger.ReservationItem, way Way) error {
	p, err := t.reservationProduct(item.ProductID)
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
func (t *Tx) freeOf(way Way, item ledger.ReservationItem) (n int64, err error) {
	query := t.q.HoldFree
	if way.Act == ledger.ReserveUnits {
		query = t.q.UnitsFree
	}
	err = t.conn.QueryRowContext(t.ctx, query, item.ProductID, item.Run).Scan(&n)
	return n, statementError(err)
}

// Free counts the units of a counted product that are neither held nor ordered.
func (t *Tx) Free(item ledger.ReservationItem) (int64, error) {
	return t.freeOf(Way{Act: ledger.ReserveComputed}, item)
}

// TakeReservation takes units from the counter if they are there, while the product is in the item's run.
func (t *Tx) TakeReservation(item ledger.ReservationItem) (left int64, ok bool, err error) {
	return t.take(t.q.HoldTake, item.Quantity, item.ProductID, item.Quantity, item.Run)
}

// GiveToRun puts units back into the run that they were taken in, at COMMIT.
func (t *Tx) GiveToRun(item ledger.ReservationItem) {
	t.later(t.q.HoldGive, item.Quantity, item.ProductID, item.Run)
}

// unitPlaces says where holds of this process look for free units first, by product: after those that the last one has
// taken. From the first unit, each would step over all that were taken before and that the server has not purged from
// its index yet, and over those that rivals have locked.
type unitPlaces struct{ sync.Map }

// next returns a place of its own for a hold of n units.
func (p *unitPlaces) next(product, n int64) int64 {
	at, _ := p.LoadOrStore(product, new(atomic.Int64))
	return at.(*atomic.Int64).Add(n) - n
}

// found says that the last of the units that a hold has taken is there; again, that it had to begin at the first unit.
func (p *unitPlaces) found(product, last int64, again bool) {
	at, _ := p.LoadOrStore(product, new(atomic.Int64))
	for place := at.(*atomic.Int64); ; {
		was := place.Load()
		if was > last && !again || place.CompareAndSwap(was, last+1) {
			return
		}
	}
}

// TakeUnits gives free units to a reservation; ok is false if too few are free that nobody else has locked.
func (t *Tx) TakeUnits(reservation string, item ledger.ReservationItem) (ok bool, err error) {
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
func (t *Tx) freeUnits(item ledger.ReservationItem, from int64) (ids []int64, err error) {
	return allRows(t.ctx, t.conn, column[int64], t.q.UnitsTake, item.ProductID, item.Run, from, item.Quantity)
}

// GiveUnits frees the units of reservations, at COMMIT.
func (t *Tx) GiveUnits(item ledger.ReservationItem, reservations ...string) {
	t.later(list(t.q.UnitsGive, len(reservations)), append([]any{item.ProductID, item.Run}, anys(reservations)...)...)
}

func (t *Tx) reservationProduct(id int64) (p reservationProduct, err error) {
	var segments int
	row := t.conn.QueryRowContext(t.ctx, t.q.HoldProduct, id)
	err = row.Scan(&p.run, &segments, &p.stock, &p.perBuyer, &p.late, &p.sold, &p.now)
	if errors.Is(err, sql.ErrNoRows) {
		return p, &ledger.ProductError{Err: store.ErrUnknownProduct, ProductID: id}
	}
	p.sold = soldAs(p.sold, segments)
	return p, statementError(err)
}

func (t *Tx) insertReservation(h ledger.Reservation) {
	t.later(t.q.HoldInsert, h.ID, nullBytes(h.Key), h.Mode, h.Replica, nullString(h.Buyer), h.State, h.ExpiresMicros,
		h.Late, h.CreatedMicros, h.ChangedMicros)
	for _, item := range h.Items {
		t.later(t.q.HoldItemInsert, h.ID, item.ProductID, item.Run, item.Quantity)
	}
	t.note(h, "", ledger.Held, h.Replica, h.CreatedMicros)
}

// takeOfBuyer takes the units from the limit, if the product has one.
func (t *Tx) takeOfBuyer(buyer string, item ledger.ReservationItem, p reservationProduct) error {
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
func (t *Tx) now() (micros int64, err error) {
	err = t.conn.QueryRowContext(t.ctx, t.q.Clock).Scan(&micros)
	return micros, statementError(err)
}

// note records a change of state for the judge, right after the statement that makes it.
func (t *Tx) note(h ledger.Reservation, was, now ledger.ReservationState, replica string, at int64) {
	t.later(t.q.HoldEvent, h.ID, was, now, h.ExpiresMicros, replica, at)
}

// move changes the state, if the reservation is still as it was read; otherwise the transaction fails: see the
// statement hold_event. In a trusting way it does so whatever it is.
func (t *Tx) move(h *lockedReservation, to ledger.ReservationState, replica string) {
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
func (t *Tx) release(holds ...*lockedReservation) error {
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

// unknownMode says that a replica of another version has made the reservation: a payment in time is still taken.
func unknownMode(name string) error {
	return fmt.Errorf("%w: sql: no mode %q here", store.ErrUnavailable, name)
}

// readReservation reads a reservation by holdRead or holdLock, and after that its items and the time. Its State is
// what the row says.
func (t *Tx) readReservation(query, id string) (h lockedReservation, err error) {
	row := func(rows *sql.Rows) error {
		return rows.Scan(&h.ID, &h.Key, &h.Mode, &h.Replica, &h.Buyer, &h.State, &h.ExpiresMicros, &h.ExtendedMicros,
			&h.Late, &h.CreatedMicros, &h.ChangedMicros)
	}
	item := func(rows *sql.Rows) error {
		var i ledger.ReservationItem
		var run int64
		err := rows.Scan(&i.ProductID, &i.Quantity, &i.Run, &run, &h.now)
		h.Items, h.gone = append(h.Items, i), h.gone || run != i.Run
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

func nullString(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func nullBytes(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return b
}
