package report

import (
	"bufio"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lastitem/internal/audit"
	"lastitem/loadtest"
	"lastitem/loadtest/client"
	"lastitem/loadtest/plan"
	"lastitem/loadtest/resulttest"
	"lastitem/loadtest/words"
)

// openRun is an open-loop run that lasts several seconds, with lag and dropped arrivals.
func openRun() loadtest.Result {
	r := resulttest.Exact("sql-atomic", 3*time.Millisecond)
	r.Plan.VUs, r.Plan.Requests, r.Plan.Name = 0, 0, ""
	r.Plan.Stages = []plan.Stage{{For: 2 * time.Second, Rate: 100}, {For: 3 * time.Second, Rate: 400.5}}
	r.Dropped, r.Retried, r.Lag, r.Noisy, r.Partial = 7, 5, resulttest.Latency(750, 200*time.Microsecond), []string{"7 arrivals were dropped"}, true
	r.Elapsed = 5 * time.Second
	r.Series = nil
	for i, n := range []int64{20, 80, 160, 0, 240} {
		r.Series = append(r.Series, loadtest.Window{At: time.Duration(i) * time.Second, For: time.Second, Accepted: n, Refused: 50})
	}
	return r
}

func TestWriteText(t *testing.T) {
	tests := map[string]loadtest.Result{"broken": resulttest.Broken("unsafe", "O"), "open": openRun(), "baseline": resulttest.Baseline()}
	for name, r := range tests {
		for _, lang := range words.Languages {
			t.Run(name+"_"+lang, func(t *testing.T) {
				var b strings.Builder
				if err := WriteText(&b, r, Style{Lang: lang}); err != nil {
					t.Fatal(err)
				}
				golden(t, "text_"+name+"_"+lang+".txt", b.String())
			})
		}
	}
}

func TestWriteCSV(t *testing.T) {
	var b strings.Builder
	if err := WriteCSV(&b, resulttest.Comparison(resulttest.Baseline(), resulttest.Broken("unsafe", "O"))); err != nil {
		t.Fatal(err)
	}
	golden(t, "report.csv", b.String())
}

func TestWriteBench(t *testing.T) {
	silent := resulttest.Exact("silent", time.Millisecond)
	silent.Latency = map[client.Kind]loadtest.Latency{}
	var b strings.Builder
	if err := WriteBench(&b, resulttest.Comparison(resulttest.Exact("lua-lock", time.Millisecond), resulttest.Broken("unsafe", "O"), silent)); err != nil {
		t.Fatal(err)
	}
	golden(t, "report.bench.txt", b.String())
}

func TestWriteJSON(t *testing.T) {
	want := fullComparison()
	var b strings.Builder
	if err := WriteJSON(&b, want); err != nil {
		t.Fatal(err)
	}
	var got loadtest.Comparison
	if err := json.Unmarshal([]byte(b.String()), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Results, got.Results); diff != "" {
		t.Errorf("results after a round through JSON (-want +got):\n%s", diff)
	}
	if got.Summaries[1].Found != "O" || got.Skipped[0].Mode != "segmented" {
		t.Errorf("summaries and skipped modes were lost: %+v", got)
	}
}

func TestWriteHistory(t *testing.T) {
	r := resulttest.Exact("lua-lock", time.Millisecond)
	r.History = []audit.Op{
		{Client: 1, Call: 10, Return: 20, Outcome: audit.OK, ProductID: 101, Quantity: 1, OrderID: "a"},
		{Client: 2, Call: 11, Outcome: audit.Unknown, ProductID: 101, Quantity: 1},
	}
	var b strings.Builder
	if err := WriteHistory(&b, r); err != nil {
		t.Fatal(err)
	}
	var got []audit.Op
	for lines := bufio.NewScanner(strings.NewReader(b.String())); lines.Scan(); {
		var op audit.Op
		if err := json.Unmarshal(lines.Bytes(), &op); err != nil {
			t.Fatal(err)
		}
		got = append(got, op)
	}
	if diff := cmp.Diff(r.History, got); diff != "" {
		t.Errorf("history read back as ops (-want +got):\n%s", diff)
	}
	if !strings.Contains(b.String(), `"mode":"lua-lock"`) {
		t.Errorf("history names no mode: %s", b.String())
	}
}

func TestSparkline(t *testing.T) {
	long := make([]loadtest.Window, 3*sparklineWidth)
	for i := range long {
		long[i].Accepted, long[i].For = 5, time.Second
	}
	if got, peak := sparkline(long); len([]rune(got)) != sparklineWidth || peak != 5 {
		t.Errorf("sparkline of %d windows = %d signs, peak %d, want %d and 5", len(long), len([]rune(got)), peak, sparklineWidth)
	}
	if got, _ := sparkline([]loadtest.Window{{Accepted: 1, For: time.Second}, {For: time.Second}, {Accepted: 80, For: time.Second}}); got != "▁·█" {
		t.Errorf("sparkline = %q, want %q", got, "▁·█")
	}
	if got, _ := sparkline([]loadtest.Window{{For: time.Second}, {For: time.Second}}); got != "··" {
		t.Errorf("sparkline of nothing = %q, want %q", got, "··")
	}
}
