package target

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/url"
	"slices"
	"time"

	"lastitem/contract/api"
	"lastitem/say/text"
)

// ledgerTries is how often a ledger is read if its pages do not add up, because orders were added between the pages.
const ledgerTries = 4

// errTorn says that the pages of a ledger do not show one moment.
var errTorn = text.Of("the pages of the ledger do not add up to its totals: orders are added while it is read").Errorf()

// Ledger returns a product's initial and current stock, its orders and its keys, in all stores. It reads all pages, and
// reads again if their rows do not add up to the totals of the first page. If there are several, it looks whether the
// product was sold meanwhile.
func (s *Shop) Ledger(ctx context.Context, product int64) (*api.Ledger, error) {
	for try := 1; ; try++ {
		ledger, err := s.LedgerNow(ctx, product)
		if err != nil || ledger.InFlight == 0 || !s.drained(ctx, product) || try == ledgerTries {
			return ledger, err
		}
	}
}

// LedgerNow is [Shop.Ledger] without waiting for the orders of tickets.
func (s *Shop) LedgerNow(ctx context.Context, product int64) (*api.Ledger, error) {
	for try := 1; ; try++ {
		ledger, err := s.readLedger(ctx, product)
		if !errors.Is(err, errTorn) || try == ledgerTries || !rest(ctx, settleEvery) {
			return ledger, err
		}
	}
}

// DrainPatience is for how long tickets wait whose number does not fall: a consumer takes over those of another one
// after fifteen seconds, and a COMMIT may take ten.
const DrainPatience = 27 * time.Second

// drained waits until no ticket of a product is in flight; false = their number falls no more.
func (s *Shop) drained(ctx context.Context, product int64) bool {
	for last, since := int64(-1), time.Now(); ; {
		var now api.Product
		switch err := s.getPatiently(ctx, productPath(product, ""), &now); {
		case err != nil:
			return false
		case now.InFlight == 0:
			return true
		case last < 0 || now.InFlight < last:
			last, since = now.InFlight, time.Now()
		}
		if time.Since(since) > DrainPatience || !rest(ctx, settleEvery) {
			return false
		}
	}
}

// readLedger reads the pages one after the other. The first page contains everything besides the rows.
func (s *Shop) readLedger(ctx context.Context, product int64) (*api.Ledger, error) {
	path := productPath(product, "/ledger")
	all := new(api.Ledger)
	if err := s.getPatiently(ctx, path, all); err != nil {
		return nil, err
	}
	paged, rows := all.NextCursor != "", 0
	for cursor := all.NextCursor; cursor != ""; {
		var page api.Ledger
		if err := s.getPatiently(ctx, path+"?cursor="+url.QueryEscape(cursor), &page); err != nil {
			return nil, err
		}
		if rows += max(1, len(page.Orders)+len(page.Keys)); rows > s.most() {
			return nil, text.Of("GET %s: more than %d rows").Errorf(path, s.most())
		}
		if page.NextCursor == cursor {
			return nil, text.Of("GET %s: the cursor of a page leads back to the same page").Errorf(path)
		}
		all.Orders, all.Keys = append(all.Orders, page.Orders...), append(all.Keys, page.Keys...)
		cursor = page.NextCursor
	}
	all.NextCursor = ""
	slices.SortStableFunc(all.Orders, func(a, b api.Order) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.OrderID, b.OrderID))
	})
	if err := addUp(all); err != nil {
		return nil, err
	}
	if paged {
		var now api.Ledger
		if err := s.getPatiently(ctx, path+"?limit=1", &now); err != nil {
			return nil, err
		}
		all.Moved = !maps.Equal(now.Totals, all.Totals) || !maps.Equal(now.Initial, all.Initial)
	}
	return all, nil
}

// addUp compares the rows of a ledger with the totals of its first page.
func addUp(l *api.Ledger) error {
	if l.Totals == nil {
		return nil // without totals there is only one page
	}
	found := map[api.Store]api.Totals{}
	for store := range l.Totals {
		found[store] = api.Totals{}
	}
	for _, o := range l.Orders {
		t := found[o.Store]
		t.Orders++
		t.Units += o.Quantity
		found[o.Store] = t
	}
	if !maps.Equal(found, l.Totals) {
		return text.Of("%w: %v, and %v were counted").Errorf(errTorn, found, l.Totals)
	}
	return nil
}

// Tickets returns the tickets of a product that is sold by them, each once, by id, and the units of one moment before
// they were read. It needs the admin token.
func (s *Shop) Tickets(ctx context.Context, product int64) (*api.TicketBook, error) {
	path := productPath(product, "/tickets")
	all, rows := new(api.TicketBook), map[string]api.TicketEnd{}
	if err := s.getPatiently(ctx, path, all); err != nil {
		return nil, err
	}
	for page := *all; ; {
		for _, t := range page.Tickets { // of one that ended meanwhile the end comes later
			rows[t.ID] = t
		}
		if page.Next == "" {
			break
		}
		if len(page.Tickets) == 0 || len(rows) > s.most() {
			return nil, text.Of("GET %s: more than %d rows").Errorf(path, s.most())
		}
		next := page.Next
		page = api.TicketBook{}
		if err := s.getPatiently(ctx, path+"?after="+url.QueryEscape(next), &page); err != nil {
			return nil, err
		}
	}
	all.Next, all.Tickets = "", slices.SortedFunc(maps.Values(rows), func(a, b api.TicketEnd) int {
		return cmp.Compare(a.ID, b.ID)
	})
	return all, nil
}

// getPatiently is get with retries after a 429.
func (s *Shop) getPatiently(ctx context.Context, path string, body any) error {
	for tries := 1; ; tries++ {
		err := s.get(ctx, path, body)
		var p *ProblemError
		if !errors.As(err, &p) || p.Problem.Code != api.RateLimited || tries == 10 || !rest(ctx, time.Second) {
			return err
		}
	}
}

// most is how many rows of a ledger are read.
func (s *Shop) most() int { return cmp.Or(s.maxRows, maxLedger) }
