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

	"lastitem/internal/audit"
	layout "lastitem/internal/report"
	"lastitem/loadtest"
	"lastitem/loadtest/client"
	"lastitem/loadtest/words"
)

// WriteText writes one run as text for a terminal. The columns are those of JMeter's aggregate report, in Chinese under
// JMeter's names. Unlike JMeter, it gives accepted, refused and failed answers a line each, and never computes a
// latency over all three.
func WriteText(w io.Writer, r loadtest.Result, style Style) error {
	var b strings.Builder
	lang := style.Lang
	store := string(r.Store)
	if store == "" {
		store = "–"
	}
	b.WriteString(words.Say(lang, "report title", r.Mode, store, r.Repetition,
		planLine(withEngine(r), loadtest.Environment{}, lang)) + "\n")
	if r.Tries > 1 {
		b.WriteString(words.Say(lang, "tries", r.Tries) + "\n")
	}
	if r.Partial {
		b.WriteString(style.paint(words.Say(lang, "report partial"), yellow) + "\n")
	}
	writeAggregate(&b, r, style)
	writeLoad(&b, r, lang)
	writeVerdict(&b, r, style)
	_, err := io.WriteString(w, b.String())
	return err
}

// withEngine returns the run's plan with the engine that was actually used.
func withEngine(r loadtest.Result) loadtest.Plan {
	p := r.Plan
	if r.Engine != "" {
		p.Engine = r.Engine
	}
	return p
}

// writeAggregate writes the latencies: response times with the totals, then service times, then the lag of an open
// loop.
func writeAggregate(b *strings.Builder, r loadtest.Result, style Style) {
	lang := style.Lang
	total, failed := int64(0), r.Latency[client.Failed].Count
	g := grid{columns: latencyColumns(lang, "error", "throughput")}
	for _, k := range client.Kinds {
		l := r.Latency[k]
		total += l.Count
		errors := "0.00%"
		if k == client.Failed && l.Count > 0 {
			errors = "100.00%"
		}
		g.rows = append(g.rows, latencyRow(words.Say(lang, "row "+string(k)), l, errors, rate(kindRate(r, k))))
	}
	sum := latencyRow(words.Say(lang, "row total"), loadtest.Latency{}, percent(failed, total), rate(r.RequestsPerSecond))
	sum.cells[1].text = strconv.FormatInt(total, 10)
	g.rows = append(g.rows, sum)
	b.WriteString("\n" + words.Say(lang, "response time") + "\n")
	g.write(b, style)

	g = grid{columns: latencyColumns(lang)}
	for _, k := range client.Kinds {
		if l := r.Service[k]; l.Count > 0 {
			g.rows = append(g.rows, latencyRow(words.Say(lang, "row "+string(k)), l))
		}
	}
	if len(g.rows) > 0 && r.Plan.Open() { // in a closed loop a request is due when it is sent
		b.WriteString("\n" + words.Say(lang, "service time") + "\n")
		g.write(b, style)
	}
	if r.Lag.Count > 0 {
		b.WriteString("\n" + words.Say(lang, "lag") + "\n")
		grid{columns: latencyColumns(lang), rows: []gridRow{latencyRow(words.Say(lang, "row lag"), r.Lag)}}.write(b, style)
	}
	b.WriteString("\n")
}

func latencyColumns(lang string, more ...string) []column {
	keys := []string{"label", "samples", "mean", "median", "p90", "p95", "p99", "p99.9", "min", "max"}
	return heads(lang, 1, append(keys, more...)...)
}

