package shop

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"lastitem/contract/ledger"
	"lastitem/internal/stock"
	"lastitem/internal/store"
	"lastitem/internal/store/redisdb"
	"lastitem/internal/store/sqldb"
)

// settleWait is for how long a confirm, a cancel, an extension or a return is tried again after it has lost a race.
const settleWait = 5 * time.Second

// reservations are those in the stores of a shop.
type reservations struct {
	sql      *sqldb.Reservations   // nil = there is no such store
	redis    *redisdb.Reservations // likewise
	stores   map[stock.Store]changer
	backends Backends
	options  Options
	requests *requests
}

func newReservations(b Backends, o Options, q *requests, modes []stock.Mode) *reservations {
	r := &reservations{stores: map[stock.Store]changer{}, backends: b, options: o, requests: q}
	if b.SQL != nil {
		ways := map[string]sqldb.Way{}
		for _, m := range modes {
			if m.Way != nil {
				ways[m.Name] = *m.Way
			} else if m.Tickets {
				ways[m.Name] = sqldb.Way{Final: true}
			}
		}
		r.sql = sqldb.NewReservations(b.SQL, func(mode string) sqldb.Way { return ways[mode] })
		r.stores[stock.SQL] = r.sql
	}
	if b.Redis != nil {
		r.redis = redisdb.NewReservations(b.Redis, o.KeepReservations)
		r.stores[stock.Redis] = r.redis
	}
	return r
}

// settled runs one transaction of a reservation, again while the store decides for another one, for as long as wait.
func settled[T any](
	ctx context.Context, q *requests, wait time.Duration, try func(context.Context) (T, error),
) (T, error) {
	r, err := within(ctx, q, wait, false, func(ctx context.Context) (r T, err error) {
		err = store.Retry(ctx, wait, func(int) error {
			r, err = try(ctx)
			return err
		})
		return r, err
	})
	if errors.Is(err, store.ErrConflict) {
		err = fmt.Errorf("%w: %w", stock.ErrContended, err)
	}
	return r, refusal(bounded(err))
}

// bounded names the field that a product, a reservation or an order bounds.
func bounded(err error) error {
	short, _ := errors.AsType[*ledger.ShortError](err)
	switch {
	case errors.Is(err, store.ErrTooLong):
		return invalid("hold_ms", fmt.Sprintf("must be at most %d: the max_hold_ms of product %d", short.Available,
			short.ProductID))
	case errors.Is(err, store.ErrBeyond):
		return invalid("quantity", fmt.Sprintf("must be at most %d: no more units are left", short.Available))
	case errors.Is(err, store.ErrNoLine):
		return invalid("product_id", "must be one of the products of the reservation")
	case errors.Is(err, store.ErrManyParts):
		return invalid("quantity", "comes too often: cancel the rest as a whole")
	}
	return err
}

// told refuses a part that nothing tells from its repetition.
func told(part ledger.Part) error {
	if part.Quantity > 0 && len(part.Key) == 0 {
		return stock.ErrKeyMissing
	}
	return shortKey(part.Key)
}

// changer is the half of a store that changes and reads reservations.
type changer interface {
	Confirm(ctx context.Context, id, replica, order string, payment []byte) (ledger.Ended, error)
	Cancel(ctx context.Context, id, replica string, part ledger.Part) (ledger.Ended, error)
	Extend(ctx context.Context, id, replica string, hold time.Duration, key []byte) (ledger.Ended, error)
	Read(ctx context.Context, id, replica string) (ledger.Reservation, error)
	Return(ctx context.Context, product int64, order string, restock bool, part ledger.Part) (quantity int64,
		restocked bool, err error)
	Page(ctx context.Context, product int64, after string) (ledger.Reservations, error)
	OnEnd(f func(ledger.Reservation))
}

// in returns the store of that name, or why it is not there.
func (r *reservations) in(at stock.Store, product int64) (changer, error) {
	if r.stores[at] == nil {
		return nil, fmt.Errorf("%w: no store %s that keeps reservations", stock.ErrNoReservation, at)
	}
	return r.stores[at], r.backends.silent(at, product)
}

// of finds the store of a reservation by its id.
func (r *reservations) of(id string) (changer, error) {
	parts := strings.SplitN(id, "-", 3)
	if len(parts) < 3 || len(id) > 64 {
		return nil, stock.ErrNoReservation
	}
	product, err := strconv.ParseInt(parts[1], 10, 64)
	if _, noID := uuid.Parse(parts[2]); err != nil || noID != nil {
		return nil, stock.ErrNoReservation
	}
	return r.in(stock.Store(parts[0]), product)
}

// nobodys are ids that no reservation has, one of each store: there is no product 0.
var nobodys = []string{"sql-0-" + uuid.Nil.String(), "redis-0-" + uuid.Nil.String()}

// Confirm makes an order of a reservation, which payment has paid. The error is a *stock.ReservationEndedError if the
// payment must go back. Repeated with the same payment, it answers the same; the result then says Replay.
func (r *reservations) Confirm(ctx context.Context, id string, payment []byte) (ledger.Ended, error) {
	if len(payment) == 0 {
		return ledger.Ended{}, stock.ErrKeyMissing
	}
	if err := shortKey(payment); err != nil {
		return ledger.Ended{}, err
	}
	order, err := uuid.NewV7()
	if err != nil {
		return ledger.Ended{}, fmt.Errorf("shop: order id: %w", err)
	}
	ids := []string{id}
	// Each store may know the payment all the same.
	if _, err := r.of(id); errors.Is(err, stock.ErrNoReservation) {
		ids = nobodys
	}
	var e ledger.Ended
	for _, id := range ids {
		e, err = r.change(ctx, id, func(ctx context.Context, h changer) (ledger.Ended, error) {
			return h.Confirm(ctx, id, r.options.Replica, order.String(), payment)
		})
		if !errors.Is(err, stock.ErrNoReservation) {
			break
		}
	}
	if err == nil && e.Refund {
		err = &stock.ReservationEndedError{State: e.Reservation.State, Paid: true, Refund: true}
	}
	return e, err
}

