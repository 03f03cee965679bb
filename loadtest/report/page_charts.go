package report

import (
	"html/template"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"lastitem/loadtest"
	"lastitem/loadtest/client"
	"lastitem/loadtest/compare"
	layout "lastitem/say/report"
	"lastitem/say/text"
)

// overlaid is the largest number of modes in one chart: more lines cannot be told apart.
const overlaid = 6

// spreadForLog is the ratio of the greatest to the smallest value above which an axis is logarithmic.
const spreadForLog = 30

// modeView is the section of one mode.
type modeView struct {
	Name, Tone, Verdict, Plan, Shown string
	Open                             bool
	Facts                            []string
	Charts                           []template.HTML
	Grids                            []gridView
}

// modeOf collects the section of a mode: the run that decides its verdict, as text, charts and tables.
func modeOf(c compare.Comparison, s compare.Summary, lang string) modeView {
	v := modeView{Name: rowName(s, c), Tone: toneOf(s.Verdict), Verdict: rowVerdict(s, lang), Open: len(c.Summaries) <= 2}
	r, found := shownRun(c, s)
	if !found {
		return v
	}
	v.Plan = layout.Grouped(planLine(withEngine(r), c.Environment, lang))
	if s.Repetitions > 1 {
		v.Shown = text.Of("Shown is repetition %d of %d, the one that decides the verdict.").With(s.Worst,
			s.Repetitions).In(lang)
	}
	var load strings.Builder
	inText := r
	inText.Series = nil // shown as charts
	writeLoad(&load, inText, lang)
	writeVerdict(&load, r, Style{Lang: lang, Width: math.MaxInt})
	for line := range strings.Lines(load.String()) {
		v.Facts = append(v.Facts, spaced(layout.Grouped(strings.TrimSpace(line))))
	}
	if len(r.Series) > 0 {
		v.Charts = append(v.Charts, overTime(r, lang), answersOverTime(r, lang))
	}
	if len(r.Curve) > 0 {
		v.Charts = append(v.Charts, curves([]loadtest.Result{r}, lang))
	}
	v.Grids = latencyGrids(r, lang)
	return v
}

// latencyGrids returns the tables of the latencies.
func latencyGrids(r loadtest.Result, lang string) []gridView {
	columns := heads(1, latencyHeads.In(lang)[:10])
	response, service, lag := grid{columns: columns}, grid{columns: columns}, grid{columns: columns}
	for _, k := range client.Kinds {
		if l := r.Latency[k]; l.Count > 0 {
			response.rows = append(response.rows, latencyRow(kinds.In(lang)[k], l))
		}
		if l := r.Service[k]; l.Count > 0 && r.Plan.Open() { // in a closed loop a request is due when it is sent
			service.rows = append(service.rows, latencyRow(kinds.In(lang)[k], l))
		}
	}
	if r.Lag.Count > 0 {
		lag.rows = append(lag.rows, latencyRow(text.Of("lag").In(lang), r.Lag))
	}
	var all []gridView
	for _, t := range []struct {
		title string
		grid  grid
	}{{text.Of("response time, ms (from the intended start to the last byte)").In(lang), response},
		{text.Of("service time, ms (from the send to the last byte)").In(lang), service},
		{text.Of("schedule lag, ms (open loop: send minus intended start)").In(lang), lag}} {
		if len(t.grid.rows) > 0 {
			v := t.grid.view()
			v.Title = t.title
			all = append(all, v)
		}
	}
	return all
}

// rateBars draws the accepted requests per second of all modes; "" if no mode accepted anything.
func rateBars(c compare.Comparison, lang string) template.HTML {
	chart := layout.Bars{Title: text.Of("Accepted per second").In(lang), Unit: text.Of("Median of the runs; the thin " +
		"line is their range. Bars of broken modes are red, of undecided ones amber.").In(lang)}
	for _, s := range c.Summaries {
		if a := s.AcceptedPerSecond; s.Accepted > 0 {
			tone := toneOf(s.Verdict)
			if tone == "good" {
				tone = ""
			}
			chart.Bars = append(chart.Bars, layout.Bar{Name: rowName(s, c), To: a.Median, Low: a.Min, High: a.Max,
				Text: layout.Grouped(rate(a.Median)), Tone: tone})
		}
	}
	if chart.Bars == nil {
		return ""
	}
	return chart.HTML()
}

