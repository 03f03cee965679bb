package sqldb

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"

	"lastitem/contract/ledger"
	"lastitem/internal/store"
)

// A sweep ends overdue reservations by statements about all of a batch. Its locks come in the order of every
// transaction: the reservations, the buyers' rows, the product rows. Sweepers share the work, since each passes over
// the reservations that another has locked. A product row that somebody keeps locked delays its own reservations only:
// the others of the batch are ended first, and those of locked products wait in transactions of their own.

// Due is where a sweep goes on: after this reservation. The zero value is before the first.
type Due struct {
	Micros int64
	ID     string
	busy   map[string]bool // products that were locked for too long, and are left to the next sweep
}

// sweepWaits is how many transactions of one sweep wait at the same time for the rows of locked products. sweepParts is
// in how many parts a batch is locked on a server that cannot skip locked rows.
const (
	sweepWaits = 4
	sweepParts = 4
)

// sweep is one batch of a sweep.
type sweep struct {
	*Reservations
	replica string
	busy    map[string]bool
}

// swept is what became of the reservations that a transaction has locked.
type swept struct {
	due  []Due
	left []*lockedReservation // to be ended apart: their products are locked, or the transaction was refused
	bad  error                // names those that cannot be ended
}

// Sweep ends overdue reservations after a place, atMost of them, and returns the place to go on from and how many it
// has looked at: fewer than atMost = no more are due. If a transaction is refused, its halves are tried again, so that
// a bad row skips itself; the error says which rows were bad, and which products stayed locked.
func (r *Reservations) Sweep(
	ctx context.Context, after Due, atMost int, replica string,
) (next Due, seen int, err error) {
	w := sweep{r, replica, maps.Clone(after.busy)}
	if w.busy == nil {
		w.busy = map[string]bool{}
	}
	place := []any{after.Micros, after.Micros, after.ID, atMost}
	var b swept
	if r.s.MySQL() && !r.waits.Load() {
		b, err = w.batch(ctx, true, r.s.q.HoldDue, place...)
		var my *mysql.MySQLError
		if errors.As(err, &my) && my.Number == erParse { // MySQL before 8.0.1 and MariaDB before 10.6
			r.waits.Store(true)
		}
	}
	if !r.s.MySQL() || r.waits.Load() {
		b, err = w.parts(ctx, place)
	}
	if len(b.due) == 0 {
		return after, 0, errors.Join(b.bad, err)
	}
	if len(b.left) > 0 {
		err = w.apart(ctx, b.left)
	}
	next = b.due[len(b.due)-1]
	next.busy = w.busy
	return next, len(b.due), errors.Join(b.bad, err)
}

// parts is a batch on a server that cannot skip locked rows. Sweepers that read the same batch begin with different
// parts of it; a part that another was first to lock is empty by the time that it is free. SQLite has one writer, so a
// transaction begins only if something is due.
func (w *sweep) parts(ctx context.Context, place []any) (all swept, err error) {
	query := strings.TrimSuffix(w.s.q.HoldDue, " FOR UPDATE SKIP LOCKED")
	all.due, err = allRows(ctx, w.s.pool(), scanDue, query, place...)
	if err != nil || len(all.due) == 0 {
		return all, err
	}
	parts := slices.Collect(slices.Chunk(all.due, len(all.due)/sweepParts+1))
	for i, first := 0, rand.IntN(len(parts)); i < len(parts); i++ {
		ids := idsOf(parts[(first+i)%len(parts)])
		b, failed := w.batch(ctx, false, w.dueOf(len(ids)), ids...)
		all.left, all.bad, err = append(all.left, b.left...), errors.Join(all.bad, b.bad), cmp.Or(err, failed)
	}
	return all, err
}

// dueOf is the statement that locks those of n reservations that are held.
func (w *sweep) dueOf(n int) string {
	query := list(w.s.q.HoldDueOf, n)
	if w.waits.Load() {
		query = strings.TrimSuffix(query, " SKIP LOCKED")
	}
	return query
}

func scanDue(rows *sql.Rows, d *Due) error { return rows.Scan(&d.ID, &d.Micros) }

func idsOf(due []Due) []any {
	ids := make([]any, len(due))
	for i, d := range due {
		ids[i] = d.ID
	}
	return ids
}

