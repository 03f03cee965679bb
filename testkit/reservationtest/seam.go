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

// Seam is where the table is played. An id of a new reservation or order is a proposal.
type Seam struct {
	Changes
	Store string        // the ids of its reservations begin with it
	Key   string        // its keys and payments begin with it
	Brief time.Duration // the shortest time that it holds for
	Lacks []string      // verbs; it plays no row that has one of them
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

// Changes are what becomes of reservations, as stores do it.
type Changes interface {
	Confirm(ctx context.Context, id, replica, order string, payment []byte) (ledger.Ended, error)
	Cancel(ctx context.Context, id, replica string) (ledger.Ended, error)
	Extend(ctx context.Context, id, replica string, hold time.Duration) (ledger.Ended, error)
	ReadReservation(ctx context.Context, id, replica string) (ledger.Reservation, error)
	Return(ctx context.Context, product int64, order string, restock bool) (quantity int64, restocked bool, err error)
}

// A seller makes an order, and returns it with how many are left, if that is told, and without a buyer if it does not
// count for his limit.
type seller = func(ctx context.Context, o ledger.Order) (ledger.Order, error)

// says reports whether the seam knows all verbs of sentences.
func (s Seam) says(sentences string) bool {
	for _, verb := range s.Lacks {
		if strings.Contains(" "+sentences, " "+verb+" ") {
			return false
		}
	}
	return true
}

// Booked is the Book of a store.
func Booked(
	read func(ctx context.Context, product int64, after string) (ledger.Reservations, error),
) func(context.Context, int64) (*api.Reservations, error) {
	return func(ctx context.Context, product int64) (*api.Reservations, error) {
		rows, err := read(ctx, product, "")
		book := handler.ReservationsOf(product, "", rows)
		return &book, err
	}
}

// refusals are the words of the table for the errors of the stores.
var refusals = map[string]error{
	"no reservation": store.ErrNoReservation, "no order": store.ErrNoOrder, "payment reused": store.ErrPaymentReused,
	"key reused": idempotency.ErrKeyReused, "unsupported": store.ErrReservationUnsupported,
}

// refusal renders an error in the words of the table, as seams that are no stores do.
func refusal(err error) string {
	for word, known := range refusals {
		if errors.Is(err, known) {
			return word
		}
	}
	short, ok := errors.AsType[*ledger.ShortError](err)
	switch {
	case ok && errors.Is(err, store.ErrLimit):
		return fmt.Sprint("limit ", short.Available)
	case ok:
		return fmt.Sprint("short ", short.Available)
	}
	return err.Error()
}
