package loadtest

import (
	"maps"
	"slices"
	"strings"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/say/text"
)

// judgeAll judges each requested product and compares the reports with the mode's claim.
func judgeAll(res *Result, svc service, books map[int64]bookkeeping) {
	// Each product has its own count, ledger and history.
	histories := map[int64][]judge.Op{}
	for _, op := range res.History {
		histories[op.ProductID] = append(histories[op.ProductID], op)
	}
	if len(histories) == 0 { // nothing was sent: the verdict says so
		histories[res.Plan.Product] = []judge.Op{}
	}
	for _, product := range slices.Sorted(maps.Keys(histories)) {
		book := books[product]
		report := svc.judge(judge.Input{
			Mode: res.Mode, Store: res.Store, Replicas: svc.replicas, Lang: svc.lang,
			Ledger: book.ledger, History: histories[product], Adjusts: res.Adjusts[product],
			Cancels:     res.Cancels[product],
			Stock:       &res.Plan.Stock,
			PerBuyer:    res.Plan.Reserving.PerBuyer,
			WantSoldOut: wantSoldOut(res),
			Partial:     res.Partial,
			Stopped:     res.Partial,
			Tickets:     ticketsOf(res, book, product),
		}, product, book)
		report.Mode, report.ProductID = res.Mode, product
		switch {
		case book.err != nil:
		case book.early:
			tooEarly(&report, text.Of("the time ran out while an unanswered request could still change the ledger"))
		case book.restless:
			tooEarly(&report, sayRestless)
		}
		res.Verdicts = append(res.Verdicts, report)
	}
	claim(res, svc)
}

// ticketsOf is what the judge gets of a product that is sold by tickets; nil = it is not.
func ticketsOf(res *Result, book bookkeeping, product int64) *judge.Tickets {
	if book.tickets == nil {
		return nil
	}
	t := &judge.Tickets{Book: *book.tickets, Unread: book.unread}
	if res.Tickets != nil {
		t.Told = res.Tickets.Told[product]
	}
	return t
}

// claim compares the reports with the mode's claim.
func claim(res *Result, svc service) {
	res.Claim = claimOf(res, svc)
	res.Finding, res.Why = hold(res.Verdicts, res.Claim)
	if _, unmet := res.Unmet(); unmet != "" {
		res.Why, res.Finding = append(res.Why, unmet), res.Standing()
	}
}

// tooEarly notes that the ledger was read before the last request without an answer could no longer change it. A unit
// whose order is missing may then be a sale under way; what else was found stands.
func tooEarly(r *judge.Report, why text.Text) {
	if r.Verdict != judge.Broken || r.OnlyLost() {
		r.Verdict = judge.Inconclusive
	}
	r.Missing = append(r.Missing, why.In(r.Lang))
}

var sayRestless = text.Of("orders were still written when the time ran out: give --settle more time")

// wantSoldOut reports whether the plan requests more than the stock, at any speed of the service: only then does a run
// without a refusal prove too little. With several products it is not known.
func wantSoldOut(res *Result) bool {
	p := res.Plan
	if res.Partial || p.Open() || p.Duration > 0 || p.Products > 1 {
		// The requested quantity depends on the service's speed, on drops, or on chance.
		return false
	}
	if h := p.Reserving; h.PerBuyer > 0 && (h.On() || int64(h.Buyers)*h.PerBuyer <= p.Stock) {
		return false // the buyers may not get so much
	}
	requests := p.Requests
	if p.Loops > 0 {
		requests = p.Loops * p.VUs
	}
	return int64(requests)*p.Quantity > p.Stock+cancelledOf(res, p.Product)
}

// claimOf returns the mode's claim for this run: for threads with one replica, for replicas with more. If the number of
// replicas is not given, the replicas that answered count. A double charge provoked by RetryUnsafe is within the claim,
// and so is, of a plan that reserves, a letter that the mode claims for its deadlines or double clicks, if it was seen.
func claimOf(res *Result, svc service) api.Outcomes {
	replicas := svc.replicas
	if replicas == 0 {
		replicas = len(res.Served)
	}
	rung := api.Threads
	if replicas > 1 {
		rung = api.Replicas
	}
	claim := svc.mode.Claim(res.Store, rung)
	beyond := "" // the letters that may be seen too
	if res.Plan.RetryUnsafe && strings.Contains(string(svc.mode.Claim(res.Store, api.Retry)), "D") {
		beyond = "D"
	}
	if h := res.Plan.Reserving; h.On() {
		beyond = string(svc.mode.Claim(res.Store, api.Expiry))
		if h.DoubleClicks > 0 {
			beyond += string(svc.mode.Claim(res.Store, api.Retry))
		}
	}
	if claim == "" {
		return claim
	}
	_, found := res.Verdict()
	for _, l := range strings.Split(found, "") {
		if strings.Contains(beyond, l) && !strings.Contains(string(claim), l) {
			// "." and "D" make "D"; "O" and "D" make "O D".
			claim = api.Outcomes(strings.TrimLeft(strings.TrimPrefix(string(claim), string(api.Exact))+" "+l, " "))
		}
	}
	return claim
}

// hold compares the reports on several products with one claim. A contradiction on one product contradicts the claim,
// unless the product only failed to break, and another did break or cannot be judged. A product that could not show
// anything does not count if another could.
func hold(reports []judge.Report, claim api.Outcomes) (judge.Finding, []string) {
	byFinding := map[judge.Finding][]string{}
	confirmed, unread := false, false // at least one product each
	type held struct {
		report  judge.Report
		finding judge.Finding
		why     []string
	}
	all := make([]held, 0, len(reports))
	for _, r := range reports {
		f, why := judge.Check(r, claim)
		confirmed = confirmed || f == judge.Confirmed
		unread = unread || r.Verdict == judge.Inconclusive
		all = append(all, held{r, f, why})
	}
	for _, h := range all {
		unbroken := h.finding == judge.Contradicted && h.report.Verdict == judge.Exact
		if unbroken && (confirmed || unread) || confirmed && h.report.Verdict == judge.Vacuous {
			continue
		}
		byFinding[h.finding] = append(byFinding[h.finding], h.why...)
	}
	// The worst remaining finding is the finding of the run.
	for _, f := range []judge.Finding{judge.Contradicted, judge.Undecided, judge.Confirmed} {
		if why, ok := byFinding[f]; ok {
			return f, why
		}
	}
	return judge.Unclaimed, nil
}
