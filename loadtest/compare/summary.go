package compare

import (
	"cmp"
	"slices"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest"
	"lastitem/loadtest/client"
	"lastitem/target"
)

// Summary summarizes all repetitions of one mode under one plan. Speeds are medians over the repetitions, never
// averages of percentiles; the counts of units and answers are from one repetition, so that they are consistent.
//
// A claim to be exact covers every run: one broken run contradicts it, and is the run shown. A claim to break says that
// something can happen: one run that broke as claimed, and in no other way, confirms it, however many runs were exact,
// and is the run shown. Runs and Verdicts count the runs.
type Summary struct {
	Mode        string        `json:"mode"`
	Plan        string        `json:"plan,omitempty"`
	Store       api.Store     `json:"store,omitempty"`
	Repetitions int           `json:"repetitions"`
	Claim       api.Outcomes  `json:"claim,omitempty"`
	Finding     judge.Finding `json:"finding,omitempty"`
	Why         []string      `json:"why,omitempty"`
	Verdict     judge.Verdict `json:"verdict,omitempty"`
	Found       string        `json:"found"` // letters of the outcomes seen, in any run
	// Runs counts all runs: the repetitions, and the extra runs of [plan.Plan].Insist. Verdicts counts them by verdict; a
	// baseline has none.
	Runs     int                   `json:"runs"`
	Verdicts map[judge.Verdict]int `json:"verdicts,omitempty"`
	// Worst is the repetition that this line shows.
	Worst int `json:"worst_repetition"`
	// Tries is how many runs that repetition took, as in [loadtest.Result]; 0 = one.
	Tries int `json:"tries,omitempty"`
	// Decide is a command that decides what is undecided, worded by the caller.
	Decide string `json:"decide,omitempty"`

	// Facts of the worst repetition, summed over its products. Units are units of stock.
	Before      int64 `json:"stock_before"`
	After       int64 `json:"stock_after"`
	Sold        int64 `json:"sold"`
	Orders      int   `json:"orders"`
	Oversold    int64 `json:"oversold"`
	LostUpdates int64 `json:"lost_updates"`
	Leaked      int64 `json:"leaked"`
	// Answers of the worst repetition: sold out; refused because of a lock or a rival; outcome unknown. Others counts the
	// remaining answers by code.
	Sent    int                          `json:"sent"`
	Failed  int64                        `json:"failed"`
	SoldOut int                          `json:"sold_out"`
	Busy    int                          `json:"busy"`
	Unknown int                          `json:"unknown"`
	Others  map[string]int               `json:"other_answers,omitempty"`
	Served  map[string]int               `json:"served"`
	Holds   *loadtest.ReservationFigures `json:"holds,omitempty"` // as in [loadtest.Result]
	Tickets *loadtest.TicketFigures      `json:"tickets,omitempty"`

	// Speeds of accepted requests: medians over the repetitions; latencies over those that sold something, 0 if none did.
	AcceptedPerSecond Spread        `json:"accepted_per_second"`
	P50               time.Duration `json:"p50_ns"`
	P95               time.Duration `json:"p95_ns"`
	P99               time.Duration `json:"p99_ns"`

	// For reports in words, and not in the JSON, all of the worst repetition: its verdicts, the service's log, the number
	// of requests beyond the planned, the notes on a busy machine, and the number of accepted requests.
	Reports  []judge.Report `json:"-"`
	Log      []string       `json:"-"`
	Extra    int            `json:"-"`
	Noisy    []string       `json:"-"`
	Accepted int64          `json:"-"`
}

// Spread is the median, the minimum and the maximum of one figure over the repetitions.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// Summarize groups the results by mode and plan, in the order of their first appearance.
func Summarize(results []loadtest.Result) []Summary {
	type group struct {
		mode, plan string
		store      api.Store
	}
	var order []group
	runs := map[group][]loadtest.Result{}
	for _, r := range results {
		g := group{mode: r.Mode, plan: r.Plan.Name, store: r.Store}
		if runs[g] == nil {
			order = append(order, g)
		}
		runs[g] = append(runs[g], r)
	}
	summaries := make([]Summary, 0, len(order))
	for _, g := range order {
		summaries = append(summaries, SummarizeRuns(runs[g]))
	}
	return summaries
}

