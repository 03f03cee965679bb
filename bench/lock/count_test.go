package main

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"lastitem/bench/figure"
	"lastitem/bench/figure/figuretest"
	"lastitem/bench/machine"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// The command writes its measurements, and says so where a scenario of the picture is missing.
func TestWrite(t *testing.T) {
	var said strings.Builder
	dir := t.TempDir() + "/out"
	b := &bench{options: options{json: dir + "/x.json", svg: dir + "/x.svg"}, errOut: &said}
	testkit.Must(t, b.write(facts{}, nil, nil))
	var read map[string]any
	testkit.Must(t, json.Unmarshal(testkit.Read(t, b.json), &read))
	if _, err := os.Stat(b.svg); err == nil || len(read) != 4 || !strings.Contains(said.String(), "no picture: it shows") {
		t.Errorf("it wrote %v and a picture, %v, and said %q", read, err, said.String())
	}
	b.json = t.TempDir()
	if b.write(facts{}, nil, nil) == nil {
		t.Error("writing over a directory: no error")
	}
}

// Commands are counted for every split of the writes, and for every content.
func TestCommandStream(t *testing.T) {
	const traffic = "*2\r\n$5\r\nhello\r\n$1\r\n3\r\n" +
		"*3\r\n$3\r\nset\r\n$1\r\nk\r\n$12\r\na\r\n*1\r\n$4\r\nx\r\n" + // a value that looks like a command
		"*1\r\n$4\r\nPING\r\n" +
		"*2\r\n$6\r\nclient\r\n$7\r\ncaching\r\n" +
		"*3\r\n$7\r\nEVALSHA\r\n$0\r\n\r\n$1\r\n0\r\n" +
		"*2\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n"
	const want = 3 // set, EVALSHA, subscribe
	for size := 1; size <= len(traffic); size++ {
		var s commandStream
		got := int64(0)
		for rest := traffic; rest != ""; {
			n := min(size, len(rest))
			got += s.read([]byte(rest[:n]))
			rest = rest[n:]
		}
		if got != want {
			t.Errorf("%s... in pieces of %d bytes: %d commands, want %d", strings.SplitN(traffic, "\r", 2)[0], size, got, want)
		}
	}
}

func TestDraw(t *testing.T) {
	o := &outcome{Name: drawn, Title: "a <b> & c"}
	for i, c := range contenders {
		m := figure.Measures{mRate: figure.Number(100 * i), mWait99: figure.Number(math.Inf(1)),
			mCommands: figure.Number(i) / 4}
		if i%2 == 0 {
			m[mWait99] = figure.Number(i * i)
		}
		o.Results = append(o.Results, &result{Contender: c.name, Rounds: figure.Rounds{m}})
	}
	o.conclude()
	texts := figuretest.Texts(t, draw(facts{Facts: machine.Facts{CPU: `an "odd" <cpu>`}}, []*outcome{{Name: "other"}, o}))
	for _, c := range contenders {
		if !slices.Contains(texts, c.name) {
			t.Errorf("%s is not in the picture", c.name)
		}
	}
	if draw(facts{}, nil) != nil {
		t.Error("a picture of nothing")
	}
}

func TestPercentile(t *testing.T) {
	hundred := make([]int64, 100)
	for i := range hundred {
		hundred[i] = int64(100 - i)
	}
	tests := []struct {
		values []int64
		p      float64
		want   int64
	}{
		{nil, 50, 0},
		{[]int64{9}, 99, 9},
		{[]int64{2, 1}, 50, 1},
		{hundred, 50, 50},
		{hundred, 99, 99},
		{hundred, 100, 100},
		{hundred, 0, 1},
	}
	for _, tt := range tests {
		testkit.Is(t, percentile(tt.values, tt.p), tt.want, "percentile(%d values, %v)", len(tt.values), tt.p)
	}
}

