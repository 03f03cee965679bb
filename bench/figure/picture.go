package figure

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
)

// A Picture is a row of panels, each with a bar per row.
type Picture struct {
	Title  string
	Legend []Key
	Rows   []Row
	Panels []Panel
	Foot   []string // the conditions of the measurement
}

// A Colour marks a kind of row; it follows the reader's light or dark theme.
type Colour string

// The colours.
const (
	Blue  Colour = "blue"
	Amber Colour = "amber"
	Grey  Colour = "grey"
)

// A Key explains a colour.
type Key struct {
	Colour Colour
	Label  string
}

// A Row is a name and the colour of its bars.
type Row struct {
	Name   string
	Colour Colour
	Strong bool
}

// A Panel is one measure.
type Panel struct {
	Title, Unit string
	Values      []Number // by row; None draws no bar
	Parts       []Number // of the values, drawn solid; nil = all of them
	Log         bool
}

// The geometry, in pixels.
const (
	left, top      = 140, 104 // of the first bar
	barWidth       = 190      // of the longest bar
	panelWidth     = 272
	rowHeight, bar = 26, 16
)

// SVG draws the picture.
func (p Picture) SVG() []byte {
	width, height := left+len(p.Panels)*panelWidth, top+rowHeight*len(p.Rows)+12+16*len(p.Foot)
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img"
  aria-label="%s">
<style>
  text { font: 13px system-ui, -apple-system, "Segoe UI", "Liberation Sans", Arial, sans-serif; fill: #1f2328; }
  .page { fill: #ffffff; } .title { font-size: 17px; font-weight: 600; } .head { font-weight: 600; }
  .small { font-size: 11px; fill: #59636e; } .blue { fill: #0969da; } .amber { fill: #9a6700; } .grey { fill: #8c959f; }
  .axis { stroke: #d1d9e0; } .strong { font-weight: 600; }
  .faint { opacity: 0.4; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; } .page { fill: #0d1117; } .small { fill: #9198a1; } .blue { fill: #4493f8; }
    .amber { fill: #d29922; } .grey { fill: #656c76; } .axis { stroke: #3d444d; }
  }
</style>
<rect class="page" width="%d" height="%d"/>
`, width, height, width, height, escape(p.Title), width, height)
	text(&b, 16, 30, "title", p.Title)
	x := 16
	for _, k := range p.Legend {
		fmt.Fprintf(&b, `<rect class="%s" x="%d" y="43" width="11" height="11" rx="2"/>`+"\n", k.Colour, x)
		text(&b, x+16, 53, "small", k.Label)
		x += 34 + 6*len(k.Label)
	}
	for i, r := range p.Rows {
		class := ""
		if r.Strong {
			class = "strong"
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end" class="%s">%s</text>`+"\n", left-10, rowAt(i)+13, class,
			escape(r.Name))
	}
	for i, panel := range p.Panels {
		panel.draw(&b, left+i*panelWidth, p.Rows)
	}
	for i, line := range p.Foot {
		text(&b, 16, height-14-16*(len(p.Foot)-1-i), "small", line)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func rowAt(i int) int { return top + i*rowHeight }

func (p Panel) draw(b *bytes.Buffer, x int, rows []Row) {
	text(b, x, top-24, "head", p.Title)
	text(b, x, top-9, "small", p.Unit)
	fmt.Fprintf(b, `<line class="axis" x1="%d" y1="%d" x2="%d" y2="%d"/>`+"\n", x, top-3, x, rowAt(len(rows))-4)
	scale := p.scale()
	for i, r := range rows {
		length := scale(p.Values[i])
		class := string(r.Colour)
		if p.Parts != nil {
			p.bar(b, class+" faint", x, i, length)
			p.bar(b, class, x, i, scale(p.Parts[i]))
		} else {
			p.bar(b, class, x, i, length)
		}
		text(b, x+int(length)+6, rowAt(i)+13, "", Short(p.Values[i]))
	}
}

func (p Panel) bar(b *bytes.Buffer, class string, x, row int, length float64) {
	if length > 0 {
		fmt.Fprintf(b, `<rect class="%s" x="%d" y="%d" width="%.1f" height="%d"/>`+"\n", class, x, rowAt(row), length, bar)
	}
}

// scale maps values to lengths. On a log scale the shortest bar is a power of ten at or below the smallest value.
func (p Panel) scale() func(n Number) float64 {
	lowest, highest := math.Inf(1), 0.0
	for _, n := range p.Values {
		if v := float64(n); v > 0 && !math.IsInf(v, 0) {
			lowest, highest = min(lowest, v), max(highest, v)
		}
	}
	from := math.Floor(math.Log10(lowest) - 0.1)
	return func(n Number) float64 {
		v := float64(n)
		switch {
		case !(v > 0) || math.IsInf(v, 0):
			return 0
		case p.Log:
			return barWidth * (math.Log10(v) - from) / (math.Log10(highest) - from)
		}
		return barWidth * v / highest
	}
}

func text(b *bytes.Buffer, x, y int, class, s string) {
	fmt.Fprintf(b, `<text x="%d" y="%d" class="%s">%s</text>`+"\n", x, y, class, escape(s))
}

func escape(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // a buffer takes everything
	return b.String()
}