// SummarizeRuns makes the line of one mode from at least one run.
func SummarizeRuns(runs []loadtest.Result) Summary {
	worst := slices.MaxFunc(runs, func(a, b loadtest.Result) int {
		verdictA, _ := a.Verdict()
		verdictB, _ := b.Verdict()
		return cmp.Or(cmp.Compare(weight(a), weight(b)), cmp.Compare(VerdictRank(verdictA), VerdictRank(verdictB)),
			cmp.Compare(unanswered(a), unanswered(b)))
	})
	s := Summary{
		Mode: worst.Mode, Plan: worst.Plan.Name, Store: worst.Store, Repetitions: len(runs),
		Claim: worst.Claim, Finding: worst.Standing(), Why: slices.Clone(worst.Why), Worst: worst.Repetition,
		Tries: worst.Tries,
		Sent:  worst.Sent, Failed: worst.Latency[client.Failed].Count, Served: worst.Served,
		Reports: worst.Verdicts, Log: worst.Log, Extra: worst.Extra, Noisy: worst.Noisy,
		Accepted: worst.Latency[client.Accepted].Count, Holds: worst.Holds, Tickets: worst.Tickets,
	}
	if _, unmet := worst.Unmet(); unmet != "" && !slices.Contains(s.Why, unmet) {
		s.Why = append(s.Why, unmet)
	}
	s.Verdict, _ = worst.Verdict()
	s.countVerdicts(runs)
	for _, v := range worst.Verdicts {
		if v.ProductID != worst.Plan.Second() { // which few have asked for
			s.Before, s.After, s.Sold, s.Orders = s.Before+v.Initial, s.After+v.Final, s.Sold+v.Sold, s.Orders+v.Orders
		}
		s.Oversold += v.Oversold
		s.LostUpdates += v.LostUpdates
		s.Leaked += v.Leaked
	}
	s.countAnswers(worst.Codes)
	s.AcceptedPerSecond = spread(runs, func(r loadtest.Result) float64 { return r.AcceptedPerSecond })
	sold := slices.DeleteFunc(slices.Clone(runs), func(r loadtest.Result) bool {
		return r.Latency[client.Accepted].Count == 0
	})
	latency := func(of func(loadtest.Latency) time.Duration) time.Duration {
		if len(sold) == 0 {
			return 0
		}
		accepted := func(r loadtest.Result) float64 { return float64(of(r.Latency[client.Accepted])) }
		return time.Duration(spread(sold, accepted).Median)
	}
	s.P50 = latency(func(l loadtest.Latency) time.Duration { return l.P50 })
	s.P95 = latency(func(l loadtest.Latency) time.Duration { return l.P95 })
	s.P99 = latency(func(l loadtest.Latency) time.Duration { return l.P99 })
	return s
}

// countVerdicts counts the runs by verdict, and collects the letters of all runs. A run that was repeated was exact or
// vacuous each other time.
func (s *Summary) countVerdicts(runs []loadtest.Result) {
	var reports []judge.Report
	for _, r := range runs {
		verdict, _ := r.Verdict()
		before := max(r.Tries, 1) - 1
		s.Runs += before + 1
		reports = append(reports, r.Verdicts...)
		if verdict == "" {
			continue
		}
		if s.Verdicts == nil {
			s.Verdicts = map[judge.Verdict]int{}
		}
		s.Verdicts[verdict]++
		for other, n := range map[judge.Verdict]int{judge.Vacuous: r.Vacuous, judge.Exact: before - r.Vacuous} {
			if n > 0 {
				s.Verdicts[other] += n
			}
		}
	}
	_, s.Found = loadtest.Result{Verdicts: reports}.Verdict()
}

