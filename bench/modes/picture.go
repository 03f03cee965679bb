package main

import (
	"fmt"
	"slices"
	"strings"

	"lastitem/bench/figure"
)

// colours of the verdicts whose rows are drawn.
var colours = map[verdict]figure.Colour{none: figure.Grey, exact: figure.Blue, broken: figure.Amber}

// draw returns the picture as SVG, nil if neither of its scenarios was measured.
func draw(f facts, o options, outcomes []*outcome) []byte {
	p := figure.Picture{
		Title: fmt.Sprintf("Ways of deducting one product's stock, %d clients", o.clients),
		Legend: []figure.Key{
			{Colour: figure.Blue, Label: "exact"}, {Colour: figure.Amber, Label: "sells wrongly"},
			{Colour: figure.Grey, Label: "noop: no store at all"},
		},
		Foot: append([]string{
			fmt.Sprintf("%s, %s, %d cores (%s), rounds: %d; commit %s, %s", f.Edge, f.Go, f.Cores, f.CPU, o.rounds, f.Commit,
				f.Date),
		}, inPairs(f.Servers)...),
	}
	rows := picturedRows(outcomes)
	if len(rows) == 0 {
		return nil
	}
	for _, row := range rows {
		v := worst(outcomes, row)
		p.Rows = append(p.Rows, figure.Row{Name: row, Colour: colours[v], Strong: v == exact})
	}
	add := func(scenario, title, unit string, value func(*result) figure.Number) {
		panel := figure.Panel{Title: title, Unit: unit, Log: true}
		i := slices.IndexFunc(outcomes, func(o *outcome) bool { return o.Name == scenario })
		if i < 0 {
			return
		}
		for _, row := range rows {
			panel.Values = append(panel.Values, value(outcomes[i].of(row)))
		}
		p.Panels = append(p.Panels, panel)
	}
	rate := func(r *result) figure.Number { return r.Median.Of(mRate) }
	add(direct, "One replica", "accepted per second, log scale", rate)
	slow := func(r *result) figure.Number { return r.Median.Of(mP99) }
	add(direct, "One replica, 99th percentile", "ms, log scale; less is better", slow)
	add(balanced, "Three replicas behind nginx", "accepted per second, log scale", rate)
	return p.SVG()
}

// picturedRows returns the rows with numbers, in the order of the tables.
func picturedRows(outcomes []*outcome) (rows []string) {
	for _, o := range outcomes {
		if o.Name != direct && o.Name != balanced {
			continue
		}
		for _, r := range o.Results {
			if r.Verdict.shown() && len(r.Median) > 0 && !slices.Contains(rows, r.Row) {
				rows = append(rows, r.Row)
			}
		}
	}
	return rows
}

// worst returns the verdict on a row over the scenarios of the picture: a mode that is exact only within one process
// sells wrongly.
func worst(outcomes []*outcome, row string) (v verdict) {
	for _, o := range outcomes {
		if r := o.of(row); (o.Name == direct || o.Name == balanced) && r.Verdict.shown() {
			v = max(v, r.Verdict)
		}
	}
	return v
}

// inPairs joins the lines in pairs, which are about as wide as the picture.
func inPairs(lines []string) (pairs []string) {
	for pair := range slices.Chunk(lines, 2) {
		pairs = append(pairs, strings.Join(pair, "; "))
	}
	return pairs
}
