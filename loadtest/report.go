package loadtest

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"lastitem/internal/audit"
)

// WriteText writes one run for people. Its columns are those of JMeter's aggregate report, and in Chinese bear the names that
// JMeter gives them, but accepted, refused and failed answers have a line each and no latency is taken over all three.
func WriteText(w io.Writer, r Result, style Style) error {
	var b strings.Builder
	lang := style.Lang
	store := string(r.Store)
	if store == "" {
		store = "–"
	}
	b.WriteString(say(lang, "report title", r.Mode, store, r.Repetition, planLine(withEngine(r), Environment{}, lang)) + "\n")
	if r.Tries > 1 {
		b.WriteString(say(lang, "tries", r.Tries) + "\n")
	}
	if r.Partial {
		b.WriteString(style.paint(say(lang, "report partial"), yellow) + "\n")
	}
	writeAggregate(&b, r, style)
	writeLoad(&b, r, lang)
	writeVerdict(&b, r, style)
	_, err := io.WriteString(w, b.String())
	return err
}

// withEngine returns the run's plan with the engine that was really used.
func withEngine(r Result) Plan {
	p := r.Plan
	if r.Engine != "" {
		p.Engine = r.Engine
	}
	return p
}

// writeAggregate draws the latencies: response time with the totals, then service time, then the lag of an open model.
func writeAggregate(b *strings.Builder, r Result, style Style) {
	lang := style.Lang
	total, failed := int64(0), r.Latency[Failed].Count
	g := grid{columns: latencyColumns(lang, "error", "throughput")}
	for _, k := range Kinds {
		l := r.Latency[k]
		total += l.Count
		errors := "0.00%"
		if k == Failed && l.Count > 0 {
			errors = "100.00%"
		}
		g.rows = append(g.rows, latencyRow(say(lang, "row "+string(k)), l, errors, rate(kindRate(r, k))))
	}
	sum := latencyRow(say(lang, "row total"), Latency{}, percent(failed, total), rate(r.RequestsPerSecond))
	sum.cells[1].text = strconv.FormatInt(total, 10)
	g.rows = append(g.rows, sum)
	b.WriteString("\n" + say(lang, "response time") + "\n")
	g.write(b, style)

	g = grid{columns: latencyColumns(lang)}
	for _, k := range Kinds {
		if l := r.Service[k]; l.Count > 0 {
			g.rows = append(g.rows, latencyRow(say(lang, "row "+string(k)), l))
		}
	}
	if len(g.rows) > 0 {
		b.WriteString("\n" + say(lang, "service time") + "\n")
		g.write(b, style)
	}
	if r.Lag.Count > 0 {
		b.WriteString("\n" + say(lang, "lag") + "\n")
		grid{columns: latencyColumns(lang), rows: []gridRow{latencyRow(say(lang, "row lag"), r.Lag)}}.write(b, style)
	}
	b.WriteString("\n")
}

func latencyColumns(lang string, more ...string) []column {
	keys := []string{"label", "samples", "mean", "median", "p90", "p95", "p99", "p99.9", "min", "max"}
	return heads(lang, 1, append(keys, more...)...)
}

// latencyRow writes a histogram's figures in milliseconds; a dash each where it is empty.
func latencyRow(label string, l Latency, more ...string) gridRow {
	row := gridRow{cells: []gridCell{{text: label}, {text: strconv.FormatInt(l.Count, 10)}}}
	for _, d := range []time.Duration{l.Mean, l.P50, l.P90, l.P95, l.P99, l.P999, l.Min, l.Max} {
		text := "–"
		if l.Count > 0 {
			text = strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', 2, 64)
		}
		row.cells = append(row.cells, gridCell{text: text})
	}
	for _, text := range more {
		row.cells = append(row.cells, gridCell{text: text})
	}
	return row
}

// kindRate returns the answers of a kind per second: accepted ones until the last of them, the others over the whole run.
func kindRate(r Result, k Kind) float64 {
	if k == Accepted {
		return r.AcceptedPerSecond
	}
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Latency[k].Count) / r.Elapsed.Seconds()
}

