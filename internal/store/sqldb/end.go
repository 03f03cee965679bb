package sqldb

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"lastitem/contract/ledger"
	"lastitem/internal/idempotency"
	"lastitem/internal/store"
)

// Reservations changes and reads the reservations of a store. There is one for each store in a process.
type Reservations struct {
	s   *Store
	way func(mode string) Way
	store.Ends
	waits atomic.Bool // the server cannot skip rows that are locked
}

// NewReservations returns the reservations of a store, in which each mode that holds does it in its way.
func NewReservations(s *Store, way func(mode string) Way) *Reservations {
	return &Reservations{s: s, way: way}
}

// tx is [Store.TripTx].
func (r *Reservations) tx(ctx context.Context, body func(ReservationTx) error) error {
	return r.s.TripTx(ctx, func(tx *Tx) error { return body(ReservationTx{tx}) })
}

// load reads a reservation, its items and the time, by HoldRead or HoldLock.
func (r *Reservations) load(tx ReservationTx, query, id string) (h lockedReservation, err error) {
	h, err = tx.readReservation(query, id)
	if h.way, h.was = r.way(h.Mode), h.State; err != nil || h.State != ledger.Confirmed {
		return h, err
	}
	var order string
	err = tx.conn.QueryRowContext(tx.ctx, tx.q.HoldOrder, id).Scan(&order)
	if errors.Is(err, sql.ErrNoRows) { // setting the stock has deleted it
		err = nil
	}
	for i := range h.Items {
		h.Items[i].OrderID = order
	}
	return h, statementError(err)
}

// change runs body with a reservation, and returns what that has made of it. One that should not be held any more is
// ended first, and its units are given back in the same transaction, after body.
func (r *Reservations) change(ctx context.Context, id, replica string, body changing) (ledger.Reservation, error) {
	var h lockedReservation
	err := r.tx(ctx, func(tx ReservationTx) (err error) {
		if h, err = r.load(tx, tx.q.HoldLock, id); err != nil || h.way.Trusting {
			return err
		}
		return tx.changed(&h, replica, body)
	})
	if err == nil && h.way.Trusting { // it reads, and then writes: what it has read may not be true any more
		if h, err = r.look(ctx, id); err == nil {
			err = r.tx(ctx, func(tx ReservationTx) error { return tx.changed(&h, replica, body) })
		}
	}
	if err == nil {
		r.Tell(h.Reservation, h.was)
	}
	return h.Reservation, err
}

// look reads a reservation without a lock.
func (r *Reservations) look(ctx context.Context, id string) (h lockedReservation, err error) {
	err = r.tx(ctx, func(tx ReservationTx) (err error) {
		h, err = r.load(tx, tx.q.HoldRead, id)
		return err
	})
	return h, err
}

// changing changes a reservation that a transaction has read.
type changing func(tx ReservationTx, h *lockedReservation) error

// nothing changes only what is due.
func nothing(ReservationTx, *lockedReservation) error { return nil }

func (t ReservationTx) changed(h *lockedReservation, replica string, body changing) error {
	to := h.due()
	if h.ended = to != h.State; h.ended {
		t.move(h, to, replica)
	}
	if err := body(t, h); err != nil || !h.ended {
		return err
	}
	return t.release(h)
}

// Confirm turns a reservation into an order, paid by payment. If it is not held any more, the payment is to be
// refunded, unless the reservation expired, its product says rehold, and the units are free. A payment has one end,
// whatever is repeated: its row is written in the transaction of the answer.
func (r *Reservations) Confirm(
	ctx context.Context, id, replica, order string, payment []byte,
) (e ledger.Ended, err error) {
	e.Reservation, err = r.change(ctx, id, replica, func(tx ReservationTx, h *lockedReservation) (err error) {
		e.Refund = h.State != ledger.Held
		outcome := map[bool]string{true: "refund", false: "order"}[e.Refund]
		paid := map[bool]string{false: order}[e.Refund]
		tx.later(tx.q.PaymentInsert, payment, id, outcome, null(paid), h.now)
		if e.Refund {
			if err = tx.send(); err == nil && h.State == ledger.Expired && h.Late == ledger.LateRehold {
				e.Refund, err = tx.rehold(h, order, payment)
			}
		}
		if err == nil && !e.Refund {
			e.OrderID = order
			tx.order(h, replica, order, payment)
		}
		if duplicate(err) { // the payment was answered before: that answer stands
			return tx.replay(&e, id, payment)
		}
		return err
	})
	if duplicate(err) { // likewise, for another reservation or at the same time
		e = ledger.Ended{}
		e.Reservation, err = r.change(ctx, id, replica, func(tx ReservationTx, _ *lockedReservation) error {
			return tx.replay(&e, id, payment)
		})
	}
	if errors.Is(err, store.ErrNoReservation) {
		e, err = r.refundUnknown(ctx, id, payment)
	}
	return e, err
}

