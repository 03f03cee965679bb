package delta

import (
	"cmp"
	"slices"
	"time"

	"lastitem/loadtest"
	"lastitem/loadtest/client"
)

// figure reads a figure from a run, and from a window of it; ok is false if there is none.
type figure struct {
	name    string
	latency bool
	run     func(loadtest.Result) (v float64, ok bool)
	window  func(loadtest.Window) (v float64, ok bool)
}

// figures are the compared figures.
var figures = []figure{
	{
		name:   "accepted/s",
		run:    func(r loadtest.Result) (float64, bool) { return r.AcceptedPerSecond, true },
		window: func(w loadtest.Window) (float64, bool) { return w.PerSecond(w.Accepted), true },
	},
	latencyFigure("p50", func(l loadtest.Latency) time.Duration { return l.P50 }, func(w loadtest.Window) time.Duration { return w.P50 }),
	latencyFigure("p99", func(l loadtest.Latency) time.Duration { return l.P99 }, func(w loadtest.Window) time.Duration { return w.P99 }),
}

func latencyFigure(name string, of func(loadtest.Latency) time.Duration, in func(loadtest.Window) time.Duration) figure {
	return figure{
		name: name, latency: true,
		run: func(r loadtest.Result) (float64, bool) {
			l := r.Latency[client.Accepted]
			return float64(of(l)), l.Count > 0
		},
		window: func(w loadtest.Window) (float64, bool) { return float64(in(w)), w.Accepted > 0 },
	}
}

// rowOf compares two groups.
func rowOf(a, b group, kind Samples) Row {
	sa, sb := loadtest.SummarizeRuns(a.runs), loadtest.SummarizeRuns(b.runs)
	row := Row{
		Mode: a.mode, Plan: a.plan, Store: a.store, Samples: cmp.Or(kind, Auto),
		VerdictA: sa.Verdict, VerdictB: sb.Verdict, FoundA: sa.Found, FoundB: sb.Found, FindingA: sa.Finding, FindingB: sb.Finding,
	}
	if row.Samples == Auto {
		row.Samples = Windows
		if len(counted(a.runs)) >= Least && len(counted(b.runs)) >= Least {
			row.Samples = Rounds
		}
	}
	unlike := row.Samples == Windows && !sameWindows(a, b)
	for _, f := range figures {
		samplesA, samplesB := f.samples(a, row.Samples), f.samples(b, row.Samples)
		if f.latency && unlike && len(samplesA) > 0 && len(samplesB) > 0 {
			row.Figures = append(row.Figures, f.sideBySide(samplesA, samplesB, Unlike))
			continue
		}
		row.Figures = append(row.Figures, f.compare(samplesA, samplesB))
	}
	return row
}

// sameWindows reports whether the windows of all runs that count have the same length. It doubles as a run goes on.
func sameWindows(groups ...group) bool {
	length := time.Duration(0)
	for _, g := range groups {
		for _, r := range counted(g.runs) {
			for _, w := range whole(r.Series) {
				if length == 0 {
					length = w.For
				}
				if w.For != length {
					return false
				}
			}
		}
	}
	return true
}

// counted returns the runs that count as measurements.
func counted(runs []loadtest.Result) []loadtest.Result {
	return slices.DeleteFunc(slices.Clone(runs), func(r loadtest.Result) bool {
		return r.Partial || r.Discounted != "" || r.Latency[client.Accepted].Count == 0
	})
}

// samples reads the figure from each run, or from each whole window in which the stock was sold.
func (f figure) samples(g group, kind Samples) []float64 {
	var all []float64
	for _, r := range counted(g.runs) {
		if kind == Rounds {
			if v, ok := f.run(r); ok {
				all = append(all, v)
			}
			continue
		}
		for _, w := range whole(r.Series) {
			if v, ok := f.window(w); ok && w.For > 0 {
				all = append(all, v)
			}
		}
	}
	return thinned(all)
}

// most is the largest number of samples per side. More windows add no information, because neighbours are alike.
const most = 200

// thinned returns at most most of the samples, evenly spread over them.
func thinned(samples []float64) []float64 {
	if len(samples) <= most {
		return samples
	}
	spread := make([]float64, most)
	for i := range spread {
		spread[i] = samples[i*len(samples)/most]
	}
	return spread
}

// whole returns the windows between the first and the last in which anything was accepted, without these two, which are not full.
func whole(series []loadtest.Window) []loadtest.Window {
	accepted := func(w loadtest.Window) bool { return w.Accepted > 0 }
	first := slices.IndexFunc(series, accepted)
	last := len(series) - 1
	for last > first && !accepted(series[last]) {
		last--
	}
	if first < 0 || last-first < 2 {
		return nil
	}
	return series[first+1 : last]
}

// sideBySide has the medians of both sides, and an outcome that needs no comparison.
func (f figure) sideBySide(a, b []float64, o Outcome) Figure {
	r := Figure{Name: f.name, Latency: f.latency, NA: len(a), NB: len(b), Outcome: o, P: 1}
	if len(a) > 0 {
		r.A, _ = median(a)
	}
	if len(b) > 0 {
		r.B, _ = median(b)
	}
	return r
}

// compare compares the samples of both sides.
func (f figure) compare(a, b []float64) Figure {
	r := f.sideBySide(a, b, NoSamples)
	if len(a) == 0 || len(b) == 0 {
		return r
	}
	r.Outcome = TooFew
	if len(a) < Least || len(b) < Least || r.A.Estimate == 0 {
		return r
	}
	d := shift(a, b)
	of := r.A.Estimate
	r.Difference = Interval{Estimate: d.Estimate / of, Low: d.Low / of, High: d.High / of}
	r.P = probability(a, b)
	switch {
	case r.Difference.Covers(0):
		r.Outcome = NotShown
	case sign(r.Difference.Low) > 0 != f.latency:
		r.Outcome = Better
	default:
		r.Outcome = Worse
	}
	return r
}