// Known reports whether the facts are known: the baseline has none, and without a readable ledger they are zero.
func (s Summary) Known() bool {
	return len(s.Reports) > 0 && (s.Verdict != judge.Inconclusive || s.Before != 0 || s.Orders != 0)
}

// countAnswers sorts the answers into the columns of the table; any other answer is kept by its code.
func (s *Summary) countAnswers(codes map[string]int) {
	for code, n := range codes {
		facts, known := api.Codes[api.Code(code)]
		switch code {
		case client.CodeOK, target.StateHeld, target.StateExpired, client.CodeCancelled, client.CodeExtended,
			client.CodeReturned, client.CodeAdjusted, client.CodeNotAdjusted:
		case string(api.SoldOut), client.CodeRefused:
			s.SoldOut += n
		case string(api.LockBusy), string(api.LockLost), string(api.Contended), string(api.InFlight), string(api.RateLimited):
			s.Busy += n
		default:
			// A connection that was never made is not an answer either, but nothing was sent over it.
			if (!known && code != client.CodeNotConnected) || facts.Happened == api.Unknown {
				s.Unknown += n
			}
			if s.Others == nil {
				s.Others = map[string]int{}
			}
			s.Others[code] += n
		}
	}
}

// Standing is the line's finding for the exit code. A service without a claim that was judged must be exact; a
// baseline, which has no stock to judge, must only have answered every request.
func (s Summary) Standing() judge.Finding {
	if s.Finding != judge.Unclaimed && s.Finding != "" {
		return s.Finding
	}
	switch s.Verdict {
	case judge.Exact:
		return judge.Confirmed
	case judge.Broken:
		return judge.Contradicted
	case judge.Inconclusive, judge.Vacuous:
		return judge.Undecided
	}
	if s.Accepted == 0 || s.Failed > 0 {
		return judge.Undecided
	}
	return judge.Unclaimed
}

// weight orders the runs of one mode by their meaning for the claim; the heaviest run decides and is shown. A run that
// broke in a way that the claim does not cover weighs most. Otherwise the worst run decides about a claim to be exact,
// and a single broken run confirms a claim to break: exact runs say nothing against it.
func weight(r loadtest.Result) int {
	const (
		nothing = iota
		supports
		undecided
		unbroken
		confirms
		contradicts
	)
	switch finding := r.Standing(); {
	case finding == judge.Contradicted && showedNothing(r):
		return unbroken
	case finding == judge.Contradicted:
		return contradicts
	case finding == judge.Confirmed && r.Claim != api.Exact:
		return confirms
	case finding == judge.Confirmed:
		return supports
	case finding == judge.Undecided:
		return undecided
	}
	return nothing
}

// showedNothing reports whether a mode that claims to break was exact.
func showedNothing(r loadtest.Result) bool {
	verdict, _ := r.Verdict()
	return r.Claim != api.Exact && r.Finding == judge.Contradicted && verdict == judge.Exact
}

// unanswered returns 1 for a run that was not judged and did not answer every request, else 0. Among the repetitions of
// a baseline such a run is the worst.
func unanswered(r loadtest.Result) int {
	if len(r.Verdicts) == 0 && (r.Latency[client.Accepted].Count == 0 || r.Latency[client.Failed].Count > 0) {
		return 1
	}
	return 0
}

// VerdictRank orders verdicts from good to bad.
func VerdictRank(v judge.Verdict) int {
	return slices.Index([]judge.Verdict{judge.Exact, judge.Vacuous, judge.Inconclusive, judge.Broken}, v)
}

// spread returns the median, minimum and maximum of one figure over at least one run; the median of an even number of
// runs is the mean of the middle two.
func spread(runs []loadtest.Result, of func(loadtest.Result) float64) Spread {
	values := make([]float64, len(runs))
	for i, r := range runs {
		values[i] = of(r)
	}
	slices.Sort(values)
	middle := len(values) / 2
	median := values[middle]
	if len(values)%2 == 0 {
		median = (values[middle-1] + values[middle]) / 2
	}
	return Spread{Median: median, Min: values[0], Max: values[len(values)-1]}
}
