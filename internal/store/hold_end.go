package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"lastitem/internal/ledger"
)

// Ended is what came of a confirm, a cancel or an extension.
type Ended struct {
	Hold    ledger.Hold
	OrderID string // of a payment that became an order
	Refund  bool   // of a payment that did not
	Replay  bool   // of a payment that was answered before
}

// lockedHold is a reservation that a transaction has locked.
type lockedHold struct {
	ledger.Hold
	now   int64 // the database's time after the lock
	ended bool  // it was ended in this transaction, and its units are not given back yet
}

// locked runs body with a reservation locked, and the time after the lock. A held reservation that is overdue, or of a
// run that has ended, is ended first, with its units given back, in the same transaction.
func (s *SQL) locked(ctx context.Context, id, replica string, body func(tx *Tx, h *lockedHold) error) error {
	return s.Tx(ctx, ReadCommitted, func(tx *Tx) error {
		held, err := tx.readHold(tx.q.holdLock, id)
		if err != nil {
			return err
		}
		h := lockedHold{Hold: held}
		if h.now, err = tx.now(); err != nil {
			return err
		}
		_, gone, err := tx.holdItems(id)
		if err != nil {
			return err
		}
		to := h.State
		switch {
		case h.State == ledger.Held && gone:
			to = ledger.Void
		case h.State == ledger.Held && h.now >= h.ExpiresMicros:
			to = ledger.Expired
		}
		if h.ended = to != h.State; h.ended {
			if err := tx.move(&h.Hold, to, replica, h.now); err != nil {
				return err
			}
		}
		if err := body(tx, &h); err != nil || !h.ended {
			return err
		}
		return tx.release(h.Hold)
	})
}

// Confirm turns a reservation into an order, paid by payment. If it is not held any more, the payment is to be refunded,
// unless the reservation expired, its product says rehold, and the units are free. A payment has one end, whatever is
// repeated: its row is written in the transaction of the answer.
func (s *SQL) Confirm(ctx context.Context, id, replica, order string, payment []byte) (e Ended, err error) {
	err = s.locked(ctx, id, replica, func(tx *Tx, h *lockedHold) (err error) {
		e = Ended{}
		defer func() { e.Hold = h.Hold }()
		earlier, there, err := tx.payment(payment)
		switch {
		case err != nil:
			return err
		case there && earlier.HoldID != id:
			return ErrPaymentReused
		case there:
			e.Replay, e.OrderID, e.Refund = true, earlier.OrderID, earlier.OrderID == ""
			return nil
		}
		e.Refund = h.State != ledger.Held
		outcome := map[bool]string{true: "refund", false: "order"}[e.Refund]
		err = tx.exec(tx.q.paymentInsert, payment, id, outcome, orderOf(!e.Refund, order), h.now)
		if duplicate(err) { // another reservation was first, with the same payment
			return errOvertaken
		}
		if err == nil && e.Refund && h.State == ledger.Expired && h.Late == ledger.LateRehold {
			e.Refund, err = tx.rehold(h, order, payment)
		}
		if err != nil || e.Refund {
			return err
		}
		e.OrderID = order
		return tx.order(h, replica, order, payment)
	})
	return e, err
}

func orderOf(paid bool, order string) any {
	if paid {
		return order
	}
	return nil
}

// order makes the order of a reservation that may be confirmed.
func (t *Tx) order(h *lockedHold, replica, order string, payment []byte) error {
	if err := t.move(&h.Hold, ledger.Confirmed, replica, h.now); err != nil {
		return err
	}
	for i, item := range h.Items {
		err := t.exec(t.q.holdOrderInsert, order, item.ProductID, item.Quantity, h.Mode, replica, payment, h.now, item.Run,
			nullString(h.Buyer), h.ID)
		if err != nil {
			return err
		}
		if err := t.exec(t.q.holdOrdered, order, h.ID, item.ProductID); err != nil {
			return err
		}
		h.Items[i].OrderID = order
	}
	return nil
}

// rehold takes the units of an expired reservation once more for a late payment, all or nothing; refund says that it
// cannot. If it expired in this transaction, the units have not been given back yet, and stay where they are.
func (t *Tx) rehold(h *lockedHold, order string, payment []byte) (refund bool, err error) {
	if !h.ended {
		if err := t.Savepoint(); err != nil {
			return true, err
		}
		if ok, err := t.takeAgain(h.Hold); err != nil || !ok {
			return true, errors.Join(err, t.RollbackToSavepoint())
		}
	}
	h.ended = false
	return false, t.exec(t.q.paymentOrder, order, payment)
}

