package loadtest

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lastitem/internal/audit"
)

// near says whether a histogram of three digits may show got for want.
func near(got, want time.Duration) bool {
	return (got - want).Abs() <= want/500+2*time.Microsecond
}

func TestHistogramIsTheSortedListToThreeDigits(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var values []int64
	var sum int64
	parts := []*histogram{newHistogram(runDigits), newHistogram(runDigits), nil}
	for i := range 20_000 {
		v := int64(random.ExpFloat64() * 5e6)
		values = append(values, v)
		sum += v
		parts[i%2].record(v)
	}
	slices.Sort(values)
	all := newHistogram(runDigits)
	for _, p := range parts {
		all.merge(p)
	}
	got := all.latency()
	at := func(p float64) time.Duration { return time.Duration(values[int(p/100*float64(len(values)))-1]) }
	for _, q := range []struct {
		name      string
		got, want time.Duration
	}{
		{"p50", got.P50, at(50)},
		{"p90", got.P90, at(90)},
		{"p95", got.P95, at(95)},
		{"p99", got.P99, at(99)},
		{"p99.9", got.P999, at(99.9)},
	} {
		if !near(q.got, q.want) {
			t.Errorf("%s = %v, want %v", q.name, q.got, q.want)
		}
	}
	if got.Count != 20_000 || got.Min != time.Duration(values[0]) || got.Max != time.Duration(values[len(values)-1]) || !near(got.Mean, time.Duration(sum/20_000)) {
		t.Errorf("latency() = %+v, want 20000 values of %v to %v", got, time.Duration(values[0]), time.Duration(values[len(values)-1]))
	}
}

func TestHistogramHoldsAnything(t *testing.T) {
	t.Parallel()
	h := newHistogram(runDigits)
	for _, v := range []int64{-5, 0, 1, int64(time.Hour)} {
		h.record(v)
	}
	got := h.latency()
	if got.Count != 4 || got.Min != 0 || got.Max != time.Hour || got.P50 > time.Millisecond {
		t.Errorf("latency() = %+v, want 4 values of 0 to 1h", got)
	}
	if got := newHistogram(runDigits).latency(); got != (Latency{}) {
		t.Errorf("latency() of nothing = %+v, want zero", got)
	}
}

// at builds a sample of a client that was due, sent and answered at these milliseconds.
func at(client int, intended, call, ret int64, kind Kind) sample {
	ms := int64(time.Millisecond)
	outcome := map[Kind]audit.Outcome{Accepted: audit.OK, RefusedK: audit.Refused, Failed: audit.Unknown}[kind]
	code := map[Kind]string{Accepted: "ok", RefusedK: "sold_out", Failed: "timeout"}[kind]
	return sample{
		op:       audit.Op{Client: client, Call: call * ms, Return: ret * ms, Outcome: outcome, ProductID: 101, Quantity: 1, Replica: "r1"},
		read:     reading{outcome: outcome, kind: kind, code: code},
		intended: intended * ms,
		open:     intended != call,
	}
}

