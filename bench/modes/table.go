package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"lastitem/bench/figure"
)

type column = figure.Column[*result]

func median(name string) func(*result) figure.Number {
	return func(r *result) figure.Number { return r.Median.Of(name) }
}

func plain(head, name string) column { return figure.Plain(head, median(name)) }

func toNoop(name string) column {
	return figure.Plain("|x noop", func(r *result) figure.Number { return r.ToNoop.Of(name) })
}

func percent(head, name string) column { return figure.Percent(head, median(name)) }

// columns returns the columns of a scenario. A scenario with only some modes does not include noop.
func (s scenario) columns() []column {
	what := "accepted"
	if s.soldOut {
		what = "refused"
	}
	all := []column{
		{Head: "|mode", Cell: func(r *result) string { return r.Row }},
		{Head: "|judge", Cell: func(r *result) string { return verdicts[r.Verdict] }},
	}
	add := func(c column, name string) {
		all = append(all, c)
		if s.entries == nil {
			all = append(all, toNoop(name))
		}
	}
	add(plain(what+"|per s", mRate), mRate)
	add(plain("p50|ms", mP50), mP50)
	add(plain("p99|ms", mP99), mP99)
	add(plain("CPU us|replicas", mShopCPU), mShopCPU)
	if s.balanced {
		add(plain("CPU us|nginx", mEdgeCPU), mEdgeCPU)
	}
	return append(all, plain("CPU us|stores", mStoreCPU), percent("declined|not now", mDeclined),
		percent("|spread", mSpread), percent("others'|CPU", mOthers))
}

// legend is printed below the tables.
const legend = `
judge: exact; broken, as it claims, and not to be quoted; anything else has no numbers. CPU us: per answer that
counts, of all replicas, of nginx, of the servers that the mode needs. x noop: median of the shares of noop in the same
round; noop never refuses, so in the table of refusals its row counts acceptances. declined: share of all answers that a
lock or a rival prevented. spread: (max - min) / median of the rate over the rounds. others' CPU: what other programs
used of all.
`

func (o *outcome) print(out io.Writer) {
	if len(o.Results) == 0 {
		return
	}
	fmt.Fprintf(out, "\n== %s: %s ==\n", o.Name, o.Title)
	began := slices.DeleteFunc(slices.Clone(o.Results), func(r *result) bool { return len(r.Rounds) == 0 })
	figure.PrintTable(out, o.scenario.columns(), began, 0, 1)
	for _, r := range o.Results {
		if r.Why != "" {
			fmt.Fprintf(out, "%s: %s: %s\n", r.Row, verdicts[r.Verdict], r.Why)
		}
		if r.Unknown > 0 {
			fmt.Fprintf(out, "%s: %d requests without an answer\n", r.Row, r.Unknown)
		}
	}
}

// noisy is the share of the CPU time from which other programs make the numbers doubtful.
const noisy = 0.10

// printNoise warns if other programs used the CPU. It prints nothing if that is not known.
func printNoise(out io.Writer, outcomes []*outcome) {
	var shares []figure.Number
	for _, o := range outcomes {
		for _, r := range o.Results {
			shares = append(shares, r.Rounds.All(mOthers)...)
		}
	}
	if n := figure.Median(shares); n > noisy {
		fmt.Fprintf(out, "\nother programs used %.0f%% of all CPU time: rates and their ratios are doubtful, CPU per "+
			"answer less so\n",
			100*n)
	}
}

// printSkipped prints each skipped row once, with the reason.
func printSkipped(out io.Writer, outcomes []*outcome) {
	var all []skipped
	for _, o := range outcomes {
		all = append(all, o.Skipped...)
	}
	slices.SortStableFunc(all, func(a, b skipped) int {
		return cmp.Or(cmp.Compare(a.Row, b.Row), cmp.Compare(a.Why, b.Why))
	})
	for i, s := range slices.Compact(all) {
		if i == 0 {
			fmt.Fprintln(out, "\nnot run:")
		}
		fmt.Fprintf(out, "  %s: %s\n", s.Row, s.Why)
	}
}
