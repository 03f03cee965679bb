package report

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest"
	"lastitem/loadtest/client"
	"lastitem/loadtest/compare"
	"lastitem/loadtest/plan"
	"lastitem/say/text"
	"lastitem/testkit"
	"lastitem/testkit/resulttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares got with testdata/name, or rewrites it under -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		testkit.Must(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run go test ./loadtest/report -update", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got), run with -update if that is right:\n%s", path, diff)
	}
}

// fullComparison has every kind of row and note that a table can show.
func fullComparison() compare.Comparison {
	noisy := resulttest.Exact("lua-lock", 12*time.Millisecond)
	noisy.Noisy = []string{"the machine was busy before the load: 0.85 cores", "the hypervisor took 0.03 cores away"}
	vacuous := resulttest.Vacuous("watchdog")
	vacuous.Noisy = []string{"the hypervisor took 0.11 cores away"}
	c := resulttest.Comparison(resulttest.Baseline(), resulttest.Broken("unsafe", "O"),
		resulttest.Broken("mutex", api.Exact), noisy, vacuous)
	c.Skipped = []compare.SkippedMode{{Mode: "segmented", Why: "needs redis, which is down"}}
	c.Failed = []compare.FailedRun{{Mode: "setnx", Repetition: 1, Why: "loadtest: set stock: connection refused"}}
	c.Crossed = []compare.Crossing{{Mode: "lua-lock", Threshold: "p(99)<50ms", Value: "60ms"}}
	return c
}

// openRun is an open-loop run that lasts several seconds, with lag and dropped arrivals.
func openRun() loadtest.Result {
	r := resulttest.Exact("sql-atomic", 3*time.Millisecond)
	r.Plan.VUs, r.Plan.Requests, r.Plan.Name = 0, 0, ""
	r.Plan.Stages = []plan.Stage{{For: 2 * time.Second, Rate: 100}, {For: 3 * time.Second, Rate: 400.5}}
	r.Dropped, r.Retried, r.Lag, r.Noisy, r.Partial = 7, 5, resulttest.Latency(750, 200*time.Microsecond),
		[]string{"7 arrivals were dropped"}, true
	r.Elapsed, r.GeneratorCores, r.BusyCores = 5*time.Second, 0.42, 1.68
	r.Series = nil
	for i, n := range []int64{20, 80, 160, 0, 240} {
		r.Series = append(r.Series, loadtest.Window{At: time.Duration(i) * time.Second, For: time.Second, Accepted: n,
			Refused: 50})
	}
	return r
}

func TestWriteText(t *testing.T) {
	tests := map[string]loadtest.Result{"broken": resulttest.Broken("unsafe", "O"), "open": openRun(),
		"baseline": resulttest.Baseline()}
	for name, r := range tests {
		for _, lang := range text.Languages {
			t.Run(name+"_"+lang, func(t *testing.T) {
				var b strings.Builder
				testkit.Must(t, WriteText(&b, r, Style{Lang: lang}))
				golden(t, "text_"+name+"_"+lang+".txt", b.String())
			})
		}
	}
}

func TestWriteCSV(t *testing.T) {
	var b strings.Builder
	testkit.Must(t, WriteCSV(&b, resulttest.Comparison(resulttest.Baseline(), resulttest.Broken("unsafe", "O"))))
	golden(t, "report.csv", b.String())
}

func TestWriteBench(t *testing.T) {
	silent := resulttest.Exact("silent", time.Millisecond)
	silent.Latency = map[client.Kind]loadtest.Latency{}
	metered := resulttest.Exact("redis-lua", time.Millisecond)
	metered.CPU = map[string]time.Duration{"replicas": 50 * time.Millisecond, "stores": 5 * time.Millisecond}
	var b strings.Builder
	if err := WriteBench(&b, resulttest.Comparison(resulttest.Exact("lua-lock", time.Millisecond),
		resulttest.Broken("unsafe", "O"), silent, metered)); err != nil {
		t.Fatal(err)
	}
	golden(t, "report.bench.txt", b.String())
}

