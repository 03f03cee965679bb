package failover

import (
	"fmt"
	"io"
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
		text.Of("other products"), text.Of("refused"), text.Of("unknown, after the ledger"), text.Of("lost"),
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
				seconds(s.Took), seconds(m.Shop), others, strconv.Itoa(m.Refused), fmt.Sprintf("%d → %d", m.Unknown,
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
		if s.Lacked == 0 {
			fmt.Fprintf(&b, text.Of("%s: a replica had everything at the strike, so nothing could be lost here; that is no "+
				"proof that nothing is lost\n").In(lang), name)
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

// metrics are what a threshold can bound; a time is in nanoseconds.
var metrics = map[string]func(Strike, Mode) float64{
	"gap":        func(_ Strike, m Mode) float64 { return float64(m.Gap) },
	"engine":     func(s Strike, _ Mode) float64 { return float64(s.Took) },
	"shop":       func(_ Strike, m Mode) float64 { return float64(m.Shop) },
	"others":     func(_ Strike, m Mode) float64 { return float64(m.Others) },
	"refused":    func(_ Strike, m Mode) float64 { return float64(m.Refused) },
	"unknown":    func(_ Strike, m Mode) float64 { return float64(m.Unknown) },
	"unresolved": func(_ Strike, m Mode) float64 { return float64(m.Unresolved) },
	"lost":       func(_ Strike, m Mode) float64 { return float64(m.Lost) },
	"oversold":   func(_ Strike, m Mode) float64 { return float64(m.Oversold) },
	"slow":       func(_ Strike, m Mode) float64 { return float64(m.Slow) },
}

// Metrics lists what a threshold can bound.
func Metrics() []string {
	return []string{"gap", "engine", "shop", "others", "refused", "unknown", "unresolved", "lost", "oversold", "slow"}
}

// Check holds each strike and mode against thresholds such as "gap<2s" and "lost==0", and sets r.Crossed.
func (r *Result) Check(thresholds []compare.Bound) {
	r.Crossed = nil
	for _, t := range thresholds {
		for _, s := range r.Strikes {
			for _, m := range s.Modes {
				if v := metrics[t.Metric](s, m); !t.Holds(v) {
					r.Crossed = append(r.Crossed, fmt.Sprintf("%s, %s, %s: %s (%s)", s.Engine, s.How, m.Mode, t, t.Value(v)))
				}
			}
		}
	}
}

// ParseThreshold reads a threshold. The error says what is wrong.
func ParseThreshold(said string) (compare.Bound, error) {
	return compare.ParseBound(said, func(metric string) (known, latency bool) {
		_, known = metrics[metric]
		return known, metric == "gap" || metric == "engine" || metric == "shop" || metric == "others"
	}, Metrics())
}
