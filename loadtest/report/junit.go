package report

import (
	"io"
	"strings"

	"lastitem/judge"
	"lastitem/loadtest/compare"
	layout "lastitem/say/report"
	"lastitem/say/text"
)

// WriteJUnit writes a case for each row, as the XML of JUnit. A claim that does not hold is a failure, and so is a
// service that is not ours and is BROKEN.
func WriteJUnit(w io.Writer, c compare.Comparison, lang string) error {
	var cases []layout.JUnitCase
	for _, s := range c.Summaries {
		x := layout.JUnitCase{Name: rowName(s, c), Text: verdictText(lang, s.Verdict, s.Found)}
		for _, r := range s.Reports {
			x.Text += "\n" + counted(r, lang)
		}
		why := strings.Join(append([]string{x.Text}, s.Why...), "\n")
		switch {
		case s.Standing() == judge.Contradicted, s.Finding == judge.Unclaimed && s.Verdict == judge.Broken:
			x.Broken = why
		case s.Standing() == judge.Undecided, s.Verdict == judge.Inconclusive:
			x.Unsure = why
		}
		cases = append(cases, x)
	}
	for _, f := range c.Failed {
		cases = append(cases, layout.JUnitCase{Name: f.Mode, Unsure: f.Why})
	}
	for _, x := range c.Crossed {
		cases = append(cases, layout.JUnitCase{Name: x.Mode + " " + x.Threshold,
			Broken: text.Of("threshold crossed: %s: %s is %s").With(x.Mode, x.Threshold, x.Value).In(lang)})
	}
	return layout.JUnit(w, "lastitem loadtest", cases)
}
