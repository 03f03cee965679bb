package main

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"lastitem/bench/figure"
	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest"
	"lastitem/loadtest/compare"
)

// The measures, by name; CPU time is in microseconds for an answer, by the part that used it.
const (
	rate     = "answers/s"
	p50      = "p50"
	p99      = "p99"
	replicas = "replicas"
	balancer = "balancer"
	stores   = "stores"
)

// baseline is the mode that shares refer to.
const baseline = "noop"

// The plans of costs.
const (
	direct   = "direct"
	balanced = "nginx"
	refusals = "refusals"
)

// A row is a mode under a plan.
type row struct {
	mode, plan string
	verdict    judge.Verdict // "" = a baseline; exact is a row in all its runs, of a mode that claims it
	rounds     figure.Rounds // none where the judge says nothing
	median     figure.Measures
}

// quoted says whether the numbers may be compared with others: not if the mode sold wrongly.
func (r row) quoted() bool { return len(r.rounds) > 0 && r.verdict != judge.Broken }

// costs are all rows, in the order of the summaries.
type costs struct {
	compare.Comparison
	rows []row
}

func measure(c compare.Comparison) costs {
	m := costs{Comparison: c}
	for _, s := range c.Summaries {
		r := row{mode: s.Mode, plan: s.Plan, verdict: s.Verdict}
		if s.Verdicts[judge.Broken] > 0 || s.Verdict == judge.Exact && s.Claim != api.Exact {
			r.verdict = judge.Broken
		}
		for _, one := range c.Results {
			decided := r.verdict != judge.Inconclusive && r.verdict != judge.Vacuous
			if one.Mode == s.Mode && one.Plan.Name == s.Plan && decided {
				r.rounds = append(r.rounds, round(one))
			}
		}
		r.median = r.rounds.Median()
		m.rows = append(m.rows, r)
	}
	return m
}

func round(r loadtest.Result) figure.Measures {
	c := compare.CostOf(r)
	m := figure.Measures{rate: figure.Number(c.PerSecond), p50: figure.Number(c.P50.Seconds() * 1e3),
		p99: figure.Number(c.P99.Seconds() * 1e3)}
	for part, used := range c.CPU {
		m[part] = figure.Number(float64(used.Nanoseconds()) / 1e3)
	}
	return m
}

// wrong returns an error if a mode that claims to be exact was not.
func (m costs) wrong() (err error) {
	for _, s := range m.Summaries {
		if s.Claim == api.Exact && s.Verdicts[judge.Broken] > 0 {
			err = errors.Join(err, fmt.Errorf("%s, %s: claims to be exact, and showed %s", s.Mode, s.Plan, s.Found))
		}
	}
	return err
}

// of returns the row of a mode under a plan, an empty one if it did not run.
func (m costs) of(mode, plan string) row {
	i := slices.IndexFunc(m.rows, func(r row) bool { return r.mode == mode && r.plan == plan })
	if i < 0 {
		return row{mode: mode, plan: plan}
	}
	return m.rows[i]
}

func (m costs) print(out io.Writer) {
	number := func(head, name string) figure.Column[row] {
		return figure.Plain(head, func(r row) figure.Number { return r.median.Of(name) })
	}
	figure.PrintTable(out, []figure.Column[row]{
		{Head: "|mode", Cell: func(r row) string { return r.mode }},
		{Head: "|plan", Cell: func(r row) string { return r.plan }},
		{Head: "|judge", Cell: func(r row) string { return string(r.verdict) }},
		number("answers|per s", rate),
		figure.Plain("|x noop", func(r row) figure.Number { return r.rounds.Against(m.of(baseline, r.plan).rounds, rate) }),
		figure.Percent("|spread", func(r row) figure.Number { return r.rounds.Spread(rate) }),
		number("p50|ms", p50), number("p99|ms", p99), number("CPU us|replicas", replicas),
		number("CPU us|balancer", balancer), number("CPU us|stores", stores),
	}, m.rows, 0, 1, 2)
	fmt.Fprint(out, `
Medians. Answers: the accepted, or the refusals as sold out where there are more of them; noop refuses nothing. x noop:
median of the shares of noop in the same repetition. CPU: for an answer, of all replicas, of the balancer, of the
servers that the mode needs. spread: (max - min) / median over the repetitions. BROKEN: also a mode that claims to break
and did not under this load; its numbers are not to be quoted.
`)
}
