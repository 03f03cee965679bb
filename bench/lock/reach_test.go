package main

import (
	"strings"
	"testing"
	"time"

	"lastitem/bench/command"
)

// only keeps the contenders with these names.
func (b *bench) only(names string) {
	b.contenders, _ = command.Pick(contenders, names, func(c contender) (string, bool) { return c.name, true })
}

// The locks that support a cluster acquire there, and the same locks acquire on one master.
func TestClusterWindow(t *testing.T) {
	t.Parallel()
	b := newBench(t, 100*time.Millisecond)
	b.only("raw handoff raw-cluster handoff-cluster redsync mutex")
	o := measureSome(t, b, scenario{name: "cluster", kind: kindCluster, processes: 1, goroutines: 4})
	t.Cleanup(func() {
		if err := b.cluster.close(); err != nil {
			t.Error(err)
		}
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
	t.Parallel()
	b := newBench(t, 0)
	b.only("handoff")
	s := scenario{name: "failover", kind: kindFailover, processes: 2, goroutines: 4, window: 20 * time.Second}
	o, err := b.measure(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	m := o.of("handoff").Median
	if none := milli(int64(s.window - strikeAt - detection)); !(m.Of(mRecovery) < none) || !(m.Of(mFailures) > 0) {
		t.Errorf("%v ms from the promotion to an acquisition, %v failed operations; want less than %v, and some: the master was killed", m.Of(mRecovery), m.Of(mFailures), none)
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
