package tell

import (
	"fmt"
	"io"
	"strings"

	"lastitem/contract/api"
	"lastitem/faultlab"
	"lastitem/say/report"
)

// Markdown writes the report as Markdown, for a pull request.
func Markdown(w io.Writer, r *faultlab.Result, lang string) error {
	var b strings.Builder
	if err := Report(&b, r, lang); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "```text\n%s\n```\n", strings.TrimSpace(b.String()))
	return err
}

// JUnit writes a case for each cell, as the XML of JUnit. Of somebody's own service each letter is a failure, of a mode
// of lastitem what is not as claimed.
func JUnit(w io.Writer, r *faultlab.Result, lang string) error {
	var cases []report.JUnitCase
	for _, c := range r.Cells {
		x := report.JUnitCase{Name: strings.TrimSpace(fmt.Sprint(c.Fault, " ", c.Mode, " ", c.Store)),
			Text: strings.TrimSpace(Line(c, lang))}
		why := strings.Join(c.Wrong, "\n")
		switch {
		case r.Serve == nil:
			x.Broken, x.Unsure = why, strings.Join(c.Undecided, "\n")
		case c.Found == faultlab.Untested:
			x.Unsure = c.Untested.In(lang)
		case c.Found != api.Exact && c.Found != api.NotApplicable && c.Found != "":
			x.Broken = x.Text
		default:
			x.Unsure = why
		}
		cases = append(cases, x)
	}
	return report.JUnit(w, "lastitem lab", cases)
}