func TestWriteJSON(t *testing.T) {
	want := fullComparison()
	var got compare.Comparison
	text, err := json.Marshal(want)
	testkit.Must(t, errors.Join(err, json.Unmarshal(text, &got)))
	testkit.Same(t, got.Results, want.Results, "results after a round through JSON")
	if got.Summaries[1].Found != "O" || got.Skipped[0].Mode != "segmented" {
		t.Errorf("summaries and skipped modes were lost: %+v", got)
	}
}

func TestWriteHistory(t *testing.T) {
	r := resulttest.Exact("lua-lock", time.Millisecond)
	r.History = []judge.Op{
		{Client: 1, Call: 10, Return: 20, Outcome: judge.OK, ProductID: 101, Quantity: 1, OrderID: "a"},
		{Client: 2, Call: 11, Outcome: judge.Unknown, ProductID: 101, Quantity: 1},
	}
	var b strings.Builder
	testkit.Must(t, WriteHistory(&b, r))
	var got []judge.Op
	for lines := bufio.NewScanner(strings.NewReader(b.String())); lines.Scan(); {
		var op judge.Op
		testkit.Must(t, json.Unmarshal(lines.Bytes(), &op))
		got = append(got, op)
	}
	testkit.Same(t, got, r.History, "history read back as ops")
	if !strings.Contains(b.String(), `"mode":"lua-lock"`) {
		t.Errorf("history names no mode: %s", b.String())
	}
}

func TestSparkline(t *testing.T) {
	accepted := func(w loadtest.Window) int64 { return w.Accepted }
	long := make([]loadtest.Window, 3*sparklineWidth)
	for i := range long {
		long[i].Accepted, long[i].For = 5, time.Second
	}
	if got, peak := sparkline(long, accepted); len([]rune(got)) != sparklineWidth || peak != 5 {
		t.Errorf("sparkline of %d windows = %d signs, peak %d, want %d and 5", len(long), len([]rune(got)), peak,
			sparklineWidth)
	}
	if got, _ := sparkline([]loadtest.Window{{Accepted: 1, For: time.Second}, {For: time.Second},
		{Accepted: 80, For: time.Second}}, accepted); got != "▁·█" {
		t.Errorf("sparkline = %q, want %q", got, "▁·█")
	}
	if got, _ := sparkline([]loadtest.Window{{For: time.Second}, {For: time.Second}}, accepted); got != "··" {
		t.Errorf("sparkline of nothing = %q, want %q", got, "··")
	}
}

func TestSummaryShowsTheWorst(t *testing.T) {
	second, third := resulttest.Broken("lua-lock", api.Exact), resulttest.Exact("lua-lock", 6*time.Millisecond)
	second.Repetition, second.AcceptedPerSecond = 2, 100
	third.Repetition, third.AcceptedPerSecond = 3, 1000
	got := compare.Summarize([]loadtest.Result{resulttest.Exact("lua-lock", 2*time.Millisecond), second, third})
	if len(got) != 1 {
		t.Fatalf("%d summaries, want 1", len(got))
	}
	s := got[0]
	if s.Worst != 2 || s.Verdict != judge.Broken || s.Finding != judge.Contradicted || s.Oversold != 213 {
		t.Errorf("shows repetition %d, %s, %s, oversold %d; want the broken one", s.Worst, s.Verdict, s.Finding, s.Oversold)
	}
	testkit.Is(t, s.AcceptedPerSecond, (compare.Spread{Median: 625, Min: 100, Max: 1000}), "accepted/s")
	if s.P50 != 2*time.Millisecond {
		t.Errorf("p50 = %v, want the median 2ms", s.P50)
	}
}

// A run that accepted nothing has a rate, which is 0, and no latency.
func TestLatencyOfRunsThatSold(t *testing.T) {
	down := resulttest.Exact("lua-lock", 0)
	down.AcceptedPerSecond, down.Latency = 0, nil
	s := compare.SummarizeRuns([]loadtest.Result{resulttest.Exact("lua-lock", 10*time.Millisecond), down})
	if s.P50 != 10*time.Millisecond || s.AcceptedPerSecond.Min != 0 {
		t.Errorf("p50 = %v, %+v accepted/s, want the 10ms of the run that sold, and the rates of both", s.P50,
			s.AcceptedPerSecond)
	}
	if s = compare.SummarizeRuns([]loadtest.Result{down}); s.P50 != 0 {
		t.Errorf("p50 = %v without a sale, want 0", s.P50)
	}
}

