package loadtest

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"time"

	"lastitem/internal/api"
	"lastitem/internal/audit"
	"lastitem/internal/text"
)

// HoldFigures is what became of the buyers of a run that reserves.
type HoldFigures struct {
	// Buyers counts those that came, Reserved the reservations made, Refused and Limited the answers sold_out and
	// limit_reached, Doubled the second clicks.
	Buyers   int `json:"buyers"`
	Reserved int `json:"reserved"`
	Refused  int `json:"refused"`
	Limited  int `json:"limited,omitempty"`
	Doubled  int `json:"doubled,omitempty"`
	// Sold counts the confirmed reservations, as the clients were told, Refunded the payments that came too late,
	// Cancelled the cancelled reservations. Expired counts the reservations that the service says have expired.
	Sold      int `json:"sold"`
	Refunded  int `json:"refunded"`
	Cancelled int `json:"cancelled"`
	Expired   int `json:"expired"`
	// SalesPerSecond counts reservations that were confirmed, until the last of them. It is Result.AcceptedPerSecond.
	SalesPerSecond float64 `json:"sales_per_second"`
	// Races counts the confirms that were under way when the deadline or a sweep of their reservation came.
	Races int `json:"races"`
	// Latency has the response times of the good answers by request: "reserve", "confirm", "cancel".
	Latency map[audit.HoldKind]Latency `json:"latency"`
	// History has every request about a reservation, by product, in the order of the calls.
	History map[int64][]audit.HoldOp `json:"-"`
}

// holds returns the figures that the recorder knows. All workers must have ended.
func (r *recorder) holds() *HoldFigures {
	f := &HoldFigures{Latency: map[audit.HoldKind]Latency{}, History: map[int64][]audit.HoldOp{}}
	for _, kind := range []audit.HoldKind{audit.Reserve, audit.Confirm, audit.Cancel} {
		h := newHistogram(runDigits)
		for i := range r.parts {
			h.merge(r.parts[i].steps[kind])
		}
		if h.hdr.TotalCount() > 0 {
			f.Latency[kind] = h.latency()
		}
	}
	for i := range r.parts {
		f.Doubled += r.parts[i].doubled
		for product, ops := range r.parts[i].holds {
			f.History[product] = append(f.History[product], ops...)
		}
	}
	ends := map[string]bool{}
	once := func(what, id string) int {
		if ends[what+id] {
			return 0
		}
		ends[what+id] = true
		return 1
	}
	for _, ops := range f.History {
		slices.SortStableFunc(ops, func(a, b audit.HoldOp) int { return cmp.Compare(a.Call, b.Call) })
		for _, op := range ops {
			switch {
			case op.Kind == audit.Reserve && op.Outcome == audit.OK:
				f.Reserved += once("r", op.HoldID)
			case op.Kind == audit.Reserve && op.Limit:
				f.Limited++
			case op.Kind == audit.Reserve && op.Outcome == audit.Refused:
				f.Refused++
			case op.Kind == audit.Confirm && op.Outcome == audit.OK:
				f.Sold += once("s", op.PaymentID)
			case op.Kind == audit.Confirm && op.Refund:
				f.Refunded += once("b", op.PaymentID)
			case op.Kind == audit.Cancel && op.Outcome == audit.OK && !op.Expired:
				f.Cancelled += once("c", op.HoldID)
			}
		}
	}
	return f
}

// holdBook is what the service holds on a product after the run, or why it could not be read.
type holdBook struct {
	book  *api.Reservations
	early bool // it was read when a request without an answer could still be executed
	err   error
}

const (
	// settleSweep is how long the number of overdue reservations may stay the same while they are waited for: two
	// seconds, and a sweep more. They are waited for settleOverdue at most.
	settleSweep   = 3 * time.Second
	settleOverdue = 20 * time.Second
	// settleHolds is the longest deadline that is waited for.
	settleHolds = 10 * time.Second
)

// settleHeld reads the reservations of each requested product, when none is overdue any more. Those whose deadline is
// near are waited for too: then nothing changes while the pages are read.
func settleHeld(ctx context.Context, c *Control, res *Result) map[int64]holdBook {
	quiets := map[int64]int64{res.Plan.Product: 0}
	for product, ops := range res.Holds.History {
		quiets[product] = 0
		for _, op := range ops {
			end := op.Return
			if res.Plan.Holding.For <= settleHolds {
				end += int64(res.Plan.Holding.For)
			}
			if op.Outcome == audit.Unknown {
				end = max(end, op.Call+int64(settleServer))
			}
			quiets[product] = max(quiets[product], end)
		}
	}
	return atOnce(quiets, func(product, quiet int64) (b holdBook) {
		b.early = !c.awaitSweep(ctx, product, res.Store, res.Started.Add(time.Duration(quiet)))
		b.book, b.err = c.Reservations(ctx, product, res.Store)
		return b
	})
}