func TestJain(t *testing.T) {
	tests := []struct {
		shares []int64
		want   figure.Number
	}{
		{[]int64{5, 5, 5, 5}, 1},
		{[]int64{8, 0, 0, 0}, 0.25},
		{[]int64{1, 3}, 0.8},
	}
	for _, tt := range tests {
		if got := jain(tt.shares); math.Abs(float64(got-tt.want)) > 1e-12 {
			t.Errorf("jain(%v) = %v, want %v", tt.shares, got, tt.want)
		}
	}
	if got := jain([]int64{0, 0}); got.Known() {
		t.Errorf("jain of nothing = %v, want none", got)
	}
}

// only keeps the contenders with these names.
func (b *bench) only(names string) {
	b.contenders, _ = pick(contenders, strings.Fields(names), func(c contender) (string, bool) { return c.name, true })
}

// The locks that support a cluster acquire there, and the same locks acquire on one master.
func TestClusterWindow(t *testing.T) {
	t.Parallel()
	b := newBench(t, 100*time.Millisecond)
	b.only("raw handoff raw-cluster handoff-cluster redsync mutex")
	o := measureSome(t, b, scenario{name: "cluster", kind: kindCluster, processes: 1, goroutines: 4})
	t.Cleanup(func() {
		testkit.Check(t, b.cluster.close())
	})
	var names []string
	for _, r := range o.Results {
		names = append(names, r.Contender)
		if !(r.Median.Of(mRate) > 0) || r.Median.Of(mErrors) != 0 {
			t.Errorf("%s: %v acquisitions/s, %v errors: %s", r.Contender, r.Median.Of(mRate), r.Median.Of(mErrors), r.Failed)
		}
		if got := r.Median.Of(mToSingle).Known(); got != strings.HasSuffix(r.Contender, "-cluster") {
			t.Errorf("%s: a ratio to one master: %t", r.Contender, got)
		}
	}
	if got := strings.Join(names, " "); got != "raw handoff raw-cluster handoff-cluster" {
		t.Errorf("contenders %s", got)
	}
	if n := b.cluster.clients[2].DBSize(t.Context()).Val(); n == 0 {
		t.Error("the third master has no key: it was not used")
	}
}

// The engine's waiters acquire again after the master was killed and its replica promoted.
func TestFailoverWindow(t *testing.T) {
	testenv.Engines(t, "a window with a failover takes 20 s")
	t.Parallel()
	b := newBench(t, 0)
	b.only("handoff")
	s := scenario{name: "failover", kind: kindFailover, processes: 2, goroutines: 4, window: 20 * time.Second}
	o, err := b.measure(t.Context(), s)
	testkit.Must(t, err)
	m := o.of("handoff").Median
	if none := milli(int64(s.window - strikeAt - detection)); !(m.Of(mRecovery) < none) || !(m.Of(mFailures) > 0) {
		t.Errorf("%v ms from the promotion to an acquisition, %v failed operations; want less than %v, and some: the "+
			"master was killed", m.Of(mRecovery), m.Of(mFailures), none)
	}
}

// Only an acquisition after the promotion ends the recovery, whichever process made it.
func TestRecovery(t *testing.T) {
	t.Parallel()
	at := func(ms ...int64) *report {
		r := &report{}
		for _, x := range ms {
			r.Sections = append(r.Sections, section{Acquired: x * int64(time.Millisecond)})
		}
		return r
	}
	promoted := int64(100 * time.Millisecond)
	if got := recovery([]*report{at(90, 400), at(99, 130, 500)}, promoted, 6*time.Second); got != 30 {
		t.Errorf("recovery = %v ms, want 30", got)
	}
	if got := recovery([]*report{at(90), at()}, promoted, 6*time.Second); got != 4500 {
		t.Errorf("recovery = %v ms where nobody acquired, want the rest of the window", got)
	}
}

// hold makes a section from microseconds.
func hold(number, owner, asked, acquired, leaving int64) section {
	return section{number, owner, 1000 * asked, 1000 * acquired, 1000 * leaving, true}
}

