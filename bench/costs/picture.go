package main

import (
	"fmt"
	"slices"
	"time"

	"lastitem/bench/figure"
	"lastitem/judge"
)

// colours of the verdicts whose rows are drawn, from good to bad.
var colours = map[judge.Verdict]figure.Colour{"": figure.Grey, judge.Exact: figure.Blue, judge.Broken: figure.Amber}

// draw returns the picture as SVG, nil if neither of its plans was measured.
func (m costs) draw() []byte {
	var modes []string
	for _, r := range m.rows {
		if (r.plan == direct || r.plan == balanced) && len(r.rounds) > 0 && !slices.Contains(modes, r.mode) {
			modes = append(modes, r.mode)
		}
	}
	if modes == nil {
		return nil
	}
	e := m.Environment
	p := figure.Picture{
		Title: fmt.Sprintf("Ways of deducting one product's stock, %d clients", m.Plans[0].VUs),
		Legend: []figure.Key{
			{Colour: figure.Blue, Label: "exact"}, {Colour: figure.Amber, Label: "sells wrongly"},
			{Colour: figure.Grey, Label: "noop: no store at all"},
		},
		Foot: append([]string{fmt.Sprintf("%s, %s, %d cores (%s), rounds: %d; commit %s, %s", e.Servers["balancer"], e.Go,
			e.CPUs, e.CPU, m.Plans[0].Repeat, e.Version, e.Time.UTC().Format(time.RFC3339))}, m.servers()...),
	}
	for _, mode := range modes {
		v := m.worst(mode)
		p.Rows = append(p.Rows, figure.Row{Name: mode, Colour: colours[v], Strong: v == judge.Exact})
	}
	add := func(plan, title, unit, measure string) {
		panel := figure.Panel{Title: title, Unit: unit, Log: true}
		for _, mode := range modes {
			panel.Values = append(panel.Values, m.of(mode, plan).median.Of(measure))
		}
		p.Panels = append(p.Panels, panel)
	}
	add(direct, "One replica", "accepted per second, log scale", rate)
	add(direct, "One replica, 99th percentile", "ms, log scale; less is better", p99)
	add(balanced, "Three replicas behind nginx", "accepted per second, log scale", rate)
	return p.SVG()
}

// worst returns the verdict on a mode over the plans of the picture: one that is exact only within one process sells
// wrongly.
func (m costs) worst(mode string) judge.Verdict {
	a, b := m.of(mode, direct), m.of(mode, balanced)
	if len(a.rounds) == 0 || len(b.rounds) > 0 && b.verdict == judge.Broken {
		return b.verdict
	}
	return a.verdict
}

// servers are the kinds of the stores, in the order of the page, with what makes them durable.
func (m costs) servers() (all []string) {
	for _, name := range []string{"redis", "sql", "etcd", "zookeeper", "consul", "kafka"} {
		kind := m.Environment.Servers[name]
		if kind != "" && name != "redis" && name != "sql" {
			kind += ", as it is by default"
		}
		if kind != "" {
			all = append(all, kind)
		}
	}
	return all
}
