package report

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// Point is a point of a line. A Y of NaN interrupts the line.
type Point struct{ X, Y float64 }

// Line is one line of a chart. Its place in the chart decides its colour and its dashes.
type Line struct {
	Name   string
	Points []Point
	Area   bool // fill the area below the line
}

// Tick is a labelled position on an axis.
type Tick struct {
	At    float64
	Label string
}

// Lines is a line chart.
type Lines struct {
	Title string // what the chart shows
	Unit  string // what the axes measure, in a sentence
	Desc  string // for screen readers: what the chart shows, in a sentence
	Lines []Line
	// XZero makes the x axis begin at zero. XTicks are its labels; nil = round numbers.
	XZero  bool
	XTicks []Tick
	// Log makes the y axis logarithmic. A value of zero or less interrupts the line.
	Log bool
	// Table has the same numbers as the chart; Show is the label of the control that opens it.
	Table Table
	Show  string
}

// Table is a table of texts. The first column is aligned left, the others right.
type Table struct {
	Heads []string
	Rows  [][]string
}

// lineColors is the number of colours. Further lines start again with the first colour.
const lineColors = 6

// side is the width and height of a drawing, which the browser stretches to fit its box.
const side = 1000.0

// HTML draws the chart.
func (c Lines) HTML() template.HTML {
	x, y := c.scales()
	view := linesView{Lines: c}
	for _, t := range c.xTicks(x) {
		view.X = append(view.X, place{Percent: percent(x.of(t.At)), Label: t.Label})
	}
	for _, t := range y.ticks(4) {
		view.Y = append(view.Y, place{Percent: percent(1 - y.of(t.At)), At: number(side * (1 - y.of(t.At))), Label: t.Label})
	}
	for i, l := range c.Lines {
		view.Drawn = append(view.Drawn, drawnLine{Name: l.Name, Color: i % lineColors, Dash: i % lineColors,
			Path: path(l.Points, x, y, false)})
		if l.Area {
			view.Drawn[i].Area = path(l.Points, x, y, true)
		}
	}
	var b strings.Builder
	if err := chart.Execute(&b, view); err != nil { // writes to memory, and the template is ours
		panic(err)
	}
	return template.HTML(b.String()) //nolint:gosec // made by html/template
}

type linesView struct {
	Lines
	X, Y  []place
	Drawn []drawnLine
}

// place is the position of a label, in percent of the box and in units of the drawing.
type place struct{ Percent, At, Label string }

type drawnLine struct {
	Name, Path, Area string
	Color, Dash      int
}

var chart = template.Must(template.New("chart").Parse(`<figure>
<figcaption>{{.Title}}</figcaption>
<p class="unit">{{.Unit}}</p>
{{if gt (len .Drawn) 1}}<ul class="legend">{{range .Drawn}}<li><svg viewBox="0 0 24 8" aria-hidden="true"><path class="line c{{.Color}} d{{.Dash}}" d="M1 4H23"/></svg>{{.Name}}</li>{{end}}</ul>{{end}}
<div class="chart">
<svg viewBox="0 0 1000 1000" preserveAspectRatio="none" role="img">
<title>{{.Title}}</title><desc>{{.Unit}} {{.Desc}}</desc>
{{range .Y}}<line class="grid" x1="0" x2="1000" y1="{{.At}}" y2="{{.At}}"/>{{end}}<line class="base" x1="0" x2="1000" y1="1000" y2="1000"/>
{{range .Drawn}}{{if .Area}}<path class="area f{{.Color}}" d="{{.Area}}"/>{{end}}<path class="line c{{.Color}} d{{.Dash}}" d="{{.Path}}"/>
{{end}}</svg>
<div aria-hidden="true">{{range .Y}}<span class="y" style="top:{{.Percent}}%">{{.Label}}</span>{{end}}{{range .X}}<span class="x" style="left:{{.Percent}}%">{{.Label}}</span>{{end}}</div>
</div>
{{with .Table}}{{if .Rows}}<details><summary>{{$.Show}}</summary><div class="wide" tabindex="0" role="group" aria-label="{{$.Title}}"><table><thead><tr>{{range $i, $h := .Heads}}<th scope="col"{{if $i}} class="number"{{end}}>{{$h}}</th>{{end}}</tr></thead><tbody>
{{range .Rows}}<tr>{{range $i, $c := .}}<td{{if $i}} class="number"{{end}}>{{$c}}</td>{{end}}</tr>
{{end}}</tbody></table></div></details>{{end}}{{end}}
</figure>
`))

