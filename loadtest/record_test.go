package loadtest

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"lastitem/judge"
	"lastitem/loadtest/client"
	"lastitem/target"
	"lastitem/testkit"
)

// near reports whether a histogram of three digits may show got for want.
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
	if got.Count != 20_000 || got.Min != time.Duration(values[0]) || got.Max != time.Duration(values[len(values)-1]) ||
		!near(got.Mean, time.Duration(sum/20_000)) {
		t.Errorf("latency() = %+v, want 20000 values of %v to %v", got, time.Duration(values[0]),
			time.Duration(values[len(values)-1]))
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
func at(number int, intended, call, ret int64, kind client.Kind) sample {
	ms := int64(time.Millisecond)
	outcome := map[client.Kind]judge.Outcome{client.Accepted: judge.OK, client.Refused: judge.Refused,
		client.Failed: judge.Unknown}[kind]
	code := map[client.Kind]string{client.Accepted: "ok", client.Refused: "sold_out", client.Failed: "timeout"}[kind]
	return sample{
		op: judge.Op{Client: number, Call: call * ms, Return: ret * ms, Outcome: outcome, ProductID: 101, Quantity: 1,
			Replica: "r1"},
		kind:     kind,
		code:     code,
		intended: intended * ms,
		lags:     intended != call,
	}
}

func TestRecorderKeepsKindsAndTimesApart(t *testing.T) {
	t.Parallel()
	r := newRecorder(true)
	first := at(9, 10, 10, 30, client.Accepted)
	first.op.Remaining = new(int64(41))
	r.add(first)
	r.add(at(1, 10, 110, 150, client.Accepted)) // due at 10, sent 100 ms late
	r.add(at(2, 200, 200, 201, client.Refused))
	r.add(at(3, 2100, 2100, 2600, client.Failed))
	var res Result
	r.fill(&res)

	if got := res.Latency[client.Accepted]; got.Count != 2 || got.Max != 140*time.Millisecond {
		t.Errorf("response time of accepted = %+v, want 2 up to 140ms from the intended start", got)
	}
	if got := res.Service[client.Accepted]; got.Max != 40*time.Millisecond {
		t.Errorf("service time of accepted = %+v, want up to 40ms from the send", got)
	}
	if got := res.Lag; got.Count != 1 || got.Max != 100*time.Millisecond {
		t.Errorf("lag = %+v, want one of 100ms", got)
	}
	if res.Latency[client.Refused].Count != 1 || res.Latency[client.Failed].Max != 500*time.Millisecond {
		t.Errorf("refused %+v, failed %+v, want one each", res.Latency[client.Refused], res.Latency[client.Failed])
	}
	if res.Elapsed != 2590*time.Millisecond || res.ToLastAccepted != 140*time.Millisecond {
		t.Errorf("elapsed %v, to the last accepted %v, want 2.59s, 140ms", res.Elapsed, res.ToLastAccepted)
	}
	if got, want := res.AcceptedPerSecond, 2/0.140; got < want-0.01 || got > want+0.01 {
		t.Errorf("accepted/s = %v, want %v, undiluted by what came after", got, want)
	}
	testkit.Same(t, res.Codes, map[string]int{"ok": 2, "sold_out": 1, "timeout": 1}, "codes")
	testkit.Same(t, res.Served, map[string]int{"r1": 4}, "served")
	if got := res.History; len(got) != 4 || got[0].Client != 9 || got[0].Remaining == nil || *got[0].Remaining != 41 ||
		got[1].Remaining != nil {
		t.Errorf("history = %+v, want 4 ops by call, the first with 41 remaining", got)
	}
	want := map[time.Duration]Window{
		0: {Accepted: 1}, 150 * time.Millisecond: {Accepted: 1}, 200 * time.Millisecond: {Refused: 1},
		2600 * time.Millisecond: {Failed: 1},
	}
	for i, w := range res.Series {
		if w.At != time.Duration(i)*firstWindow || w.For != firstWindow {
			t.Errorf("window %d is of %v for %v, want windows of %v one after the other", i, w.At, w.For, firstWindow)
		}
		if (w.P50 > 0) != (w.Accepted > 0) || w.P90 < w.P50 || w.P99 < w.P90 {
			t.Errorf("window at %v: %+v, want the percentiles of what was accepted", w.At, w)
		}
		testkit.Is(t, (Window{Accepted: w.Accepted, Refused: w.Refused, Failed: w.Failed}), want[w.At], "window at %v", w.At)
	}
	if got := len(res.Series); got != 53 {
		t.Errorf("%d windows, want all 53 from 0 to 2.6s", got)
	}
}

// What ends an order is no purchase, whatever its outcome: it does not end a run that goes on until the stock is out.
func TestEndingsAreNoPurchases(t *testing.T) {
	t.Parallel()
	r := newRecorder(true)
	r.add(at(1, 0, 0, 1, client.Accepted))
	r.add(at(2, 0, 0, 1, client.Accepted))
	for kind, ask := range map[client.Kind]judge.ReservationKind{client.Accepted: judge.Cancel, client.Refused: judge.Ship,
		client.Failed: judge.Cancel} {
		s := at(1, 2, 2, 3, kind)
		s.step(target.Ask{Kind: ask, Order: "a", Visit: new(target.Visit)}, target.Answer{Outcome: s.op.Outcome})
		r.add(s)
	}
	testkit.Same(t, r.counts(), [3]int64{2, 0, 0}, "purchases by kind")
	accepted, final, _ := r.sales()
	testkit.Same(t, [2]int64{accepted, final}, [2]int64{1, 0}, "orders that stand, and refusals that end a run")
}

// The number of windows is bounded for every length of run, and merging windows loses nothing.
func TestSeriesIsBounded(t *testing.T) {
	t.Parallel()
	r := newRecorder(false)
	const seconds = 3600
	for i := range int64(seconds) {
		r.add(at(int(i%3), i*1000, i*1000, i*1000+5, client.Accepted))
	}
	var res Result
	r.fill(&res)
	if len(res.Series) > maxWindows || len(res.Series) < maxWindows/2 {
		t.Errorf("an hour has %d windows, want %d to %d", len(res.Series), maxWindows/2, maxWindows)
	}
	total := int64(0)
	for i, w := range res.Series {
		total += w.Accepted
		if w.At != time.Duration(i)*w.For || w.P50 < 4*time.Millisecond || w.P50 > 6*time.Millisecond {
			t.Errorf("window %d = %+v, want %v and a median of 5ms", i, w, time.Duration(i)*w.For)
		}
		if got, want := w.PerSecond(w.Accepted), 1.0; i < len(res.Series)-1 && (got < 0.9*want || got > 1.1*want) {
			t.Errorf("window %d: %v accepted/s, want %v", i, got, want)
		}
	}
	testkit.Is(t, total, seconds, "the windows add up to")
}

// The curve never falls, ends at the greatest value, and has no more points than the number of values supports.
func TestCurve(t *testing.T) {
	t.Parallel()
	r := newRecorder(false)
	for i := range int64(100) {
		r.add(at(0, i, i, 2*i+1, client.Accepted))
	}
	r.add(at(0, 0, 0, 5000, client.Refused))
	var res Result
	r.fill(&res)
	for i, p := range res.Curve {
		if i > 0 && (p.Value < res.Curve[i-1].Value || p.Percentile <= res.Curve[i-1].Percentile) {
			t.Errorf("curve %+v falls at %d", res.Curve, i)
		}
		if p.Percentile > 99 && p.Percentile < 100 {
			t.Errorf("curve of 100 values has a point at %v%%", p.Percentile)
		}
	}
	if n := len(res.Curve); n < 10 || res.Curve[n-1] != (Point{100, 100 * time.Millisecond}) {
		t.Errorf("curve = %+v, want it to end at 100%% with 100ms, without what was refused", res.Curve)
	}
}

func TestRecorderIsSafeForManyWorkers(t *testing.T) {
	t.Parallel()
	r := newRecorder(true)
	var wait sync.WaitGroup
	for number := range 50 {
		wait.Go(func() {
			for i := range int64(200) {
				r.add(at(number, i*20, i*20, i*20+5, client.Accepted))
				_ = r.counts()
			}
		})
	}
	wait.Wait()
	var res Result
	r.fill(&res)
	if res.Sent != 10_000 || len(res.History) != 10_000 || res.Latency[client.Accepted].Count != 10_000 ||
		res.Codes["ok"] != 10_000 {
		t.Errorf("recorded %d, history %d, want 10000", res.Sent, len(res.History))
	}
	perSecond := int64(0)
	for _, s := range res.Series {
		perSecond += s.Accepted
		if s.P50 < 4*time.Millisecond || s.P50 > 6*time.Millisecond {
			t.Errorf("window at %v: p50 = %v, want 5ms", s.At, s.P50)
		}
	}
	if perSecond != 10_000 {
		t.Errorf("series adds up to %d, want 10000", perSecond)
	}
}

func TestNoise(t *testing.T) {
	t.Parallel()
	over := func(busy, steal float64) cpuTime { return cpuTime{busy: busy, steal: steal, over: time.Second} }
	p99 := func(d time.Duration) map[client.Kind]Latency {
		return map[client.Kind]Latency{client.Accepted: {P99: d}}
	}
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
		{"late, but slower still", Result{Lag: Latency{P99: 3 * time.Millisecond}, Latency: p99(time.Second)}, over(0, 0),
			over(1, 0), 0},
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
