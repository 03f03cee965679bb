package reservationtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
	"lastitem/internal/handler"
	"lastitem/internal/idempotency"
	"lastitem/internal/store"
)

// The replicas that make reservations and change them. A name may have a space.
const maker, changer = "r 1", "r 2"

// Changes are what becomes of reservations, as stores do it.
type Changes interface {
	Confirm(ctx context.Context, id, replica, order string, payment []byte) (ledger.Ended, error)
	Cancel(ctx context.Context, id, replica string) (ledger.Ended, error)
	Extend(ctx context.Context, id, replica string, hold time.Duration) (ledger.Ended, error)
	ReadReservation(ctx context.Context, id, replica string) (ledger.Reservation, error)
	Return(ctx context.Context, product int64, order string, restock bool) (quantity int64, restocked bool, err error)
}

// Seam is where the table is played. What it is given as an id of a reservation or an order is a proposal.
type Seam struct {
	Changes
	Store string        // the ids of its reservations begin with it
	Brief time.Duration // the shortest time that it holds for
	Lacks []string      // verbs
	Key   string        // every key and payment begins with it
	// Quiet says that it does not tell whether a refund was answered before.
	Quiet bool
	// Uncounted says that what it sells does not count for the limit of what is held.
	Uncounted bool
	// Reset makes the product new.
	Reset func(ctx context.Context, product, stock int64, rules ledger.Rules) error
	// Reserve makes a reservation; left nil = it does not tell. earlier: its key has made one before, which it returns.
	Reserve func(ctx context.Context, r ledger.Reservation, hold time.Duration) (made ledger.Reservation, left *int64,
		earlier bool, err error)
	// Sell makes an order without a reservation. Overwrite does so by writing an absolute count.
	Sell, Overwrite seller
	// Sweep ends what is overdue, of the product at least, and returns how many that were.
	Sweep func(ctx context.Context, product int64) (int, error)
	// Book reads all reservations of the product's run.
	Book func(ctx context.Context, product int64) (*api.Reservations, error)
}

// cannot returns a verb of the sentences that the seam lacks.
func (s Seam) cannot(sentences string) string {
	for _, verb := range s.Lacks {
		if strings.Contains(" "+sentences, " "+verb+" ") {
			return verb
		}
	}
	return ""
}

// A seller makes an order, and returns it as it was made: with how many are left, if that is told.
type seller = func(ctx context.Context, o ledger.Order) (ledger.Order, error)

// Swept is the Sweep of a store that sweeps from a place on.
func Swept[Place any](
	sweep func(context.Context, Place, int, string) (Place, int, error),
) func(context.Context, int64) (int, error) {
	return func(ctx context.Context, _ int64) (int, error) {
		var first Place
		_, n, err := sweep(ctx, first, 100, changer)
		return n, err
	}
}

// Booked is the Book of a store.
func Booked(
	read func(ctx context.Context, product int64, after string) (ledger.Reservations, error),
) func(context.Context, int64) (*api.Reservations, error) {
	return func(ctx context.Context, product int64) (*api.Reservations, error) {
		h, err := read(ctx, product, "")
		book := handler.ReservationsOf(product, "", h)
		return &book, err
	}
}

// refusals are the words of the table for the errors of the stores.
var refusals = map[string]error{
	"no reservation": store.ErrNoReservation, "no order": store.ErrNoOrder, "payment reused": store.ErrPaymentReused,
	"key reused": idempotency.ErrKeyReused, "unknown": store.ErrUnknownProduct,
	"unsupported": store.ErrReservationUnsupported,
}

// refusal renders an error in the words of the table, in which other seams tell theirs.
func refusal(err error) string {
	for word, known := range refusals {
		if errors.Is(err, known) {
			return word
		}
	}
	if short, ok := errors.AsType[*ledger.ShortError](err); ok {
		return fmt.Sprint(map[bool]string{true: "limit ", false: "short "}[errors.Is(err, store.ErrLimit)], short.Available)
	}
	return err.Error()
}
