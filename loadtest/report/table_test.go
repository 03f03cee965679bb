package report

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest/compare"
	layout "lastitem/say/report"
	"lastitem/testkit"
	"lastitem/testkit/resulttest"
)

func TestWriteTable(t *testing.T) {
	confirmed := resulttest.Comparison(resulttest.Baseline(), resulttest.Broken("unsafe", "O"),
		resulttest.Exact("lua-lock", 12*time.Millisecond))
	two := resulttest.Exact("lua-lock", 20*time.Millisecond)
	two.Repetition, two.AcceptedPerSecond = 2, 400
	repeated := resulttest.Comparison(resulttest.Exact("lua-lock", 12*time.Millisecond), resulttest.Broken("unsafe", "O"),
		two)
	repeated.Partial = true
	late, never := resulttest.Broken("setnx-finally", "O"), resulttest.NothingSeen("unsafe")
	late.Tries, never.Tries = 2, 5
	blind := resulttest.Vacuous("unread")
	blind.Verdicts = []judge.Report{{Verdict: judge.Inconclusive, Missing: []string{"the ledger could not be read"}}}
	tests := []struct {
		name  string
		c     compare.Comparison
		style Style
	}{
		{"table_wide_en", fullComparison(), Style{Lang: "en", Width: 180}},
		{"table_wide_zh", fullComparison(), Style{Lang: "zh", Width: 180}},
		{"table_narrow_en", fullComparison(), Style{Lang: "en", Width: 100}},
		{"table_narrow_zh", fullComparison(), Style{Lang: "zh", Width: 100}},
		{"table_color", confirmed, Style{Lang: "en", Color: true}},
		{"table_repeated", repeated, Style{Lang: "en"}},
		{"table_inconclusive", resulttest.Comparison(blind), Style{Lang: "en"}},
		{"table_tries_en", resulttest.Comparison(late, never), Style{Lang: "en"}},
		{"table_tries_zh", resulttest.Comparison(late, never), Style{Lang: "zh"}},
		{"table_empty", compare.Comparison{Skipped: []compare.SkippedMode{{Mode: "x", Why: "needs mysql"}}},
			Style{Lang: "en"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			testkit.Must(t, WriteTable(&b, tt.c, tt.style))
			golden(t, tt.name+".txt", b.String())
			for line := range strings.Lines(b.String()) {
				if w := layout.Width(stripColor(strings.TrimSuffix(line, "\n"))); w > tt.style.columns() {
					t.Errorf("line takes %d columns of %d: %s", w, tt.style.columns(), line)
				}
			}
		})
	}
}

var ansi = regexp.MustCompile("\x1b\\[[0-9;]*m")

func stripColor(s string) string { return ansi.ReplaceAllString(s, "") }

// Colour adds no information to the text, and does not move it.
func TestTableColorOnlyAdds(t *testing.T) {
	var plain, colored strings.Builder
	testkit.Must(t, WriteTable(&plain, fullComparison(), Style{}))
	testkit.Must(t, WriteTable(&colored, fullComparison(), Style{Color: true}))
	if plain.String() == colored.String() {
		t.Error("Color: true has no colour")
	}
	var bare []string
	for line := range strings.SplitSeq(stripColor(colored.String()), "\n") {
		bare = append(bare, strings.TrimRight(line, " "))
	}
	testkit.Is(t, strings.Join(bare, "\n"), plain.String(), "coloured table without its colours")
}

func TestShares(t *testing.T) {
	tests := []struct {
		served   map[string]int
		replicas int
		want     string
	}{
		{map[string]int{"1": 250, "2": 250, "3": 250}, 3, "33/33/33%"},
		{map[string]int{"b": 1, "a": 3}, 0, "75/25%"},
		{map[string]int{"1": 750}, 3, "100/0/0%"},
		{nil, 3, "–"},
	}
	for _, tt := range tests {
		testkit.Is(t, shares(tt.served, tt.replicas), tt.want, "shares(%v, %d)", tt.served, tt.replicas)
	}
}

func TestMillis(t *testing.T) {
	tests := map[time.Duration]string{
		0: "0.00", 50 * time.Microsecond: "0.05", 999 * time.Microsecond: "1.00", 12340 * time.Microsecond: "12.3",
		1203 * time.Millisecond: "1203",
	}
	for d, want := range tests {
		testkit.Is(t, millis(d), want, "millis(%v)", d)
	}
}

// Text from outside is text in Markdown too: a renderer would drop what looks like HTML.
func TestMarkdownShowsWhatFailed(t *testing.T) {
	c := resulttest.Comparison(resulttest.Exact("m", time.Millisecond))
	c.Failed = []compare.FailedRun{{Mode: "m", Repetition: 1, Why: `the answer is not JSON: "<html>|<body>"`}}
	var b strings.Builder
	testkit.Must(t, WriteMarkdown(&b, c, "en"))
	if want := `"&lt;html>\|&lt;body>"`; !strings.Contains(b.String(), want) {
		t.Errorf("no %q in\n%s", want, b.String())
	}
}

// The report names a run that does not count, and says why.
func TestDiscountedRunIsShown(t *testing.T) {
	r := resulttest.Exact("m", time.Millisecond)
	r.Discounted = "11 of 1001 were dropped"
	var b strings.Builder
	testkit.Must(t, WriteTable(&b, resulttest.Comparison(r), Style{}))
	if want := "does not count: m, repetition 1: " + r.Discounted; !strings.Contains(b.String(), want) {
		t.Errorf("the table has no %q:\n%s", want, b.String())
	}
}

// The log of a run is printed under it if the run failed or its claim was not confirmed.
func TestLogUnderARow(t *testing.T) {
	wrong := resulttest.Broken("mutex", api.Exact)
	wrong.Log = []string{"replica 1: panic"}
	c := resulttest.Comparison(wrong)
	c.Failed = []compare.FailedRun{{Mode: "unsafe", Repetition: 1, Why: "no",
		Log: []string{"replica 2: redis: OOM command not allowed"}}}
	var table strings.Builder
	text, err := json.Marshal(c)
	testkit.Must(t, errors.Join(err, WriteTable(&table, c, Style{})))
	for _, want := range []string{"replica 2: redis: OOM command not allowed", "replica 1: panic"} {
		if !strings.Contains(table.String(), "\n  "+want) || !strings.Contains(string(text), want) {
			t.Errorf("table or JSON lacks %q:\n%s", want, table.String())
		}
	}
}