// batch ends the overdue reservations that a query locks, in one transaction, and then stamps the expiries as certain.
// With pass it leaves those whose products are locked.
func (w *sweep) batch(ctx context.Context, pass bool, query string, args ...any) (b swept, err error) {
	var all, ended, trusting []*lockedReservation
	err = w.tx(ctx, func(tx ReservationTx) (err error) {
		b.due, err = allRows(tx.ctx, tx.conn, scanDue, query, args...)
		if err == nil && len(b.due) > 0 {
			all, err = w.read(tx, b.due)
		}
		all, trusting, b.bad = w.endable(all)
		if ended = all; err == nil && pass {
			ended, b.left, err = w.free(ctx, all)
		}
		if err != nil {
			return err
		}
		return tx.endAll(ended, w.replica)
	})
	if err != nil {
		if b.left = nil; w.refused(err) {
			b.left = all
		}
		return b, err
	}
	for _, h := range ended {
		w.Tell(h.Reservation, h.was)
	}
	for _, h := range trusting {
		_, err := w.change(ctx, h.ID, w.replica, nothing)
		b.bad = errors.Join(b.bad, err)
	}
	b.bad = errors.Join(b.bad, w.stamp(ctx, ended))
	return b, nil
}

// refused says that the server has answered, and may do less than it was asked for.
func (w *sweep) refused(err error) bool {
	return !w.s.MySQL() || Answered(err) || errors.Is(err, store.ErrConflict)
}

// read reads locked reservations with their items and the time.
func (w *sweep) read(tx ReservationTx, due []Due) (holds []*lockedReservation, err error) {
	ids := idsOf(due)
	err = eachRow(tx.ctx, tx.conn, list(w.s.q.HoldsItems, len(ids)), ids, func(rows *sql.Rows) error {
		h, i, run := lockedReservation{was: ledger.Held}, ledger.ReservationItem{}, int64(0)
		err := rows.Scan(&h.ID, &h.Mode, &h.Buyer, &h.State, &h.ExpiresMicros, &i.ProductID, &i.Quantity, &i.Run, &run,
			&h.now)
		if n := len(holds); n == 0 || holds[n-1].ID != h.ID {
			h.way = w.way(h.Mode)
			holds = append(holds, &h)
		}
		last := holds[len(holds)-1]
		last.Items, last.gone = append(last.Items, i), last.gone || i.Quantity > 0 && run != i.Run
		return err
	})
	return holds, err
}

// endable returns the reservations that can be ended now, and those that a trusting mode ends in its own way. The error
// names those whose mode is unknown here.
func (w *sweep) endable(holds []*lockedReservation) (can, trusting []*lockedReservation, err error) {
	for _, h := range holds {
		switch {
		case h.due() == ledger.Held, w.busy[h.products()]:
		case h.way.Trusting:
			trusting = append(trusting, h)
		case h.way.Give == nil:
			err = errors.Join(err, fmt.Errorf("reservation %s: %w", h.ID, unknownMode(h.Mode)))
		default:
			can = append(can, h)
		}
	}
	return can, trusting, err
}

// products names the products of a reservation.
func (h *lockedReservation) products() string {
	ids := make([]any, len(h.Items))
	for i, item := range h.Items {
		ids[i] = item.ProductID
	}
	return fmt.Sprint(ids...)
}

// free divides reservations of several products into those whose product rows nobody has locked now, and the others.
// The answer may be old at once: then the transaction waits.
func (w *sweep) free(ctx context.Context, holds []*lockedReservation) (free, locked []*lockedReservation, err error) {
	at := map[int64]bool{} // whether a product is free
	for _, h := range holds {
		for _, i := range h.Items {
			at[i.ProductID] = false
		}
	}
	if len(at) < 2 {
		return holds, nil, nil
	}
	ids := anys(slices.Sorted(maps.Keys(at)))
	open, err := allRows(ctx, w.s.pool(), column[int64], list(w.s.q.ProductsFree, len(ids)), ids...)
	for _, product := range open {
		at[product] = true
	}
	for _, h := range holds {
		if slices.ContainsFunc(h.Items, func(i ledger.ReservationItem) bool { return !at[i.ProductID] }) {
			locked = append(locked, h)
		} else {
			free = append(free, h)
		}
	}
	return free, locked, err
}

// endAll ends locked reservations, and gives their units back.
func (t ReservationTx) endAll(holds []*lockedReservation, replica string) error {
	var events []any
	for _, to := range []ledger.ReservationState{ledger.Expired, ledger.Void} {
		var ids []any
		var now int64
		for _, h := range holds {
			if h.State == ledger.Held && h.due() == to {
				ids, now, h.State = append(ids, h.ID), h.now, to
				events = append(events, h.ID, ledger.Held, to, h.ExpiresMicros, replica, now)
			}
		}
		if len(ids) == 0 {
			continue
		}
		n, err := t.affected(list(t.q.HoldsMove, len(ids)), slices.Concat([]any{to, now}, ids, []any{now})...)
		if err != nil || n != int64(len(ids)) {
			return cmp.Or(err, errOvertaken)
		}
	}
	if len(events) > 0 {
		t.later(tuples(t.q.HoldsEvents, len(events)/6), events...)
	}
	return t.release(holds...)
}

