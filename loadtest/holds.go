package loadtest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/say/text"
	"lastitem/target"
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

// settleHolds is the longest deadline that is waited for.
const settleHolds = 10 * time.Second

// settleHeld reads the reservations of each requested product. Those whose deadline is near are waited for: then
// nothing changes while the pages are read.
func settleHeld(ctx context.Context, svc service, res *Result) map[int64]holdBook {
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
		b.book, b.err = svc.reservations(ctx, product, res.Store)
		return b
	})
}

// judgeHeld judges the reservations of each requested product.
func judgeHeld(res *Result, svc service, books map[int64]holdBook) {
	run := judge.HoldRun{Mode: res.Mode, Store: res.Store, Replicas: svc.replicas, Stock: &res.Plan.Stock,
		Stopped: res.Partial, WantSoldOut: wantSoldOut(res),
		Expiry: res.Plan.Holding.PaysLate > 0 || res.Plan.Holding.PayTo >= res.Plan.Holding.For}
	for _, product := range slices.Sorted(maps.Keys(books)) {
		b := books[product]
		if b.err != nil {
			res.Verdicts = append(res.Verdicts, judge.Report{Mode: res.Mode, Store: res.Store, ProductID: product,
				Verdict: judge.Inconclusive, Missing: []string{text.ErrorIn(svc.lang, b.err)}, Lang: svc.lang})
			continue
		}
		one := run
		second := product == res.Plan.second()
		if second { // few ask for it
			one.WantSoldOut, one.Expiry = false, false
		}
		report := one.Judge(b.book, res.Holds.History[product], svc.lang)
		switch h := res.Holds; {
		case report.Verdict != judge.Vacuous:
		case second:
			continue
		case h.Refunded > h.Sold:
			report.Missing = append(report.Missing, text.Of("most holds ended before they could be paid: a reserve took %s "+
				"(p90), a hold %s").With(rounded(h.Latency[judge.Reserve].P90), res.Plan.Holding.For).In(svc.lang))
		}
		res.Holds.Races += report.Races
		for _, row := range b.book.Rows {
			switch {
			case row.State == target.StateExpired:
				res.Holds.Expired++
			case row.ReservationID == target.Unreserved:
				report.Unchecked = append(report.Unchecked, text.Of("%d [unit was|units were] ordered without a reservation: "+
					"they count as ordered, and nothing else was checked of them").With(row.Quantity).In(svc.lang))
			}
		}
		res.Verdicts = append(res.Verdicts, report.Report)
	}
	claim(res, svc)
}
