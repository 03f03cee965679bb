package main

import (
	"fmt"
	"slices"

	"lastitem/bench/figure"
)

// drawn is the scenario of the picture.
const drawn = "hot-64x4"

// A panel is one measure as a bar for each contender.
type panel struct {
	figure.Panel
	value func(r *result) figure.Number
	part  func(r *result) figure.Number // of the value, drawn solid; nil = all of it
}

var panels = []panel{
	// A holder that retakes the lock at once acquires often but serves nobody else: only changes of the owner are solid.
	{Panel: figure.Panel{Title: "Acquisitions per second", Unit: "share of a process mutex; solid: new owner"},
		value: func(r *result) figure.Number { return r.ToCeiling.Of(mRate) },
		part: func(r *result) figure.Number {
			return r.ToCeiling.Of(mRate) * figure.Ratio(r.Median.Of(mOwnerChanges), r.Median.Of(mRate))
		}},
	{Panel: figure.Panel{Title: "Wait, 99th percentile", Unit: "ms, log scale; less is better", Log: true},
		value: func(r *result) figure.Number { return r.Median.Of(mWait99) }},
	{Panel: figure.Panel{Title: "Network commands per acquisition", Unit: "log scale; less is better", Log: true},
		value: func(r *result) figure.Number { return r.Median.Of(mCommands) }},
}

// colours of the families.
var colours = map[family]figure.Colour{ours: figure.Blue, library: figure.Amber, bound: figure.Grey}

// draw returns the picture as SVG, nil if its scenario was not measured.
func draw(f facts, outcomes []*outcome) []byte {
	i := slices.IndexFunc(outcomes, func(o *outcome) bool { return o.Name == drawn })
	if i < 0 || len(outcomes[i].Results) == 0 {
		return nil
	}
	o := outcomes[i]
	p := figure.Picture{
		Title: "Locks on one Redis: " + o.Title,
		Legend: []figure.Key{
			{Colour: colours[ours], Label: "lastitem"}, {Colour: colours[library], Label: "other libraries"},
			{Colour: colours[bound], Label: "bounds: raw commands, process mutex"},
		},
		Foot: []string{
			fmt.Sprintf("%s, %s, %d cores (%s), rounds: %d", f.Redis, f.Go, f.Cores, f.CPU, len(o.Results[0].Rounds)),
			fmt.Sprintf("%s; commit %s, %s", f.libraries(), f.Commit, f.Date),
		},
	}
	for _, r := range o.Results {
		who := familyOf(r)
		p.Rows = append(p.Rows, figure.Row{Name: r.Contender, Colour: colours[who], Strong: who == ours})
	}
	for _, one := range panels {
		for _, r := range o.Results {
			one.Values = append(one.Values, one.value(r))
			if one.part != nil {
				one.Parts = append(one.Parts, one.part(r))
			}
		}
		p.Panels = append(p.Panels, one.Panel)
	}
	return p.SVG()
}

func familyOf(r *result) family {
	c, err := contenderOf(r.Contender)
	if err != nil {
		return bound
	}
	return c.family
}
