package page

import (
	"html/template"
	"math"
	"strings"
)

// Forest is a forest plot: an interval in each row, on a common axis around zero.
type Forest struct {
	Title, Unit string
	Rows        []Effect
}

// Effect is an estimate with its interval, if it has one. Values are relative: 0.1 is 10 % more.
type Effect struct {
	Name                string
	Estimate, Low, High float64
	None                bool   // there is no interval
	Text                string // the value, as shown beside the interval
	Tone                string // "", "good", "bad"
}

var forest = template.Must(template.New("forest").Parse(`<figure>
<figcaption>{{.Title}}</figcaption>
<p class="unit">{{.Unit}}</p>
<ul class="bars forest">{{range .Drawn}}<li><span class="keep">{{.Name}}</span><span class="track {{.Tone}}" aria-hidden="true"><em></em>{{if not .None}}<b style="left:{{.Left}}%;width:{{.Width}}%"></b><u style="left:{{.At}}%"></u>{{end}}</span><span class="value {{.Tone}}">{{.Text}}</span></li>
{{end}}</ul>
</figure>
`))

// HTML draws the chart. Each row has its value as text, so a screen reader reads the chart as a list.
func (c Forest) HTML() template.HTML {
	type drawn struct {
		Effect
		Left, Width, At string
	}
	reach := 1e-9
	for _, e := range c.Rows {
		if !e.None {
			reach = max(reach, math.Abs(e.Low), math.Abs(e.High))
		}
	}
	place := func(v float64) float64 { return 0.5 + 0.49*v/reach }
	view := struct {
		Forest
		Drawn []drawn
	}{Forest: c}
	for _, e := range c.Rows {
		view.Drawn = append(view.Drawn, drawn{
			Effect: e, Left: percent(place(e.Low)), Width: percent(place(e.High) - place(e.Low)), At: percent(place(e.Estimate)),
		})
	}
	var b strings.Builder
	if err := forest.Execute(&b, view); err != nil { // writes to memory, and the template is ours
		panic(err)
	}
	return template.HTML(b.String()) //nolint:gosec // made by html/template
}
