package report

import (
	"regexp"
	"strings"

	layout "lastitem/say/report"
)

// Style is the language, width and colour of a report.
type Style struct {
	Lang  string // "en" or "zh"
	Width int    // columns of the terminal; 0 = [DefaultWidth]
	Color bool   // ANSI colours; a word or sign always says the same as the colour
}

// DefaultWidth is the width if the terminal's is unknown: wide enough for one line per mode.
const DefaultWidth = 180

// columns returns the number of columns to fill.
func (s Style) columns() int {
	if s.Width <= 0 {
		return DefaultWidth
	}
	return s.Width
}

// The colours, as ANSI attributes; "" draws plain.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
	dim    = "2"
)

// paint wraps text in an ANSI attribute if the style has colour.
func (s Style) paint(text, attribute string) string {
	if !s.Color || attribute == "" || strings.TrimSpace(text) == "" {
		return text
	}
	return "\x1b[" + attribute + "m" + text + "\x1b[0m"
}

// grid is a table of aligned columns, two spaces apart.
type grid struct {
	columns []column
	rows    []gridRow
}

type column struct {
	head  string // a \n starts its second line
	right bool   // numbers align right
}

// pad fills text with spaces to n columns of the terminal: on the left if right is set, else on the right.
func (c column) pad(text string, n int) string {
	if c.right {
		return layout.Right(text, n)
	}
	return layout.Left(text, n)
}

// gridRow is a line of cells with the notes that are printed below it.
type gridRow struct {
	cells []gridCell
	notes []string
}

type gridCell struct {
	text  string
	color string
}

const gap = "  "

// widths returns the width of each column.
func (g grid) widths() []int {
	w := make([]int, len(g.columns))
	for i, c := range g.columns {
		for line := range strings.SplitSeq(c.head, "\n") {
			w[i] = max(w[i], layout.Width(line))
		}
		for _, r := range g.rows {
			w[i] = max(w[i], layout.Width(r.cells[i].text))
		}
	}
	return w
}

// width returns how many columns of the terminal the whole grid needs.
func (g grid) width() int {
	n := len(gap) * (len(g.columns) - 1)
	for _, w := range g.widths() {
		n += w
	}
	return n
}

// write draws the grid: the heads, a rule, and the rows with their notes.
func (g grid) write(b *strings.Builder, style Style) {
	widths := g.widths()
	g.writeHeads(b, style, widths)
	for _, r := range g.rows {
		var line strings.Builder
		for i, c := range r.cells {
			if i > 0 {
				line.WriteString(gap)
			}
			line.WriteString(style.paint(g.columns[i].pad(c.text, widths[i]), c.color))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
		for _, note := range r.notes {
			writeNote(b, note, style, "    ")
		}
	}
}

// writeHeads draws the heads, aligned at the bottom, and the rule below them.
func (g grid) writeHeads(b *strings.Builder, style Style, widths []int) {
	heads, lines := make([][]string, len(g.columns)), 1
	for i, c := range g.columns {
		heads[i] = strings.Split(c.head, "\n")
		lines = max(lines, len(heads[i]))
	}
	for l := range lines {
		var line strings.Builder
		for i, h := range heads {
			if i > 0 {
				line.WriteString(gap)
			}
			text := ""
			if at := l - (lines - len(h)); at >= 0 {
				text = h[at]
			}
			line.WriteString(g.columns[i].pad(text, widths[i]))
		}
		b.WriteString(style.paint(strings.TrimRight(line.String(), " "), dim) + "\n")
	}
	b.WriteString(style.paint(strings.Repeat("─", g.width()), dim) + "\n")
}

// writeNote writes text indented and wrapped to the style's width. Continuation lines are indented further.
func writeNote(b *strings.Builder, text string, style Style, indent string) {
	for i, line := range layout.Wrap(text, style.columns()-len(indent)-2) {
		if i > 0 {
			b.WriteString("  ")
		}
		b.WriteString(indent + line + "\n")
	}
}

// markdown writes the grid as a Markdown table, without its notes.
func (g grid) markdown(b *strings.Builder) {
	row := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	names, rules := make([]string, len(g.columns)), make([]string, len(g.columns))
	for i, h := range g.columns {
		names[i], rules[i] = oneLine(h.head), "---"
		if h.right {
			rules[i] = "---:"
		}
	}
	row(names)
	row(rules)
	for _, r := range g.rows {
		var cells []string
		for _, cell := range r.cells {
			cells = append(cells, markdownText(layout.Grouped(cell.text)))
		}
		row(cells)
	}
}

// divided matches where a line break is no space: after a hyphen, between two Chinese characters, before a slash or a
// full-width bracket.
var divided = regexp.MustCompile(`-\n|(\p{Han})\n(\p{Han})|\n([/（])`)

// markdownText escapes the characters that would end a table cell or be read as markup.
func markdownText(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "\n", " ").Replace(text)
}

// oneLine joins the lines of a column's head.
func oneLine(head string) string {
	return strings.ReplaceAll(divided.ReplaceAllString(head, "$1$2$3"), "\n", " ")
}
