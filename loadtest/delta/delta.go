package delta

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lastitem/internal/api"
	"lastitem/internal/audit"
	"lastitem/loadtest"
)

// Side is one of the two compared load tests.
type Side struct {
	Name        string               `json:"name"` // of the file
	Environment loadtest.Environment `json:"environment"`
	Partial     bool                 `json:"partial,omitempty"`
	Command     string               `json:"command,omitempty"` // that made it
	// Runs counts the runs, and Noisy those whose speeds are unreliable; Why is the first reason.
	Runs  int    `json:"runs"`
	Noisy int    `json:"noisy_runs,omitempty"`
	Why   string `json:"noisy_why,omitempty"`
}

// sideOf is the side of a load test.
func sideOf(name string, c loadtest.Comparison) Side {
	s := Side{Name: name, Environment: c.Environment, Partial: c.Partial, Command: c.Command, Runs: len(c.Results)}
	for _, r := range c.Results {
		if len(r.Noisy) > 0 {
			s.Noisy++
			s.Why = cmp.Or(s.Why, r.Noisy[0])
		}
	}
	return s
}

// Samples is the kind of the samples.
type Samples string

// The kinds of samples. Rounds are independent of each other; the windows of one run are not, so their intervals are too narrow.
const (
	Auto    Samples = "auto"    // rounds if both sides have at least Least of them, else windows
	Rounds  Samples = "rounds"  // one sample per repetition
	Windows Samples = "windows" // one sample per window of a repetition, without its first and its last
)

// Report is the difference between B and A.
type Report struct {
	A Side `json:"a"`
	B Side `json:"b"`
	// Command is the command line of the comparison, worded by the caller.
	Command string `json:"command,omitempty"`
	// Confidence of the intervals, 0 to 1.
	Confidence float64 `json:"confidence"`
	// Differs lists the differences in the environment, and Plans those in plans that were compared with Force.
	Differs []Differing `json:"differs,omitempty"`
	Plans   []Differing `json:"different_plans,omitempty"`
	Rows    []Row       `json:"rows"`
	// OnlyA and OnlyB name the modes that the other side does not have.
	OnlyA []string `json:"only_a,omitempty"`
	OnlyB []string `json:"only_b,omitempty"`
}

// Differing is a setting that differs between the sides.
type Differing struct {
	What string `json:"what"`
	A    string `json:"a"`
	B    string `json:"b"`
}

// Row is one mode under one plan.
type Row struct {
	Mode  string    `json:"mode"`
	Plan  string    `json:"plan,omitempty"`
	Store api.Store `json:"store,omitempty"`
	// VerdictA and VerdictB are the judge's verdicts with the letters found, FindingA and FindingB the findings on the claims.
	VerdictA audit.Verdict `json:"verdict_a,omitempty"`
	VerdictB audit.Verdict `json:"verdict_b,omitempty"`
	FoundA   string        `json:"found_a,omitempty"`
	FoundB   string        `json:"found_b,omitempty"`
	FindingA audit.Finding `json:"finding_a,omitempty"`
	FindingB audit.Finding `json:"finding_b,omitempty"`
	// Samples is the kind of the samples, Windows or Rounds.
	Samples Samples  `json:"samples"`
	Figures []Figure `json:"figures"`
}

// Outcome is the conclusion from a figure.
type Outcome string

// The outcomes.
const (
	Better    Outcome = "better" // B is shown to be better
	Worse     Outcome = "worse"
	NotShown  Outcome = "no difference shown" // the interval covers zero
	TooFew    Outcome = "too few samples"
	NoSamples Outcome = "no samples"
	// Unlike says that the windows of the runs differ in length. A percentile of a longer window has more answers, so it is another figure.
	Unlike Outcome = "unlike windows"
)

// Compared says that the figure has an interval.
func (o Outcome) Compared() bool { return o == Better || o == Worse || o == NotShown }

// Figure is one measured figure of a row.
type Figure struct {
	Name string `json:"name"` // "accepted/s", "p50", "p99"
	// NA and NB count the samples. A and B are medians; the unit is answers per second, or nanoseconds.
	NA int      `json:"n_a"`
	NB int      `json:"n_b"`
	A  Interval `json:"a"`
	B  Interval `json:"b"`
	// Difference is B minus A, as a share of A's median: 0.1 = 10 % more. Zero if Outcome is none of Better, Worse and NotShown.
	Difference Interval `json:"difference"`
	P          float64  `json:"p"` // probability of a difference at least this large if there were none
	Outcome    Outcome  `json:"outcome"`
	// Latency says that the unit is nanoseconds, and that less is better.
	Latency bool `json:"latency"`
}

