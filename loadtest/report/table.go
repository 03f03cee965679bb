package report

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"lastitem/judge"
	"lastitem/loadtest/compare"
	layout "lastitem/say/report"
	"lastitem/say/text"
)

// WriteTable writes the comparison as text for a terminal: a row per mode with the evidence under each broken one, then
// the claims. If the style is too narrow for one line per mode, there are two tables: first the units sold, then the
// answers and their latencies.
func WriteTable(w io.Writer, c compare.Comparison, style Style) error {
	var b strings.Builder
	for _, p := range c.Plans {
		writeNote(&b, planLine(p, c.Environment, style.Lang), style, "")
	}
	writeNote(&b, environmentLine(c.Environment, style.Lang), style, "")
	b.WriteString("\n")
	if len(c.Summaries) > 0 {
		writeRows(&b, c, style)
		b.WriteString("\n")
	}
	for _, text := range noiseLines(c, style.Lang) {
		b.WriteString(style.paint(strings.Join(layout.Wrap(text, style.columns()), "\n  "), yellow) + "\n")
	}
	writeFindings(&b, c, style)
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteFindings writes the part of [WriteTable] below the rows, for use after [WriteText].
func WriteFindings(w io.Writer, c compare.Comparison, style Style) error {
	var b strings.Builder
	writeNote(&b, environmentLine(c.Environment, style.Lang), style, "")
	writeFindings(&b, c, style)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeRows writes the rows as one table if it fits, else as two.
func writeRows(b *strings.Builder, c compare.Comparison, style Style) {
	whole := wholeGrid(c, style.Lang)
	if whole.width() <= style.columns() {
		whole.write(b, style)
		return
	}
	soldGrid(c, style.Lang).write(b, style)
	b.WriteString("\n")
	answeredGrid(c, style.Lang).write(b, style)
}

// wholeGrid returns a grid with the judge's figures and the clients' side by side.
func wholeGrid(c compare.Comparison, lang string) grid {
	sold, answered := soldGrid(c, lang), answeredGrid(c, lang)
	whole := grid{columns: slices.Concat(sold.columns, answered.columns[1:])}
	for i, row := range sold.rows {
		whole.rows = append(whole.rows, gridRow{
			cells: slices.Concat(row.cells, answered.rows[i].cells[1:]),
			notes: slices.Concat(row.notes, answered.rows[i].notes),
		})
	}
	return whole
}

// heads returns columns with heads; the first few columns are aligned left.
func heads(left int, texts []string) []column {
	columns := make([]column, len(texts))
	for i, text := range texts {
		columns[i] = column{head: text, right: i >= left}
	}
	return columns
}

// soldGrid returns a grid with the judge's figures.
func soldGrid(c compare.Comparison, lang string) grid {
	g := grid{columns: heads(3, soldHeads.In(lang))}
	for _, s := range c.Summaries {
		cells := []gridCell{
			{text: rowName(s, c)},
			{text: strings.TrimRight(claimText(lang, s.Claim)+" "+findingMark(s.Finding), " "),
				color: findingColor(s.Finding)},
			{text: rowVerdict(s, lang), color: verdictColor(s.Verdict)},
		}
		if !s.Known() {
			for range 5 {
				cells = append(cells, gridCell{text: "–"})
			}
		} else {
			cells = append(cells,
				gridCell{text: fmt.Sprintf("%d/%d", s.Before, s.After)},
				gridCell{text: fmt.Sprintf("%d (%d)", s.Sold, s.Orders)},
				badCount(s.Oversold), badCount(s.LostUpdates), badCount(s.Leaked))
		}
		notes := append(append(holdLines(s.Holds, lang), ticketLines(s.Tickets, lang)...), judgeNotes(s, lang)...)
		if s.Extra > 0 {
			notes = append([]string{extraText(s.Extra, lang)}, notes...)
		}
		g.rows = append(g.rows, gridRow{cells: cells, notes: notes})
	}
	return g
}

// answeredGrid returns a grid with the clients' figures.
func answeredGrid(c compare.Comparison, lang string) grid {
	g := grid{columns: heads(1, answeredHeads.In(lang))}
	for _, s := range c.Summaries {
		row := gridRow{cells: []gridCell{
			{text: rowName(s, c)},
			{text: strconv.Itoa(s.SoldOut)},
			{text: strconv.Itoa(s.Busy)},
			badCount(int64(s.Unknown)),
			{text: rate(s.AcceptedPerSecond.Median)},
			{text: "–"},
			{text: shares(s.Served, c.Environment.Replicas)},
		}}
		if s.Accepted > 0 {
			row.cells[5].text = millis(s.P50) + "/" + millis(s.P95) + "/" + millis(s.P99)
		}
		if len(s.Others) > 0 {
			row.notes = append(row.notes, text.Of("other answers: %s").With(counts(s.Others, lang)).In(lang))
		}
		g.rows = append(g.rows, row)
	}
	return g
}

// rowName names a row: the mode, with its plan if the mode has run several plans.
func rowName(s compare.Summary, c compare.Comparison) string {
	for _, other := range c.Summaries {
		if other.Mode == s.Mode && other.Plan != s.Plan && s.Plan != "" {
			return s.Mode + " · " + s.Plan
		}
	}
	return s.Mode
}

// rowVerdict returns the verdict and, if there are several runs, how many had it: "BROKEN O 27/30".
func rowVerdict(s compare.Summary, lang string) string {
	found := ""
	if s.Verdict == judge.Broken {
		found = s.Found
	}
	text := verdictText(lang, s.Verdict, found)
	if s.Runs > 1 && s.Verdict != "" {
		text += fmt.Sprintf(" %d/%d", s.Verdicts[s.Verdict], s.Runs)
	}
	return text
}

func verdictColor(v judge.Verdict) string {
	switch v {
	case judge.Exact:
		return green
	case judge.Broken:
		return red
	case "":
		return ""
	}
	return yellow
}

func findingColor(f judge.Finding) string {
	switch f {
	case judge.Contradicted:
		return red
	case judge.Undecided:
		return yellow
	}
	return ""
}

// badCount formats a number that should be zero.
func badCount(n int64) gridCell {
	c := gridCell{text: strconv.FormatInt(n, 10)}
	if n != 0 {
		c.color = red
	}
	return c
}

// millis formats a duration in milliseconds: more decimals below one, none from a hundred on.
func millis(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	switch {
	case ms < 1:
		return strconv.FormatFloat(ms, 'f', 2, 64)
	case ms < 100:
		return strconv.FormatFloat(ms, 'f', 1, 64)
	}
	return strconv.FormatFloat(ms, 'f', 0, 64)
}

// rate formats a rate per second, with a decimal below ten.
func rate(perSecond float64) string {
	if perSecond > 0 && perSecond < 10 {
		return strconv.FormatFloat(perSecond, 'f', 1, 64)
	}
	return strconv.FormatFloat(perSecond, 'f', 0, 64)
}

// shares returns the share of each replica in the answers, in the order of their names: "33/34/33%". An expected
// replica that never answered has a 0.
func shares(served map[string]int, replicas int) string {
	total := 0
	for _, n := range served {
		total += n
	}
	if total == 0 {
		return "–"
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(served)) {
		parts = append(parts, strconv.Itoa(int(math.Round(100*float64(served[name])/float64(total)))))
	}
	for len(parts) < replicas {
		parts = append(parts, "0")
	}
	return strings.Join(parts, "/") + "%"
}

// counts lists counts, most frequent first: "lock_busy 12, timeout 3".
func counts(n map[string]int, lang string) string {
	names := slices.SortedFunc(maps.Keys(n), func(a, b string) int {
		if n[a] != n[b] {
			return n[b] - n[a]
		}
		return strings.Compare(a, b)
	})
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = fmt.Sprintf("%s %d", name, n[name])
	}
	return strings.Join(parts, text.Of(", ").In(lang))
}

// environmentLine describes the environment in one line.
func environmentLine(e compare.Environment, lang string) string {
	cpu := e.CPU
	if cpu == "" {
		cpu = "CPU"
	}
	return text.Of("%s, %s/%s, %s × %d, GOMAXPROCS %d, lastitem %s").With(e.Go, e.OS, e.Arch, cpu, e.CPUs, e.GOMAXPROCS,
		e.Version).In(lang)
}
