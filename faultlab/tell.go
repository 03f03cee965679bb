package faultlab

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"lastitem/contract/api"
	"lastitem/faultlab/fault"
	"lastitem/say/report"
	"lastitem/say/text"
)

// Sentences that several reports share.
var (
	wrongText       = text.Of("Not as it must be:\n")
	undecidedText   = text.Of("Undecided, since a server did not answer in time:\n")
	leftOutText     = text.Of("LEFT OUT, not played: %s\n")
	interruptedText = text.Of("Interrupted: the other cells have not been played to their end.\n")
)

// Line describes a cell in one line, followed by a line for each mistake.
func (c Cell) Line(lang string) string {
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

// Wrong describes each cell with mistakes in one line: which it is, and what is not as it must be.
func (r *Result) Wrong() []string { return r.named(func(c Cell) []string { return c.Wrong }) }

// Undecided has a line for each cell of which some schedules tell nothing, because a server did not answer in time.
func (r *Result) Undecided() []string { return r.named(func(c Cell) []string { return c.Undecided }) }

func (r *Result) named(of func(Cell) []string) []string {
	var all []string
	for _, c := range r.Cells {
		if said := of(c); len(said) > 0 {
			all = append(all, fmt.Sprintf("%s %s %s: %s", c.Mode, c.Store, c.Fault, strings.Join(said, "; ")))
		}
	}
	return all
}

// Write writes the report: the table of outcomes, the contradictions, the longest time for which others were blocked,
// and the counts.
func (r *Result) Write(w io.Writer, lang string) error {
	var b strings.Builder
	r.writeTable(&b, lang)
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
		b.WriteString(p.text(lang))
	}
	for _, why := range r.LeftOut {
		b.WriteString(leftOutText.With(why).In(lang))
	}
	if r.Interrupted {
		b.WriteString(interruptedText.In(lang))
	}
	r.writeBlocked(&b, lang)
	r.writeCounts(&b, lang)
	_, err := io.WriteString(w, b.String())
	return err
}

// column is the width of a fault's column.
func column(name api.Hazard) int { return max(9, len(name)) + 1 }

// tableWidth is the widest that a table of outcomes may be, in columns: the hazards of the ladder fit.
const tableWidth = 130

// writeTable writes the outcomes, mode by hazard. Hazards that do not fit into tableWidth follow in tables of their
// own.
func (r *Result) writeTable(b *strings.Builder, lang string) {
	for i, shown := range bands(r.hazards()) {
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(report.Left(text.Of("mode").In(lang), 18) + report.Left(text.Of("store").In(lang), 6))
		for _, name := range shown {
			b.WriteString(report.Left(string(name), column(name)))
		}
		b.WriteString("\n")
		r.writeRows(b, shown)
	}
}

// writeRows writes a row for each mode and store that has a cell under one of the hazards.
func (r *Result) writeRows(b *strings.Builder, shown []api.Hazard) {
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
func (r *Result) hazards() []api.Hazard {
	var all []api.Hazard
	for _, f := range fault.All() {
		if slices.ContainsFunc(r.Cells, func(c Cell) bool { return c.Fault == f.Name }) {
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

// writeBlocked lists how long others were kept out while A was stopped.
func (r *Result) writeBlocked(b *strings.Builder, lang string) {
	head := text.Of("\nWhile A stood still, everybody else was kept out for (longest):\n").In(lang)
	for _, c := range r.Cells {
		if c.Fault == api.Pause && c.BlockedFor > 0 {
			fmt.Fprintf(b, "%s  %-17s %-5s %v\n", head, c.Mode, c.Store, c.BlockedFor.Round(time.Millisecond))
			head = ""
		}
	}
}

func (r *Result) writeCounts(b *strings.Builder, lang string) {
	say := func(t text.Text, args ...any) { b.WriteString(t.With(args...).In(lang)) }
	b.WriteString("\n")
	say(text.Of("%d [cell|cells], %d [schedule|schedules] in %.0f s: %.1f a second"), len(r.Cells), r.Schedules,
		r.Took.Seconds(), float64(r.Schedules)/r.Took.Seconds())
	if r.Again > 0 {
		say(text.Of("; %d played again (the machine stood still, or the victim was turned away too early)"), r.Again)
	}
	left, cells := 0, 0
	for _, c := range r.Cells {
		if c.Left > 0 {
			left, cells = left+c.Left, cells+1
		}
	}
	if left > 0 {
		say(text.Of("; left out: %d [schedule|schedules] of %d [cell|cells] (--all plays them)"), left, cells)
	}
	per := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 / float64(max(1, r.Schedules)) }
	say(text.Of("\nCPU time: %.0f ms per schedule, of which %.0f ms in the lab's own process; peak memory: %d MB"),
		per(r.Cost.LabCPU+r.Cost.RestCPU), per(r.Cost.LabCPU), r.Cost.Peak>>20)
	b.WriteString("\n")
}
