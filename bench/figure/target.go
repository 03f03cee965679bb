package figure

import (
	"fmt"
	"io"
)

// Verdicts on a target.
const (
	Met        = "met"
	Missed     = "MISSED"
	Unmeasured = "not measured"
)

// A Target is a bound for a measure.
type Target struct {
	Measure  string  `json:"measure"`
	Scenario string  `json:"scenario"`
	AtLeast  bool    `json:"at_least"` // Limit is a lower bound
	Limit    float64 `json:"limit"`
	Measured Number  `json:"measured"`
	Verdict  string  `json:"verdict"`
	Note     string  `json:"note,omitempty"`
}

// Judge records the measured value, None if there is none, and sets the verdict.
func (t *Target) Judge(measured Number, note string) {
	t.Measured, t.Note = measured, note
	switch {
	case !measured.Known():
		t.Verdict = Unmeasured
	case t.AtLeast == (float64(measured) >= t.Limit) || float64(measured) == t.Limit:
		t.Verdict = Met
	default:
		t.Verdict = Missed
	}
}

// PrintTargets prints the targets that were measured, and those with a note.
func PrintTargets(out io.Writer, title string, all []Target) {
	rows := [][]string{{"measure", "scenario", "target", "measured", "", ""}}
	met, measured := 0, 0
	for _, t := range all {
		switch t.Verdict {
		case Unmeasured:
			if t.Note == "" {
				continue
			}
		case Met:
			met++
			measured++
		default:
			measured++
		}
		relation := "<="
		if t.AtLeast {
			relation = ">="
		}
		limit := fmt.Sprintf("%s %g", relation, t.Limit)
		rows = append(rows, []string{t.Measure, t.Scenario, limit, Short(t.Measured), t.Verdict, t.Note})
	}
	if len(rows) > 1 {
		fmt.Fprintf(out, "\n== %s ==\n", title)
		PrintRows(out, rows, 0, 1, 4, 5)
	}
	fmt.Fprintf(out, "\n%d of %d targets met", met, measured)
	if rest := len(all) - measured; rest > 0 {
		fmt.Fprintf(out, "; %d not measured", rest)
	}
	fmt.Fprintln(out)
}
