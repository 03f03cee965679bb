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
)

// settleWait is for how long a confirm, a cancel, an extension or a return is tried again after it has lost a race.
const settleWait = 5 * time.Second

// Reserve holds units by the named mode. Its error wraps one of the sentinels of package stock.
func (s *Shop) Reserve(ctx context.Context, mode string, req stock.ReserveRequest) (stock.Reserved, error) {
	e, ok := s.byName[mode]
	if !ok {
		return stock.Reserved{}, fmt.Errorf("%w: %q", stock.ErrUnknownMode, mode)
	}
	if !e.mode.Reserves {
		return stock.Reserved{}, fmt.Errorf("%w: mode %s", stock.ErrReservationUnsupported, mode)
	}
	if err := check(e.mode, &req.Request); err != nil {
		return stock.Reserved{}, err
	}
	if e.err != nil {
		return stock.Reserved{}, &stock.ModeError{Mode: mode, Lacks: e.err}
	}
	if err := s.backends.down([]int64{req.Items[0].ProductID}, e.required...); err != nil {
		return stock.Reserved{}, err
	}
	reserver, ok := e.deductor.(stock.Reserver)
	if !ok {
		return stock.Reserved{}, fmt.Errorf("%w: mode %s", stock.ErrReservationUnsupported, mode)
	}
	return settled(ctx, s, req.Wait, func(ctx context.Context) (stock.Reserved, error) {
		return reserver.Reserve(ctx, req)
	})
}

// settled runs one transaction of a reservation, again while the store decides for another one, for as long as wait.
func settled[T any](ctx context.Context, s *Shop, wait time.Duration, try func(context.Context) (T, error)) (T, error) {
	r, err := within(ctx, s, wait, false, func(ctx context.Context) (r T, err error) {
		err = store.Retry(ctx, wait, func(int) error {
			r, err = try(ctx)
			return err
		})
		return r, err
	})
	if errors.Is(err, store.ErrConflict) {
		err = fmt.Errorf("%w: %w", stock.ErrContended, err)
	}
	return r, refusal(err)
}

// holds is the half of a store that changes and reads reservations.
type holds interface {
	Confirm(ctx context.Context, id, replica, order string, payment []byte) (ledger.Ended, error)
	Cancel(ctx context.Context, id, replica string) (ledger.Ended, error)
	Extend(ctx context.Context, id, replica string, hold time.Duration) (ledger.Ended, error)
	ReadReservation(ctx context.Context, id, replica string) (ledger.Reservation, error)
	Return(ctx context.Context, product int64, order string, restock bool) (quantity int64, restocked bool, err error)
	Reservations(ctx context.Context, product int64, after string) (ledger.Reservations, error)
}

// holdsIn returns the store of that name, or why it is not there.
func (s *Shop) holdsIn(at stock.Store, product int64) (holds, error) {
	var h holds
	switch {
	case at == stock.SQL && s.backends.SQL != nil:
		h = s.backends.SQL
	case at == stock.Redis && s.backends.Redis != nil:
		h = s.backends.Redis
	default:
		return nil, fmt.Errorf("%w: no store %s that keeps reservations", stock.ErrNoReservation, at)
	}
	return h, s.backends.silent(at, product)
}

// reservationsOf finds the store of a reservation by its id.
func (s *Shop) reservationsOf(id string) (holds, error) {
	parts := strings.SplitN(id, "-", 3)
	if len(parts) < 3 || len(id) > 64 {
		return nil, stock.ErrNoReservation
	}
	product, err := strconv.ParseInt(parts[1], 10, 64)
	if _, noID := uuid.Parse(parts[2]); err != nil || noID != nil {
		return nil, stock.ErrNoReservation
	}
	return s.holdsIn(stock.Store(parts[0]), product)
}

// nobodys are ids that no reservation has, one of each store: there is no product 0.
var nobodys = []string{"sql-0-" + uuid.Nil.String(), "redis-0-" + uuid.Nil.String()}

