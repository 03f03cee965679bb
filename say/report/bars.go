package report

import (
	"html/template"
	"math"
	"strings"
)

// Bars is a bar chart: one horizontal bar in each row.
type Bars struct {
	Title, Unit string
	Bars        []Bar
	Log         bool // logarithmic scale; all values must be greater than zero
}

// Bar is one row of the chart. From and To are the ends of the bar, in the chart's unit. Low and High are the ends of a
// thin line over the bar, for example the range of several runs; if they are equal, no line is drawn.
type Bar struct {
	Name      string
	From, To  float64
	Low, High float64
	Mark      float64 // a mark across the bar; 0 = none
	Text      string  // the value, as shown beside the bar
	Tone      string  // "", "good", "bad" or "warm"
}

var bars = template.Must(template.New("bars").Parse(`<figure>
<figcaption>{{.Title}}</figcaption>
<p class="unit">{{.Unit}}</p>
<ul class="bars">{{range .Drawn}}<li><code>{{.Name}}</code><span class="track {{.Tone}}" aria-hidden="true"><i style="left:{{.Left}}%;width:{{.Width}}%"></i>{{if .Range}}<b style="left:{{.LowAt}}%;width:{{.Range}}%"></b>{{end}}{{if .MarkAt}}<u style="left:{{.MarkAt}}%"></u>{{end}}</span><span class="value">{{.Text}}</span></li>
{{end}}</ul>
</figure>
`))

// HTML draws the chart. Each row has its value as text, so a screen reader reads the chart as a list.
func (c Bars) HTML() template.HTML {
	type drawn struct {
		Bar
		Left, Width, LowAt, Range, MarkAt string
	}
	scale := axis{low: math.Inf(1), high: math.Inf(-1), log: c.Log}
	for _, b := range c.Bars {
		for _, v := range []float64{b.From, b.To, b.High} {
			scale.take(v)
		}
	}
	scale.finish(!c.Log)
	if !c.Log && len(c.Bars) > 0 { // there is no axis, so the longest bar fills the whole width
		scale.high = max(greatest(c.Bars), 1e-12)
	}
	view := struct {
		Bars
		Drawn []drawn
	}{Bars: c}
	for _, b := range c.Bars {
		d := drawn{Bar: b, Left: percent(scale.of(b.From)), Width: percent(scale.of(b.To) - scale.of(b.From))}
		if b.High > b.Low {
			d.LowAt, d.Range = percent(scale.of(b.Low)), percent(scale.of(b.High)-scale.of(b.Low))
		}
		if b.Mark > 0 {
			d.MarkAt = percent(scale.of(b.Mark))
		}
		view.Drawn = append(view.Drawn, d)
	}
	var out strings.Builder
	if err := bars.Execute(&out, view); err != nil {
		panic(err)
	}
	return template.HTML(out.String()) //nolint:gosec // made by html/template
}

// greatest returns the greatest value of all bars.
func greatest(all []Bar) float64 {
	most := 0.0
	for _, b := range all {
		most = max(most, b.To, b.High)
	}
	return most
}
