package main

import (
	"strings"
	"testing"

	"lastitem/internal/audit"
	"lastitem/loadtest"
)

// What a deploy may cause is told from a loss.
func TestJudgeRolling(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		codes   map[string]int
		verdict audit.Report
		want    string // part of the error; "" = none
	}{
		"all sold":                   {map[string]int{"ok": 9}, audit.Report{Verdict: audit.Exact}, ""},
		"the stock was not sold out": {map[string]int{"ok": 9}, audit.Report{Verdict: audit.Vacuous}, ""},
		"busy":                       {map[string]int{"ok": 9, "lock_busy": 1, "contended": 1}, audit.Report{Verdict: audit.Exact}, ""},
		"unknown":                    {map[string]int{"ok": 9, "outcome_unknown": 1}, audit.Report{Verdict: audit.Exact}, "outcome_unknown 1"},
		"refused":                    {map[string]int{"ok": 9, "backend_unavailable": 2}, audit.Report{Verdict: audit.Exact}, "backend_unavailable 2"},
		"no answer":                  {map[string]int{"ok": 9, "transport": 1}, audit.Report{Verdict: audit.Exact}, "transport 1"},
		"nothing":                    {map[string]int{}, audit.Report{Verdict: audit.Vacuous}, "nothing was sold"},
		"broken":                     {map[string]int{"ok": 9}, audit.Report{Verdict: audit.Broken}, "BROKEN"},
		"leaked unseen":              {map[string]int{"ok": 9}, audit.Report{Verdict: audit.Vacuous, Leaked: 1}, "VACUOUS"},
		"nobody can tell":            {map[string]int{"ok": 9}, audit.Report{Verdict: audit.Inconclusive}, "INCONCLUSIVE"},
	} {
		r := loadtest.Result{Codes: c.codes, Verdicts: []audit.Report{c.verdict}}
		m := judgeRolling("redis-lua", r, nil)
		err := rolled{Modes: []rolledMode{m}}.lost()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v (%+v), want %q", name, err, m, c.want)
		}
	}
}

// The result says the same as text, in both languages, and as JSON; a replica that served nothing makes it inconclusive.
func TestRollingReport(t *testing.T) {
	t.Parallel()
	sold := rolledMode{Mode: "lease-seq", Sent: 12, Sold: 10, Answers: map[string]int{"ok": 10, "contended": 2}, Audit: audit.Vacuous}
	all := map[string]int{"r1": 4, "r2": 4, "r3": 4}
	for name, c := range map[string]struct {
		r          rolled
		lang, form string
		want       []string
		err        string // part of it; "" = none
	}{
		"exact":      {rolled{Served: all, Modes: []rolledMode{sold}}, "en", formText, []string{"lease-seq: 12 requests, 10 sold, answers: contended 2, ok 10", "EXACT: nothing was lost; served by r1 4, r2 4, r3 4"}, ""},
		"Chinese":    {rolled{Served: all, Modes: []rolledMode{sold}}, "zh", formText, []string{"12 个请求", "什么都没丢"}, ""},
		"JSON":       {rolled{Served: all, Modes: []rolledMode{sold}}, "en", formJSON, []string{`"exact": true`, `"contended": 2`}, ""},
		"lost":       {rolled{Served: all, Modes: []rolledMode{{Mode: "queue", Lost: []string{"reset 1"}}}}, "en", formJSON, []string{`"exact": false`, `"reset 1"`}, "queue lost requests: reset 1"},
		"broken off": {rolled{Served: all, Modes: []rolledMode{{Mode: "queue", Error: "no answer"}}}, "en", formText, []string{"queue: no answer"}, "queue: no answer"},
		"one replica": {rolled{Served: map[string]int{"r1": 4}, everyReplica: true, Modes: []rolledMode{sold}}, "en", formText, []string{"lease-seq"},
			"VACUOUS: the requests were served by r1 4"},
	} {
		var out strings.Builder
		cmd := newRolling("en")
		cmd.SetOut(&out)
		f := rollingFlags{lang: c.lang, output: output{stdoutForm: c.form}}
		err := f.report(cmd, c.r)
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: %v, want %q", name, err, c.err)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: %q lacks %q", name, out.String(), want)
			}
		}
		if c.err != "" && strings.Contains(out.String(), "EXACT") {
			t.Errorf("%s: %q claims that nothing was lost", name, out.String())
		}
	}
}
