package loadtest

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest/client"
	"lastitem/loadtest/plan"
	"lastitem/say/text"
	"lastitem/target"
)

// service is what a run puts its load on: a mode of lastitem, or somebody's own service.
type service struct {
	mode     api.Mode // of somebody's own only its name
	foreign  bool
	address  string
	insecure bool // its certificate is taken as it is
	replicas int
	lang     string
	patience time.Duration           // of somebody's own: for how long its books must rest, see [target.AtRest]
	watch    time.Duration           // of somebody's own: how long after the last answer its books are read at least
	gone     func(*api.Ledger) int64 // of somebody's own: see [target.Foreign.Agreed]
	script   script
	// ready sets the stock of every product of the plan. Where it cannot, it sets the plan's stock to what there is.
	ready func(ctx context.Context, p *plan.Plan) error
	warm  func(ctx context.Context, d *driver) error
	// buyers gives what becomes script.visit, once the stock is set; nil = a purchase is one call.
	buyers func(ctx context.Context, p plan.Plan) (func(target.Ask) (target.Ask, bool), error)
	// ledger reads the ledger of a product; nil = it cannot be read.
	ledger func(ctx context.Context, product int64) (*api.Ledger, error)
	// judge judges a product by what was read.
	judge func(in judge.Input, product int64, b bookkeeping) judge.Report
	// ticket tells what became of a ticket, and tickets reads all of a product; nil = it is not sold by tickets.
	ticket  func(ctx context.Context, id string, wait time.Duration) (api.Ticket, error)
	tickets func(ctx context.Context, product int64) (*api.TicketBook, error)
	// reservations reads those of a product.
	reservations func(ctx context.Context, product int64, store api.Store) (*api.Reservations, error)
}

// bookkeeping is the ledger of one product after the run, or why it could not be read.
type bookkeeping struct {
	ledger  *api.Ledger     // nil = missing data for the judge
	tickets *api.TicketBook // nil = they are not read
	unread  string          // why the two sides of a product that is sold by tickets could not be compared
	early   bool            // it was read when a request without an answer could still be executed
	// restless: the books of somebody's service had not come to rest
	restless bool
	gone     int // orders of an earlier reading that the last one does not have
	err      error
}

// hopeless is after how many failures a load without any other answer is ended.
const hopeless = 50

// hopeful returns a note that stops a load of which every answer is a failure: it proves nothing, and the service may
// be in trouble. It passes on what it is told.
func hopeful(stop func(error), on func(client.Kind, string, target.Reply)) func(client.Kind, string, target.Reply) {
	var failed atomic.Int64
	var other atomic.Bool
	var first atomic.Pointer[string]
	return func(kind client.Kind, code string, r target.Reply) {
		on(kind, code, r)
		switch {
		case kind != client.Failed:
			other.Store(true)
		case !other.Load():
			said := strings.TrimSpace(fmt.Sprintf("%s %.300s", code, r.Body))
			first.CompareAndSwap(nil, &said)
			if n := failed.Add(1); n >= hopeless {
				stop(plan.Fault(text.Of("ended after %d failures without another answer; the first: %s"), n, *first.Load()))
			}
		}
	}
}
