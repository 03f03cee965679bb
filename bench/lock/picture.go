package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
)

// drawn is the scenario in the picture.
const drawn = "hot-64x4"

// A panel is one measure as a bar for each contender.
type panel struct {
	title, unit string
	value       func(r *result) number
	part        func(r *result) number // of the value, drawn solid; nil = all of it
	log         bool
}

var panels = []panel{
	// Who takes the lock back at once acquires often and serves nobody: only changes of the owner are solid.
	{title: "Acquisitions per second", unit: "share of a process mutex; solid: new owner",
		value: func(r *result) number { return r.ToCeiling.of(mRate) },
		part: func(r *result) number {
			return r.ToCeiling.of(mRate) * ratio(r.Median.of(mOwnerChanges), r.Median.of(mRate))
		}},
	{title: "Wait, 99th percentile", unit: "ms, log scale; less is better", log: true,
		value: func(r *result) number { return r.Median.of(mWait99) }},
	{title: "Network commands per acquisition", unit: "log scale; less is better", log: true,
		value: func(r *result) number { return r.Median.of(mCommands) }},
}

// The geometry, in pixels.
const (
	left, top      = 140, 104 // of the first bar
	barWidth       = 190      // of the longest bar
	panelWidth     = 272
	rowHeight, bar = 26, 16
	width          = left + 3*panelWidth
)

// draw returns the picture as SVG, nil where its scenario was not measured. Colours follow the reader's light or dark theme.
func draw(f facts, outcomes []*outcome) []byte {
	var o *outcome
	for _, candidate := range outcomes {
		if candidate.Name == drawn {
			o = candidate
		}
	}
	if o == nil {
		return nil
	}
	height := top + rowHeight*len(o.Results) + 44
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img"
  aria-label="%s">
<style>
  text { font: 13px system-ui, -apple-system, "Segoe UI", "Liberation Sans", Arial, sans-serif; fill: #1f2328; }
  .page { fill: #ffffff; } .title { font-size: 17px; font-weight: 600; } .head { font-weight: 600; }
  .small { font-size: 11px; fill: #59636e; } .ours { fill: #0969da; } .library { fill: #9a6700; } .bound { fill: #8c959f; }
  .axis { stroke: #d1d9e0; } .strong { font-weight: 600; }
  .faint { opacity: 0.4; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; } .page { fill: #0d1117; } .small { fill: #9198a1; } .ours { fill: #4493f8; }
    .library { fill: #d29922; } .bound { fill: #656c76; } .axis { stroke: #3d444d; }
  }
</style>
<rect class="page" width="%d" height="%d"/>
`, width, height, width, height, escape(o.Title), width, height)
	text(&b, 16, 30, "title", escape("Locks on one Redis: "+o.Title))
	legend(&b)
	for i, r := range o.Results {
		class := ""
		if familyOf(r) == ours {
			class = "strong"
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end" class="%s">%s</text>`+"\n",
			left-10, rowAt(i)+13, class, escape(r.Contender))
	}
	for i, p := range panels {
		p.draw(&b, left+i*panelWidth, o)
	}
	machine := fmt.Sprintf("%s, %s, %d cores (%s), rounds: %d", f.Redis, f.Go, f.Cores, f.CPU, len(o.Results[0].Rounds))
	text(&b, 16, height-30, "small", escape(machine))
	text(&b, 16, height-14, "small", escape(fmt.Sprintf("%s; commit %s, %s", f.libraries(), f.Commit, f.Date)))
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func rowAt(i int) int { return top + i*rowHeight }

func familyOf(r *result) family {
	c, err := contenderOf(r.Contender)
	if err != nil {
		return bound
	}
	return c.family
}

// classes of the families in the style sheet, and what the legend calls them.
var classes = []struct {
	family       family
	class, label string
}{{ours, "ours", "lastitem"}, {library, "library", "other libraries"}, {bound, "bound", "bounds: raw commands, process mutex"}}

func legend(b *bytes.Buffer) {
	x := 16
	for _, c := range classes {
		fmt.Fprintf(b, `<rect class="%s" x="%d" y="43" width="11" height="11" rx="2"/>`+"\n", c.class, x)
		text(b, x+16, 53, "small", c.label)
		x += 34 + 6*len(c.label)
	}
}

func (p panel) draw(b *bytes.Buffer, x int, o *outcome) {
	text(b, x, top-24, "head", p.title)
	text(b, x, top-9, "small", p.unit)
	fmt.Fprintf(b, `<line class="axis" x1="%d" y1="%d" x2="%d" y2="%d"/>`+"\n", x, top-3, x, rowAt(len(o.Results))-4)
	scale := p.scale(o)
	for i, r := range o.Results {
		length := scale(p.value(r))
		class := classOf(familyOf(r))
		if p.part != nil {
			p.bar(b, class+" faint", x, i, length)
			p.bar(b, class, x, i, scale(p.part(r)))
		} else {
			p.bar(b, class, x, i, length)
		}
		text(b, x+int(length)+6, rowAt(i)+13, "", short(p.value(r)))
	}
}

func (p panel) bar(b *bytes.Buffer, class string, x, row int, length float64) {
	if length > 0 {
		fmt.Fprintf(b, `<rect class="%s" x="%d" y="%d" width="%.1f" height="%d"/>`+"\n", class, x, rowAt(row), length, bar)
	}
}

func classOf(f family) string {
	for _, c := range classes {
		if c.family == f {
			return c.class
		}
	}
	return ""
}

// scale maps values to lengths. On a log scale the shortest bar is a power of ten at or below the smallest value.
func (p panel) scale(o *outcome) func(n number) float64 {
	lowest, highest := math.Inf(1), 0.0
	for _, r := range o.Results {
		if v := float64(p.value(r)); v > 0 && !math.IsInf(v, 0) {
			lowest, highest = min(lowest, v), max(highest, v)
		}
	}
	from := math.Floor(math.Log10(lowest) - 0.1)
	return func(n number) float64 {
		v := float64(n)
		switch {
		case !(v > 0) || math.IsInf(v, 0):
			return 0
		case p.log:
			return barWidth * (math.Log10(v) - from) / (math.Log10(highest) - from)
		}
		return barWidth * v / highest
	}
}

func text(b *bytes.Buffer, x, y int, class, s string) {
	fmt.Fprintf(b, `<text x="%d" y="%d" class="%s">%s</text>`+"\n", x, y, class, s)
}

func escape(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // a buffer takes everything
	return b.String()
}