// refundUnknown writes down that a payment for a reservation that does not exist goes back, so that it never becomes
// an order: the row names no reservation. An earlier answer to the payment stands.
func (r *Reservations) refundUnknown(ctx context.Context, id string, payment []byte) (e ledger.Ended, err error) {
	err = r.s.Tx(ctx, ReadCommitted, func(t *Tx) error {
		tx := ReservationTx{t}
		e = ledger.Ended{Reservation: ledger.Reservation{ID: id, State: ledger.Confirmed}}
		now, err := tx.now()
		if err == nil {
			err = tx.exec(tx.q.PaymentInsert, payment, "", "refund", nil, now)
		}
		if !duplicate(err) {
			return err
		}
		if err = tx.replay(&e, id, payment); errors.Is(err, store.ErrPaymentReused) {
			err = tx.replay(&e, "", payment)
		}
		return err
	})
	if err == nil && e.OrderID == "" {
		err = store.ErrNoReservation
	}
	return e, err
}

// order makes the order of a reservation that may be confirmed, at COMMIT.
func (t ReservationTx) order(h *lockedReservation, replica, order string, payment []byte) {
	for _, item := range h.Items {
		if item.Quantity == 0 {
			continue
		}
		t.later(t.q.HoldOrderInsert, order, item.ProductID, item.Quantity, h.Mode, replica, payment, h.now, item.Run,
			null(h.Buyer), h.ID)
	}
	t.move(h, ledger.Confirmed, replica)
	for i := range h.Items {
		h.Items[i].OrderID = order
	}
}

// rehold takes the units of an expired reservation once more for a late payment, all or nothing; refund says that it
// cannot. If it expired in this transaction, the units have not been given back yet, and stay where they are.
func (t ReservationTx) rehold(h *lockedReservation, order string, payment []byte) (refund bool, err error) {
	if !h.ended {
		if err := t.Savepoint(); err != nil {
			return true, err
		}
		if ok, err := t.takeAgain(h); err != nil || !ok {
			return true, errors.Join(err, t.RollbackToSavepoint())
		}
	}
	h.ended = false
	return false, t.exec(t.q.PaymentOrder, order, payment)
}

