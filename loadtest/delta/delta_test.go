package delta

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lastitem/internal/api"
	"lastitem/internal/audit"
	"lastitem/loadtest"
	"lastitem/loadtest/client"
)

// machine makes load tests with figures drawn randomly around known values.
type machine struct {
	random *rand.Rand
	rounds int
	noise  float64 // as a share
}

// test is a load test of modes that accept so many a second, with a median of p50.
func (m machine) test(rates map[string]float64, p50 time.Duration) loadtest.Comparison {
	c := loadtest.Comparison{Environment: loadtest.Environment{Go: "go1.26.8", CPUs: 2, Servers: map[string]string{"redis": "redis-server 7.0.15"}}}
	for round := range m.rounds {
		for _, mode := range []string{"lua-lock", "handoff", "unsafe"} {
			if rates[mode] == 0 {
				continue
			}
			noisy := func(v float64) float64 { return v * (1 + m.noise*m.random.NormFloat64()) }
			l := loadtest.Latency{Count: 500, P50: time.Duration(noisy(float64(p50))), P99: time.Duration(noisy(float64(5 * p50)))}
			r := loadtest.Result{
				Mode: mode, Store: api.Redis, Repetition: round + 1, Plan: loadtest.Plan{VUs: 40, Requests: 750, Stock: 500, Repeat: m.rounds},
				AcceptedPerSecond: noisy(rates[mode]), Latency: map[client.Kind]loadtest.Latency{client.Accepted: l},
				Claim: api.Exact, Finding: audit.Confirmed, Verdicts: []audit.Report{{Verdict: audit.Exact}},
			}
			for i := range 20 {
				r.Series = append(r.Series, loadtest.Window{
					At: time.Duration(i) * time.Second, For: time.Second, Accepted: int64(noisy(rates[mode])), P50: l.P50, P99: l.P99,
				})
			}
			r.Series = append(r.Series, loadtest.Window{At: 20 * time.Second, For: time.Second, Refused: 10})
			c.Results = append(c.Results, r)
		}
	}
	return c
}

