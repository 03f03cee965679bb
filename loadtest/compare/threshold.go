package compare

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"lastitem/judge"
	"lastitem/loadtest"
	"lastitem/loadtest/client"
	"lastitem/loadtest/plan"
	"lastitem/say/text"
)

// ErrThreshold is wrapped in every error of [ParseThreshold].
var ErrThreshold = text.Of("invalid threshold").Errorf()

// Threshold is a bound that a run must keep, such as p(99)<50ms over the accepted requests, or oversold==0.
type Threshold struct {
	Bound
	metric metric
}

// Bound is a metric's name with a limit, such as gap<2s.
type Bound struct {
	Metric string

	text    string
	compare string
	limit   float64 // nanoseconds for a latency
	latency bool
}

// String returns the bound as it was given, without blanks.
func (b Bound) String() string { return b.text }

// metric is a figure that a threshold can bound.
type metric struct {
	// of returns the value of one run, or why there is none: then the threshold counts as crossed.
	of func(loadtest.Result) (value float64, missing string)
	// latency says that the limit is a duration (50ms); otherwise it is a number.
	latency bool
	// every says that each repetition must keep the bound; otherwise the median of the repetitions must.
	every bool
	// judged says that the metric is the judge's, and does not apply to the baseline, which has no stock.
	judged bool
}

var metrics = map[string]metric{
	"min": latencyOf(func(l loadtest.Latency) time.Duration {
		return l.Min
	}), "max": latencyOf(func(l loadtest.Latency) time.Duration { return l.Max }),
	"avg": latencyOf(func(l loadtest.Latency) time.Duration {
		return l.Mean
	}), "med": latencyOf(func(l loadtest.Latency) time.Duration { return l.P50 }),
	"p(50)": latencyOf(func(l loadtest.Latency) time.Duration {
		return l.P50
	}), "p(90)": latencyOf(func(l loadtest.Latency) time.Duration { return l.P90 }),
	"p(95)": latencyOf(func(l loadtest.Latency) time.Duration {
		return l.P95
	}), "p(99)": latencyOf(func(l loadtest.Latency) time.Duration { return l.P99 }),
	"p(99.9)": latencyOf(func(l loadtest.Latency) time.Duration { return l.P999 }),

	"oversold":     judged(func(s Summary) int64 { return s.Oversold }),
	"leaked":       judged(func(s Summary) int64 { return s.Leaked }),
	"lost_updates": judged(func(s Summary) int64 { return s.LostUpdates }),

	"unknown":  counted(func(r loadtest.Result) int { return SummarizeRuns([]loadtest.Result{r}).Unknown }),
	"busy":     counted(func(r loadtest.Result) int { return SummarizeRuns([]loadtest.Result{r}).Busy }),
	"dropped":  counted(func(r loadtest.Result) int { return r.Dropped }),
	"failed":   counted(func(r loadtest.Result) int { return int(r.Latency[client.Failed].Count) }),
	"accepted": counted(func(r loadtest.Result) int { return int(r.Latency[client.Accepted].Count) }),

	"age_p50": ticketed(true, func(t loadtest.TicketFigures) float64 { return float64(t.Age.P50) }),
	"age_p99": ticketed(true, func(t loadtest.TicketFigures) float64 { return float64(t.Age.P99) }),
	"lost": ticketed(false, func(t loadtest.TicketFigures) float64 {
		return float64(t.Won - t.Ends["sold"] - t.Ends["same"])
	}),
	"completed/s": ticketed(false, func(t loadtest.TicketFigures) float64 { return t.CompletedPerSecond }),

	"accepted/s": {of: func(r loadtest.Result) (float64, string) { return r.AcceptedPerSecond, "" }},
	"requests/s": {of: func(r loadtest.Result) (float64, string) { return r.RequestsPerSecond, "" }},
}

// latencyOf returns a metric of the accepted requests' latencies.
func latencyOf(of func(loadtest.Latency) time.Duration) metric {
	return metric{latency: true, of: func(r loadtest.Result) (float64, string) {
		l := r.Latency[client.Accepted]
		if l.Count == 0 {
			return 0, "no accepted request"
		}
		return float64(of(l)), ""
	}}
}

// judged returns a metric from the judge's reports.
func judged(of func(Summary) int64) metric {
	return metric{every: true, judged: true, of: func(r loadtest.Result) (float64, string) {
		if len(r.Verdicts) == 0 {
			return 0, "no verdict"
		}
		for _, v := range r.Verdicts {
			if v.Verdict == judge.Inconclusive {
				return 0, string(v.Verdict)
			}
		}
		return float64(of(SummarizeRuns([]loadtest.Result{r}))), ""
	}}
}