// A product of which nothing was sold says nothing about the others of its run.
func TestVerdictOnSeveralProducts(t *testing.T) {
	product := func(r loadtest.Result, v judge.Verdict) loadtest.Result {
		r.Verdicts = append(slices.Clone(r.Verdicts), judge.Report{Mode: r.Mode, Store: api.Redis, Verdict: v})
		return r
	}
	for _, tt := range []struct {
		name string
		runs []loadtest.Result
		want judge.Verdict
		code int
	}{
		{"exact", []loadtest.Result{product(resulttest.Exact("a", time.Millisecond), judge.Vacuous)}, judge.Exact,
			compare.ExitConfirmed},
		{"broken once", []loadtest.Result{resulttest.Broken("a", "O"), product(resulttest.NothingSeen("a"), judge.Vacuous)},
			judge.Broken, compare.ExitConfirmed},
		{"never broken", []loadtest.Result{product(resulttest.NothingSeen("a"), judge.Vacuous)}, judge.Exact,
			compare.ExitContradicted},
	} {
		c := resulttest.Comparison(tt.runs...)
		if s := c.Summaries[0]; s.Verdict != tt.want || c.ExitCode() != tt.code {
			t.Errorf("%s: %s, exit code %d, want %s and %d", tt.name, s.Verdict, c.ExitCode(), tt.want, tt.code)
		}
	}
}

// A mode that claims to break confirms its claim if one run of thirty breaks, and the report says how many did. A mode
// that claims to be exact must be exact in every run. A break outside the claim contradicts it, however many runs broke
// as claimed.
func TestRepetitionsAgainstTheClaim(t *testing.T) {
	broken, outside := resulttest.Broken("unsafe", "O"), resulttest.Broken("unsafe", "O")
	outside.Verdicts[0].Found, outside.Finding = "OL", judge.Contradicted
	never, vacuous := resulttest.NothingSeen("unsafe"), resulttest.Vacuous("unsafe")
	vacuous.Claim = "O"
	again := resulttest.Broken("unsafe", "O")
	again.Tries = 4
	exact, wrong := resulttest.Exact("unsafe", time.Millisecond), resulttest.Broken("unsafe", api.Exact)
	blind := resulttest.Vacuous("unsafe")
	tests := []struct {
		name    string
		runs    []loadtest.Result
		finding judge.Finding
		row     string
		counts  string
		code    int
	}{
		{"breaks in 27 of 30", slices.Concat(slices.Repeat([]loadtest.Result{broken}, 27),
			slices.Repeat([]loadtest.Result{never}, 3)),
			judge.Confirmed, "BROKEN O 27/30", "BROKEN O 27/30, EXACT 3/30", compare.ExitConfirmed},
		{"breaks once, last", []loadtest.Result{never, never, broken}, judge.Confirmed, "BROKEN O 1/3",
			"BROKEN O 1/3, EXACT 2/3", compare.ExitConfirmed},
		{"breaks when run again", []loadtest.Result{again}, judge.Confirmed, "BROKEN O 1/4", "BROKEN O 1/4, EXACT 3/4",
			compare.ExitConfirmed},
		{"breaks beside a vacuous run", []loadtest.Result{vacuous, broken}, judge.Confirmed, "BROKEN O 1/2",
			"BROKEN O 1/2, VACUOUS 1/2", compare.ExitConfirmed},
		{"never breaks", []loadtest.Result{never, never, never}, judge.Contradicted, "EXACT 3/3", "EXACT 3/3",
			compare.ExitContradicted},
		{"breaks outside its claim", []loadtest.Result{broken, outside, never}, judge.Contradicted, "BROKEN OL 2/3",
			"BROKEN OL 2/3, EXACT 1/3", compare.ExitContradicted},
		{"is exact as claimed", []loadtest.Result{exact, exact, exact}, judge.Confirmed, "EXACT 3/3", "EXACT 3/3",
			compare.ExitConfirmed},
		{"claims exact, broken once", []loadtest.Result{exact, wrong, exact}, judge.Contradicted, "BROKEN O 1/3",
			"BROKEN O 1/3, EXACT 2/3", compare.ExitContradicted},
		{"claims exact, vacuous once", []loadtest.Result{exact, blind, exact}, judge.Undecided, "VACUOUS 1/3",
			"VACUOUS 1/3, EXACT 2/3", compare.ExitUndecided},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := resulttest.Comparison(tt.runs...)
			s := c.Summaries[0]
			if s.Finding != tt.finding || c.ExitCode() != tt.code {
				t.Errorf("finding %s, exit code %d, want %s, %d", s.Finding, c.ExitCode(), tt.finding, tt.code)
			}
			testkit.Is(t, rowVerdict(s, "en"), tt.row, "verdict column")
			testkit.Is(t, verdictCounts(s), tt.counts, "counts")
			if tt.finding == judge.Confirmed && s.Claim != api.Exact && s.Oversold == 0 {
				t.Errorf("the row shows oversold 0, want the counts of a run that broke")
			}
			var bench strings.Builder
			text, err := json.Marshal(c)
			testkit.Must(t, errors.Join(err, WriteBench(&bench, c)))
			want := fmt.Sprintf("%q:%d", s.Verdict, s.Verdicts[s.Verdict])
			if !strings.Contains(string(text), want) || !strings.Contains(bench.String(), tt.counts+"\n") {
				t.Errorf("JSON has no %s, or the benchmark no %q:\n%s\n%s", want, tt.counts, text, bench.String())
			}
		})
	}
}