// latencyBars draws the response times of all modes; "" if no mode accepted anything.
func latencyBars(c compare.Comparison, lang string) template.HTML {
	chart := layout.Bars{Title: text.Of("Response time of accepted requests").In(lang),
		Unit: text.Of("Milliseconds. The bar runs from p50 to p99, the mark is p95; the scale is logarithmic. Values: p50 " +
			"/ p95 / p99.").In(lang), Log: true}
	for _, s := range c.Summaries {
		if s.Accepted > 0 && s.P50 > 0 {
			chart.Bars = append(chart.Bars, layout.Bar{
				Name: rowName(s, c), From: ms(s.P50), To: ms(s.P99), Mark: ms(s.P95),
				Text: layout.Grouped(millis(s.P50) + " / " + millis(s.P95) + " / " + millis(s.P99)),
			})
		}
	}
	if chart.Bars == nil {
		return ""
	}
	return chart.HTML()
}

// allCurves draws the distributions of all modes in one chart; "" if there is only one mode, or if there are more than
// [overlaid].
func allCurves(c compare.Comparison, lang string) template.HTML {
	var runs []loadtest.Result
	for _, s := range c.Summaries {
		if r, found := shownRun(c, s); found && len(r.Curve) > 0 {
			r.Mode = rowName(s, c)
			runs = append(runs, r)
		}
	}
	if len(runs) < 2 || len(runs) > overlaid {
		return ""
	}
	return curves(runs, lang)
}

// curves draws one or several distributions. The x axis is the logarithm of the share of values above a percentile,
// which gives the tail room.
func curves(runs []loadtest.Result, lang string) template.HTML {
	chart := layout.Lines{
		Title: text.Of("Distribution of response times").In(lang), Unit: text.Of("Accepted requests. Across: the " +
			"percentage that was at least this fast; up: milliseconds.").In(lang),
		Show:  text.Of("the numbers as a table").In(lang),
		Table: layout.Table{Heads: []string{text.Of("percentile").In(lang)}},
	}
	furthest, values := 0.0, []float64{}
	var names []string
	rows := map[float64][]string{}
	for i, r := range runs {
		line := layout.Line{Name: r.Mode, Area: len(runs) == 1}
		n := float64(r.Latency[client.Accepted].Count)
		for _, p := range r.Curve {
			x := nines(p.Percentile, n)
			furthest = max(furthest, x)
			line.Points = append(line.Points, layout.Point{X: x, Y: ms(p.Value)})
			values = append(values, ms(p.Value))
			for len(rows[p.Percentile]) <= i {
				rows[p.Percentile] = append(rows[p.Percentile], "–")
			}
			rows[p.Percentile][i] = inMillis(p.Value)
		}
		names = append(names, r.Mode)
		chart.Table.Heads = append(chart.Table.Heads, r.Mode)
		chart.Lines = append(chart.Lines, line)
	}
	for _, p := range []float64{0, 50, 90, 99, 99.9, 99.99, 99.999} {
		if x := nines(p, math.Inf(1)); x <= furthest {
			chart.XTicks = append(chart.XTicks, layout.Tick{At: x, Label: trimFloat(p) + "%"})
		}
	}
	chart.Log = wide(values)
	if chart.Log {
		chart.Unit += text.Of(" Logarithmic.").In(lang)
		for i := range chart.Lines {
			chart.Lines[i].Area = false
		}
	}
	chart.Desc = text.Of("One line for each mode: %s.").With(strings.Join(names, text.Of(", ").In(lang))).In(lang)
	if len(runs) == 1 {
		l := runs[0].Latency[client.Accepted]
		chart.Desc = text.Of("The median is %s ms, p99 is %s ms, the slowest request took %s ms.").With(inMillis(l.P50),
			inMillis(l.P99), inMillis(l.Max)).In(lang)
	}
	chart.Table.Rows = percentileRows(rows, len(runs))
	return chart.HTML()
}

// percentileRows returns the rows of the table below the curves, in the order of the percentiles.
func percentileRows(rows map[float64][]string, n int) [][]string {
	var all [][]string
	for _, p := range slices.Sorted(maps.Keys(rows)) {
		row := rows[p]
		for len(row) < n {
			row = append(row, "–")
		}
		all = append(all, append([]string{trimFloat(p) + "%"}, row...))
	}
	return all
}

