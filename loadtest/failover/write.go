package failover

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"lastitem/loadtest/compare"
	"lastitem/say/report"
	"lastitem/say/text"
)

// Columns are the heads of the table of a [Result], in the order of [Result.Rows].
func Columns(lang string) []string {
	var all []string
	for _, head := range []text.Text{
		text.Of("engine, strike"), text.Of("mode"), text.Of("gap"), text.Of("engine"), text.Of("shop"),
		text.Of("other products"), text.Of("declined"), text.Of("unknown, after the ledger"), text.Of("lost"),
		text.Of("replica lacked"), text.Of("oversold"), text.Of("slow"), text.Of("audit"),
	} {
		all = append(all, head.In(lang))
	}
	return all
}

// units are those of [Strike.Lacked].
var units = map[string]text.Text{"bytes": text.Of("%d [byte|bytes]"),
	"transactions": text.Of("%d [transaction|transactions]")}

// Rows are the rows of the table, one for each strike and mode.
func (r Result) Rows(lang string) (rows [][]string) {
	for _, s := range r.Strikes {
		for _, m := range s.Modes {
			lacked, others := "–", "–"
			if s.Lacked >= 0 {
				lacked = units[s.Unit].With(s.Lacked).In(lang)
			}
			if m.Others > 0 {
				others = seconds(m.Others)
			}
			verdict := strings.TrimSpace(string(m.Verdict) + " " + m.Found)
			rows = append(rows, []string{s.Engine + ", " + s.How, m.Mode, seconds(m.Gap) + " ± " + seconds(m.Error),
				seconds(s.Took), seconds(m.Shop), others, strconv.Itoa(m.Declined), fmt.Sprintf("%d → %d", m.Unknown,
					m.Unresolved), strconv.Itoa(m.Lost), lacked, strconv.FormatInt(m.Oversold, 10), strconv.Itoa(m.Slow), verdict})
		}
	}
	return rows
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// WriteText writes the table, and below it what the strikes do and do not show.
func (r Result) WriteText(w io.Writer, lang string) error {
	rows := append([][]string{Columns(lang)}, r.Rows(lang)...)
	var b strings.Builder
	b.WriteString(report.Align(rows, 0))
	for _, s := range r.Strikes {
		name := s.Engine + ", " + s.How
		if s.Vacuous != "" {
			fmt.Fprintf(&b, "%s: VACUOUS: %s\n", name, s.Vacuous)
		}
		if s.Lacked == 0 && !slices.ContainsFunc(s.Modes, func(m Mode) bool { return m.Lost > 0 }) {
			fmt.Fprintf(&b, text.Of("%s: no replica was seen to lack anything at the strike; so this is no proof that nothing "+
				"can be lost\n").In(lang), name)
		}
		for _, m := range s.Modes {
			for _, said := range append(m.Broken, m.Undecided...) {
				fmt.Fprintf(&b, "%s, %s: %s\n", name, m.Mode, said)
			}
		}
	}
	for _, said := range r.Crossed {
		fmt.Fprintf(&b, text.Of("threshold crossed: %s\n").In(lang), said)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// ExitCode is that of the command: [compare.ExitContradicted] if a mode showed what it does not claim,
// [compare.ExitThreshold] if a threshold was crossed, [compare.ExitUndecided] if a strike shows nothing.
func (r Result) ExitCode() int {
	code := 0
	for _, s := range r.Strikes {
		if s.Vacuous != "" {
			code = compare.ExitUndecided
		}
		for _, m := range s.Modes {
			if len(m.Broken) > 0 {
				return compare.ExitContradicted
			}
			if len(m.Undecided) > 0 {
				code = compare.ExitUndecided
			}
		}
	}
	if len(r.Crossed) > 0 {
		code = compare.ExitThreshold
	}
	return code
}

// metric is what a threshold can bound; a duration is in nanoseconds.
type metric struct {
	name     string
	duration bool
	of       func(Strike, Mode) float64
}

var metrics = []metric{
	{"gap", true, func(_ Strike, m Mode) float64 { return float64(m.Gap) }},
	{"engine", true, func(s Strike, _ Mode) float64 { return float64(s.Took) }},
	{"shop", true, func(_ Strike, m Mode) float64 { return float64(m.Shop) }},
	{"others", true, func(_ Strike, m Mode) float64 { return float64(m.Others) }},
	{"declined", false, func(_ Strike, m Mode) float64 { return float64(m.Declined) }},
	{"unknown", false, func(_ Strike, m Mode) float64 { return float64(m.Unknown) }},
	{"unresolved", false, func(_ Strike, m Mode) float64 { return float64(m.Unresolved) }},
	{"lost", false, func(_ Strike, m Mode) float64 { return float64(m.Lost) }},
	{"oversold", false, func(_ Strike, m Mode) float64 { return float64(m.Oversold) }},
	{"slow", false, func(_ Strike, m Mode) float64 { return float64(m.Slow) }},
}

// Check holds each strike and mode against thresholds such as "gap<2s" and "lost==0", and sets r.Crossed.
func (r *Result) Check(thresholds []compare.Bound) {
	r.Crossed = nil
	for _, t := range thresholds {
		of := metrics[indexMetric(t.Metric)].of
		for _, s := range r.Strikes {
			for _, m := range s.Modes {
				if v := of(s, m); !t.Holds(v) {
					r.Crossed = append(r.Crossed, fmt.Sprintf("%s, %s, %s: %s (%s)", s.Engine, s.How, m.Mode, t, t.Value(v)))
				}
			}
		}
	}
}

// indexMetric is the index of a metric; -1 = there is none of the name.
func indexMetric(name string) int {
	return slices.IndexFunc(metrics, func(m metric) bool { return m.name == name })
}

// ParseThreshold reads a threshold. The error says what is wrong.
func ParseThreshold(said string) (compare.Bound, error) {
	var names []string
	for _, m := range metrics {
		names = append(names, m.name)
	}
	return compare.ParseBound(said, func(metric string) (known, duration bool) {
		i := indexMetric(metric)
		return i >= 0, i >= 0 && metrics[i].duration
	}, names)
}