// A service that is not ours makes no claim: no report says that it kept one, speaks of its replicas, or gives a reason
// twice.
func TestForeignReport(t *testing.T) {
	t.Parallel()
	for verdict, banner := range map[judge.Verdict]string{
		judge.Exact: "The stock was deducted exactly.", judge.Broken: "The stock was not deducted exactly.",
		judge.Vacuous: "could not be decided",
	} {
		r := loadtest.Result{
			Mode: "theirs", Foreign: true, Finding: judge.Unclaimed, Repetition: 1,
			Plan:     plan.Plan{VUs: 2, Requests: 4, Stock: 3},
			Service:  map[client.Kind]loadtest.Latency{client.Accepted: {Count: 1}},
			Verdicts: []judge.Report{{Verdict: verdict, Initial: 3, Oversold: 71, Missing: []string{"why it is so"}}},
		}
		c := compare.Comparison{Results: []loadtest.Result{r}, Summaries: compare.Summarize([]loadtest.Result{r})}
		var text, page strings.Builder
		style := Style{Lang: "en"}
		if err := errors.Join(WriteText(&text, r, style), WriteFindings(&text, c, style),
			WritePage(&page, c, "en", nil)); err != nil {
			t.Fatal(err)
		}
		_, first, _ := strings.Cut(page.String(), banner)
		first, _, _ = strings.Cut(first, "</div>")
		if broken := verdict == judge.Broken; strings.Contains(first, "oversold 71") != broken ||
			strings.Contains(page.String(), "service time") {
			t.Errorf("%s: the page begins with %q, or tells of one time twice", verdict, first)
		}
		if !strings.Contains(page.String(), banner) || strings.Contains(page.String(), "Every claim held") {
			t.Errorf("%s: the page has no %q, or tells of claims:\n%s", verdict, banner, page.String())
		}
		said := text.String()
		if strings.Count(said, "why it is so") != 1 || strings.Contains(said, "\nclaim: ") ||
			strings.Contains(said, "one replica") || strings.Contains(said, "service time") {
			t.Errorf("%s: the text tells of a claim, of replicas, of one time twice, or gives the reason not once:\n%s", verdict,
				said)
		}
	}
}