// nines returns the position of a percentile among n values: 0 for 0%, 1 for 90%, 2 for 99%. The maximum is placed as
// if one value were above it.
func nines(percentile, n float64) float64 {
	beyond := max(1-percentile/100, 1/n)
	return -math.Log10(beyond)
}

// wide reports whether the values differ so much that only a logarithmic axis shows them all.
func wide(values []float64) bool {
	least, most := math.Inf(1), 0.0
	for _, v := range values {
		if v > 0 && !math.IsNaN(v) {
			least, most = min(least, v), max(most, v)
		}
	}
	return most > spreadForLog*least
}

// middle returns the middle of a window, in seconds since the start.
func middle(w loadtest.Window) float64 { return (w.At + w.For/2).Seconds() }

// overTime draws the percentiles over the course of a run.
func overTime(r loadtest.Result, lang string) template.HTML {
	chart := layout.Lines{
		Title: text.Of("Response time over the run").In(lang), Unit: text.Of("Accepted requests, in windows of %s. " +
			"Across: seconds since the start; up: milliseconds.").With(windowText(r.Series[0].For)).In(lang),
		Show: text.Of("the numbers as a table").In(lang), XZero: true,
		Lines: []layout.Line{{Name: "p50"}, {Name: "p90"}, {Name: "p99"}},
		Table: layout.Table{Heads: []string{text.Of("second").In(lang), "p50", "p90", "p99"}},
	}
	var values []float64
	least, most := time.Duration(math.MaxInt64), time.Duration(0)
	for _, w := range r.Series {
		row := []string{trimFloat(w.At.Seconds())}
		for i, d := range []time.Duration{w.P50, w.P90, w.P99} {
			y, said := math.NaN(), "–"
			if w.Accepted > 0 {
				y, said = ms(d), inMillis(d)
				values = append(values, y)
			}
			chart.Lines[i].Points = append(chart.Lines[i].Points, layout.Point{X: middle(w), Y: y})
			row = append(row, said)
		}
		if w.Accepted > 0 {
			least, most = min(least, w.P99), max(most, w.P99)
		}
		chart.Table.Rows = append(chart.Table.Rows, row)
	}
	if most > 0 {
		chart.Desc = text.Of("p99 is between %s and %s ms.").With(inMillis(least), inMillis(most)).In(lang)
	}
	chart.Log = wide(values)
	if chart.Log {
		chart.Unit += text.Of(" Logarithmic.").In(lang)
	}
	return chart.HTML()
}

// answersOverTime draws the kinds of answers over the course of a run.
func answersOverTime(r loadtest.Result, lang string) template.HTML {
	chart := layout.Lines{
		Title: text.Of("Answers over the run").In(lang), Unit: text.Of("Answers per second, in windows of %s. Across: " +
			"seconds since the start.").With(windowText(r.Series[0].For)).In(lang),
		Show: text.Of("the numbers as a table").In(lang), XZero: true,
		Lines: []layout.Line{{Name: text.Of("accepted").In(lang), Area: true}, {Name: text.Of("refused").In(lang)}},
		Table: layout.Table{Heads: []string{text.Of("second").In(lang), text.Of("accepted").In(lang),
			text.Of("refused").In(lang)}},
	}
	failures := r.Latency[client.Failed].Count > 0
	if failures {
		chart.Lines = append(chart.Lines, layout.Line{Name: text.Of("failed").In(lang)})
		chart.Table.Heads = append(chart.Table.Heads, text.Of("failed").In(lang))
	}
	var most [3]float64
	for _, w := range r.Series {
		row := []string{trimFloat(w.At.Seconds())}
		for i, n := range []int64{w.Accepted, w.Refused, w.Failed} {
			if i == 2 && !failures {
				break
			}
			y := w.PerSecond(n)
			most[i] = max(most[i], y)
			chart.Lines[i].Points = append(chart.Lines[i].Points, layout.Point{X: middle(w), Y: y})
			row = append(row, layout.Grouped(strconv.FormatFloat(y, 'f', 0, 64)))
		}
		chart.Table.Rows = append(chart.Table.Rows, row)
	}
	chart.Desc = layout.Grouped(text.Of("At most %s accepted per second, and %s refused.").With(rate(most[0]),
		rate(most[1])).In(lang))
	return chart.HTML()
}
