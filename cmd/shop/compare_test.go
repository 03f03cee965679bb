package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lastitem/internal/api"
	"lastitem/internal/audit"
	"lastitem/loadtest"
	"lastitem/loadtest/client"
	"lastitem/loadtest/delta"
)

// loadtestFile writes the JSON of a load test of one mode, six runs around a rate, changed by change.
func loadtestFile(t *testing.T, rate float64, change func(*loadtest.Comparison)) string {
	t.Helper()
	c := loadtest.Comparison{Environment: loadtest.ThisEnvironment()}
	for i := range 6 {
		c.Results = append(c.Results, loadtest.Result{
			Mode: "lua-lock", Repetition: i + 1, Plan: loadtest.Plan{VUs: 40, Stock: 500}, AcceptedPerSecond: rate * (1 + float64(i)/100),
			Latency:  map[client.Kind]loadtest.Latency{client.Accepted: {Count: 500, P50: time.Millisecond * time.Duration(i+1), P99: time.Second}},
			Verdicts: []audit.Report{{Verdict: audit.Exact}}, Claim: api.Exact, Finding: audit.Confirmed,
		})
	}
	if change != nil {
		change(&c)
	}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), fmt.Sprintf("%v.json", rate))
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestCompare(t *testing.T) {
	t.Parallel()
	base, same, slower := loadtestFile(t, 1000, nil), loadtestFile(t, 1001, nil), loadtestFile(t, 800, nil)
	broken := loadtestFile(t, 1000, func(c *loadtest.Comparison) {
		c.Results[2].Claim, c.Results[2].Finding = api.Exact, audit.Contradicted
		c.Results[2].Verdicts = []audit.Report{{Verdict: audit.Broken, Found: "O"}}
	})
	other := loadtestFile(t, 1000, func(c *loadtest.Comparison) { c.Environment.CPUs = 1000; c.Results = c.Results[:1] })
	plan := loadtestFile(t, 1000, func(c *loadtest.Comparison) {
		for i := range c.Results {
			c.Results[i].Plan.Stock = 1000
		}
	})
	notJSON := filepath.Join(t.TempDir(), "x.json")
	if err := os.WriteFile(notJSON, []byte(`{"cells":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{base, same}, exitOK, "No difference is shown (figures: 3)."},
		{[]string{base, slower}, exitOK, "B is worse"},
		{[]string{slower, base}, exitOK, "B is better"},
		{[]string{base, slower, "--worse", "5"}, exitThreshold, "B is worse"},
		{[]string{base, slower, "--worse", "40"}, exitOK, "B is worse"},
		{[]string{base, slower, "--worse", "NaN"}, exitUsage, "--worse NaN: want 0 or more percent, or -1"},
		{[]string{base, slower, "--worse=-5"}, exitUsage, "--worse -5: want 0 or more percent, or -1"},
		{[]string{base, slower, "--worse=-1"}, exitOK, "B is worse"},
		{[]string{base, same, "--worse", "0"}, exitOK, "no difference shown"},
		{[]string{base, broken}, exitFailed, "✗ in B"},
		{[]string{base, other}, exitInconclusive, "1000 in B"},
		{[]string{base, same, "--samples", "windows"}, exitInconclusive, "No figure has enough samples"},
		{[]string{base, plan}, exitUsage, "lua-lock: the plans differ: stock 500 / 1000; --force"},
		{[]string{base, plan, "--force"}, exitOK, "The plans differ, so the figures mean different things: stock: 500 in A, 1000 in B"},
		{[]string{base, same, "--lang", "zh"}, exitOK, "3 个指标都看不出差异"},
		{[]string{base, same, "-o", "markdown"}, exitOK, "| lua-lock | accepted/s |"},
		{[]string{base, same, "-o", "html"}, exitOK, "<!doctype html>"},
		{[]string{base, same, "--samples", "seconds"}, exitUsage, "want auto, rounds or windows"},
		{[]string{base}, exitUsage, "want shop compare A.json B.json"},
		{[]string{base, base + ".no"}, exitFailed, "no such file"},
		{[]string{base, notJSON}, exitUsage, "it has no results"},
		{[]string{base, "/dev/zero"}, exitUsage, "not the JSON of a load test"},
	} {
		code, out, errOut := commandLine(t.Context(), newRoot("en"), append([]string{"compare", "--lang", "en"}, tt.args...)...)
		if code != tt.code || !strings.Contains(out+errOut, tt.want) {
			t.Errorf("shop compare %q: exit %d, want %d and %q\n%s%s", tt.args, code, tt.code, tt.want, out, errOut)
		}
	}
	html := filepath.Join(t.TempDir(), "d.html")
	code, out, _ := commandLine(t.Context(), newRoot("en"), "compare", base, slower, "-o", "json", "--html", html)
	var r delta.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != exitOK || r.Rows[0].Figures[0].Outcome != delta.Worse || !r.Rows[0].Figures[0].Difference.Covers(-0.2) {
		t.Errorf("JSON: exit %d, %v\n%s", code, err, out)
	}
	if text, err := os.ReadFile(html); err != nil || !strings.Contains(string(text), "bin/shop compare "+base) {
		t.Errorf("--html: %v\n%.400s", err, text)
	}
}
