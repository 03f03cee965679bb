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

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/say/text"
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
	// Took is the median of what a reserve, or else a payment, took before the load, under the plan's own concurrency and
	// without pauses; 0 = not measured. Holding is what the run made of it.
	Took    time.Duration `json:"took_ns,omitempty"`
	Holding Holding       `json:"holding,omitzero"`
	// Sold counts the confirmed reservations, as the clients were told, Refunded the payments that came too late,
	// Cancelled the cancelled reservations, Extended the extended ones, Returned the returned orders.
	// Expired counts the reservations that the service says have expired.
	Sold      int `json:"sold"`
	Refunded  int `json:"refunded"`
	Cancelled int `json:"cancelled"`
	Extended  int `json:"extended,omitempty"`
	Returned  int `json:"returned,omitempty"`
	Expired   int `json:"expired"`
	// SalesPerSecond counts reservations that were confirmed, until the last of them. It is Result.AcceptedPerSecond.
	SalesPerSecond float64 `json:"sales_per_second"`
	// Races counts the confirms that were under way when the deadline or a sweep of their reservation came.
	Races int `json:"races"`
	// Latency has the response times of the good answers by request: "reserve", "confirm", "cancel", "extend",
	// "return".
	Latency map[judge.HoldKind]Latency `json:"latency"`
	// History has every request about a reservation, by product, in the order of the calls.
	History map[int64][]judge.HoldOp `json:"-"`
}

// holds returns the figures that the recorder knows. All workers must have ended.
func (r *recorder) holds() *HoldFigures {
	f := &HoldFigures{Latency: map[judge.HoldKind]Latency{}, History: map[int64][]judge.HoldOp{}}
	for _, kind := range judge.HoldKinds {
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
		slices.SortStableFunc(ops, func(a, b judge.HoldOp) int { return cmp.Compare(a.Call, b.Call) })
		for _, op := range ops {
			switch {
			case op.Kind == judge.Reserve && op.Outcome == judge.OK:
				f.Reserved += once("r", op.HoldID)
			case op.Kind == judge.Reserve && op.Limit:
				f.Limited++
			case op.Kind == judge.Reserve && op.Outcome == judge.Refused:
				f.Refused++
			case op.Kind == judge.Confirm && op.Outcome == judge.OK:
				f.Sold += once("s", op.PaymentID)
			case op.Kind == judge.Confirm && op.Refund:
				f.Refunded += once("b", op.PaymentID)
			case op.Kind == judge.Cancel && op.Outcome == judge.OK && !op.Expired:
				f.Cancelled += once("c", op.HoldID)
			case op.Kind == judge.Extend && op.Outcome == judge.OK:
				f.Extended += once("e", op.HoldID)
			case op.Kind == judge.Return && op.Outcome == judge.OK:
				f.Returned += once("g", op.OrderID)
			}
		}
	}
	return f
}

// holdBook is what the service holds on a product after the run, or why it could not be read.
type holdBook struct {
	book *api.Reservations
	err  error
}

const (
	// An overdue reservation is not lost before settleSlack and a sweep have passed. settleSweep is the longest time
	// between two sweeps, unless the service says more.
	settleSlack = 2 * time.Second
	settleSweep = 1500 * time.Millisecond
	// settleHolds is the longest deadline that is waited for.
	settleHolds = 10 * time.Second
	// unreserved and writtenOff are the ids of the rows that stand for all orders without a reservation, and for those
	// that were returned and not put back.
	unreserved, writtenOff = "unreserved", "written off"
)

// Why reservations could not be read as of one moment.
var (
	errDue     = fault(text.Of("reservations fell due for as long as they were read"))
	errMoved   = fault(text.Of("reservations or orders were added or ended while their pages were read"))
	errNoPages = text.Of("the reservations changed at every try to read them, or their store is out: %w")
)

// settleHeld reads the reservations of each requested product. Those whose deadline is near are waited for: then
// nothing changes while the pages are read.
func settleHeld(ctx context.Context, c *Control, res *Result) map[int64]holdBook {
	quiets := map[int64]int64{res.Plan.Product: 0}
	for product, ops := range res.Holds.History {
		quiets[product] = 0
		for _, op := range ops {
			end := op.Return
			if res.Plan.Holding.For <= settleHolds {
				end += int64(res.Plan.Holding.For)
			}
			if op.Outcome == judge.Unknown {
				end = max(end, op.Call+int64(settleServer))
			}
			quiets[product] = max(quiets[product], end)
		}
	}
	return atOnce(quiets, func(product, quiet int64) (b holdBook) {
		rest(ctx, time.Until(res.Started.Add(time.Duration(quiet))))
		b.book, b.err = c.Reservations(ctx, product, res.Store)
		return b
	})
}

