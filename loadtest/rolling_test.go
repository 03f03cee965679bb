package loadtest_test

import (
	"strings"
	"testing"

	"lastitem/judge"
	"lastitem/loadtest"
	"lastitem/say/text"
	"lastitem/testkit"
)

// Judge tells the answers that a deploy may cause from a lost request.
func TestJudge(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		codes   map[string]int
		verdict judge.Report
		want    string // part of the error; "" = none
	}{
		"all sold": {map[string]int{"ok": 9}, judge.Report{Verdict: judge.Exact}, ""},
		"no two requests overlapped": {map[string]int{"ok": 9}, judge.Report{Verdict: judge.Vacuous,
			Missing: []string{"no overlap"}}, ""},
		"busy": {map[string]int{"ok": 9, "lock_busy": 1, "contended": 1}, judge.Report{Verdict: judge.Exact}, ""},
		"unknown": {map[string]int{"ok": 9, "outcome_unknown": 1}, judge.Report{Verdict: judge.Exact},
			"outcome_unknown 1"},
		"refused": {map[string]int{"ok": 9, "backend_unavailable": 2}, judge.Report{Verdict: judge.Exact},
			"backend_unavailable 2"},
		"no answer":       {map[string]int{"ok": 9, "transport": 1}, judge.Report{Verdict: judge.Exact}, "transport 1"},
		"nothing":         {map[string]int{}, judge.Report{Verdict: judge.Vacuous}, "nothing was sold"},
		"broken":          {map[string]int{"ok": 9}, judge.Report{Verdict: judge.Broken}, "BROKEN"},
		"leaked unseen":   {map[string]int{"ok": 9}, judge.Report{Verdict: judge.Vacuous, Leaked: 1}, "VACUOUS"},
		"nobody can tell": {map[string]int{"ok": 9}, judge.Report{Verdict: judge.Inconclusive}, "INCONCLUSIVE"},
	} {
		r := loadtest.Result{Codes: c.codes, Verdicts: []judge.Report{c.verdict}}
		m := loadtest.JudgeRolling("redis-lua", r, nil, "en")
		testkit.Same(t, m.Missing, c.verdict.Missing, "%s: Missing", name)
		err := loadtest.RollingResult{Modes: []loadtest.RollingMode{m}}.Lost()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v (%+v), want %q", name, err, m, c.want)
		}
	}
}

// The user reads about lost requests in their own language.
func TestJudgeInChinese(t *testing.T) {
	t.Parallel()
	r := loadtest.Result{Verdicts: []judge.Report{{Verdict: judge.Broken}}}
	m := loadtest.JudgeRolling("redis-lua", r, nil, "zh")
	testkit.Is(t, strings.Join(m.Lost, "|"), "什么都没卖出|审计判定为 BROKEN", "Lost")
	m = loadtest.JudgeRolling("redis-lua", r, text.Text{En: "no stock", Zh: "没有库存"}.Errorf(), "zh")
	if m.Error != "没有库存" {
		t.Errorf("Error = %q, want it in Chinese", m.Error)
	}
}
