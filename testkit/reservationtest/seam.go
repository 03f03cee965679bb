package reservationtest

import (
	"context"
	"strings"
	"time"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
	"lastitem/judge"
	"lastitem/target"
)

// Seam is where the table is played.
type Seam struct {
	Service
	Store string        // the ids of its reservations begin with it
	Key   string        // its keys and payments begin with it
	Brief time.Duration // the shortest time that it holds for
	Lacks []string      // verbs; it plays no row that has one of them
}

// Service is what a seam does.
type Service interface {
	// Ask makes a request; its kind may be [Read] too. Its mode is [Absolute] in a sale by an absolute count, else "".
	Ask(ctx context.Context, a target.Ask) Answer
	// Reset makes a product new.
	Reset(ctx context.Context, product, stock int64, rules ledger.Rules) error
	// Sweep ends what is overdue, of the product at least, and returns how many that were.
	Sweep(ctx context.Context, product int64) (int, error)
	// Book reads all reservations of the product's run.
	Book(ctx context.Context, product int64) (*api.Reservations, error)
}

// What a [Service] is asked for beside what the contract has.
const (
	Read     judge.ReservationKind = "read"
	Absolute                       = "absolute"
)

// Answer is an answer, with what the table tells of refusals and returns.
type Answer struct {
	target.Answer
	Available *int64 `json:"available"`
	PerBuyer  int64  `json:"per_buyer"`
	Quantity  int64  `json:"quantity"`
	Uncounted bool   `json:"-"` // a sale that does not count for the limit of its buyer
}

// says reports whether the seam knows all verbs of sentences.
func (s Seam) says(sentences string) bool {
	for _, verb := range s.Lacks {
		if strings.Contains(" "+sentences, " "+verb+" ") {
			return false
		}
	}
	return true
}
