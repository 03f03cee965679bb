package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lastitem/bench/figure"
	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest"
	"lastitem/loadtest/client"
)

// The measures, by their names in the JSON. "answer" is the kind that the scenario counts: an acceptance, or a refusal.
const (
	mRate     = "answers_per_s"
	mP50      = "p50_ms"
	mP99      = "p99_ms"
	mShopCPU  = "replicas_cpu_us_per_answer"
	mEdgeCPU  = "nginx_cpu_us_per_answer"
	mStoreCPU = "stores_cpu_us_per_answer"
	mDeclined = "declined"      // share of all answers that said: not now
	mSpread   = "spread"        // of mRate over the rounds: (max - min) / median
	mOthers   = "cpu_of_others" // share of all CPU time that other programs used meanwhile
)

// baseline is the mode that shares refer to.
const baseline = "noop"

// shared are the measures that are also given as shares of noop's.
var shared = []string{mRate, mP50, mP99, mShopCPU, mEdgeCPU}

// burnt is the CPU time used in a window.
type burnt struct {
	shops, edge, stores time.Duration
	others              figure.Number
	known               bool
}

// sumUp computes the measures of a window.
func sumUp(s scenario, r loadtest.Result, cpu burnt) figure.Measures {
	kind := counted(s, r.Mode)
	m := figure.Measures{mRate: 0, mOthers: cpu.others}
	answers := int(r.Latency[kind].Count)
	if kind == client.Refused {
		answers = r.Codes[string(api.SoldOut)]
		m[mRate] = figure.Number(float64(answers) / max(r.Elapsed.Seconds(), 1e-9))
	} else {
		m[mRate] = figure.Number(r.AcceptedPerSecond)
	}
	if answers == 0 {
		return m
	}
	m[mP50], m[mP99] = milli(r.Latency[kind].P50), milli(r.Latency[kind].P99)
	m[mDeclined] = figure.Ratio(figure.Number(declined(r)), figure.Number(r.Sent))
	if cpu.known {
		each := func(d time.Duration) figure.Number {
			return figure.Number(float64(d.Microseconds()) / float64(answers))
		}
		m[mShopCPU], m[mStoreCPU] = each(cpu.shops), each(cpu.stores)
		if s.balanced {
			m[mEdgeCPU] = each(cpu.edge)
		}
	}
	return m
}

// counted returns the kind of answer that a scenario counts. noop refuses no request.
func counted(s scenario, mode string) client.Kind {
	if s.soldOut && mode != baseline {
		return client.Refused
	}
	return client.Accepted
}

// declined counts the answers that neither accept nor say that there is no more.
func declined(r loadtest.Result) int {
	return int(r.Latency[client.Refused].Count) - r.Codes[string(api.SoldOut)]
}

func milli(d time.Duration) figure.Number { return figure.Number(d.Seconds() * 1e3) }

// verdict is the judge's verdict on a row, from good to bad; the worst window counts.
type verdict int

const (
	none      verdict = iota // a baseline
	exact                    // and it claims to be
	broken                   // as it claims
	undecided                // what came of it shows nothing
	void                     // it measured something else
	failed                   // it could not be run
	wrong                    // it claims to be exact, and is not
)

var verdicts = map[verdict]string{
	none: "-", exact: "exact", broken: "broken", undecided: "undecided", void: "void", failed: "failed", wrong: "WRONG",
}

// MarshalText returns the verdict as a word.
func (v verdict) MarshalText() ([]byte, error) {
	word, ok := verdicts[v]
	if !ok {
		return nil, fmt.Errorf("no verdict %d", v)
	}
	return []byte(word), nil
}

// quoted reports whether the numbers of a row may be compared with others: not if the mode sold wrongly.
func (v verdict) quoted() bool { return v == none || v == exact }

// shown reports whether the numbers are printed at all.
func (v verdict) shown() bool { return v <= broken }

// judged returns the verdict on a window, with the reason.
func judged(s scenario, m api.Mode, r loadtest.Result) (v verdict, why string) {
	if n := r.Codes[string(api.SoldOut)]; n > 0 && !s.soldOut {
		return void, fmt.Sprintf("%d requests were refused, with stock left", n)
	}
	if r.Latency[counted(s, r.Mode)].Count == 0 {
		return void, fmt.Sprintf("no such answer; there were %v", r.Codes)
	}
	if m.Baseline {
		return none, ""
	}
	found, not := "", []string(nil)
	for _, report := range r.Verdicts {
		switch report.Verdict {
		case judge.Broken:
			found += report.Found
			not = append(not, report.Violations...)
		case judge.Exact:
		default:
			return undecided, strings.Join(append([]string{string(report.Verdict)}, report.Missing...), "; ")
		}
	}
	safe := r.Claim == api.Exact
	switch {
	case len(r.Verdicts) == 0:
		return undecided, "not judged"
	case safe && (found != "" || len(not) > 0):
		return wrong, strings.Join(append([]string{"claims to be exact, found " + found}, r.Why...), "; ")
	case safe:
		return exact, ""
	case found == "":
		return broken, "claims " + string(r.Claim) + ", which this load did not show"
	}
	return broken, ""
}

// A result has the measures of one row in one scenario.
type result struct {
	Row     string          `json:"row"`
	Verdict verdict         `json:"verdict"`
	Why     string          `json:"why,omitempty"` // of the worst window
	Median  figure.Measures `json:"median"`        // nothing where the numbers mean nothing
	ToNoop  figure.Measures `json:"share_of_noop"` // the same
	Rounds  figure.Rounds   `json:"rounds"`
	Unknown int             `json:"unknown_outcomes,omitempty"` // requests without an answer, in all rounds

	entry entry
}

// add adds a window.
func (r *result) add(m figure.Measures, v verdict, why string) {
	r.Rounds = append(r.Rounds, m)
	if v > r.Verdict || r.Why == "" && v == r.Verdict {
		r.Verdict, r.Why = v, why
	}
}

// An outcome is one scenario with all its results.
type outcome struct {
	Name    string    `json:"name"`
	Title   string    `json:"title"`
	Results []*result `json:"results"`
	Skipped []skipped `json:"skipped,omitempty"`

	scenario scenario
	known    []string // all modes of this shop
}

// of returns the row of that name, an empty one if it did not run.
func (o *outcome) of(row string) *result {
	if i := slices.IndexFunc(o.Results, func(r *result) bool { return r.Row == row }); i >= 0 {
		return o.Results[i]
	}
	return &result{Row: row}
}

// conclude adds the medians and the shares of noop.
func (o *outcome) conclude() {
	floor := o.of(baseline)
	for _, r := range o.Results {
		r.Median, r.ToNoop = figure.Measures{}, figure.Measures{}
		if len(r.Rounds) == 0 || !r.Verdict.shown() {
			continue
		}
		r.Median = r.Rounds.Median()
		r.Median[mSpread] = r.Rounds.Spread(mRate)
		for _, name := range shared {
			r.ToNoop[name] = r.Rounds.Against(floor.Rounds, name)
		}
	}
}

// against compares the rates of two rows if both may be quoted.
func (o *outcome) against(row, other string) figure.Number {
	a, b := o.of(row), o.of(other)
	if !a.Verdict.quoted() || !b.Verdict.quoted() {
		return figure.None
	}
	return a.Rounds.Against(b.Rounds, mRate)
}
