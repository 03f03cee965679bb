package reservationtest

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
	"lastitem/internal/handler"
	"lastitem/internal/idempotency"
	"lastitem/internal/store"
	"lastitem/judge"
	"lastitem/target"
)

// Store is a store as the table plays on it: with a Reserve whose key may have made a reservation earlier, and a Sell
// that makes an order without one. Both may not know how many are left.
type Store interface {
	Reserve(ctx context.Context, r ledger.Reservation, hold time.Duration) (made ledger.Reservation, left *int64,
		earlier bool, err error)
	Confirm(ctx context.Context, id, replica, order string, payment []byte) (ledger.Ended, error)
	Cancel(ctx context.Context, id, replica string, part ledger.Part) (ledger.Ended, error)
	Extend(ctx context.Context, id, replica string, hold time.Duration, key []byte) (ledger.Ended, error)
	Read(ctx context.Context, id, replica string) (ledger.Reservation, error)
	Return(ctx context.Context, product int64, order string, restock bool, part ledger.Part) (quantity int64,
		restocked bool, err error)
	Adjust(ctx context.Context, product int64, a ledger.Adjustment) (ledger.Adjustment, bool, error)
	Sell(ctx context.Context, o ledger.Order) (left *int64, err error)
	Reset(ctx context.Context, product, stock int64, rules ledger.Rules) error
	Sweep(ctx context.Context, product int64) (int, error)
	Page(ctx context.Context, product int64, after string) (ledger.Reservations, error)
}

// InStore is the seam of a store.
func InStore(s Store, name string, lacks ...string) Seam {
	return Seam{Service: stored{s}, Store: name, Brief: 20 * time.Millisecond, Lacks: append(lacks, "overwrite")}
}

type stored struct{ Store }

func (s stored) Book(ctx context.Context, product int64) (*api.Reservations, error) {
	rows, err := s.Page(ctx, product, "")
	book := handler.ReservationsOf(product, "", rows)
	return &book, err
}

// Ask answers as the contract has it.
func (s stored) Ask(ctx context.Context, a target.Ask) (said Answer) {
	err := store.Retry(ctx, 5*time.Second, func(int) (err error) {
		said, err = s.ask(ctx, a)
		return err
	})
	if err != nil {
		said = Answer{Answer: target.Answer{Outcome: judge.Declined, Code: codeOf(err)}}
	}
	if short, ok := errors.AsType[*ledger.ShortError](err); ok && said.Code != api.InvalidRequest {
		said.Outcome, said.Available, said.PerBuyer = judge.Refused, &short.Available, short.Available
	}
	if said.Code == api.UnknownReservation && a.Kind == judge.Confirm {
		said.Refund = api.RefundYes
	}
	return said
}

// ask makes reservations on one replica, and changes them on another. A name may have a space.
func (s stored) ask(ctx context.Context, a target.Ask) (said Answer, err error) {
	const maker, changer = "r 1", "r 2"
	var e ledger.Ended
	part := ledger.Part{ProductID: a.Line, Quantity: a.Part, Key: []byte(a.Key)}
	if a.Part > 0 && a.Key == "" {
		return said, idempotency.ErrKeyMissing
	}
	switch a.Kind {
	case judge.Reserve:
		r := ledger.Reservation{ID: a.Reservation, Mode: "m", Replica: maker, Buyer: a.Buyer,
			Items: []ledger.ReservationItem{{ProductID: a.Product, Quantity: a.Quantity}}}
		if a.Key != "" {
			r.Key, r.Fingerprint = []byte(a.Key), []byte{byte(a.Quantity)}
		}
		e.Reservation, said.Remaining, said.Replayed, err = s.Reserve(ctx, r, a.For)
	case judge.Confirm:
		e, err = s.Confirm(ctx, a.Reservation, changer, uuid.NewString(), []byte(a.Key))
		said.OrderID, said.Replayed = e.OrderID, e.Replay && !e.Refund // a problem does not tell it
	case judge.Cancel:
		e, err = s.Cancel(ctx, a.Reservation, changer, part)
		said.Replayed = e.Replay
	case judge.Extend:
		e, err = s.Extend(ctx, a.Reservation, changer, a.For, []byte(a.Key))
		said.Replayed = e.Replay
	case Read:
		e.Reservation, err = s.Read(ctx, a.Reservation, changer)
	case judge.Return:
		said.Quantity, said.Restock, err = s.Return(ctx, a.Product, a.Order, a.Restock, part)
	case judge.Adjust:
		var done ledger.Adjustment
		done, said.Replayed, err = s.Adjust(ctx, a.Product, ledger.Adjustment{Delta: a.Quantity, Key: []byte(a.Key)})
		said.Delta = done.Delta
	default:
		said.OrderID = uuid.NewString()
		said.Remaining, err = s.Sell(ctx, ledger.Order{ID: said.OrderID, ProductID: a.Product, Quantity: a.Quantity,
			Mode: "m", Replica: maker, Key: []byte(a.Key), Buyer: a.Buyer, CreatedMicros: time.Now().UnixMicro()})
	}
	r := e.Reservation
	for _, item := range r.Items {
		said.Items = append(said.Items, api.Line{ProductID: item.ProductID, Quantity: item.Quantity})
	}
	said.Outcome, said.ReservationID, said.State, said.ExpiresAt = judge.OK, r.ID, string(r.State),
		time.UnixMicro(r.ExpiresMicros)
	if e.Refund {
		said.Refund = api.RefundYes
	}
	if e.Refund || a.Kind == judge.Cancel && r.State == ledger.Confirmed && !e.Replay ||
		a.Kind == judge.Extend && r.State != ledger.Held {
		said.Outcome = judge.Refused
	}
	return said, err
}

// codes are those of the contract for errors of stores.
var codes = map[error]api.Code{store.ErrShort: api.SoldOut, store.ErrLimit: api.LimitReached,
	store.ErrNoReservation: api.UnknownReservation, store.ErrNoOrder: api.UnknownOrder,
	store.ErrReservationUnsupported: api.HoldUnsupported, store.ErrPaymentReused: api.KeyReused,
	store.ErrAdjustUnsupported: api.AdjustUnsupported,
	idempotency.ErrKeyReused:   api.KeyReused, idempotency.ErrKeyMissing: api.KeyMissing,
	store.ErrTooLong: api.InvalidRequest, store.ErrBeyond: api.InvalidRequest, store.ErrManyParts: api.InvalidRequest}

func codeOf(err error) api.Code {
	for known, code := range codes {
		if errors.Is(err, known) {
			return code
		}
	}
	return api.Code(err.Error())
}