// awaitSweep waits until quiet, and then until no reservation is overdue, or their number has stopped falling. It
// returns false if the time ran out before quiet.
func (c *Control) awaitSweep(ctx context.Context, product int64, store api.Store, quiet time.Time) bool {
	if !rest(ctx, time.Until(quiet)) {
		return false
	}
	least, fell, began := int64(-1), time.Now(), time.Now()
	for time.Since(fell) < settleSweep && time.Since(began) < settleOverdue {
		var page api.Reservations
		if err := c.getPatiently(ctx, reservationsPath(product, store), &page); err != nil || page.Overdue == 0 {
			return true // the error shows again when the book is read
		}
		if least < 0 || page.Overdue < least {
			least, fell = page.Overdue, time.Now()
		}
		if !rest(ctx, settleEvery) {
			return true
		}
	}
	return true
}

func reservationsPath(product int64, store api.Store) string {
	return "/products/" + strconv.FormatInt(product, 10) + "/reservations?store=" + url.QueryEscape(string(store))
}

// Reservations returns all that one store holds on a product's reservations. It reads all pages, and reads again if
// their rows do not add up to the counts of the first page.
func (c *Control) Reservations(ctx context.Context, product int64, store api.Store) (*api.Reservations, error) {
	for try := 1; ; try++ {
		book, err := c.readReservations(ctx, reservationsPath(product, store))
		if !errors.Is(err, errTorn) || try == ledgerTries || !rest(ctx, settleEvery) {
			return book, err
		}
	}
}

func (c *Control) readReservations(ctx context.Context, path string) (*api.Reservations, error) {
	all := new(api.Reservations)
	if err := c.getPatiently(ctx, path, all); err != nil {
		return nil, err
	}
	for cursor := all.NextCursor; cursor != ""; {
		var page api.Reservations
		if err := c.getPatiently(ctx, path+"&cursor="+url.QueryEscape(cursor), &page); err != nil {
			return nil, err
		}
		all.Rows = append(all.Rows, page.Rows...)
		if len(all.Rows) > c.maxRows || len(page.Rows) == 0 && page.NextCursor != "" {
			return nil, fault(text.Of("GET %s: more than %d rows"), path, c.maxRows)
		}
		cursor = page.NextCursor
	}
	held, ordered, gone := all.Count()
	if held != all.Held || ordered != all.Ordered || gone != all.WrittenOff {
		return nil, text.Of("%w: held %d, ordered %d and written off %d, and %d, %d and %d were counted").Errorf(errTorn,
			held, ordered, gone, all.Held, all.Ordered, all.WrittenOff)
	}
	return all, nil
}

// judgeHeld judges the reservations of each requested product.
func judgeHeld(res *Result, mode api.Mode, books map[int64]holdBook, c *Control) {
	run := audit.HoldRun{Mode: res.Mode, Store: res.Store, Replicas: c.Replicas, Stock: &res.Plan.Stock,
		Stopped: res.Partial, WantSoldOut: wantSoldOut(res),
		Expiry: res.Plan.Holding.PaysLate > 0 || res.Plan.Holding.PayTo >= res.Plan.Holding.For}
	for _, product := range slices.Sorted(maps.Keys(books)) {
		b := books[product]
		if b.err != nil {
			res.Verdicts = append(res.Verdicts, audit.Report{Mode: res.Mode, Store: res.Store, ProductID: product,
				Verdict: audit.Inconclusive, Missing: []string{text.ErrorIn(c.Lang, b.err)}, Lang: c.Lang})
			continue
		}
		report := run.Judge(b.book, res.Holds.History[product], c.Lang)
		if b.early {
			tooEarly(&report.Report)
		}
		res.Holds.Races += report.Races
		for _, row := range b.book.Rows {
			if row.State == codeExpired {
				res.Holds.Expired++
			}
		}
		res.Verdicts = append(res.Verdicts, report.Report)
	}
	claim(res, judging{mode: mode, replicas: c.Replicas})
}
