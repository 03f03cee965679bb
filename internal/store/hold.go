package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"lastitem/internal/ledger"
)

// A reservation in SQL is a row of reservation and one of reservation_item per product. Every transaction locks in this
// order: the reservation, the payment, the buyers' rows, the product rows by id; the hot row comes last, and only COMMIT
// follows it. The clock is the database's, read in a statement after the lock on the reservation. What decides is an
// UPDATE that names the state and the deadline that it leaves: if it changes no row, somebody else was first, and the
// loser reads what is.

// Answers about reservations that are no failures.
var (
	// ErrNoHold: there is no such reservation.
	ErrNoHold = errors.New("store: no such reservation")
	// ErrShort: there is too little stock; nothing is held. See [ShortError].
	ErrShort = errors.New("store: too little stock")
	// ErrLimit: the buyer would have more than he may; nothing is held.
	ErrLimit = errors.New("store: the buyer's limit is reached")
	// ErrPaymentReused: the payment was for another reservation, and what it was answered there stands.
	ErrPaymentReused = errors.New("store: the payment belongs to another reservation")
	// ErrHoldsUnsupported: the product is sold in a way that a release would break.
	ErrHoldsUnsupported = errors.New("store: the product takes no holds")
)

// ShortError is ErrShort or ErrLimit with the product that it is about.
type ShortError struct {
	Err                  error
	ProductID, Available int64
	Holders              []string // ErrLimit: the reservations that this buyer has
}

// Error describes the refusal.
func (e *ShortError) Error() string {
	return fmt.Sprintf("%v: product %d has %d", e.Err, e.ProductID, e.Available)
}

// Unwrap returns ErrShort or ErrLimit.
func (e *ShortError) Unwrap() error { return e.Err }

// overtaken says that somebody else changed the reservation between the read and the write: begin again.
var errOvertaken = fmt.Errorf("%w: the reservation changed meanwhile", ErrConflict)

// holdProduct is what a hold must know of a product.
type holdProduct struct {
	run, segments, stock int64
	perBuyer             sql.NullInt64
	late                 string
}

// Reserve holds the items of h (no product twice, sorted by product) for the given time, all or nothing. It fills in the
// runs, the deadline and the times, and returns the stock that it left of the first product. earlier is set if a
// reservation with the same key is there already: then nothing was done, and it is returned.
func (s *SQL) Reserve(ctx context.Context, h ledger.Hold, hold time.Duration) (made ledger.Hold, remaining int64,
	earlier bool, err error) {
	err = s.Tx(ctx, ReadCommitted, func(tx *Tx) (err error) {
		earlier = false
		if len(h.Key) > 0 {
			if made, earlier, err = tx.holdByKey(h.Key); earlier || err != nil {
				return err
			}
		}
		made, remaining, err = tx.reserve(h, hold)
		return err
	})
	if err == nil && !earlier {
		return made, remaining, false, nil
	}
	return made, 0, earlier, err
}

func (t *Tx) holdByKey(key []byte) (ledger.Hold, bool, error) {
	var id string
	err := t.conn.QueryRowContext(t.ctx, t.q.holdByKey, key).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return ledger.Hold{}, false, nil
	}
	if err != nil {
		return ledger.Hold{}, false, statementError(err)
	}
	h, err := t.readHold(t.q.holdRead, id)
	return h, err == nil, err
}

func (t *Tx) reserve(h ledger.Hold, hold time.Duration) (ledger.Hold, int64, error) {
	now, err := t.now()
	if err != nil {
		return h, 0, err
	}
	h.State, h.CreatedMicros, h.ChangedMicros, h.ExpiresMicros = ledger.Held, now, now, now+hold.Microseconds()
	h.Late = ledger.LateRefund
	products := make([]holdProduct, len(h.Items))
	for i, item := range h.Items {
		p, err := t.holdProduct(item.ProductID)
		if err != nil {
			return h, 0, err
		}
		if products[i] = p; i == 0 {
			h.Late = p.late
		}
		h.Items[i].Run = p.run
	}
	if err := t.insertHold(h); err != nil {
		return h, 0, err
	}
	for i, item := range h.Items {
		if err := t.takeOfBuyer(h.Buyer, item, products[i]); err != nil {
			return h, 0, err
		}
	}
	var remaining int64
	for i, item := range h.Items {
		left, ok, err := t.TakeOfRun(item.ProductID, item.Quantity, item.Run)
		if err != nil {
			return h, 0, err
		}
		if !ok {
			return h, 0, t.short(item)
		}
		if i == 0 {
			remaining = left
		}
	}
	return h, remaining, nil
}

// short says why a take failed: too little, or a run that has just ended.
func (t *Tx) short(item ledger.HoldItem) error {
	p, err := t.holdProduct(item.ProductID)
	switch {
	case err != nil:
		return err
	case p.run != item.Run || p.stock >= item.Quantity:
		return errOvertaken
	}
	return &ShortError{Err: ErrShort, ProductID: item.ProductID, Available: p.stock}
}

