package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"lastitem/judge"
	"lastitem/loadtest"
	"lastitem/loadtest/client"
	"lastitem/loadtest/compare"
	"lastitem/loadtest/plan"
	layout "lastitem/say/report"
	"lastitem/say/text"
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
	b.WriteString(text.Of("%s on %s, repetition %d: %s").With(r.Mode, store, r.Repetition, planLine(withEngine(r),
		compare.Environment{}, lang)).In(lang) + "\n")
	if r.Tries > 1 {
		b.WriteString(text.Of("of %d runs, the others showed nothing").With(r.Tries).In(lang) + "\n")
	}
	if r.Partial {
		b.WriteString(style.paint(text.Of("partial: interrupted before the end").In(lang), yellow) + "\n")
	}
	writeAggregate(&b, r, style)
	writeLoad(&b, r, lang)
	writeVerdict(&b, r, style)
	_, err := io.WriteString(w, b.String())
	return err
}

// withEngine returns the run's plan with the engine that was actually used.
func withEngine(r loadtest.Result) plan.Plan {
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
	g := grid{columns: heads(1, latencyHeads.In(lang))}
	for _, k := range client.Kinds {
		l := r.Latency[k]
		total += l.Count
		errors := "0.00%"
		if k == client.Failed && l.Count > 0 {
			errors = "100.00%"
		}
		g.rows = append(g.rows, latencyRow(kinds.In(lang)[k], l, errors, rate(kindRate(r, k))))
	}
	sum := latencyRow(text.Of("total").In(lang), loadtest.Latency{}, percent(failed, total), rate(r.RequestsPerSecond))
	sum.cells[1].text = strconv.FormatInt(total, 10)
	g.rows = append(g.rows, sum)
	b.WriteString("\n" + text.Of("response time, ms (from the intended start to the last byte)").In(lang) + "\n")
	g.write(b, style)

	g = grid{columns: heads(1, latencyHeads.In(lang)[:10])}
	for _, k := range client.Kinds {
		if l := r.Service[k]; l.Count > 0 {
			g.rows = append(g.rows, latencyRow(kinds.In(lang)[k], l))
		}
	}
	if len(g.rows) > 0 && r.Plan.Open() { // in a closed loop a request is due when it is sent
		b.WriteString("\n" + text.Of("service time, ms (from the send to the last byte)").In(lang) + "\n")
		g.write(b, style)
	}
	if r.Lag.Count > 0 {
		b.WriteString("\n" + text.Of("schedule lag, ms (open loop: send minus intended start)").In(lang) + "\n")
		grid{columns: heads(1, latencyHeads.In(lang)[:10]), rows: []gridRow{latencyRow(text.Of("lag").In(lang),
			r.Lag)}}.write(b, style)
	}
	b.WriteString("\n")
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
	line := func(said string) { b.WriteString(said + "\n") }
	line(text.Of("requests: %d sent, %d of them [a retry|retries], %d dropped, in %s: %s/s").With(r.Sent, r.Retried,
		r.Dropped, round(r.Elapsed), rate(r.RequestsPerSecond)).In(lang))
	if r.Extra > 0 {
		line(extraText(r.Extra, lang))
	}
	line(text.Of("accepted: %s/s to the last acceptance, after %s").With(rate(r.AcceptedPerSecond),
		round(r.ToLastAccepted)).In(lang))
	for _, said := range append(holdLines(r.Holds, lang), ticketLines(r.Tickets, lang)...) {
		line(said)
	}
	line(text.Of("codes: %s").With(counts(r.Codes, lang)).In(lang))
	if len(r.Served) > 0 {
		line(text.Of("served by: %s").With(servedText(r.Served, lang)).In(lang))
	}
	if said := processorsText(r, lang); said != "" {
		line(said)
	}
	accepted := func(w loadtest.Window) int64 { return w.Accepted }
	if spark, peak := sparkline(r.Series, accepted); spark != "" {
		line(text.Of("accepted per second, over the run: %s (peak %d)").With(spark, peak).In(lang))
	}
	completed := func(w loadtest.Window) int64 { return w.Completed }
	if spark, peak := sparkline(r.Series, completed); r.Tickets != nil && spark != "" {
		line(text.Of("tickets that ended per second: %s (peak %d)").With(spark, peak).In(lang))
	}
	for _, why := range r.Noisy {
		line(text.Of("noisy: %s").With(why).In(lang))
	}
}