// latencyRow returns a histogram's figures in milliseconds, or dashes if the histogram is empty.
func latencyRow(label string, l loadtest.Latency, more ...string) gridRow {
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

// kindRate returns the answers of a kind per second. Accepted answers are counted until the last of them, the others
// over the whole run.
func kindRate(r loadtest.Result, k client.Kind) float64 {
	if k == client.Accepted {
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

// writeLoad writes how many requests were sent, how they were answered, by which replicas, and the acceptances over
// time.
func writeLoad(b *strings.Builder, r loadtest.Result, lang string) {
	round := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	line := func(text string) { b.WriteString(text + "\n") }
	line(words.Say(lang, "report requests", r.Sent, r.Retried, r.Dropped, round(r.Elapsed), rate(r.RequestsPerSecond)))
	if r.Extra > 0 {
		line(words.Say(lang, "extra", r.Extra))
	}
	line(words.Say(lang, "report accepted", rate(r.AcceptedPerSecond), round(r.ToLastAccepted)))
	line(words.Say(lang, "report codes", counts(r.Codes, lang)))
	if len(r.Served) > 0 {
		line(words.Say(lang, "report served", servedText(r.Served, lang)))
	}
	if spark, peak := sparkline(r.Series); spark != "" {
		line(words.Say(lang, "report series", spark, peak))
	}
	for _, why := range r.Noisy {
		line(words.Say(lang, "noisy", why))
	}
}

// servedText returns the share of each replica, in the order of their names: "1 33%, 2 34%, 3 33%".
func servedText(served map[string]int, lang string) string {
	total := 0
	for _, n := range served {
		total += n
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(served)) {
		parts = append(parts, fmt.Sprintf("%s %.0f%%", name, 100*float64(served[name])/float64(total)))
	}
	return strings.Join(parts, words.Say(lang, "list sep"))
}

// sparklineWidth is the largest number of characters of a sparkline. In a longer run several windows share a character.
const sparklineWidth = 60

// sparkline draws the acceptances per second in each window, and returns the greatest rate.
func sparkline(series []loadtest.Window) (spark string, peak int64) {
	if len(series) < 2 {
		return "", 0
	}
	per := (len(series) + sparklineWidth - 1) / sparklineWidth
	var values []float64
	for chunk := range slices.Chunk(series, per) {
		accepted, span := int64(0), time.Duration(0)
		for _, w := range chunk {
			accepted, span = accepted+w.Accepted, span+w.For
		}
		values = append(values, float64(accepted)/max(span.Seconds(), 1e-9))
	}
	return layout.Spark(values), int64(math.Round(slices.Max(values)))
}

// verdictsShown is the largest number of products whose verdicts the report shows, worst first.
const verdictsShown = 5

// writeVerdict writes the judge's reports on the products, and whether the claim was confirmed.
func writeVerdict(b *strings.Builder, r loadtest.Result, style Style) {
	lang := style.Lang
	reports := slices.Clone(r.Verdicts)
	slices.SortStableFunc(reports, func(x, y audit.Report) int {
		return loadtest.VerdictRank(y.Verdict) - loadtest.VerdictRank(x.Verdict)
	})
	for i, v := range reports {
		if i == verdictsShown {
			b.WriteString(words.Say(lang, "report products", len(reports)-i) + "\n")
			break
		}
		verdict := words.VerdictText(lang, v.Verdict, v.Found)
		text := words.Say(lang, "report verdict", verdict)
		if len(reports) > 1 {
			text = words.Say(lang, "report product", v.ProductID, verdict)
		}
		b.WriteString(style.paint(text, verdictColor(v.Verdict)) + "\n")
		one := loadtest.SummarizeRuns([]loadtest.Result{{Verdicts: []audit.Report{v}}})
		if one.Known() {
			writeNote(b, words.Say(lang, "report counts", v.Initial, v.Final, v.Sold, v.Orders, v.Oversold, v.LostUpdates,
				v.Leaked), style, "  ")
		}
		for _, note := range judgeNotes(one, lang) {
			writeNote(b, note, style, "  ")
		}
	}
	if r.Claim == "" && r.Finding == "" || r.Foreign { // it makes no claim; the findings say the rest
		return
	}
	text := words.Say(lang, "report claim", words.ClaimText(lang, r.Claim), words.Say(lang, string(r.Finding)))
	if mark := words.FindingMark(r.Finding); mark != "" {
		text += " " + mark
	}
	b.WriteString(style.paint(text, findingColor(r.Finding)) + "\n")
	for _, why := range r.Why {
		told := func(v audit.Report) bool { return slices.Contains(v.Missing, why) }
		if slices.ContainsFunc(r.Verdicts, told) {
			continue
		}
		writeNote(b, why, style, "  ")
	}
}