// Options of a comparison.
type Options struct {
	Samples Samples // "" = Auto
	// Force compares even different plans.
	Force bool
}

// PlansError is the error of two load tests with different plans.
type PlansError struct {
	Mode    string
	Differs []Differing
}

// Error lists the differing settings, as in "vus 40 / 50"; [api.ErrorIn] does so in Chinese.
func (e *PlansError) Error() string { return e.Unwrap().Error() }

// Unwrap returns the same error as one in both languages.
func (e *PlansError) Unwrap() error {
	parts := make([]string, len(e.Differs))
	for i, d := range e.Differs {
		parts[i] = fmt.Sprintf("%s %s / %s", d.What, d.A, d.B)
	}
	return api.Text{En: "the plans differ: %s", Zh: "计划不同：%s"}.Errorf(strings.Join(parts, ", "))
}

// Of compares two load tests, each with its name. The error is a [PlansError] if the plans are not the same.
func Of(nameA string, a loadtest.Comparison, nameB string, b loadtest.Comparison, o Options) (Report, error) {
	r := Report{A: sideOf(nameA, a), B: sideOf(nameB, b), Confidence: Confidence, Rows: []Row{}, Differs: environments(a, b)}
	groupsA, groupsB := groups(a), groups(b)
	for _, ga := range groupsA {
		i := slices.IndexFunc(groupsB, ga.same)
		if i < 0 {
			r.OnlyA = append(r.OnlyA, ga.name(groupsB))
			continue
		}
		gb := groupsB[i]
		differs := plansDiffer(ga.runs[0].Plan, gb.runs[0].Plan)
		if len(differs) > 0 && !o.Force {
			return r, &PlansError{Mode: ga.mode, Differs: differs}
		}
		for _, d := range differs {
			if !slices.Contains(r.Plans, d) {
				r.Plans = append(r.Plans, d)
			}
		}
		r.Rows = append(r.Rows, rowOf(ga, gb, o.Samples))
	}
	for _, gb := range groupsB {
		if !slices.ContainsFunc(groupsA, gb.same) {
			r.OnlyB = append(r.OnlyB, gb.name(groupsA))
		}
	}
	return r, nil
}

// group has the runs of one mode under one plan.
type group struct {
	mode, plan string
	store      api.Store
	runs       []loadtest.Result
}

func (g group) same(o group) bool { return g.mode == o.mode && g.plan == o.plan && g.store == o.store }

// name names a group that the other side does not have; with the store if the other side has the mode on another one.
func (g group) name(others []group) string {
	name := g.mode
	if g.plan != "" {
		name += " · " + g.plan
	}
	if slices.ContainsFunc(others, func(o group) bool { return o.mode == g.mode && o.plan == g.plan }) {
		name += " · " + string(g.store)
	}
	return name
}

// groups sorts the runs of a load test, in the order of their first appearance. Runs that do not count stay in the group, because their
// verdicts hold; the samples leave them out later.
func groups(c loadtest.Comparison) []group {
	var all []group
	for _, r := range c.Results {
		g := group{mode: r.Mode, plan: r.Plan.Name, store: r.Store}
		i := slices.IndexFunc(all, g.same)
		if i < 0 {
			i, all = len(all), append(all, g)
		}
		all[i].runs = append(all[i].runs, r)
	}
	return all
}

// Contradicted names the rows in which B contradicts a claim that A does not.
func (r Report) Contradicted() []Row {
	var rows []Row
	for _, row := range r.Rows {
		if row.FindingB == audit.Contradicted && row.FindingA != audit.Contradicted {
			rows = append(rows, row)
		}
	}
	return rows
}

// WorseThan reports whether some figure of B is shown to be worse by more than a share of A's: its whole interval is.
func (r Report) WorseThan(share float64) bool {
	for _, row := range r.Rows {
		for _, f := range row.Figures {
			least := -f.Difference.High // for a rate: the least loss
			if f.Latency {
				least = f.Difference.Low
			}
			if f.Outcome == Worse && least > share {
				return true
			}
		}
	}
	return false
}

// Decided reports whether any figure has an interval.
func (r Report) Decided() bool {
	return slices.ContainsFunc(r.Rows, func(row Row) bool {
		return slices.ContainsFunc(row.Figures, func(f Figure) bool { return f.Outcome.Compared() })
	})
}

// Sampled reports whether any row has samples of that kind.
func (r Report) Sampled(kind Samples) bool {
	return slices.ContainsFunc(r.Rows, func(row Row) bool { return row.Samples == kind })
}