func TestSumUpHotKey(t *testing.T) {
	first := report{
		Sections: []section{hold(1, 0, 0, 10, 20), hold(3, 0, 30, 60, 80)}, Done: []int64{2}, Commands: 5,
		Cut: []int64{5_000_000},
	}
	second := report{Sections: []section{hold(4, 1, 60, 90, 95), hold(2, 1, 0, 25, 40)}, Done: []int64{2}, Commands: 3}
	m := sumUp(scenario{kind: kindHot}, 2*time.Second, 0, []*report{&first, &second})
	want := figure.Measures{
		mRate: 2, mOwnerChanges: 1.5, mCommands: 2, mMaxMin: 1, mMin: 2, mMax: 2, mJain: 1, mViolations: 0, mErrors: 0,
		mSectionsTotal: 4,
		mHandoff50:     10, mHandoff99: 20, // 5, 20 and 10 us
		mWait50: 0.030, mWait99: 5, mWaitMax: 5, // 10, 25, 30, 30 us, and one cut off at 5 ms
	}
	for name, n := range want {
		if got := m.Of(name); math.Abs(float64(got-n)) > 1e-9 {
			t.Errorf("%s = %v, want %v", name, got, n)
		}
	}
	if len(m) != len(want) {
		t.Errorf("%d measures, want %d: %v", len(m), len(want), m)
	}
}

// The counter shows two holders at once: both have read the same value, or one has overwritten the other.
func TestSumUpSeesTwoInside(t *testing.T) {
	for name, sections := range map[string][]section{
		"the same value twice": {hold(1, 0, 0, 1, 2), hold(2, 0, 0, 3, 5), hold(2, 1, 0, 4, 6)},
		"a value is missing":   {hold(1, 0, 0, 1, 2), hold(3, 1, 0, 4, 6)},
		"the first is missing": {hold(2, 0, 0, 1, 2)},
	} {
		m := sumUp(scenario{kind: kindHot}, time.Second, 0, []*report{{Sections: sections, Done: []int64{1}}})
		r := result{Contender: "x", Rounds: figure.Rounds{{mViolations: 0}, m, {mViolations: 0}}}
		o := outcome{Name: "s", Results: []*result{&r}}
		o.conclude()
		if r.exact() || broken([]*outcome{&o}) == nil {
			t.Errorf("%s: not noticed", name)
		}
	}
}

func TestJudge(t *testing.T) {
	row := func(name string, m figure.Measures) *result {
		return &result{Contender: name, Rounds: figure.Rounds{m}}
	}
	hot := &outcome{Name: "hot-64x4", Results: []*result{
		row("redsync", figure.Measures{mOwnerChanges: 50, mWait99: 10, mRate: 1000}),
		row("rueidislock-1", figure.Measures{mOwnerChanges: 1000, mWait99: 100, mRate: 1000}),
		row("fair", figure.Measures{mCommands: 2.05}),
		row("handoff", figure.Measures{mOwnerChanges: 2100, mWait99: 13, mRate: 890, mCommands: 0.31,
			mMaxMin: figure.Number(math.Inf(1))}),
		row(ceilingName, figure.Measures{mRate: 1000}),
	}}
	hot.conclude()
	got := map[string]figure.Target{}
	for _, target := range judge([]*outcome{hot}) {
		got[target.Measure] = target
	}
	for measure, want := range map[string]string{
		"handoff: share of raw SET NX + EVALSHA":      figure.Unmeasured,
		"handoff: share of the process mutex":         figure.Missed,
		"handoff: owner changes/s, x best library":    figure.Met,
		"handoff: p99 wait, x best library":           figure.Missed,
		"handoff: network commands per acquisition":   figure.Missed,
		"fair: network commands per acquisition":      figure.Met,
		"handoff: max/min acquisitions per goroutine": figure.Missed,
	} {
		if got[measure].Verdict != want {
			t.Errorf("%s: %s (%v), want %s", measure, got[measure].Verdict, got[measure].Measured, want)
		}
	}
	if note := got["handoff: p99 wait, x best library"].Note; note != "rueidislock-1: 100 ms; lowest redsync: 10.0" {
		t.Errorf("note %q does not name the best library and the one with the lowest wait", note)
	}
}