func (t *Tx) holdProduct(id int64) (p holdProduct, err error) {
	err = t.conn.QueryRowContext(t.ctx, t.q.holdProduct, id).Scan(&p.run, &p.segments, &p.stock, &p.perBuyer, &p.late)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return p, &ledger.ProductError{Err: ErrUnknownProduct, ProductID: id}
	case err != nil:
		return p, statementError(err)
	case p.segments > 0:
		return p, &ledger.ProductError{Err: ErrHoldsUnsupported, ProductID: id}
	}
	return p, nil
}

func (t *Tx) insertHold(h ledger.Hold) error {
	err := t.exec(t.q.holdInsert, h.ID, nullBytes(h.Key), h.Mode, h.Replica, nullString(h.Buyer), h.State, h.ExpiresMicros,
		h.Late, h.CreatedMicros, h.ChangedMicros)
	if err != nil {
		return err
	}
	for _, item := range h.Items {
		if err := t.exec(t.q.holdItemInsert, h.ID, item.ProductID, item.Run, item.Quantity); err != nil {
			return err
		}
	}
	return t.note(h, "", ledger.Held, h.Replica, h.CreatedMicros)
}

// takeOfBuyer takes the units from the limit, if the product has one.
func (t *Tx) takeOfBuyer(buyer string, item ledger.HoldItem, p holdProduct) error {
	if buyer == "" || !p.perBuyer.Valid {
		return nil
	}
	if err := t.exec(t.q.buyerRow, item.ProductID, item.Run, buyer); err != nil {
		return err
	}
	n, err := t.affected(t.q.buyerTake, item.Quantity, item.ProductID, item.Run, buyer, item.Quantity, p.perBuyer.Int64)
	if err != nil || n > 0 {
		return err
	}
	rows, err := t.conn.QueryContext(t.ctx, t.q.buyerHolds, item.ProductID, item.Run, buyer)
	if err != nil {
		return statementError(err)
	}
	defer func() { _ = rows.Close() }() // rows.Err below reports every error
	refused := &ShortError{Err: ErrLimit, ProductID: item.ProductID}
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return statementError(err)
		}
		refused.Holders = append(refused.Holders, id)
	}
	return cmp.Or(statementError(rows.Err()), error(refused))
}

// now reads the database's clock.
func (t *Tx) now() (micros int64, err error) {
	err = t.conn.QueryRowContext(t.ctx, t.q.clock).Scan(&micros)
	return micros, statementError(err)
}

// note records a change of state for the judge.
func (t *Tx) note(h ledger.Hold, was, now ledger.HoldState, replica string, at int64) error {
	return t.exec(t.q.holdEvent, h.ID, was, now, h.ExpiresMicros, replica, at)
}

// move changes the state, if the reservation is still as it was read.
func (t *Tx) move(h *ledger.Hold, to ledger.HoldState, replica string, now int64) error {
	n, err := t.affected(t.q.holdMove, to, now, h.ID, h.State, h.ExpiresMicros)
	if err != nil {
		return err
	}
	if n == 0 {
		return errOvertaken
	}
	if err := t.note(*h, h.State, to, replica, now); err != nil {
		return err
	}
	h.State, h.ChangedMicros = to, now
	return nil
}

// release gives the units of reservations back, each into the run that it was taken in: the buyers' first, then one
// UPDATE per product, in the order of the products.
func (t *Tx) release(holds ...ledger.Hold) error {
	type place struct{ product, run int64 }
	units := map[place]int64{}
	for _, h := range holds {
		for _, item := range h.Items {
			units[place{item.ProductID, item.Run}] += item.Quantity
			if h.Buyer != "" {
				if err := t.exec(t.q.buyerGive, item.Quantity, item.ProductID, item.Run, h.Buyer); err != nil {
					return err
				}
			}
		}
	}
	places := slices.SortedFunc(maps.Keys(units), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.product, b.product), cmp.Compare(a.run, b.run))
	})
	for _, p := range places {
		if err := t.exec(t.q.holdGive, units[p], p.product, p.run); err != nil {
			return err
		}
	}
	return nil
}

// readHold reads a reservation with its items, by holdRead or holdLock. Its State is what the row says.
func (t *Tx) readHold(query, id string) (h ledger.Hold, err error) {
	err = t.conn.QueryRowContext(t.ctx, query, id).Scan(&h.ID, &h.Key, &h.Mode, &h.Replica, &h.Buyer, &h.State,
		&h.ExpiresMicros, &h.ExtendedMicros, &h.Late, &h.CreatedMicros, &h.ChangedMicros)
	if errors.Is(err, sql.ErrNoRows) {
		return h, ErrNoHold
	}
	if err != nil {
		return h, statementError(err)
	}
	h.Items, _, err = t.holdItems(id)
	return h, err
}

// holdItems reads the items; gone says that one of them is of a run that has ended.
func (t *Tx) holdItems(id string) (items []ledger.HoldItem, gone bool, err error) {
	rows, err := t.conn.QueryContext(t.ctx, t.q.holdItems, id)
	if err != nil {
		return nil, false, statementError(err)
	}
	defer func() { _ = rows.Close() }() // rows.Err below reports every error
	for rows.Next() {
		var item ledger.HoldItem
		var run int64
		if err := rows.Scan(&item.ProductID, &item.Quantity, &item.Run, &item.OrderID, &run); err != nil {
			return nil, false, statementError(err)
		}
		items, gone = append(items, item), gone || run != item.Run
	}
	return items, gone, statementError(rows.Err())
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