// Confirm makes an order of a reservation, which payment has paid. The error is a *stock.ReservationEndedError if the
// payment must go back. Repeated with the same payment, it answers the same; the result then says Replay.
func (s *Shop) Confirm(ctx context.Context, id string, payment []byte) (ledger.Ended, error) {
	switch {
	case len(payment) == 0:
		return ledger.Ended{}, stock.ErrKeyMissing
	case len(payment) > 255:
		return ledger.Ended{}, invalid("Idempotency-Key", "is longer than 255 bytes")
	}
	order, err := uuid.NewV7()
	if err != nil {
		return ledger.Ended{}, fmt.Errorf("shop: order id: %w", err)
	}
	ids := []string{id}
	// Each store may know the payment all the same.
	if _, err := s.reservationsOf(id); errors.Is(err, stock.ErrNoReservation) {
		ids = nobodys
	}
	var e ledger.Ended
	for _, id := range ids {
		e, err = s.change(ctx, id, func(ctx context.Context, h holds) (ledger.Ended, error) {
			return h.Confirm(ctx, id, s.options.Replica, order.String(), payment)
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

// Cancel gives the units of a reservation back; one that has ended already stays as it is. The error is a
// *stock.ReservationEndedError if it is an order by now.
func (s *Shop) Cancel(ctx context.Context, id string) (ledger.Ended, error) {
	e, err := s.change(ctx, id, func(ctx context.Context, h holds) (ledger.Ended, error) {
		return h.Cancel(ctx, id, s.options.Replica)
	})
	if err == nil && e.Reservation.State == ledger.Confirmed {
		err = &stock.ReservationEndedError{State: e.Reservation.State}
	}
	return e, err
}

// Extend moves the deadline of a reservation, once. The error is a *stock.ReservationEndedError if it is not held any
// more.
func (s *Shop) Extend(ctx context.Context, id string, hold time.Duration) (ledger.Ended, error) {
	e, err := s.change(ctx, id, func(ctx context.Context, h holds) (ledger.Ended, error) {
		return h.Extend(ctx, id, s.options.Replica, hold)
	})
	if err == nil && e.Reservation.State != ledger.Held {
		err = &stock.ReservationEndedError{State: e.Reservation.State}
	}
	return e, err
}

// change runs a change of a reservation. It has begun to write from the start: a lost answer leaves it unknown.
func (s *Shop) change(ctx context.Context, id string,
	do func(context.Context, holds) (ledger.Ended, error)) (ledger.Ended, error) {
	h, err := s.reservationsOf(id)
	if err != nil {
		return ledger.Ended{}, err
	}
	return settled(ctx, s, settleWait, func(ctx context.Context) (ledger.Ended, error) {
		if err := stock.Begin(ctx); err != nil {
			return ledger.Ended{}, err
		}
		ctx, cancel := stock.Settling(ctx)
		defer cancel()
		return do(ctx, h)
	})
}

// Reservation reads a reservation; an overdue one is ended first, and told as expired.
func (s *Shop) Reservation(ctx context.Context, id string) (ledger.Reservation, error) {
	h, err := s.reservationsOf(id)
	if err != nil {
		return ledger.Reservation{}, err
	}
	return settled(ctx, s, 0, func(ctx context.Context) (ledger.Reservation, error) {
		return h.ReadReservation(ctx, id, s.options.Replica)
	})
}

// Returned is an order that was taken back.
type Returned struct {
	Quantity  int64
	Restocked bool
}

// Return takes an order back: its units go to the stock, or are written off. The first answer stands.
func (s *Shop) Return(ctx context.Context, product int64, order string, restock bool) (Returned, error) {
	id, err := uuid.Parse(order)
	if err != nil {
		return Returned{}, stock.ErrNoOrder
	}
	err = stock.ErrNoOrder
	for _, at := range []stock.Store{stock.SQL, stock.Redis} {
		h, lacks := s.holdsIn(at, product)
		if lacks != nil {
			if !errors.Is(lacks, stock.ErrNoReservation) {
				err = lacks
			}
			continue
		}
		r, failed := settled(ctx, s, settleWait, func(ctx context.Context) (r Returned, err error) {
			if err := stock.Begin(ctx); err != nil {
				return r, err
			}
			ctx, cancel := stock.Settling(ctx)
			defer cancel()
			r.Quantity, r.Restocked, err = h.Return(ctx, product, id.String(), restock)
			return r, err
		})
		switch {
		case errors.Is(failed, stock.ErrReservationUnsupported), errors.Is(failed, stock.ErrSegmented):
			return r, fmt.Errorf("%w: %w", stock.ErrReturnUnsupported, failed)
		case !errors.Is(failed, stock.ErrNoOrder):
			return r, failed
		}
	}
	return Returned{}, err
}

// Reservations reads the reservations of a product after an id, for a judge.
func (s *Shop) Reservations(
	ctx context.Context, at stock.Store, product int64, after string,
) (ledger.Reservations, error) {
	h, err := s.holdsIn(at, product)
	if errors.Is(err, stock.ErrNoReservation) {
		err = invalid("store", "keeps no reservations")
	}
	if err != nil {
		return ledger.Reservations{}, err
	}
	held, err := settled(ctx, s, 0, func(ctx context.Context) (ledger.Reservations, error) {
		return h.Reservations(ctx, product, after)
	})
	if errors.Is(err, store.ErrPosition) {
		err = invalid("cursor", "was not issued by this service")
	}
	held.Sweep = s.options.Sweep
	return held, err
}
