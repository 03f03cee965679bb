package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"lastitem/internal/audit"
	"lastitem/loadtest/rolling"
)

// The result says the same as text, in both languages, and as JSON; a replica that served nothing makes it inconclusive.
func TestRollingReport(t *testing.T) {
	t.Parallel()
	sold := rolling.Mode{Mode: "lease-seq", Sent: 12, Sold: 10, Answers: map[string]int{"ok": 10, "contended": 2}, Audit: audit.Vacuous, Missing: []string{"no overlap"}}
	all := map[string]int{"r1": 4, "r2": 4, "r3": 4}
	for name, c := range map[string]struct {
		r          rolled
		lang, form string
		want       []string
		err        string // part of it; "" = none
	}{
		"exact":      {rolled{Result: rolling.Result{Served: all, Modes: []rolling.Mode{sold}}}, "en", formText, []string{"lease-seq: 12 requests, 10 sold, answers: contended 2, ok 10; audit VACUOUS (no overlap)", "EXACT: nothing was lost; served by r1 4, r2 4, r3 4"}, ""},
		"Chinese":    {rolled{Result: rolling.Result{Served: all, Modes: []rolling.Mode{sold}}}, "zh", formText, []string{"12 个请求", "审计 VACUOUS（no overlap）", "什么都没丢"}, ""},
		"JSON":       {rolled{Result: rolling.Result{Served: all, Modes: []rolling.Mode{sold}}}, "en", formJSON, []string{`"exact": true`, `"contended": 2`, `"no overlap"`}, ""},
		"lost":       {rolled{Result: rolling.Result{Served: all, Modes: []rolling.Mode{{Mode: "queue", Lost: []string{"reset 1"}}}}}, "en", formJSON, []string{`"exact": false`, `"reset 1"`, `"why": "queue lost requests: reset 1"`}, "queue lost requests: reset 1"},
		"broken off": {rolled{Result: rolling.Result{Served: all, Modes: []rolling.Mode{{Mode: "queue", Error: "no answer"}}}}, "en", formText, []string{"queue: no answer"}, "queue: no answer"},
		"ended early": {rolled{Result: rolling.Result{Served: all, Modes: []rolling.Mode{sold}}, unreplaced: vacuous(both("too short", "太短"))}, "en", formText, []string{"lease-seq"},
			"VACUOUS: too short"},
		"ended early, JSON": {rolled{Result: rolling.Result{Served: all, Modes: []rolling.Mode{sold}}, unreplaced: vacuous(both("too short", "太短"))}, "en", formJSON, []string{`"exact": false`, `"why": "VACUOUS: too short"`},
			"VACUOUS: too short"},
		"ended early, JSON in Chinese": {rolled{Result: rolling.Result{Served: all, Modes: []rolling.Mode{sold}}, unreplaced: vacuous(both("too short", "太短"))}, "zh", formJSON, []string{`"why": "VACUOUS（无效）：太短"`},
			"VACUOUS: too short"},
		"one replica": {rolled{Result: rolling.Result{Served: map[string]int{"r1": 4}, Modes: []rolling.Mode{sold}}, everyReplica: true}, "en", formText, []string{"lease-seq"},
			"VACUOUS: the requests were served by r1 4"},
	} {
		var out strings.Builder
		cmd := newRolling("en")
		cmd.SetOut(&out)
		cmd.SetContext(t.Context())
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

// After Ctrl-C it says only that: what the interruption cut short is no finding, and the error of a replica that was being replaced no news.
func TestRollingInterrupted(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]rolled{
		"while a replica was replaced": {unreplaced: errors.New("localstack: replica 1 does not end: interrupt signal received")},
		"before that":                  {unreplaced: vacuous(both("the load ended", "压测结束了"))},
		"with a run cut short":         {Result: rolling.Result{Modes: []rolling.Mode{{Mode: "queue", Error: "context canceled"}}}},
		"before the load":              {err: errors.New("context canceled")},
	} {
		ctx, interrupt := context.WithCancel(t.Context())
		interrupt()
		var out strings.Builder
		cmd := newRolling("en")
		cmd.SetOut(&out)
		cmd.SetContext(ctx)
		f := rollingFlags{lang: "en", output: output{stdoutForm: formJSON}}
		err := f.report(cmd, r)
		var e *exitError
		if !errors.As(err, &e) || e.code != exitInterrupted || err.Error() != "interrupted" || r.err == nil && !strings.Contains(out.String(), `"why": "interrupted"`) {
			t.Errorf("%s: %v, %s, want exit %d and only that it was interrupted", name, err, out.String(), exitInterrupted)
		}
	}
}