// takeAgain takes the buyers' units and then the products'.
func (t ReservationTx) takeAgain(h *lockedReservation) (ok bool, err error) {
	for _, item := range h.Items {
		p, err := t.sold(item.ProductID)
		if err == nil && p.run == item.Run {
			err = t.takeOfBuyer(h.Buyer, item, p)
		}
		if errors.Is(err, store.ErrLimit) || err == nil && p.run != item.Run {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	if h.way.Take == nil {
		return false, unknownMode(h.Mode)
	}
	for _, item := range h.Items {
		if item.Quantity == 0 {
			continue
		}
		_, ok, err := h.way.Take(t, h.ID, item)
		if err == nil && !ok {
			err = t.short(item, h.way) // units that are free and locked are no reason for a refund
		}
		if errors.Is(err, store.ErrShort) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// Cancel ends a reservation and gives its units back. e.Reservation.State says what it is now: cancelled, or what it
// was before. A late payment does not revive what was cancelled after its deadline: it is refunded.
//
// With a part it gives back only that, and the rest stays held; e.Replay says that its key had done so before.
func (r *Reservations) Cancel(ctx context.Context, id, replica string, part ledger.Part) (e ledger.Ended, err error) {
	e.Reservation, err = r.change(ctx, id, replica, func(tx ReservationTx, h *lockedReservation) (err error) {
		all := part.ProductID == 0 && part.Quantity == 0
		if !all {
			if e.Replay, err = tx.cancelPart(h, replica, part); err != nil || e.Replay {
				return err
			}
		}
		if h.State == ledger.Expired && h.Late == ledger.LateRehold {
			h.Late = ledger.LateRefund
			tx.later(tx.q.HoldLate, h.Late, h.now, id)
		}
		if !all || h.State != ledger.Held {
			return nil
		}
		tx.move(h, ledger.Cancelled, replica)
		return tx.release(h)
	})
	return e, err
}

// cancelPart gives units of one line back. If none stays, the reservation is cancelled.
func (t ReservationTx) cancelPart(h *lockedReservation, replica string, part ledger.Part) (again bool, err error) {
	changes, err := t.changes(h.ID)
	if err != nil {
		return false, err
	}
	request := part.Request()
	for _, c := range changes {
		switch {
		case request == "", c.Request != request, c.Quantity == 0:
		case c.Quantity != part.Quantity, part.ProductID > 0 && c.product > 0 && part.ProductID != c.product:
			return false, idempotency.ErrKeyReused
		default:
			return true, nil
		}
	}
	line, held := -1, int64(0)
	for i, item := range h.Items {
		if held += item.Quantity; item.ProductID == part.ProductID || part.ProductID == 0 && len(h.Items) == 1 {
			line = i
		}
	}
	if line < 0 {
		return false, store.ErrNoLine
	}
	item := h.Items[line]
	item.Quantity = cmp.Or(part.Quantity, item.Quantity)
	switch left := h.Items[line].Quantity; {
	case h.State != ledger.Held, item.Quantity == 0:
		return false, nil
	case item.Quantity > left:
		return false, &ledger.ShortError{Err: store.ErrBeyond, ProductID: item.ProductID, Requested: item.Quantity,
			Available: left}
	case item.Quantity == held:
		t.later(t.q.HoldMove, ledger.Cancelled, h.now, h.ID, h.State, h.ExpiresMicros)
		t.later(t.q.HoldChange, h.ID, h.State, ledger.Cancelled, h.ExpiresMicros, replica, h.now, null(request), nil,
			item.Quantity)
		h.State, h.ChangedMicros = ledger.Cancelled, h.now
		return false, t.release(h)
	case len(changes) >= ledger.MostChanges:
		return false, store.ErrManyParts
	}
	t.later(t.q.HoldPart, item.Quantity, h.ID, item.ProductID, item.Quantity, h.ExpiresMicros)
	t.later(t.q.HoldChange, h.ID, h.State, h.State, h.ExpiresMicros, replica, h.now, null(request), item.ProductID,
		item.Quantity)
	h.Items = slices.Clone(h.Items)
	h.Items[line].Quantity -= item.Quantity
	given := *h
	given.Items = []ledger.ReservationItem{item}
	return false, t.release(&given)
}

// Extend moves the deadline of a held reservation to hold from now, never to an earlier one, as often as the product
// allows: after that it changes nothing. Where that is more than once it needs a key, and the same key is answered with
// the deadline that it has made.
func (r *Reservations) Extend(
	ctx context.Context, id, replica string, hold time.Duration, key []byte,
) (e ledger.Ended, err error) {
	e.Reservation, err = r.change(ctx, id, replica, func(tx ReservationTx, h *lockedReservation) (err error) {
		request, may := ledger.Digest(key), h.State == ledger.Held
		switch {
		case !may:
		case h.times > 1 && request == "":
			return idempotency.ErrKeyMissing
		case h.times > 1:
			if may, e.Replay, err = tx.extendable(h, request); err != nil {
				return err
			}
		default:
			may = h.ExtendedMicros == 0
		}
		switch {
		case !may:
			return nil
		case hold.Microseconds() > h.longest:
			return tooLong(h.shortest, hold, h.longest)
		}
		until := max(h.ExpiresMicros, h.now+hold.Microseconds())
		tx.later(tx.q.HoldExtend, until, h.now, h.now, id, h.ExpiresMicros, h.ExtendedMicros)
		h.ExpiresMicros, h.ExtendedMicros, h.ChangedMicros = until, h.now, h.now
		tx.later(tx.q.HoldChange, id, ledger.Held, ledger.Held, until, replica, h.now, null(request), nil, 0)
		return nil
	})
	return e, err
}

// extendable says whether a reservation may be extended once more. One that this request has extended before gets the
// deadline of then.
func (t ReservationTx) extendable(h *lockedReservation, request string) (may, again bool, err error) {
	changes, err := t.changes(h.ID)
	n, deadline := 0, int64(0)
	for _, c := range changes {
		if c.Quantity > 0 {
			continue
		}
		if n++; c.Request == request {
			deadline = c.DeadlineMicros
		}
	}
	if deadline > 0 {
		h.ExpiresMicros = deadline
	}
	return n < h.times && deadline == 0, deadline > 0, err
}

// changes reads the extensions and the cancelled parts of a reservation.
func (t ReservationTx) changes(id string) ([]partEvent, error) {
	return allRows(t.ctx, t.conn, func(rows *sql.Rows, e *partEvent) error {
		return rows.Scan(&e.Request, &e.product, &e.Quantity, &e.DeadlineMicros)
	}, t.q.HoldChanges, id)
}

// partEvent is an extension, or a part that was cancelled of a product; 0 = the reservation ended with it.
type partEvent struct {
	ledger.ReservationEvent
	product int64
}

// Read reads a reservation. An overdue one, and one of a run that has ended, is ended first, as any other
// request does: the answer is written, and stays. A trusting mode only tells it.
func (r *Reservations) Read(ctx context.Context, id, replica string) (ledger.Reservation, error) {
	h, err := r.look(ctx, id)
	switch due := h.due(); {
	case err != nil || due == h.State:
	case h.way.Trusting:
		h.State = due
	default:
		return r.change(ctx, id, replica, nothing)
	}
	return h.Reservation, err
}

// replay reads the end of a payment that was answered before.
func (t ReservationTx) replay(e *ledger.Ended, id string, payment []byte) error {
	var hold string
	var at int64
	err := t.conn.QueryRowContext(t.ctx, t.q.PaymentRead, payment).Scan(&hold, &e.OrderID, &at)
	switch {
	case errors.Is(err, sql.ErrNoRows): // its transaction was rolled back
		return errOvertaken
	case err != nil:
		return statementError(err)
	case hold != id:
		return store.ErrPaymentReused
	}
	e.Replay, e.Refund = true, e.OrderID == ""
	return nil
}

// Return takes an order back, or a part of it: the units go to the stock, or are written off. A part is told by its
// key, and all that is left needs none: a repetition changes nothing and returns the first answer.
func (r *Reservations) Return(
	ctx context.Context, product int64, order string, restock bool, part ledger.Part,
) (quantity int64, restocked bool, err error) {
	err = r.tx(ctx, func(tx ReservationTx) error {
		item := ledger.ReservationItem{ProductID: product}
		var buyer, reservation, mode string
		err := tx.conn.QueryRowContext(ctx, tx.q.OrderLock, order, product).Scan(&item.Quantity, &item.Run, &buyer,
			&reservation, &mode)
		if errors.Is(err, sql.ErrNoRows) {
			return store.ErrNoOrder
		}
		if err != nil {
			return statementError(err)
		}
		returns, err := allRows(ctx, tx.conn, scanReturned, tx.q.ReturnsOfOrder, order, product)
		if err != nil {
			return err
		}
		request := part.Request()
		for _, b := range returns {
			switch item.Quantity -= b.Quantity; {
			case b.Request != request:
			case request != "" && (b.Quantity != part.Quantity || b.Restocked != restock):
				return idempotency.ErrKeyReused
			default:
				quantity, restocked = b.Quantity, b.Restocked
				return nil
			}
		}
		if part.Quantity > item.Quantity {
			return &ledger.ShortError{Err: store.ErrBeyond, ProductID: product, Requested: part.Quantity,
				Available: item.Quantity}
		}
		item.Quantity = cmp.Or(part.Quantity, item.Quantity)
		quantity, restocked = item.Quantity, restock
		if quantity == 0 {
			return nil
		}
		return tx.giveBack(r.way, item, order, request, buyer, reservation, mode, restock)
	})
	return quantity, restocked, err
}

// returned is what came back of an order at once.
type returned struct {
	order string
	ledger.Returned
}

func scanReturned(rows *sql.Rows, r *returned) error {
	return rows.Scan(&r.order, &r.Request, &r.Quantity, &r.Restocked)
}

func (t ReservationTx) giveBack(
	way func(string) Way, item ledger.ReservationItem, order, request, buyer, reservation, mode string, restock bool,
) error {
	p, err := t.enter(&item, ledger.Return)
	if errors.Is(err, store.ErrSegmented) || way(mode).Final {
		err = &ledger.ProductError{Err: store.ErrReservationUnsupported, ProductID: item.ProductID}
	}
	if err != nil {
		return err
	}
	now, err := t.now()
	if err != nil {
		return err
	}
	t.later(t.q.ReturnInsert, order, item.ProductID, request, item.Quantity, restock, now)
	owner := cmp.Or(reservation, order)      // of the rows of units
	if buyer != "" && !way(mode).Unlimited { // he may buy again, whatever becomes of the units
		if err := t.exec(t.q.BuyerGive, item.Quantity, item.ProductID, item.Run, buyer); err != nil {
			return err
		}
	}
	switch {
	case !restock && p.sold == ledger.InUnits:
		return t.exec(t.q.UnitsWriteOff, item.ProductID, owner, item.Quantity)
	case !restock:
		return nil
	}
	if give := way(mode).Give; give != nil {
		give(t, item, owner)
	} else {
		t.GiveToRun(item) // of a mode that holds nothing
	}
	return nil
}
