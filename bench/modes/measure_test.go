package main

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"lastitem/bench/command"
	"lastitem/bench/figure"
	"lastitem/bench/figure/figuretest"
	"lastitem/bench/machine"
	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest"
	"lastitem/loadtest/client"
	"lastitem/testkit"
)

func TestSumUp(t *testing.T) {
	r := loadtest.Result{
		Mode: "handoff", Elapsed: 2 * time.Second, AcceptedPerSecond: 500, Sent: 1250,
		Codes: map[string]int{"ok": 1000, string(api.LockBusy): 50, string(api.SoldOut): 200},
		Latency: map[client.Kind]loadtest.Latency{
			client.Accepted: {Count: 1000, P50: 4 * time.Millisecond, P99: 9 * time.Millisecond},
			client.Refused:  {Count: 250, P50: time.Millisecond, P99: 2 * time.Millisecond},
		},
	}
	cpu := burnt{shops: time.Second, edge: 500 * time.Millisecond, stores: 200 * time.Millisecond, others: 0.25,
		known: true}
	tests := map[string]struct {
		scenario scenario
		mode     string
		cpu      burnt
		want     figure.Measures
	}{
		"direct": {scenario{}, "handoff", cpu, figure.Measures{
			mRate: 500, mP50: 4, mP99: 9, mShopCPU: 1000, mStoreCPU: 200, mDeclined: 0.04, mOthers: 0.25,
		}},
		"behind nginx": {scenario{balanced: true}, "handoff", cpu, figure.Measures{
			mRate: 500, mP50: 4, mP99: 9, mShopCPU: 1000, mEdgeCPU: 500, mStoreCPU: 200, mDeclined: 0.04, mOthers: 0.25,
		}},
		"refusals": {scenario{soldOut: true}, "handoff", cpu, figure.Measures{
			mRate: 100, mP50: 1, mP99: 2, mShopCPU: 5000, mStoreCPU: 1000, mDeclined: 0.04, mOthers: 0.25,
		}},
		"noop refuses nobody": {scenario{soldOut: true}, baseline, burnt{others: figure.None}, figure.Measures{
			mRate: 500, mP50: 4, mP99: 9, mDeclined: 0.04, mOthers: figure.None,
		}},
	}
	for name, tt := range tests {
		r.Mode = tt.mode
		got := sumUp(tt.scenario, r, tt.cpu)
		if len(got) != len(tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
		for measure, want := range tt.want {
			if n := got.Of(measure); math.Abs(float64(n-want)) > 1e-9 || n.Known() != want.Known() {
				t.Errorf("%s: %s = %v, want %v", name, measure, n, want)
			}
		}
	}
}

func TestJudged(t *testing.T) {
	sold := map[client.Kind]loadtest.Latency{client.Accepted: {Count: 9}}
	said := map[client.Kind]loadtest.Latency{client.Refused: {Count: 3}}
	soldOut := map[string]int{string(api.SoldOut): 3}
	fine := judge.Report{Verdict: judge.Exact}
	twice := judge.Report{Verdict: judge.Broken, Found: "O"}
	twins := judge.Report{Verdict: judge.Broken, Violations: []string{"two orders of one id"}}
	blind := judge.Report{Verdict: judge.Inconclusive, Missing: []string{"no ledger"}}
	near, empty := scenario{}, scenario{soldOut: true}
	tests := []struct {
		name     string
		scenario scenario
		claim    api.Outcomes
		latency  map[client.Kind]loadtest.Latency
		codes    map[string]int
		reports  []judge.Report
		want     verdict
		why      string
	}{
		{"exact", near, ".", sold, nil, []judge.Report{fine, fine}, exact, ""},
		{"not exact", near, ".", sold, nil, []judge.Report{fine, twice}, wrong, "found O"},
		{"as claimed", near, "O", sold, nil, []judge.Report{twice}, broken, ""},
		{"not broken this time", near, "O", sold, nil, []judge.Report{fine}, broken, "did not show"},
		{"a violation without a letter", near, ".", sold, nil, []judge.Report{twins}, wrong, ""},
		{"no data", near, ".", sold, nil, []judge.Report{blind}, undecided, "no ledger"},
		{"unjudged", near, ".", sold, nil, nil, undecided, ""},
		{"refused with stock left", near, ".", sold, soldOut, []judge.Report{fine}, void, "3 requests"},
		{"refused without", empty, ".", said, soldOut, []judge.Report{fine}, exact, ""},
		{"nobody refused", empty, ".", sold, nil, []judge.Report{fine}, void, ""},
	}
	for _, tt := range tests {
		r := loadtest.Result{Latency: tt.latency, Codes: tt.codes, Claim: tt.claim, Verdicts: tt.reports}
		got, why := judged(tt.scenario, api.Mode{}, r)
		if got != tt.want || !strings.Contains(why, tt.why) {
			t.Errorf("%s: judged %s, %q, want %s, %q", tt.name, verdicts[got], why, verdicts[tt.want], tt.why)
		}
	}
	if got, _ := judged(near, api.Mode{Baseline: true}, loadtest.Result{Latency: sold}); got != none {
		t.Errorf("a baseline is judged %s", verdicts[got])
	}
}

// row makes a row of rates, one per round.
func row(name string, v verdict, rates ...figure.Number) *result {
	r := &result{Row: name}
	for _, n := range rates {
		r.add(figure.Measures{mRate: n, mP99: 10 / n}, v, "")
	}
	return r
}

// The worst window of a row decides; a wrong row has no numbers and is an error.
func TestConclude(t *testing.T) {
	o := &outcome{Name: "s", Results: []*result{
		row(baseline, none, 100, 1000, 10), row("a", exact, 50, 400, 6), row("b", exact, 90),
	}}
	o.Results[2].add(figure.Measures{mRate: 900}, wrong, "sold twice")
	o.Results[2].add(figure.Measures{mRate: 9}, exact, "")
	o.conclude()
	a, b := o.of("a"), o.of("b")
	if got := a.ToNoop.Of(mRate); got != 0.5 {
		t.Errorf("share of noop %v, want 0.5, the median of 0.5, 0.4, 0.6", got)
	}
	testkit.Is(t, a.Median.Of(mSpread), figure.Number(394.0/50), "spread")
	if b.Verdict != wrong || len(b.Median) > 0 || len(b.ToNoop) > 0 {
		t.Errorf("b is %s with %v, want WRONG without a number", verdicts[b.Verdict], b.Median)
	}
	if err := wrongs([]*outcome{o}); err == nil || !strings.Contains(err.Error(), "s: b: sold twice") {
		t.Errorf("wrongs = %v, want what b did", err)
	}
	if o.against("b", baseline).Known() || !o.against("a", baseline).Known() {
		t.Error("what is wrong is compared with others, or what is exact is not")
	}
}

func TestTargets(t *testing.T) {
	near := &outcome{Name: direct, Results: []*result{
		row(baseline, none, 1000), row("mutex", exact, 100), row("handoff", exact, 95),
		row("queue", broken, 900), row("sql-atomic", exact, 100), row("reserve-sql", exact, 62),
		row("reserve-unit", exact, 90),
	}, known: []string{baseline, "mutex", "handoff", "queue", "sql-atomic", "reserve-sql", "reserve-unit"}}
	away := &outcome{Name: far, Results: []*result{
		row("handoff", exact, 100), row("segmented", exact, 640), row("handoff, 10 products", exact, 600),
		row("sql-atomic", exact, 100), row("sql-one-trip", exact, 190),
	}, known: []string{"handoff", "segmented", "sql-atomic", "sql-one-trip"},
		Skipped: []skipped{{allProducts.String(), "no Redis"}}}
	near.conclude()
	away.conclude()
	want := []struct{ verdict, note string }{
		{figure.Unmeasured, "queue: broken"},
		{figure.Met, "95.0/s to 100/s"},
		{figure.Met, "640/s to 100/s"},
		{figure.Unmeasured, "global-lock, 10 products: no Redis"},
		{figure.Missed, "190/s to 100/s"},
		{figure.Met, "62.0/s to 100/s"},
		{figure.Missed, "90.0/s to 62.0/s"},
		{figure.Unmeasured, "reserve-unit: no such mode"},
		{figure.Unmeasured, "reserve-redis: no such mode"},
	}
	got := judgeOutcomes([]*outcome{near, away})
	for i, target := range got {
		if target.Verdict != want[i].verdict || target.Note != want[i].note {
			t.Errorf("%s: %s, %q, want %s, %q", target.Measure, target.Verdict, target.Note, want[i].verdict, want[i].note)
		}
	}
	near.known = []string{baseline}
	near.Results = near.Results[:1]
	if got := judgeOutcomes([]*outcome{near}); got[0].Note != "queue: no such mode" || got[4].Note != "" {
		t.Errorf("notes %q and %q, want that there is no such mode, and nothing of what was not asked for", got[0].Note,
			got[4].Note)
	}
}

// A server that a mode does not need is not charged to it, and one that it needs twice counts once.
func TestBehind(t *testing.T) {
	s := &site{stores: map[string][]int{"redis": {1}, "sql": {2}, "mysql": {2}, "etcd": {3}}}
	if got, want := s.behind(api.Mode{Needs: []string{"sql", "mysql", "redis"}}), []int{1, 2}; !slices.Equal(got, want) {
		t.Errorf("behind = %v, want %v", got, want)
	}
	if got := s.behind(api.Mode{}); len(got) > 0 {
		t.Errorf("behind(noop) = %v, want no process", got)
	}
}

func TestPrintNoise(t *testing.T) {
	for share, want := range map[figure.Number]bool{0.05: false, 0.3: true, figure.None: false} {
		r := &result{Row: "a"}
		r.add(figure.Measures{mOthers: share}, exact, "")
		r.add(figure.Measures{}, failed, "") // nobody looked
		var out bytes.Buffer
		printNoise(&out, []*outcome{{Results: []*result{r}}})
		if got := out.Len() > 0; got != want {
			t.Errorf("with %v of others: %q, want a warning: %v", share, out.String(), want)
		}
	}
}

// A sale of a mode that reserves is a reservation that is paid at once, whose row of units is there.
func TestPlanOfReservingModes(t *testing.T) {
	o, e := options{clients: 4, window: time.Second}, one("m")
	p := scenario{}.plan(api.Mode{Name: "m", Reserves: true, Units: true}, e, o)
	if !p.Reserving.On() || p.Reserving.Pays != 1 || p.Stock != plentyUnits || p.Validate() != nil {
		t.Errorf("plan %+v, %v, want buyers who all pay", p, p.Validate())
	}
	if p := (scenario{soldOut: true}).plan(api.Mode{Name: "m"}, e, o); p.Reserving.On() || p.Stock != 1 {
		t.Errorf("plan %+v, want no reservation, of one unit", p)
	}
}

func TestRows(t *testing.T) {
	there := []api.Mode{{Name: baseline, Available: true}, {Name: "handoff", Available: true},
		{Name: "etcd", Why: "no etcd"}}
	everything := func(string) bool { return true }
	run, not := scenario{}.rows(there, everything)
	if len(run) != 2 || len(not) != 1 || not[0] != (skipped{"etcd", "no etcd"}) {
		t.Errorf("rows = %v, not %v, want noop and handoff, not etcd", run, not)
	}
	all, _ := command.Pick(scenarios, far, func(s scenario) (string, bool) { return s.name, true })
	run, not = all[0].rows(there, everything)
	if len(run) != 2 || len(not) != 7 || not[0] != (skipped{"segmented", noSuchMode}) {
		t.Errorf("rows of %s = %v, not %v, want both of handoff, not segmented", far, run, not)
	}
	run, not = scenario{}.rows(there, func(mode string) bool { return mode == baseline })
	if len(run) != 1 || len(not) != 0 {
		t.Errorf("rows = %v, not %v, want noop alone, and nothing said of the others", run, not)
	}
}

func TestDraw(t *testing.T) {
	one := &outcome{Name: direct, Results: []*result{row(baseline, none, 1000), row("mutex", exact, 100),
		row("bad", wrong, 5)}}
	many := &outcome{Name: balanced, Results: []*result{row(baseline, none, 900), row("mutex", broken, 80)}}
	one.conclude()
	many.conclude()
	outcomes := []*outcome{one, many}
	texts := figuretest.Texts(t, draw(facts{Facts: machine.Facts{CPU: `an "odd" <cpu>`}}, options{clients: 64}, outcomes))
	if !slices.Contains(texts, "mutex") || !slices.Contains(texts, baseline) || slices.Contains(texts, "bad") {
		t.Errorf("the picture shows %q, want noop and mutex, and not what is wrong", texts)
	}
	if v := worst(outcomes, "mutex"); v != broken {
		t.Errorf("mutex is drawn as %s, want broken: it is so over replicas", verdicts[v])
	}
	if draw(facts{}, options{}, nil) != nil {
		t.Error("a picture of nothing")
	}
}
