package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"lastitem/internal/audit"
	"lastitem/internal/columns"
	"lastitem/loadtest/delta"
	"lastitem/loadtest/words"
)

// WriteDelta writes the comparison of two load tests as text for a terminal.
func WriteDelta(w io.Writer, r delta.Report, style Style) error {
	var b strings.Builder
	note := func(n finding) {
		b.WriteString(style.paint(strings.Join(columns.Wrap(n.text, style.columns()-2), "\n  "), n.color) + "\n")
	}
	for _, n := range deltaBefore(r, style.Lang) {
		note(n)
	}
	if len(r.Rows) > 0 {
		b.WriteString("\n")
		deltaGrid(r, style.Lang).write(&b, style)
	}
	b.WriteString("\n")
	for _, n := range deltaAfter(r, style.Lang) {
		note(n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteDeltaJSON writes the comparison of two load tests as indented JSON.
func WriteDeltaJSON(w io.Writer, r delta.Report) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// WriteDeltaMarkdown writes the comparison of two load tests as Markdown, for a pull request.
func WriteDeltaMarkdown(w io.Writer, r delta.Report, lang string) error {
	var b strings.Builder
	for _, n := range deltaBefore(r, lang) {
		b.WriteString("* " + markdownText(n.text) + "\n")
	}
	if len(r.Rows) > 0 {
		b.WriteString("\n")
		deltaGrid(r, lang).markdown(&b)
	}
	b.WriteString("\n")
	for _, n := range deltaAfter(r, lang) {
		b.WriteString("* " + markdownText(n.text) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// markdownText escapes the characters that would end a table cell or be read as markup.
func markdownText(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "\n", " ").Replace(text)
}

// deltaBefore returns the lines above the figures: the two sides, the settings that differ between them, and the verdicts.
func deltaBefore(r delta.Report, lang string) []finding {
	var all []finding
	say := func(color, text string) { all = append(all, finding{color: color, text: text}) }
	made := func(s delta.Side) string { return s.Environment.Time.UTC().Format("2006-01-02 15:04 UTC") }
	say("", words.Say(lang, "delta a", r.A.Name, made(r.A), r.A.Environment.Version))
	say("", words.Say(lang, "delta b", r.B.Name, made(r.B), r.B.Environment.Version))
	list := func(color, head string, differs []delta.Differing) {
		if len(differs) == 0 {
			return
		}
		var parts []string
		for _, d := range differs {
			parts = append(parts, words.Say(lang, "delta differs", d.What, d.A, d.B))
		}
		say(color, head+strings.Join(parts, words.Say(lang, "evidence sep")))
	}
	list(red, words.Say(lang, "delta plans"), r.Plans)
	list(yellow, words.Say(lang, "delta environments"), r.Differs)
	for _, s := range []delta.Side{r.A, r.B} {
		if s.Partial {
			say(yellow, words.Say(lang, "delta partial", s.Name))
		}
		if s.Noisy > 0 {
			say(yellow, words.Say(lang, "delta noisy", s.Name, s.Noisy, s.Runs, s.Why))
		}
	}
	same := true
	for _, row := range r.Rows {
		a, b := deltaVerdict(lang, row.VerdictA, row.FoundA, row.FindingA), deltaVerdict(lang, row.VerdictB, row.FoundB, row.FindingB)
		if a == b {
			continue
		}
		same = false
		color := yellow
		if row.FindingB == audit.Contradicted {
			color = red
		}
		say(color, words.Say(lang, "delta verdict", deltaName(r, row), a, b))
	}
	if same && len(r.Rows) > 0 {
		say("", words.Say(lang, "delta same verdicts"))
	}
	return all
}

// deltaVerdict describes a verdict, and whether it confirms the claim.
func deltaVerdict(lang string, v audit.Verdict, found string, f audit.Finding) string {
	if v != audit.Broken {
		found = ""
	}
	return strings.TrimRight(words.VerdictText(lang, v, found)+" "+words.FindingMark(f), " ")
}

// deltaAfter returns the lines below the figures: how to read them, and which rows have no figures.
func deltaAfter(r delta.Report, lang string) []finding {
	var all []finding
	say := func(color, text string) { all = append(all, finding{color: color, text: text}) }
	figures, better, worse, ranges, unlike := 0, 0, 0, false, false
	for _, row := range r.Rows {
		for _, f := range row.Figures {
			switch f.Outcome {
			case delta.TooFew, delta.NoSamples:
				continue
			case delta.Unlike:
				unlike = true
				continue
			case delta.Better:
				better++
			case delta.Worse:
				worse++
			}
			figures++
			ranges = ranges || !deltaInterval(f.NA) || !deltaInterval(f.NB)
		}
	}
	switch {
	case len(r.Rows) == 0:
		say(yellow, words.Say(lang, "delta none"))
	case figures == 0:
		say(yellow, words.Say(lang, "delta nothing", delta.Least))
	case better+worse == 0:
		say("", words.Say(lang, "delta alike", figures))
	default:
		say("", words.Say(lang, "delta shown", better+worse, figures, better, worse))
	}
	if by := int(math.Round(float64(figures) * (1 - r.Confidence))); by > 0 {
		say(dim, words.Say(lang, "delta many", figures, by))
	}
	if r.Sampled(delta.Rounds) && figures > 0 {
		say(dim, words.Say(lang, "delta rounds"))
	}
	if r.Sampled(delta.Windows) && figures > 0 {
		say(yellow, words.Say(lang, "delta windows", delta.Least))
	}
	if unlike {
		say(yellow, words.Say(lang, "delta unlike"))
	}
	if ranges {
		say(dim, words.Say(lang, "delta range"))
	}
	if len(r.OnlyA) > 0 {
		say("", words.Say(lang, "delta only a", strings.Join(r.OnlyA, words.Say(lang, "list sep"))))
	}
	if len(r.OnlyB) > 0 {
		say("", words.Say(lang, "delta only b", strings.Join(r.OnlyB, words.Say(lang, "list sep"))))
	}
	return all
}

// medianNeeds is the least number of samples for a 95% interval of the median.
const medianNeeds = 6

func deltaInterval(n int) bool { return n >= medianNeeds }

// deltaName names a row: the mode, with its plan and store if the rows have several.
func deltaName(r delta.Report, row delta.Row) string {
	name := row.Mode
	if slices.ContainsFunc(r.Rows, func(o delta.Row) bool { return o.Plan != row.Plan }) && row.Plan != "" {
		name += " · " + row.Plan
	}
	if slices.ContainsFunc(r.Rows, func(o delta.Row) bool { return o.Mode == row.Mode && o.Store != row.Store }) {
		name += " · " + string(row.Store)
	}
	return name
}

// deltaGrid returns a grid with a row for each figure of each mode.
func deltaGrid(r delta.Report, lang string) grid {
	g := grid{columns: heads(lang, 3, "mode", "figure", "outcome", "difference", "a", "b", "p", "n")}
	for _, row := range r.Rows {
		for _, f := range row.Figures {
			cells := []gridCell{
				{text: deltaName(r, row)}, {text: figureName(f, lang)},
				{text: words.Say(lang, "outcome "+string(f.Outcome)), color: map[delta.Outcome]string{delta.Better: green, delta.Worse: red}[f.Outcome]},
				{text: "–"}, {text: medianText(f, f.A, f.NA)}, {text: medianText(f, f.B, f.NB)},
				{text: "–"}, {text: fmt.Sprintf("%d+%d", f.NA, f.NB)},
			}
			if f.Outcome.Compared() {
				cells[3].text = fmt.Sprintf("%+.1f%% (%+.1f to %+.1f)", 100*f.Difference.Estimate, 100*f.Difference.Low, 100*f.Difference.High)
				if lang == "zh" {
					cells[3].text = strings.Replace(cells[3].text, " to ", " 至 ", 1)
				}
				cells[6].text = strconv.FormatFloat(f.P, 'f', 3, 64)
				if f.P < leastP {
					cells[6].text = "<0.001"
				}
			}
			g.rows = append(g.rows, gridRow{cells: cells})
		}
	}
	return g
}

// leastP is the smallest p-value that the figures show: an exact 0 does not exist.
const leastP = 0.001

// figureName names a figure as the other tables do.
func figureName(f delta.Figure, lang string) string {
	if f.Latency {
		return f.Name
	}
	return oneLine(words.Say(lang, "col "+f.Name))
}

// medianText formats a median with its interval, or with the range of the samples in square brackets.
func medianText(f delta.Figure, i delta.Interval, n int) string {
	if n == 0 {
		return "–"
	}
	text := func(v float64) string {
		if f.Latency {
			return millis(time.Duration(v))
		}
		return rate(v)
	}
	unit := map[bool]string{true: " ms", false: "/s"}[f.Latency]
	left, right := "(", ")"
	if !deltaInterval(n) {
		left, right = "[", "]"
	}
	return text(i.Estimate) + unit + " " + left + text(i.Low) + "–" + text(i.High) + right
}
