package stock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"lastitem/contract/ledger"
	"lastitem/internal/idempotency"
	"lastitem/internal/step"
	"lastitem/internal/store"
	"lastitem/internal/store/sqldb"
)

// A reserving mode holds units for a buyer until a deadline. A payment makes an order of them; a cancel, or the
// deadline, gives them back:
//
//	held ── confirm, before the deadline ─> confirmed
//	     ── cancel ─> cancelled (units back)          ── deadline ─> expired (units back)
//
// The ways from a state to the next are the same for all such modes, and stand in package sqldb (change.go, end.go).
// A mode is told apart by its [sqldb.Way]: how it takes, how it gives back, and how it changes a state.

// MaxBuyer is the longest name of a buyer, in bytes.
const MaxBuyer = 64

// ReserveRequest asks to hold units.
type ReserveRequest struct {
	Request
	For time.Duration // how long; 0 = [ledger.DefaultHold], or as long as the product allows if that is less
	// Held renders the answer to a hold; it is kept under the key.
	Held func(ledger.Reservation, *int64) idempotency.Answer
}

// Reserved says what is held.
type Reserved struct {
	Hold      ledger.Reservation
	Remaining *int64 // the stock left; nil if it is not known
	// Stored is the answer kept under the idempotency key; nil without a key. Replayed says that it is an earlier one's.
	Stored   *idempotency.Answer
	Replayed bool
}

// A Reserver holds units. Refusals are answers "for now": units come back, so none is kept under a key.
type Reserver interface {
	Reserve(ctx context.Context, req ReserveRequest) (Reserved, error)
}

// newHold makes the reservation of a request, without its times. Its id names the store and the first product, by which
// later requests find it.
func (d Deps) newHold(req ReserveRequest) (ledger.Reservation, error) {
	id, err := uuid.NewV7FromReader(unique{})
	if err != nil {
		return ledger.Reservation{}, fmt.Errorf("stock: reservation id: %w", err)
	}
	h := ledger.Reservation{ID: fmt.Sprintf("%s-%d-%s", req.Store, req.Items[0].ProductID, id), Key: req.Key,
		Buyer: req.Buyer, Mode: d.Orders.Mode, Replica: d.Orders.Replica}
	for _, item := range req.Items {
		h.Items = append(h.Items, ledger.ReservationItem{ProductID: item.ProductID, Quantity: item.Quantity})
	}
	if len(req.Key) > 0 {
		h.Fingerprint, err = idempotency.Fingerprint(struct {
			Items []Item
			Buyer string
			For   time.Duration
		}{req.Items, req.Buyer, cmp.Or(req.For, ledger.DefaultHold)})
	}
	return h, err
}

// reserving holds units in SQL, and sells without a hold as well, each in its own way.
type reserving struct {
	deps Deps
	way  sqldb.Way
}

// Reserve holds the items in one transaction, together with the key.
func (r reserving) Reserve(ctx context.Context, req ReserveRequest) (out Reserved, err error) {
	h, err := r.deps.newHold(req)
	if err != nil {
		return Reserved{}, err
	}
	claim := idempotency.Claim{Key: req.Key, Product: req.Items[0].ProductID, Mode: h.Mode, Fingerprint: h.Fingerprint}
	ctx, cancel := Settling(ctx)
	defer cancel()
	err = r.deps.SQL.TripTx(ctx, func(tx *sqldb.Tx) error {
		hold := func() (a idempotency.Answer, err error) {
			out.Hold, out.Remaining, err = sqldb.ReservationTx{Tx: tx}.Reserve(h, req.For, r.way)
			if err == nil && len(req.Key) > 0 {
				a = req.Held(out.Hold, out.Remaining)
			}
			return a, shortage(err)
		}
		if len(req.Key) == 0 {
			if _, err := hold(); err != nil {
				return err
			}
			return Begin(ctx)
		}
		answer, replayed, err := claim.Once(tx, hold)
		if out.Stored, out.Replayed = &answer, replayed; err != nil || replayed {
			return err
		}
		return Begin(ctx)
	})
	return out, err
}

// shortage turns the store's refusals into those of a deduction.
func shortage(err error) error {
	var short *ledger.ShortError
	if errors.As(err, &short) && errors.Is(err, store.ErrShort) {
		return &SoldOutError{ProductID: short.ProductID, Requested: short.Requested, Available: short.Available}
	}
	return err
}

// Deduct sells at once: the units are taken in the way of the mode, and nothing is held.
func (r reserving) Deduct(ctx context.Context, req Request) (receipt Receipt, err error) {
	if len(req.Key) > 0 {
		return once(ctx, r.deps, req, r.take)
	}
	ctx, cancel := Settling(ctx)
	defer cancel()
	err = r.deps.SQL.TripTx(ctx, func(tx *sqldb.Tx) (err error) {
		var refusal error
		if receipt, refusal, err = r.take(ctx, tx, req); err != nil || refusal != nil {
			return cmp.Or(err, refusal)
		}
		return Begin(ctx)
	})
	if err != nil {
		return Receipt{}, err
	}
	r.deps.Steps.At(ctx, step.Committed, "")
	return receipt, nil
}

// take takes the units for an order and inserts it.
func (r reserving) take(ctx context.Context, tx *sqldb.Tx, req Request) (receipt Receipt, refusal, err error) {
	d := r.deps
	if err := tx.Savepoint(); err != nil {
		return Receipt{}, nil, err
	}
	orders, err := d.Orders.Cart(req, nil, 0)
	if err != nil {
		return Receipt{}, nil, err
	}
	for i, item := range req.Items {
		left, run, err := sqldb.ReservationTx{Tx: tx}.TakeBy(r.way, orders[0].ID, req.Buyer, item.ProductID,
			item.Quantity)
		if err = shortage(err); errors.Is(err, ErrSoldOut) {
			return Receipt{}, err, tx.RollbackToSavepoint()
		}
		if err != nil {
			return Receipt{}, nil, err
		}
		if orders[i].Remaining, orders[i].Buyer = left, req.Buyer; r.way.Act != ledger.Reserve {
			orders[i].Run = run // nothing keeps another run from beginning now
		}
	}
	d.Steps.At(ctx, step.Written, "")
	if err := insertAll(tx, orders); err != nil {
		return Receipt{}, nil, err
	}
	d.Steps.At(ctx, step.Ordered, "")
	return receiptOf(orders), nil, nil
}
