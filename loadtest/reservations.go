package loadtest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest/plan"
	"lastitem/say/text"
	"lastitem/target"
)

// holds returns the figures that the recorder knows. All workers must have ended.
func (r *recorder) holds() *ReservationFigures {
	f := &ReservationFigures{Latency: map[judge.ReservationKind]Latency{}, History: map[int64][]judge.ReservationOp{}}
	for _, kind := range judge.ReservationKinds {
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
		slices.SortStableFunc(ops, func(a, b judge.ReservationOp) int { return cmp.Compare(a.Call, b.Call) })
		for _, op := range ops {
			switch {
			case op.Kind == judge.Reserve && op.Outcome == judge.OK:
				f.Reserved += once("r", op.ReservationID)
			case op.Kind == judge.Reserve && op.Limit:
				f.Limited++
			case op.Kind == judge.Reserve && op.Outcome == judge.Refused:
				f.Refused++
			case op.Kind == judge.Confirm && op.Outcome == judge.OK:
				f.Sold += once("s", op.PaymentID)
			case op.Kind == judge.Confirm && op.Refund:
				f.Refunded += once("b", op.PaymentID)
			case op.Kind == judge.Cancel && op.Outcome == judge.OK && !op.Expired:
				f.Cancelled += once("c", op.ReservationID)
			case op.Kind == judge.Extend && op.Outcome == judge.OK:
				f.Extended += once("e", op.ReservationID)
			case op.Kind == judge.Return && op.Outcome == judge.OK:
				f.Returned += once("g", op.OrderID)
			}
		}
	}
	return f
}

// reservationBook is what the service holds on a product after the run, or why it could not be read.
type reservationBook struct {
	book *api.Reservations
	err  error
}

// settleHeld reads the reservations of each requested product. Those whose deadline is near are waited for: then
// nothing changes while the pages are read.
func settleHeld(ctx context.Context, svc service, res *Result) map[int64]reservationBook {
	quiets := map[int64]int64{res.Plan.Product: 0}
	for product, ops := range res.Holds.History {
		quiets[product] = 0
		for _, op := range ops {
			end := op.Return
			if res.Plan.Reserving.For <= plan.SettleReservations {
				end += int64(res.Plan.Reserving.For)
			}
			if op.Outcome == judge.Unknown {
				end = max(end, op.Call+int64(settleServer))
			}
			quiets[product] = max(quiets[product], end)
		}
	}
	return atOnce(quiets, func(product, quiet int64) (b reservationBook) {
		rest(ctx, time.Until(res.Started.Add(time.Duration(quiet))))
		b.book, b.err = svc.reservations(ctx, product, res.Store)
		return b
	})
}

// judgeHeld judges the reservations of each requested product.
func judgeHeld(res *Result, svc service, books map[int64]reservationBook) {
	run := judge.ReservationRun{Mode: res.Mode, Store: res.Store, Replicas: svc.replicas, Stock: &res.Plan.Stock,
		Stopped: res.Partial, WantSoldOut: wantSoldOut(res),
		Expiry: res.Plan.Reserving.PaysLate > 0 || res.Plan.Reserving.PayTo >= res.Plan.Reserving.For}
	for _, product := range slices.Sorted(maps.Keys(books)) {
		b := books[product]
		if b.err != nil {
			res.Verdicts = append(res.Verdicts, judge.Report{Mode: res.Mode, Store: res.Store, ProductID: product,
				Verdict: judge.Inconclusive, Missing: []string{text.ErrorIn(svc.lang, b.err)}, Lang: svc.lang})
			continue
		}
		one := run
		second := product == res.Plan.Second()
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
				"(p90), a hold %s").With(h.Latency[judge.Reserve].P90.Round(time.Millisecond), res.Plan.Reserving.For).In(svc.lang))
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