// stamp says that the expiries among ended reservations are certain by now: their COMMIT has returned.
func (w *sweep) stamp(ctx context.Context, ended []*lockedReservation) error {
	args := []any{int64(0)}
	for _, h := range ended {
		if h.State == ledger.Expired {
			args = append(args, h.ID)
		}
	}
	if len(args) == 1 {
		return nil
	}
	db := w.s.db.WithContext(ctx)
	if err := db.Raw(w.s.q.Clock).Row().Scan(&args[0]); err != nil {
		return statementError(err)
	}
	return commitError(db.Exec(list(w.s.q.HoldCertain, len(args)-1), args...).Error)
}

// apart ends reservations product by product, each in a transaction that waits for the product's row. A product whose
// row stays locked is busy: the rest of this sweep does not wait for it again.
func (w *sweep) apart(ctx context.Context, holds []*lockedReservation) (err error) {
	of := map[string][]any{}
	for _, h := range holds {
		of[h.products()] = append(of[h.products()], h.ID)
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	var locked []string
	room := make(chan struct{}, sweepWaits)
	for products, ids := range of {
		all.Go(func() {
			room <- struct{}{}
			one := w.halves(ctx, ids)
			<-room
			mu.Lock()
			defer mu.Unlock()
			if errors.Is(one, store.ErrConflict) {
				one, locked = fmt.Errorf("reservations of product %s: %w", products, one), append(locked, products)
			}
			err = errors.Join(err, one)
		})
	}
	all.Wait()
	for _, products := range locked {
		w.busy[products] = true
	}
	return err
}

// halves ends reservations in one transaction. If the server refuses something of it, each half is tried by itself.
func (w *sweep) halves(ctx context.Context, ids []any) error {
	b, err := w.batch(ctx, false, w.dueOf(len(ids)), ids...)
	switch half := len(ids) / 2; {
	case err == nil:
		return b.bad
	case errors.Is(err, store.ErrConflict), !w.refused(err):
		return err
	case half == 0:
		return fmt.Errorf("reservation %s: %w", ids[0], err)
	default:
		return errors.Join(w.halves(ctx, ids[:half]), w.halves(ctx, ids[half:]))
	}
}

// Overdue returns for how long the oldest overdue reservation has waited for a sweep; 0 = none has.
func (r *Reservations) Overdue(ctx context.Context) (time.Duration, error) {
	var now, oldest int64
	db := r.s.db.WithContext(ctx)
	if err := db.Raw(r.s.q.Clock).Row().Scan(&now); err != nil {
		return 0, statementError(err)
	}
	if err := db.Raw(r.s.q.HoldOldest, now).Row().Scan(&oldest); err != nil || oldest == 0 {
		return 0, statementError(err)
	}
	return time.Duration(now-oldest) * time.Microsecond, nil
}

// Purge deletes the reservations that ended long ago: those that no payment came for and that no late
// payment can revive after the first time, the others after kept. One that has an order stays as long as the order, and
// the end of a payment stays. It goes on until none is left, and uses the database for at most half of the time.
func (r *Reservations) Purge(ctx context.Context, after, kept time.Duration) error {
	var now int64
	err := r.tx(ctx, func(tx ReservationTx) (err error) {
		now, err = tx.now()
		return err
	})
	for _, state := range []ledger.ReservationState{ledger.Expired, ledger.Cancelled, ledger.Void, ledger.Confirmed} {
		if err != nil {
			return err
		}
		var place Due
		_, err = store.InSteps(ctx, func() (_ int64, more bool, err error) {
			place, more, err = r.purge(ctx, state, place, now-after.Microseconds(), now-kept.Microseconds())
			return 0, more, err
		})
	}
	return err
}

// purge deletes some of the reservations in a state after a place. A late payment that has just been
// committed has changed its reservation, which then stays.
func (r *Reservations) purge(
	ctx context.Context, state ledger.ReservationState, place Due, ago, longAgo int64,
) (next Due, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, purgeTimeout)
	defer cancel()
	next = place
	err = r.tx(ctx, func(tx ReservationTx) error {
		ended, err := allRows(tx.ctx, tx.conn, scanDue, tx.q.HoldsEnded, state, ago, place.Micros, place.Micros, place.ID,
			longAgo, ledger.ReservationsPage)
		if err != nil || len(ended) == 0 {
			return err
		}
		next, more = ended[len(ended)-1], len(ended) == ledger.ReservationsPage
		unchanged, err := allRows(tx.ctx, tx.conn, column[string], list(tx.q.HoldsUnchanged, len(ended)),
			append([]any{ago}, idsOf(ended)...)...)
		if err != nil || len(unchanged) == 0 {
			return err
		}
		ids := anys(unchanged)
		for _, query := range []string{tx.q.PurgeItems, tx.q.PurgeEvents, tx.q.PurgeHolds} {
			tx.later(list(query, len(ids)), ids...)
		}
		return nil
	})
	return next, more, err
}