// scales returns axes that cover all points.
func (c Lines) scales() (x, y axis) {
	x, y = axis{low: math.Inf(1), high: math.Inf(-1)}, axis{low: math.Inf(1), high: math.Inf(-1), log: c.Log}
	for _, l := range c.Lines {
		for _, p := range l.Points {
			x.take(p.X)
			y.take(p.Y)
		}
	}
	for _, t := range c.XTicks {
		x.take(t.At)
	}
	if c.XZero {
		x.take(0)
	}
	x.finish(false)
	y.finish(!c.Log)
	return x, y
}

func (c Lines) xTicks(x axis) []Tick {
	if c.XTicks != nil {
		return c.XTicks
	}
	return x.ticks(6)
}

// axis maps its range of values to 0..1.
type axis struct {
	low, high float64
	log       bool
}

// take widens the axis to cover v, unless the axis cannot show v.
func (a *axis) take(v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) || a.log && v <= 0 {
		return
	}
	a.low, a.high = min(a.low, v), max(a.high, v)
}

// finish gives the axis a range that is not empty, starts at zero if fromZero is set, and ends at a tick.
func (a *axis) finish(fromZero bool) {
	switch {
	case a.low > a.high:
		a.low, a.high = 0, 1
		if a.log {
			a.low = 0.1
		}
	case fromZero:
		a.low = min(a.low, 0)
		if a.high <= a.low {
			a.high = a.low + 1
		}
		step := round(a.high - a.low)
		a.high = math.Ceil(a.high/step-1e-9) * step
	case a.log:
		a.low, a.high = math.Pow(10, math.Floor(math.Log10(a.low)+1e-9)), math.Pow(10, math.Ceil(math.Log10(a.high)-1e-9))
		if a.high <= a.low {
			a.high = a.low * 10
		}
	case a.high == a.low:
		a.high = a.low + 1
	}
}

// round returns the step that divides a length into about four parts: 1, 2 or 5 times a power of ten.
func round(length float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(length/4)))
	for _, m := range []float64{1, 2, 5} {
		if length/4 <= m*power*1.0001 {
			return m * power
		}
	}
	return 10 * power
}

// of returns the position of a value, from 0 to 1.
func (a axis) of(v float64) float64 {
	if a.log {
		return (math.Log10(v) - math.Log10(a.low)) / (math.Log10(a.high) - math.Log10(a.low))
	}
	return (v - a.low) / (a.high - a.low)
}

// ticks returns about n round values on the axis.
func (a axis) ticks(n int) []Tick {
	var all []Tick
	if a.log {
		decades := int(math.Round(math.Log10(a.high / a.low)))
		for i := 0; i <= decades; i += (decades + n) / (n + 1) {
			v := a.low * math.Pow(10, float64(i))
			all = append(all, Tick{v, Short(v)})
		}
		return all
	}
	step := round((a.high - a.low) * 4 / float64(n))
	for i := math.Ceil(a.low/step - 1e-9); i*step <= a.high*(1+1e-9); i++ {
		v := i*step + 0 // no -0
		all = append(all, Tick{v, Short(v)})
	}
	return all
}

// path returns the points as SVG path data. If closed is set, the path encloses the area between the line and the axis.
func path(points []Point, x, y axis, closed bool) string {
	var b strings.Builder
	from := -1.0 // x of the first point since the last gap; -1 = none yet
	last := 0.0
	end := func() {
		switch {
		case from >= 0 && closed:
			fmt.Fprintf(&b, "V%sH%sZ", number(side), number(from))
		case from >= 0 && from == last: // a single point is a dot
			b.WriteString("h0.01")
		}
		from = -1
	}
	for _, p := range points {
		if math.IsNaN(p.Y) || y.log && p.Y <= 0 {
			end()
			continue
		}
		px, py := side*x.of(p.X), side*(1-y.of(p.Y))
		sign := "L"
		if from < 0 {
			sign, from = "M", px
		}
		last = px
		b.WriteString(sign + number(px) + " " + number(py))
	}
	end()
	return b.String()
}

// number formats a coordinate.
func number(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

// percent formats a fraction of 1 as a percentage.
func percent(v float64) string { return strconv.FormatFloat(math.Round(v*10000)/100, 'f', -1, 64) }

// Short formats a number with at most three significant digits, or all before the point: 0.05, 12.5, 340, 1,234, 12.3k,
// 3.4M.
func Short(v float64) string {
	for _, u := range []struct {
		of   float64
		sign string
	}{{1e9, "G"}, {1e6, "M"}, {1e4, "k"}} {
		if math.Abs(v) >= u.of {
			if u.sign == "k" {
				u.of = 1e3
			}
			return short(v/u.of) + u.sign
		}
	}
	return Grouped(short(v))
}

func short(v float64) string {
	digits := 0
	if a := math.Abs(v); a > 0 {
		digits = max(0, 2-int(math.Floor(math.Log10(a))))
	}
	text := strconv.FormatFloat(v, 'f', min(digits, 6), 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}