// takeAgain takes the buyers' units and then the products'.
func (t *Tx) takeAgain(h ledger.Hold) (ok bool, err error) {
	for _, item := range h.Items {
		p, err := t.holdProduct(item.ProductID)
		if err == nil && p.run == item.Run {
			err = t.takeOfBuyer(h.Buyer, item, p)
		}
		if errors.Is(err, ErrLimit) || err == nil && p.run != item.Run {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	for _, item := range h.Items {
		if _, ok, err := t.TakeOfRun(item.ProductID, item.Quantity, item.Run); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// Cancel ends a reservation and gives its units back. e.Hold.State says what it is now: cancelled, or what it was before.
func (s *SQL) Cancel(ctx context.Context, id, replica string) (e Ended, err error) {
	err = s.locked(ctx, id, replica, func(tx *Tx, h *lockedHold) error {
		e = Ended{}
		defer func() { e.Hold = h.Hold }()
		if h.State != ledger.Held {
			return nil
		}
		if err := tx.move(&h.Hold, ledger.Cancelled, replica, h.now); err != nil {
			return err
		}
		return tx.release(h.Hold)
	})
	return e, err
}

// Extend moves the deadline of a held reservation to hold from now, never to an earlier one, and once: after that it
// changes nothing.
func (s *SQL) Extend(ctx context.Context, id, replica string, hold time.Duration) (e Ended, err error) {
	err = s.locked(ctx, id, replica, func(tx *Tx, h *lockedHold) error {
		e = Ended{}
		defer func() { e.Hold = h.Hold }()
		if h.State != ledger.Held || h.ExtendedMicros > 0 {
			return nil
		}
		until := max(h.ExpiresMicros, h.now+hold.Microseconds())
		n, err := tx.affected(tx.q.holdExtend, until, h.now, h.now, id, h.ExpiresMicros)
		if err != nil {
			return err
		}
		if n == 0 {
			return errOvertaken
		}
		h.ExpiresMicros, h.ExtendedMicros, h.ChangedMicros = until, h.now, h.now
		return tx.note(h.Hold, ledger.Held, ledger.Held, replica, h.now)
	})
	return e, err
}

// Hold reads a reservation. An overdue one is told as expired, and one of a run that has ended as void, swept or not; it
// is read again with a lock before that is said, since until then a confirm may still be first.
func (s *SQL) Hold(ctx context.Context, id string) (h ledger.Hold, err error) {
	err = s.Tx(ctx, ReadCommitted, func(tx *Tx) error {
		for _, query := range []string{tx.q.holdRead, tx.q.holdLock} {
			if h, err = tx.readHold(query, id); err != nil {
				return err
			}
			now, err := tx.now()
			if err != nil {
				return err
			}
			_, gone, err := tx.holdItems(id)
			switch {
			case err != nil:
				return err
			case h.State != ledger.Held || !gone && now < h.ExpiresMicros:
				return nil
			case query == tx.q.holdLock && gone:
				h.State = ledger.Void
			case query == tx.q.holdLock:
				h.State = ledger.Expired
			}
		}
		return nil
	})
	return h, err
}

// payment reads the end of a payment.
func (t *Tx) payment(id []byte) (p ledger.Payment, there bool, err error) {
	p.ID = id
	err = t.conn.QueryRowContext(t.ctx, t.q.paymentRead, id).Scan(&p.HoldID, &p.OrderID, &p.AtMicros)
	if errors.Is(err, sql.ErrNoRows) {
		return p, false, nil
	}
	return p, err == nil, statementError(err)
}

// Due is where a sweep goes on: after this reservation. The zero value is before the first.
type Due struct {
	Micros int64
	ID     string
}

// Sweep ends overdue reservations after a place, atMost of them, in one transaction, and returns the place to go on from
// and how many it has looked at: fewer than atMost = no more are due. If the batch fails, it is done one by one, and a
// bad row skips itself; the error says which rows were bad.
func (s *SQL) Sweep(ctx context.Context, after Due, atMost int, replica string) (next Due, seen int, err error) {
	due, err := s.due(ctx, after, atMost)
	if err != nil || len(due) == 0 {
		return after, 0, err
	}
	if err = s.sweep(ctx, replica, due...); err != nil {
		err = nil
		for _, d := range due {
			if one := s.sweep(ctx, replica, d); one != nil {
				err = errors.Join(err, one)
			}
		}
	}
	return due[len(due)-1], len(due), err
}

// due lists overdue reservations.
func (s *SQL) due(ctx context.Context, after Due, atMost int) ([]Due, error) {
	var now int64
	if err := s.db.WithContext(ctx).Raw(s.q.clock).Row().Scan(&now); err != nil {
		return nil, statementError(err)
	}
	return scanRows(s.db.WithContext(ctx).Raw(s.q.holdDue, after.Micros, after.Micros, after.ID, now, atMost),
		func(rows *sql.Rows, d *Due) error { return rows.Scan(&d.ID, &d.Micros) })
}

// sweep ends reservations in one transaction, and then stamps the expiries as certain.
func (s *SQL) sweep(ctx context.Context, replica string, due ...Due) error {
	var expired []any
	err := s.Tx(ctx, ReadCommitted, func(tx *Tx) error {
		expired = nil
		var ended []ledger.Hold
		for _, d := range due {
			h, err := tx.readHold(tx.q.holdLock, d.ID)
			if errors.Is(err, ErrNoHold) {
				continue
			}
			if err != nil {
				return err
			}
			now, err := tx.now()
			if err != nil {
				return err
			}
			if h.State != ledger.Held || now < h.ExpiresMicros {
				continue
			}
			to := ledger.Expired
			if _, gone, err := tx.holdItems(d.ID); err != nil {
				return err
			} else if gone {
				to = ledger.Void
			}
			if err := tx.move(&h, to, replica, now); err != nil {
				return err
			}
			if ended = append(ended, h); to == ledger.Expired {
				expired = append(expired, d.ID)
			}
		}
		return tx.release(ended...)
	})
	if err != nil || len(expired) == 0 {
		return err
	}
	var now int64
	db := s.db.WithContext(ctx)
	if err := db.Raw(s.q.clock).Row().Scan(&now); err != nil {
		return statementError(err)
	}
	return commitError(db.Exec(list(s.q.holdCertain, len(expired)), append([]any{now}, expired...)...).Error)
}