func percent(n, of int64) string {
	if of == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f%%", 100*float64(n)/float64(of))
}

// writeLoad writes how much was sent, what was answered, by whom, and how it went second by second.
func writeLoad(b *strings.Builder, r Result, lang string) {
	round := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	line := func(text string) { b.WriteString(text + "\n") }
	line(say(lang, "report requests", r.Sent, r.Retried, r.Dropped, round(r.Elapsed), rate(r.RequestsPerSecond)))
	if r.Extra > 0 {
		line(say(lang, "extra", r.Extra))
	}
	line(say(lang, "report accepted", rate(r.AcceptedPerSecond), round(r.ToLastAccepted)))
	line(say(lang, "report codes", counts(r.Codes, lang)))
	if len(r.Served) > 0 {
		line(say(lang, "report served", servedText(r.Served, lang)))
	}
	if spark, peak := sparkline(r.Series); spark != "" {
		line(say(lang, "report series", spark, peak))
	}
	for _, why := range r.Noisy {
		line(say(lang, "noisy", why))
	}
}

// servedText writes "1 33%, 2 34%, 3 33%", in the order of the replicas' names.
func servedText(served map[string]int, lang string) string {
	total := 0
	for _, n := range served {
		total += n
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(served)) {
		parts = append(parts, fmt.Sprintf("%s %.0f%%", name, 100*float64(served[name])/float64(total)))
	}
	return strings.Join(parts, say(lang, "list sep"))
}

// sparklineWidth is how many seconds a sparkline shows one by one; longer runs share a sign.
const sparklineWidth = 60

// sparkline draws the acceptances of each second as a bar of one character, and returns the greatest of them. A second
// without any is a blank bar, "▁" being the least that is not nothing.
func sparkline(series []Second) (spark string, peak int64) {
	const bars = "▁▂▃▄▅▆▇█"
	if len(series) < 2 {
		return "", 0
	}
	per := (len(series) + sparklineWidth - 1) / sparklineWidth
	var values []int64
	for chunk := range slices.Chunk(series, per) {
		most := int64(0)
		for _, s := range chunk {
			most = max(most, s.Accepted)
		}
		values, peak = append(values, most), max(peak, most)
	}
	levels := []rune(bars)
	for _, v := range values {
		if v == 0 {
			spark += "·"
			continue
		}
		spark += string(levels[int((v*int64(len(levels))-1)/peak)])
	}
	return spark, peak
}

// verdictsShown is on how many products the report shows the verdict, the worst first.
const verdictsShown = 5

// writeVerdict writes the judge's reports on the products and what became of the claim.
func writeVerdict(b *strings.Builder, r Result, style Style) {
	lang := style.Lang
	reports := slices.Clone(r.Verdicts)
	slices.SortStableFunc(reports, func(x, y audit.Report) int { return verdictRank(y.Verdict) - verdictRank(x.Verdict) })
	for i, v := range reports {
		if i == verdictsShown {
			b.WriteString(say(lang, "report products", len(reports)-i) + "\n")
			break
		}
		verdict := verdictText(lang, v.Verdict, v.Found)
		text := say(lang, "report verdict", verdict)
		if len(reports) > 1 {
			text = say(lang, "report product", v.ProductID, verdict)
		}
		b.WriteString(style.paint(text, verdictColor(v.Verdict)) + "\n")
		one := summarizeRuns([]Result{{Verdicts: []audit.Report{v}}})
		if one.known() {
			writeNote(b, say(lang, "report counts", v.Initial, v.Final, v.Sold, v.Orders, v.Oversold, v.LostUpdates, v.Leaked), style, "  ")
		}
		for _, note := range judgeNotes(one, lang) {
			writeNote(b, note, style, "  ")
		}
	}
	if r.Claim == "" && r.Finding == "" {
		return
	}
	text := say(lang, "report claim", claimText(lang, r.Claim), say(lang, string(r.Finding)))
	if mark := findingMark(r.Finding); mark != "" {
		text += " " + mark
	}
	b.WriteString(style.paint(text, findingColor(r.Finding)) + "\n")
	for _, why := range r.Why {
		writeNote(b, why, style, "  ")
	}
}