// Reservations returns all that one store holds on a product's reservations, as of one moment at which none is overdue;
// some are only if no sweep ends them. So it reads again while the number of the overdue falls, and for two seconds and
// a sweep more; and, until settleAtLeast has passed or ctx ends, while what it reads changes or one has only just
// fallen due. Orders without a reservation have rows together.
func (c *Control) Reservations(ctx context.Context, product int64, store api.Store) (*api.Reservations, error) {
	path := "/products/" + strconv.FormatInt(product, 10) + "/reservations?store=" + url.QueryEscape(string(store))
	least, patience, began, fell := int64(-1), settleSlack+settleSweep, time.Now(), time.Now()
	var last unlisted
	for same := 0; ; {
		book, more, err := c.readReservations(ctx, path)
		var p *ProblemError
		switch {
		case errors.As(err, &p) && p.Problem.Code == api.BackendUnavailable:
			err = errNoPages.Errorf(err)
		case err != nil:
			return nil, err
		default:
			if same++; more != last {
				last, same = more, 1
			}
			sweep := time.Duration(book.SweepMS) * time.Millisecond
			patience = max(patience, settleSlack+sweep+sweep/2)
			if least < 0 || book.Overdue < least {
				least, fell = book.Overdue, time.Now()
			}
			switch {
			case book.Overdue > 0 && min(time.Since(fell), longestOverdue(book)) < patience:
				err = errDue
			case more == unlisted{}:
				return book, nil
			case same < ledgerTries:
				err = errMoved
			case more == unlisted{held: min(more.held, 0)}: // its own count has lost what its rows hold: they are judged
				return book, nil
			case more.held != 0 || more.ordered < 0 || more.gone < 0 || book.PerBuyer > 0: // the limit counts some of them
				return nil, text.Of("the rows of the reservations and their totals differ: held %d, ordered %d, written off %d").
					Errorf(more.held, more.ordered, more.gone)
			default:
				add(book, unreserved, more.ordered)
				add(book, writtenOff, more.gone)
				return book, nil
			}
		}
		if time.Since(fell) > patience && time.Since(began) > settleAtLeast || !rest(ctx, settleEvery) {
			return nil, err
		}
	}
}

// unlisted are the units of the totals that no row has.
type unlisted struct{ held, ordered, gone int64 }

// longestOverdue is for how long the oldest of the overdue reservations has been so.
func longestOverdue(book *api.Reservations) time.Duration {
	first := book.AsOfMicros
	for _, row := range book.Rows {
		if row.State == codeHeld {
			first = min(first, row.ExpiresMicros)
		}
	}
	return time.Duration(book.AsOfMicros-first) * time.Microsecond
}

// add adds a confirmed reservation that stands for so many units ordered without one. Nobody knows when it was made.
func add(book *api.Reservations, id string, units int64) {
	if units == 0 {
		return
	}
	const sold = "confirmed"
	row := api.ReservationRow{ReservationID: id, State: sold, Quantity: units, ExpiresMicros: 1,
		Orders: []api.ReservationOrder{{OrderID: id, Payment: id, Quantity: units, Returned: id == writtenOff}},
		Events: []api.ReservationEvent{{Now: codeHeld, DeadlineMicros: 1},
			{Was: codeHeld, Now: sold, DeadlineMicros: 1}},
		Payments: []api.ReservationPaid{{Payment: id, OrderID: id}}}
	if len(book.Rows) > 0 {
		row.Replica, row.Mode = book.Rows[0].Replica, book.Rows[0].Mode // which are known already
	}
	book.Rows = append(book.Rows, row)
}

func (c *Control) readReservations(ctx context.Context, path string) (*api.Reservations, unlisted, error) {
	all := new(api.Reservations)
	if err := c.getPatiently(ctx, path, all); err != nil {
		return nil, unlisted{}, err
	}
	for cursor := all.NextCursor; cursor != ""; {
		var page api.Reservations
		if err := c.getPatiently(ctx, path+"&cursor="+url.QueryEscape(cursor), &page); err != nil {
			return nil, unlisted{}, err
		}
		all.Rows = append(all.Rows, page.Rows...)
		if len(all.Rows) > c.maxRows || len(page.Rows) == 0 && page.NextCursor != "" {
			return nil, unlisted{}, fault(text.Of("GET %s: more than %d rows"), path, c.maxRows)
		}
		cursor = page.NextCursor
	}
	held, ordered, gone := all.Count()
	return all, unlisted{all.Held - held, all.Ordered - ordered, all.WrittenOff - gone}, nil
}

// judgeHeld judges the reservations of each requested product.
func judgeHeld(res *Result, mode api.Mode, books map[int64]holdBook, c *Control) {
	run := judge.HoldRun{Mode: res.Mode, Store: res.Store, Replicas: c.Replicas, Stock: &res.Plan.Stock,
		Stopped: res.Partial, WantSoldOut: wantSoldOut(res),
		Expiry: res.Plan.Holding.PaysLate > 0 || res.Plan.Holding.PayTo >= res.Plan.Holding.For}
	for _, product := range slices.Sorted(maps.Keys(books)) {
		b := books[product]
		if b.err != nil {
			res.Verdicts = append(res.Verdicts, judge.Report{Mode: res.Mode, Store: res.Store, ProductID: product,
				Verdict: judge.Inconclusive, Missing: []string{text.ErrorIn(c.Lang, b.err)}, Lang: c.Lang})
			continue
		}
		one := run
		second := product == res.Plan.second()
		if second { // few ask for it
			one.WantSoldOut, one.Expiry = false, false
		}
		report := one.Judge(b.book, res.Holds.History[product], c.Lang)
		switch h := res.Holds; {
		case report.Verdict != judge.Vacuous:
		case second:
			continue
		case h.Refunded > h.Sold:
			report.Missing = append(report.Missing, text.Of("most holds ended before they could be paid: a reserve took %s "+
				"(p90), a hold %s").With(rounded(h.Latency[judge.Reserve].P90), res.Plan.Holding.For).In(c.Lang))
		}
		res.Holds.Races += report.Races
		for _, row := range b.book.Rows {
			switch {
			case row.State == codeExpired:
				res.Holds.Expired++
			case row.ReservationID == unreserved:
				report.Unchecked = append(report.Unchecked, text.Of("%d [unit was|units were] ordered without a reservation: "+
					"they count as ordered, and nothing else was checked of them").With(row.Quantity).In(c.Lang))
			}
		}
		res.Verdicts = append(res.Verdicts, report.Report)
	}
	claim(res, judging{mode: mode, replicas: c.Replicas})
}