// shortKey refuses a key that is too long.
func shortKey(key []byte) error {
	if len(key) > 255 {
		return invalid("Idempotency-Key", "is longer than 255 bytes")
	}
	return nil
}

// Cancel gives the units of a reservation back, or a part of them; one that has ended already stays as it is. The error
// is a *stock.ReservationEndedError if it is an order by now, and was when the part came first.
func (r *reservations) Cancel(ctx context.Context, id string, part ledger.Part) (ledger.Ended, error) {
	if err := told(part); err != nil {
		return ledger.Ended{}, err
	}
	e, err := r.change(ctx, id, func(ctx context.Context, h changer) (ledger.Ended, error) {
		return h.Cancel(ctx, id, r.options.Replica, part)
	})
	if err == nil && e.Reservation.State == ledger.Confirmed && !e.Replay {
		err = &stock.ReservationEndedError{State: e.Reservation.State}
	}
	return e, err
}

// Extend moves the deadline of a reservation, as often as its product allows; where that is more than once, the key
// tells a repetition. The error is a *stock.ReservationEndedError if it is not held any more.
func (r *reservations) Extend(ctx context.Context, id string, hold time.Duration, key []byte) (ledger.Ended, error) {
	if err := shortKey(key); err != nil {
		return ledger.Ended{}, err
	}
	e, err := r.change(ctx, id, func(ctx context.Context, h changer) (ledger.Ended, error) {
		return h.Extend(ctx, id, r.options.Replica, hold, key)
	})
	if err == nil && e.Reservation.State != ledger.Held {
		err = &stock.ReservationEndedError{State: e.Reservation.State}
	}
	return e, err
}

// change runs a change of a reservation. It has begun to write from the start: a lost answer leaves it unknown.
func (r *reservations) change(ctx context.Context, id string,
	do func(context.Context, changer) (ledger.Ended, error)) (ledger.Ended, error) {
	h, err := r.of(id)
	if err != nil {
		return ledger.Ended{}, err
	}
	return settled(ctx, r.requests, settleWait, func(ctx context.Context) (ledger.Ended, error) {
		if err := stock.Begin(ctx); err != nil {
			return ledger.Ended{}, err
		}
		ctx, cancel := stock.Settling(ctx)
		defer cancel()
		return do(ctx, h)
	})
}

// Reservation reads a reservation; an overdue one is ended first, and told as expired.
func (r *reservations) Reservation(ctx context.Context, id string) (ledger.Reservation, error) {
	h, err := r.of(id)
	if err != nil {
		return ledger.Reservation{}, err
	}
	return settled(ctx, r.requests, 0, func(ctx context.Context) (ledger.Reservation, error) {
		return h.Read(ctx, id, r.options.Replica)
	})
}

// Returned is an order that was taken back.
type Returned struct {
	Quantity  int64
	Restocked bool
}

// Return takes an order back, or a part of it: the units go to the stock, or are written off. The first answer stands.
func (r *reservations) Return(
	ctx context.Context, product int64, order string, restock bool, part ledger.Part,
) (Returned, error) {
	if err := told(part); err != nil {
		return Returned{}, err
	}
	id, err := uuid.Parse(order)
	if err != nil {
		return Returned{}, stock.ErrNoOrder
	}
	err = stock.ErrNoOrder
	for _, at := range []stock.Store{stock.SQL, stock.Redis} {
		h, lacks := r.in(at, product)
		if lacks != nil {
			if !errors.Is(lacks, stock.ErrNoReservation) {
				err = lacks
			}
			continue
		}
		back, failed := settled(ctx, r.requests, settleWait, func(ctx context.Context) (b Returned, err error) {
			if err := stock.Begin(ctx); err != nil {
				return b, err
			}
			ctx, cancel := stock.Settling(ctx)
			defer cancel()
			b.Quantity, b.Restocked, err = h.Return(ctx, product, id.String(), restock, part)
			return b, err
		})
		switch {
		case errors.Is(failed, stock.ErrReservationUnsupported), errors.Is(failed, stock.ErrSegmented):
			return back, fmt.Errorf("%w: %w", stock.ErrReturnUnsupported, failed)
		case !errors.Is(failed, stock.ErrNoOrder):
			return back, failed
		}
	}
	return Returned{}, err
}

// Reservations reads the reservations of a product after an id, for a judge.
func (r *reservations) Reservations(
	ctx context.Context, at stock.Store, product int64, after string,
) (ledger.Reservations, error) {
	h, err := r.in(at, product)
	if errors.Is(err, stock.ErrNoReservation) {
		err = invalid("store", "keeps no reservations")
	}
	if err != nil {
		return ledger.Reservations{}, err
	}
	held, err := settled(ctx, r.requests, 0, func(ctx context.Context) (ledger.Reservations, error) {
		return h.Page(ctx, product, after)
	})
	if errors.Is(err, store.ErrPosition) {
		err = invalid("cursor", "was not issued by this service")
	}
	held.Sweep = r.options.Sweep
	return held, err
}

// OnEnd has f told of each reservation that this process has ended. f must not block.
func (r *reservations) OnEnd(f func(ledger.Reservation)) {
	for _, s := range r.stores {
		s.OnEnd(f)
	}
}