// processorsText says how much of the processors the load generator took from what it measured; "" if nobody knows.
func processorsText(r loadtest.Result, lang string) string {
	switch {
	case r.GeneratorCores == 0:
		return ""
	case r.BusyCores < r.GeneratorCores:
		return text.Of("processors: the load generator kept %.2f cores busy").With(r.GeneratorCores).In(lang)
	}
	return text.Of("processors: %.2f cores busy, %.2f of them (%.0f%%) with the load generator").With(r.BusyCores,
		r.GeneratorCores, 100*r.GeneratorCores/r.BusyCores).In(lang)
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
	return strings.Join(parts, text.Of(", ").In(lang))
}

// sparklineWidth is the largest number of characters of a sparkline. In a longer run several windows share a character.
const sparklineWidth = 60

// sparkline draws the acceptances per second in each window, and returns the greatest rate.
func sparkline(series []loadtest.Window, of func(loadtest.Window) int64) (spark string, peak int64) {
	if len(series) < 2 {
		return "", 0
	}
	per := (len(series) + sparklineWidth - 1) / sparklineWidth
	var values []float64
	for chunk := range slices.Chunk(series, per) {
		n, span := int64(0), time.Duration(0)
		for _, w := range chunk {
			n, span = n+of(w), span+w.For
		}
		values = append(values, float64(n)/max(span.Seconds(), 1e-9))
	}
	return layout.Spark(values), int64(math.Round(slices.Max(values)))
}

// verdictsShown is the largest number of products whose verdicts the report shows, worst first.
const verdictsShown = 5

// counted says what became of a product's units.
func counted(v judge.Report, lang string) string {
	said := text.Of("stock %d to %d, sold %d in %d [order|orders], oversold %d, lost updates %d, leaked %d").
		With(v.Initial, v.Final, v.Sold, v.Orders, v.Oversold, v.LostUpdates, v.Leaked).In(lang)
	for _, more := range []struct {
		n    int
		said text.Text
	}{
		{v.AckLost, text.Of(", acknowledged and lost %d")}, {v.Doubles, text.Of(", charged twice %d")},
		{v.BadRefusals, text.Of(", refused though in stock %d")},
	} {
		if more.n > 0 {
			said += more.said.With(more.n).In(lang)
		}
	}
	return said
}

// writeVerdict writes the judge's reports on the products, and whether the claim was confirmed.
func writeVerdict(b *strings.Builder, r loadtest.Result, style Style) {
	lang := style.Lang
	reports := slices.Clone(r.Verdicts)
	slices.SortStableFunc(reports, func(x, y judge.Report) int {
		return compare.VerdictRank(y.Verdict) - compare.VerdictRank(x.Verdict)
	})
	for i, v := range reports {
		if i == verdictsShown {
			b.WriteString(text.Of("+%d more [product|products], none of them worse").With(len(reports)-i).In(lang) + "\n")
			break
		}
		verdict := verdictText(lang, v.Verdict, v.Found)
		said := text.Of("verdict: %s").With(verdict).In(lang)
		if len(reports) > 1 {
			said = text.Of("verdict on product %s: %s").With(cmp.Or(v.Product, fmt.Sprint(v.ProductID)), verdict).In(lang)
		}
		b.WriteString(style.paint(said, verdictColor(v.Verdict)) + "\n")
		one := compare.SummarizeRuns([]loadtest.Result{{Verdicts: []judge.Report{v}, Holds: r.Holds}})
		if one.Known() {
			writeNote(b, counted(v, lang), style, "  ")
		}
		for _, note := range judgeNotes(one, lang) {
			writeNote(b, note, style, "  ")
		}
	}
	if r.Claim == "" && r.Finding == "" || r.Foreign { // it makes no claim; the findings say the rest
		return
	}
	said := text.Of("claim: %s: %s").With(claimText(lang, r.Claim), judged.In(lang)[string(r.Finding)]).In(lang)
	if mark := findingMark(r.Finding); mark != "" {
		said += " " + mark
	}
	b.WriteString(style.paint(said, findingColor(r.Finding)) + "\n")
	for _, why := range r.Why {
		told := func(v judge.Report) bool { return slices.Contains(v.Missing, why) }
		if slices.ContainsFunc(r.Verdicts, told) {
			continue
		}
		writeNote(b, why, style, "  ")
	}
}