func TestRecorderKeepsKindsAndTimesApart(t *testing.T) {
	t.Parallel()
	r := newRecorder(true)
	r.add(at(9, 10, 10, 30, Accepted), 41, true)
	r.add(at(1, 10, 110, 150, Accepted), 0, false) // due at 10, sent 100 ms late
	r.add(at(2, 200, 200, 201, RefusedK), 0, false)
	r.add(at(3, 2100, 2100, 2600, Failed), 0, false)
	var res Result
	r.fill(&res)

	if got := res.Latency[Accepted]; got.Count != 2 || got.Max != 140*time.Millisecond {
		t.Errorf("response time of accepted = %+v, want 2 up to 140ms from the intended start", got)
	}
	if got := res.Service[Accepted]; got.Max != 40*time.Millisecond {
		t.Errorf("service time of accepted = %+v, want up to 40ms from the send", got)
	}
	if got := res.Lag; got.Count != 1 || got.Max != 100*time.Millisecond {
		t.Errorf("lag = %+v, want one of 100ms", got)
	}
	if res.Latency[RefusedK].Count != 1 || res.Latency[Failed].Max != 500*time.Millisecond {
		t.Errorf("refused %+v, failed %+v, want one each", res.Latency[RefusedK], res.Latency[Failed])
	}
	if res.Elapsed != 2590*time.Millisecond || res.ToLastAccepted != 140*time.Millisecond {
		t.Errorf("elapsed %v, to the last accepted %v, want 2.59s, 140ms", res.Elapsed, res.ToLastAccepted)
	}
	if got, want := res.AcceptedPerSecond, 2/0.140; got < want-0.01 || got > want+0.01 {
		t.Errorf("accepted/s = %v, want %v, undiluted by what came after", got, want)
	}
	if diff := cmp.Diff(map[string]int{"ok": 2, "sold_out": 1, "timeout": 1}, res.Codes); diff != "" {
		t.Errorf("codes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"r1": 4}, res.Served); diff != "" {
		t.Errorf("served (-want +got):\n%s", diff)
	}
	if got := res.History; len(got) != 4 || got[0].Client != 9 || got[0].Remaining == nil || *got[0].Remaining != 41 || got[1].Remaining != nil {
		t.Errorf("history = %+v, want 4 ops by call, the first with 41 remaining", got)
	}
	want := []Second{{At: 0, Accepted: 2, Refused: 1}, {At: 1}, {At: 2, Failed: 1}}
	for i := range res.Series {
		res.Series[i].P50, res.Series[i].P99 = 0, 0
	}
	if diff := cmp.Diff(want, res.Series); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

func TestRecorderIsSafeForManyWorkers(t *testing.T) {
	t.Parallel()
	r := newRecorder(true)
	var wait sync.WaitGroup
	for client := range 50 {
		wait.Go(func() {
			for i := range int64(200) {
				r.add(at(client, i*20, i*20, i*20+5, Accepted), i, true)
				_ = r.counts()
			}
		})
	}
	wait.Wait()
	var res Result
	r.fill(&res)
	if res.Sent != 10_000 || len(res.History) != 10_000 || res.Latency[Accepted].Count != 10_000 || res.Codes["ok"] != 10_000 {
		t.Errorf("recorded %d, history %d, want 10000", res.Sent, len(res.History))
	}
	perSecond := int64(0)
	for _, s := range res.Series {
		perSecond += s.Accepted
		if s.P50 < 4*time.Millisecond || s.P50 > 6*time.Millisecond {
			t.Errorf("second %d: p50 = %v, want 5ms", s.At, s.P50)
		}
	}
	if perSecond != 10_000 {
		t.Errorf("series adds up to %d, want 10000", perSecond)
	}
	seen := map[*int64]bool{}
	for _, op := range res.History {
		seen[op.Remaining] = true
	}
	if len(seen) != 10_000 {
		t.Errorf("%d distinct remaining values, want 10000: ops share them", len(seen))
	}
}

func TestNoise(t *testing.T) {
	t.Parallel()
	over := func(busy, steal float64) cpuTime { return cpuTime{busy: busy, steal: steal, over: time.Second} }
	p99 := func(d time.Duration) map[Kind]Latency { return map[Kind]Latency{Accepted: {P99: d}} }
	tests := []struct {
		name   string
		res    Result
		quiet  cpuTime
		during cpuTime
		want   int
	}{
		{"quiet", Result{Latency: p99(time.Millisecond)}, over(0.1, 0), over(2, 0), 0},
		{"unknown machine", Result{}, cpuTime{}, cpuTime{}, 0},
		{"neighbour", Result{}, over(0.5, 0), over(2, 0), 1},
		{"steal", Result{}, over(0, 0), over(1, 0.1), 1},
		{"drops", Result{Sent: 300, Dropped: 3}, over(0, 0), over(1, 0), 1},
		{"late", Result{Lag: Latency{P99: 3 * time.Millisecond}}, over(0, 0), over(1, 0), 1},
		{"late, but slower still", Result{Lag: Latency{P99: 3 * time.Millisecond}, Latency: p99(time.Second)}, over(0, 0), over(1, 0), 0},
		{"more drops, which discount the run", Result{Sent: 200, Dropped: 3}, over(0, 0), over(1, 0), 0},
		{"everything", Result{Sent: 100, Dropped: 1, Lag: Latency{P99: time.Second}}, over(1, 0), over(1, 1), 4},
	}
	for _, tt := range tests {
		if got := noise(&tt.res, tt.quiet, tt.during, "en"); len(got) != tt.want {
			t.Errorf("%s: noise() = %q, want %d reasons", tt.name, got, tt.want)
		}
	}
}

func TestParseCPU(t *testing.T) {
	t.Parallel()
	noon := time.Now()
	before := parseCPU("cpu  1000 100 500 90000 300 10 20 40 0 0\ncpu0 1 2 3\n", noon)
	after := parseCPU("cpu  1100 100 550 90100 300 10 20 90 0 0\n", noon.Add(2*time.Second))
	got := after.since(before)
	if cores := got.cores(got.busy); cores < 0.7499 || cores > 0.7501 {
		t.Errorf("busy = %v cores, want 0.75", cores)
	}
	if cores := got.cores(got.steal); cores < 0.2499 || cores > 0.2501 {
		t.Errorf("steal = %v cores, want 0.25", cores)
	}
	for _, bad := range []string{"", "cpu", "cpu a b c d e f g h", "intr 1 2 3 4 5 6 7 8 9"} {
		if got := parseCPU(bad, noon); got != (cpuTime{}) {
			t.Errorf("parseCPU(%q) = %+v, want nothing", bad, got)
		}
	}
	if got := after.since(cpuTime{}); got != (cpuTime{}) {
		t.Errorf("since(nothing) = %+v, want nothing", got)
	}
}
