package report

import (
	_ "embed"
	"html/template"
	"io"
	"strings"

	"lastitem/internal/page"
	"lastitem/loadtest/delta"
	"lastitem/loadtest/words"
)

//go:embed delta.tmpl
var deltaText string

var deltaTemplates = func() map[string]*template.Template {
	all := map[string]*template.Template{}
	for lang, t := range pageTemplates {
		all[lang] = template.Must(template.Must(t.Clone()).New("delta").Parse(deltaText))
	}
	return all
}()

// WriteDeltaPage writes the comparison of two load tests as a single HTML file. It replaces secrets wherever they occur in the texts.
func WriteDeltaPage(w io.Writer, r delta.Report, lang string, secrets []string) error {
	view := struct {
		Title, Tone, Sentence string
		Before, After         []noteView
		Effects               template.HTML
		Grid                  gridView
		Again                 []string
	}{Title: words.Say(lang, "delta title", r.B.Name, r.A.Name), Effects: effects(r, lang), Grid: deltaGrid(r, lang).view(), Again: deltaAgain(r)}
	view.Grid.Code = true
	view.Before = noteViews(deltaBefore(r, lang))
	after := deltaAfter(r, lang)
	view.Sentence, view.Tone = after[0].text, tones[after[0].color]
	switch {
	case len(r.Contradicted()) > 0 || r.WorseThan(0):
		view.Tone = "bad"
	case len(r.Plans)+len(r.Differs) > 0:
		view.Tone = "warm"
	}
	view.After = noteViews(after[1:])
	var body, whole strings.Builder
	if err := deltaTemplates[lang].Execute(&body, view); err != nil {
		return err
	}
	p := page.Page{Lang: lang, Title: view.Title, Body: template.HTML(body.String())} //nolint:gosec // made by html/template
	if err := p.Write(&whole); err != nil {
		return err
	}
	_, err := io.WriteString(w, page.Hide(whole.String(), secrets))
	return err
}

// noteViews prepares findings for the page.
func noteViews(all []finding) []noteView {
	var views []noteView
	for _, f := range all {
		views = append(views, noteView{Tone: tones[f.color], Text: f.text, Log: f.log})
	}
	return views
}

// effects draws the chart of the differences.
func effects(r delta.Report, lang string) template.HTML {
	chart := page.Forest{Title: words.Say(lang, "delta effects"), Unit: words.Say(lang, "delta effects unit")}
	grid := deltaGrid(r, lang)
	for _, row := range r.Rows {
		for _, f := range row.Figures {
			cells := grid.rows[len(chart.Rows)].cells
			chart.Rows = append(chart.Rows, page.Effect{
				Name: deltaName(r, row) + " · " + figureName(f, lang), Estimate: f.Difference.Estimate, Low: f.Difference.Low, High: f.Difference.High,
				None: !f.Outcome.Compared(), Text: cells[2].text,
				Tone: map[delta.Outcome]string{delta.Better: "good", delta.Worse: "bad"}[f.Outcome],
			})
		}
	}
	return chart.HTML()
}

// deltaAgain returns the commands that made both sides, and the command that compares them.
func deltaAgain(r delta.Report) []string {
	if r.Command == "" {
		return nil
	}
	var lines []string
	for _, s := range []delta.Side{r.A, r.B} {
		if s.Command != "" {
			lines = append(lines, s.Command+" --out "+s.Name)
		}
	}
	return append(lines, r.Command)
}