func (m machine) of(t *testing.T, a, b loadtest.Comparison, o Options) Report {
	t.Helper()
	r, err := Of("a.json", a, "b.json", b, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func outcomes(r Row) map[string]Outcome {
	all := map[string]Outcome{}
	for _, f := range r.Figures {
		all[f.Name] = f.Outcome
	}
	return all
}

// A known difference is shown, with its direction, and with its size in the interval; equal figures show no difference.
func TestOfKnownDifferences(t *testing.T) {
	t.Parallel()
	for _, kind := range []Samples{Rounds, Windows, Auto} {
		m := machine{random: rand.New(rand.NewPCG(7, 7)), rounds: 6, noise: 0.02}
		a := m.test(map[string]float64{"lua-lock": 1000, "handoff": 2000}, 10*time.Millisecond)
		b := m.test(map[string]float64{"lua-lock": 800, "handoff": 2000}, 8*time.Millisecond)
		r := m.of(t, a, b, Options{Samples: kind})
		if got := outcomes(r.Rows[0]); got["accepted/s"] != Worse || got["p50"] != Better || got["p99"] != Better {
			t.Errorf("%s: lua-lock: %v, want a worse rate and better latencies", kind, got)
		}
		if f := r.Rows[0].Figures[0]; !f.Difference.Covers(-0.2) || f.Difference.Covers(-0.3) || f.Difference.Covers(0) || f.P >= 0.05 {
			t.Errorf("%s: lua-lock: %+v, want an interval around -20%%", kind, f)
		}
		if got := outcomes(r.Rows[1])["accepted/s"]; got != NotShown {
			t.Errorf("%s: handoff: %v, want no difference of the rate", kind, got)
		}
		if !r.WorseThan(0.1) || r.WorseThan(0.25) {
			t.Errorf("%s: worse than 10%%: %v, than 25%%: %v, want true and false", kind, r.WorseThan(0.1), r.WorseThan(0.25))
		}
		if want := map[Samples]Samples{Auto: Rounds}[kind]; want != "" && r.Rows[0].Samples != want || !r.Decided() {
			t.Errorf("%s: samples are %s, decided %v", kind, r.Rows[0].Samples, r.Decided())
		}
	}
}

// With few rounds Auto takes windows, without the first, the last that sold and those after it; with neither there is no interval.
func TestSamples(t *testing.T) {
	t.Parallel()
	m := machine{random: rand.New(rand.NewPCG(1, 1)), rounds: 1, noise: 0.02}
	a, b := m.test(map[string]float64{"lua-lock": 1000}, time.Millisecond), m.test(map[string]float64{"lua-lock": 1000}, time.Millisecond)
	if r := m.of(t, a, b, Options{}); r.Rows[0].Samples != Windows || r.Rows[0].Figures[0].NA != 18 {
		t.Errorf("samples = %s, %d of them, want the 18 whole windows", r.Rows[0].Samples, r.Rows[0].Figures[0].NA)
	}
	r := m.of(t, a, b, Options{Samples: Rounds})
	if got := outcomes(r.Rows[0])["accepted/s"]; got != TooFew || r.Decided() {
		t.Errorf("one round a side: %v, decided %v, want too few", got, r.Decided())
	}
	a.Results[0].Discounted = "more than 1% of the arrivals were dropped"
	if got := outcomes(m.of(t, a, b, Options{}).Rows[0])["accepted/s"]; got != NoSamples {
		t.Errorf("a run that does not count: %v, want no samples", got)
	}
	long := make([]float64, 1000)
	for i := range long {
		long[i] = float64(i)
	}
	if got := thinned(long); len(got) != most || got[0] != 0 || got[most-1] != 995 {
		t.Errorf("thinned to %d from %v to %v, want %d spread over all", len(got), got[0], got[len(got)-1], most)
	}
}

// A percentile of a longer window has more answers in it: it is not compared with that of a shorter one. A rate is.
func TestWindowsOfDifferentLengths(t *testing.T) {
	t.Parallel()
	m := machine{random: rand.New(rand.NewPCG(3, 3)), rounds: 1, noise: 0.02}
	rates := map[string]float64{"lua-lock": 1000}
	a, b := m.test(rates, 10*time.Millisecond), m.test(rates, 20*time.Millisecond)
	for i := range b.Results[0].Series {
		b.Results[0].Series[i].For *= 2
		b.Results[0].Series[i].Accepted *= 2
	}
	r := m.of(t, a, b, Options{})
	if got := outcomes(r.Rows[0]); got["accepted/s"] != NotShown || got["p50"] != Unlike || got["p99"] != Unlike {
		t.Errorf("%v, want the rate compared and the latencies not", got)
	}
	if r.WorseThan(0) || !r.Decided() {
		t.Errorf("worse %v, decided %v, want false and true", r.WorseThan(0), r.Decided())
	}
	if f := r.Rows[0].Figures[1]; f.A.Estimate == 0 || f.B.Estimate == 0 || f.P != 1 {
		t.Errorf("%+v, want the medians of both sides", f)
	}
}

// The report says which side was disturbed, and which store only one side has.
func TestSides(t *testing.T) {
	t.Parallel()
	m := machine{random: rand.New(rand.NewPCG(5, 5)), rounds: 4, noise: 0.02}
	a, b := m.test(map[string]float64{"lua-lock": 1000}, time.Millisecond), m.test(map[string]float64{"lua-lock": 1000}, time.Millisecond)
	b.Results[2].Noisy = []string{"others used 1.5 cores", "late"}
	for i := range b.Results {
		b.Results[i].Store = api.SQL
	}
	r := m.of(t, a, b, Options{})
	if r.A.Noisy != 0 || r.B.Noisy != 1 || r.B.Runs != 4 || r.B.Why != "others used 1.5 cores" {
		t.Errorf("noisy: %+v and %+v, want one of 4 in B", r.A, r.B)
	}
	if strings.Join(r.OnlyA, "") != "lua-lock · redis" || strings.Join(r.OnlyB, "") != "lua-lock · sql" {
		t.Errorf("only in A %q, only in B %q, want them with their stores", r.OnlyA, r.OnlyB)
	}
}

// Different plans are an error that says what differs; the number of repetitions is no part of a plan.
func TestDifferentPlans(t *testing.T) {
	t.Parallel()
	m := machine{random: rand.New(rand.NewPCG(1, 1)), rounds: 4, noise: 0.02}
	a := m.test(map[string]float64{"lua-lock": 1000}, time.Millisecond)
	m.rounds = 5
	b := m.test(map[string]float64{"lua-lock": 1000}, time.Millisecond)
	if r := m.of(t, a, b, Options{}); len(r.Plans) > 0 {
		t.Errorf("other repetitions are another plan: %v", r.Plans)
	}
	for i := range b.Results {
		b.Results[i].Plan.VUs, b.Results[i].Plan.Engine = 50, "resty"
	}
	_, err := Of("a", a, "b", b, Options{})
	var differ *PlansError
	if !errors.As(err, &differ) || !strings.Contains(err.Error(), `engine "" / "resty", vus 40 / 50`) {
		t.Errorf("error %v, want the fields that differ", err)
	}
	r := m.of(t, a, b, Options{Force: true})
	if want := []Differing{{"engine", `""`, `"resty"`}, {"vus", "40", "50"}}; !cmp.Equal(want, r.Plans) || len(r.Rows) != 1 {
		t.Errorf("forced: plans %v, %d rows, want %v and the row", r.Plans, len(r.Rows), want)
	}
}

// Times are written as flags take them, not as the nanoseconds of the JSON.
func TestPlansDifferInTimes(t *testing.T) {
	t.Parallel()
	a := loadtest.Plan{Wait: 3 * time.Second}
	b := loadtest.Plan{Duration: time.Minute, SellOut: time.Second}
	if err := json.Unmarshal([]byte(`{"stages":[{"for":10000000000,"rate":2.5},{"for":60000000000,"rate":2000}]}`), &b); err != nil {
		t.Fatal(err)
	}
	want := []Differing{{"duration", "–", "1m0s"}, {"sell_out", "–", "1s"}, {"stages", "–", "10s:2.5,1m0s:2000"}, {"wait", "3s", "0s"}}
	if diff := cmp.Diff(want, plansDiffer(a, b)); diff != "" {
		t.Errorf("plansDiffer() (-want +got):\n%s", diff)
	}
	// A new field of a plan must not be written as nanoseconds.
	var every loadtest.Plan
	for i, fields := 0, reflect.ValueOf(&every).Elem(); i < fields.NumField(); i++ {
		if d, ok := fields.Field(i).Addr().Interface().(*time.Duration); ok {
			*d = time.Hour
		}
	}
	for name, text := range fieldsOf(every) {
		if strings.HasPrefix(text, "36000") {
			t.Errorf("%s is written as %s, want 1h0m0s", name, text)
		}
	}
}

func TestEnvironmentsAndVerdicts(t *testing.T) {
	t.Parallel()
	m := machine{random: rand.New(rand.NewPCG(1, 1)), rounds: 4, noise: 0.02}
	a := m.test(map[string]float64{"lua-lock": 1000, "handoff": 1000}, time.Millisecond)
	b := m.test(map[string]float64{"lua-lock": 1000, "unsafe": 1000}, time.Millisecond)
	b.Environment.CPUs, b.Environment.Servers = 8, map[string]string{"redis": "redis-server 8.0.0", "sql": "MariaDB 10.11"}
	b.Results[0].Finding, b.Results[0].Verdicts = audit.Contradicted, []audit.Report{{Verdict: audit.Broken, Found: "O"}}
	r := m.of(t, a, b, Options{})
	want := []Differing{{"CPUs", "2", "8"}, {"redis", "redis-server 7.0.15", "redis-server 8.0.0"}, {"sql", "?", "MariaDB 10.11"}}
	if diff := cmp.Diff(want, r.Differs); diff != "" {
		t.Errorf("environments (-want +got):\n%s", diff)
	}
	if !cmp.Equal([]string{"handoff"}, r.OnlyA) || !cmp.Equal([]string{"unsafe"}, r.OnlyB) {
		t.Errorf("only in A %v, only in B %v", r.OnlyA, r.OnlyB)
	}
	if got := r.Contradicted(); len(got) != 1 || got[0].VerdictA != audit.Exact || got[0].VerdictB != audit.Broken || got[0].FoundB != "O" {
		t.Errorf("contradicted in B: %+v, want lua-lock", got)
	}
}

// A side with samples shows its median, even if the other side has none.
func TestMedianOfOneSide(t *testing.T) {
	t.Parallel()
	if r := (figure{}).compare(nil, []float64{7540}); r.Outcome != NoSamples || r.B.Estimate != 7540 {
		t.Errorf("compare(none, 7540) = %s, B %v, want no samples, and 7540", r.Outcome, r.B.Estimate)
	}
	if r := (figure{}).compare([]float64{9140}, nil); r.Outcome != NoSamples || r.A.Estimate != 9140 {
		t.Errorf("compare(9140, none) = %s, A %v, want no samples, and 9140", r.Outcome, r.A.Estimate)
	}
}
