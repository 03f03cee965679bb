package tell

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"lastitem/contract/api"
	"lastitem/faultlab"
	"lastitem/faultlab/fault"
	"lastitem/say/report"
	"lastitem/say/text"
)

// Sentences about what is not as it must be.
var (
	wrongText     = text.Of("Not as it must be:\n")
	undecidedText = text.Of("Undecided:\n")
)

// Line describes a cell in one line, in lang "en" or "zh"; of our own modes a line for each mistake follows.
func Line(c faultlab.Cell, lang string) string {
	if c.Claim == faultlab.Unclaimed {
		return foreignLine(c, lang)
	}
	if len(c.Wrong)+len(c.Undecided) == 0 {
		return text.Of("%-17s %-5s %-15s %-4s as claimed, %d [schedule|schedules]\n").With(c.Mode, c.Store, c.Fault, c.Found,
			c.Tried).In(lang)
	}
	said, why := wrongText, c.Wrong
	if len(why) == 0 {
		said, why = undecidedText, c.Undecided
	}
	line := fmt.Sprintf("%-17s %-5s %-15s %-4s %s", c.Mode, c.Store, c.Fault, c.Found, said.In(lang))
	return line + "    " + strings.Join(why, "\n    ") + "\n"
}

// Report writes a result as text to w, in lang "en" or "zh". Of our own modes it writes the table of outcomes, the
// contradictions, the longest time for which others were blocked, and the counts. It returns the error of w.
func Report(w io.Writer, r *faultlab.Result, lang string) error {
	if r.Serve != nil {
		return writeForeign(w, r, lang)
	}
	var b strings.Builder
	writeTable(&b, r, lang)
	b.WriteString("\n")
	wrong, undecided := r.Wrong(), r.Undecided()
	if len(wrong)+len(undecided) == 0 {
		b.WriteString(text.Of("Every outcome is as claimed.\n").In(lang))
	}
	if len(wrong) > 0 {
		b.WriteString(wrongText.In(lang) + "  " + strings.Join(wrong, "\n  ") + "\n")
	}
	if len(undecided) > 0 {
		b.WriteString(undecidedText.In(lang) + "  " + strings.Join(undecided, "\n  ") + "\n")
	}
	for _, p := range r.Unclaimed {
		b.WriteString(storyOf(p, lang))
	}
	for _, why := range r.LeftOut {
		b.WriteString(leftOutText.With(why).In(lang))
	}
	if r.Interrupted {
		b.WriteString(interruptedText.In(lang))
	}
	writeBlocked(&b, r, lang)
	writeCounts(&b, r, lang)
	_, err := io.WriteString(w, b.String())
	return err
}

// column is the width of a fault's column.
func column(name api.Hazard) int { return max(8, len(name)) + 1 }

// tableWidth is the widest that a table of outcomes may be, in columns: the hazards of the ladder fit.
const tableWidth = 136

// writeTable writes the outcomes, mode by hazard. Hazards that do not fit into tableWidth follow in tables of their
// own.
func writeTable(b *strings.Builder, r *faultlab.Result, lang string) {
	for i, shown := range bands(hazards(r)) {
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(report.Left(text.Of("mode").In(lang), 18) + report.Left(text.Of("store").In(lang), 6))
		for _, name := range shown {
			b.WriteString(report.Left(string(name), column(name)))
		}
		b.WriteString("\n")
		writeRows(b, r, shown)
	}
}

// writeRows writes a row for each mode and store that has a cell under one of the hazards.
func writeRows(b *strings.Builder, r *faultlab.Result, shown []api.Hazard) {
	for i := 0; i < len(r.Cells); {
		first := r.Cells[i]
		row := map[api.Hazard]string{}
		for ; i < len(r.Cells) && r.Cells[i].Mode == first.Mode && r.Cells[i].Store == first.Store; i++ {
			row[r.Cells[i].Fault] = string(r.Cells[i].Found)
			if len(r.Cells[i].Wrong) > 0 {
				row[r.Cells[i].Fault] += " (!)"
			}
		}
		var cells strings.Builder
		for _, name := range shown {
			cells.WriteString(report.Left(row[name], column(name)))
		}
		if strings.TrimSpace(cells.String()) != "" {
			b.WriteString(report.Left(first.Mode, 18) + report.Left(string(first.Store), 6) + cells.String() + "\n")
		}
	}
}

// hazards returns those of the cells, in the order of fault.All.
func hazards(r *faultlab.Result) []api.Hazard {
	var all []api.Hazard
	for _, f := range fault.All() {
		if slices.ContainsFunc(r.Cells, func(c faultlab.Cell) bool { return c.Fault == f.Name }) {
			all = append(all, f.Name)
		}
	}
	return all
}

// bands divides hazards into tables that are at most tableWidth wide.
func bands(names []api.Hazard) [][]api.Hazard {
	var all [][]api.Hazard
	width := tableWidth
	for _, name := range names {
		width += column(name)
		if width > tableWidth {
			all, width = append(all, nil), 24+column(name)
		}
		all[len(all)-1] = append(all[len(all)-1], name)
	}
	return all
}
