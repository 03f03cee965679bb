package loadtest

import (
	"maps"
	"slices"
	"strings"

	"lastitem/internal/api"
	"lastitem/internal/audit"
)

// judging is what the judge needs beside the result.
type judging struct {
	mode     api.Mode
	books    map[int64]bookkeeping // by product
	replicas int
	lang     string
}

// judge judges each product that was asked for and holds the reports against what the mode claims.
func judge(res *Result, with judging) {
	// Each product is a counter of its own, with a ledger and a history of its own.
	histories := map[int64][]audit.Op{}
	for _, op := range res.History {
		histories[op.ProductID] = append(histories[op.ProductID], op)
	}
	if len(histories) == 0 { // nothing was sent: judged all the same, as vacuous
		histories[res.Plan.Product] = []audit.Op{}
	}
	for _, product := range slices.Sorted(maps.Keys(histories)) {
		book := with.books[product]
		report := audit.Judge(audit.Input{
			Mode: res.Mode, Store: res.Store, Replicas: with.replicas, Lang: with.lang,
			Ledger: book.ledger, History: histories[product],
			WantSoldOut: wantSoldOut(res),
			Partial:     res.Partial,
		})
		if book.err != nil {
			report.Missing = append(report.Missing, book.err.Error())
		}
		res.Verdicts = append(res.Verdicts, report)
	}
	res.Claim = claimOf(res, with)
	res.Finding, res.Why = hold(res.Verdicts, res.Claim)
	if unmet := res.Unmet(); unmet != "" {
		res.Why = append(res.Why, unmet)
	}
}

// wantSoldOut says whether the plan asks for more than there is, whatever the service's speed: only then does a run that
// refused nobody prove too little. Over several products nobody can say.
func wantSoldOut(res *Result) bool {
	p := res.Plan
	if res.Partial || p.Open() || p.Duration > 0 || p.Products > 1 {
		// How much is asked for depends on how fast the service is, on drops, or on chance.
		return false
	}
	requests := p.Requests
	if p.Loops > 0 {
		requests = p.Loops * p.VUs
	}
	return int64(requests)*p.Quantity > p.Stock
}

// claimOf is what the mode claims for this run: of threads with one replica, of replicas with more. Where nobody has said
// how many there are, those that answered count. A double charge that was asked for by RetryUnsafe is within the claim.
func claimOf(res *Result, with judging) api.Outcomes {
	replicas := with.replicas
	if replicas == 0 {
		replicas = len(res.Served)
	}
	rung := api.Threads
	if replicas > 1 {
		rung = api.Replicas
	}
	claim := with.mode.Claim(res.Store, rung)
	if !res.Plan.RetryUnsafe || claim == "" || !strings.Contains(string(with.mode.Claim(res.Store, api.Retry)), "D") {
		return claim
	}
	for _, r := range res.Verdicts {
		if strings.Contains(r.Found, "D") {
			// "." and "D" make "D"; "O" and "D" make "O D".
			return api.Outcomes(strings.TrimLeft(strings.TrimPrefix(string(claim), string(api.Exact))+" D", " "))
		}
	}
	return claim
}

// hold holds the reports on several products against one claim. One product that was contradicted contradicts it, unless
// it only failed to break where another did; one that could not show anything does not count where another could.
func hold(reports []audit.Report, claim api.Outcomes) (audit.Finding, []string) {
	byFinding := map[audit.Finding][]string{}
	confirmed := false // by at least one product
	type held struct {
		report  audit.Report
		finding audit.Finding
		why     []string
	}
	all := make([]held, 0, len(reports))
	for _, r := range reports {
		f, why := audit.Check(r, claim)
		confirmed = confirmed || f == audit.Confirmed
		all = append(all, held{r, f, why})
	}
	for _, h := range all {
		unbroken := h.finding == audit.Contradicted && h.report.Verdict == audit.Exact
		if confirmed && (unbroken || h.report.Verdict == audit.Vacuous) {
			continue
		}
		byFinding[h.finding] = append(byFinding[h.finding], h.why...)
	}
	// The worst that is left is what the run comes to.
	for _, f := range []audit.Finding{audit.Contradicted, audit.Undecided, audit.Confirmed} {
		if why, ok := byFinding[f]; ok {
			return f, why
		}
	}
	return audit.Unclaimed, nil
}