// ticketed returns a metric of tickets that were followed.
func ticketed(latency bool, of func(loadtest.TicketFigures) float64) metric {
	return metric{latency: latency, of: func(r loadtest.Result) (float64, string) {
		if r.Tickets == nil {
			return 0, "no ticket was followed"
		}
		return of(*r.Tickets), ""
	}}
}

func counted(of func(loadtest.Result) int) metric {
	return metric{every: true, of: func(r loadtest.Result) (float64, string) { return float64(of(r)), "" }}
}

var thresholdForm = regexp.MustCompile(`^(.+?)(<=|>=|==|!=|<|>)(.+)$`)

// ParseThreshold reads a threshold such as "p(99)<50ms", "avg<=2ms", "oversold==0" or "accepted/s>100". The error says
// what is wrong, lists the metrics, and wraps [ErrThreshold].
func ParseThreshold(said string) (Threshold, error) {
	b, err := ParseBound(said, func(name string) (known, latency bool) {
		m, known := metrics[name]
		return known, m.latency
	}, slices.Sorted(maps.Keys(metrics)))
	return Threshold{b, metrics[b.Metric]}, err
}

// ParseBound reads a bound of one of the metrics named; of says whether there is one of a name, and whether its limit
// is a duration. The error is that of [ParseThreshold].
func ParseBound(said string, of func(metric string) (known, latency bool), names []string) (Bound, error) {
	fail := func(why text.Text, args ...any) (Bound, error) {
		return Bound{}, plan.Fault(text.Of("%w %q: %w"), ErrThreshold, said, why.Errorf(args...))
	}
	plain := strings.Join(strings.Fields(said), "")
	parts := thresholdForm.FindStringSubmatch(plain)
	if parts == nil {
		return fail(text.Of("want a metric, one of < <= > >= == !=, and a limit, as in p(99)<50ms"))
	}
	b := Bound{Metric: parts[1], text: plain, compare: parts[2]}
	var known bool
	if known, b.latency = of(b.Metric); !known {
		return fail(text.Of("no metric %q; there are: %s"), parts[1], strings.Join(names, ", "))
	}
	if b.latency {
		d, err := time.ParseDuration(parts[3])
		if err != nil {
			return fail(text.Of("%s wants a duration with its unit, as in 50ms, not %q"), parts[1], parts[3])
		}
		b.limit = float64(d)
		return b, nil
	}
	limit, err := strconv.ParseFloat(parts[3], 64)
	if err != nil {
		return fail(text.Of("%s wants a plain number, not %q"), parts[1], parts[3])
	}
	b.limit = limit
	return b, nil
}

// Holds reports whether value keeps the bound.
func (b Bound) Holds(value float64) bool {
	switch b.compare {
	case "<":
		return value < b.limit
	case "<=":
		return value <= b.limit
	case ">":
		return value > b.limit
	case ">=":
		return value >= b.limit
	case "==":
		return value == b.limit
	}
	return value != b.limit
}

// Check checks every threshold, per mode and plan, and sets c.Thresholds and c.Crossed. Counts must hold in every
// repetition, latencies and rates in the median of the repetitions.
func (c *Comparison) Check(thresholds []Threshold) {
	c.Thresholds, c.Crossed = nil, nil
	for _, s := range c.Summaries {
		var runs []loadtest.Result
		for _, r := range c.Results {
			if r.Mode == s.Mode && r.Plan.Name == s.Plan && r.Store == s.Store {
				runs = append(runs, r)
			}
		}
		for _, t := range thresholds {
			value, ok := t.check(runs)
			if ok && value == "" { // it does not apply
				continue
			}
			checked := Checked{Crossing: Crossing{Mode: s.Mode, Plan: s.Plan, Threshold: t.text, Value: value}, Held: ok}
			c.Thresholds = append(c.Thresholds, checked)
			if !ok {
				c.Crossed = append(c.Crossed, checked.Crossing)
			}
		}
	}
}

// check checks the threshold for all runs of one mode. It returns the value that crossed it, else the greatest count of
// any run, or the median; "" if the threshold does not apply.
func (t Threshold) check(runs []loadtest.Result) (value string, ok bool) {
	greatest := math.Inf(-1)
	for _, r := range runs {
		if t.metric.judged && len(r.Verdicts) == 0 && r.Finding == judge.Unclaimed {
			return "", true
		}
		v, missing := t.metric.of(r)
		if missing != "" {
			return missing, false
		}
		if t.metric.every && !t.Holds(v) {
			return t.Value(v), false
		}
		greatest = max(greatest, v)
	}
	if t.metric.every {
		return t.Value(greatest), true
	}
	median := spread(runs, func(r loadtest.Result) float64 { v, _ := t.metric.of(r); return v }).Median
	return t.Value(median), t.Holds(median)
}

// Value formats a measured value with the unit of its metric.
func (b Bound) Value(v float64) string {
	if b.latency {
		return time.Duration(v).Round(time.Microsecond).String()
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}
