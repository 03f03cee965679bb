package rig

import (
	"context"
	"strings"
	"testing"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/stack/wire"
	"lastitem/target"
	"lastitem/testkit"
)

// Where the threads' states cannot be read, a pause fails at once, and says why.
func TestPauseNeedsLinux(t *testing.T) {
	t.Parallel()
	for system, want := range map[string]bool{"linux": true, "darwin": false, "freebsd": false} {
		if err := showsThreads(system); (err == nil) != want || err != nil && !strings.Contains(err.Error(), "Linux only") {
			t.Errorf("showsThreads(%s) = %v, want nil: %t", system, err, want)
		}
	}
}

// A command is identified by its kind and its occurrence among those of its kind, never by its number.
func TestPositions(t *testing.T) {
	t.Parallel()
	call := func(pattern string) wire.Call { return wire.Call{Server: "redis", Pattern: pattern} }
	at := func(pattern string, nth int) Position {
		return Position{Server: "redis", Pattern: pattern, Nth: nth, Cut: Command}
	}
	got := positions([]wire.Call{
		{Server: "redis", Pattern: "HELLO", Setup: true}, call("GET"), {Server: "redis", Pattern: "BLPOP", Poll: true},
		call("SET"), call("GET"),
	})
	testkit.Same(t, got, []Position{at("GET", 1), at("SET", 1), at("GET", 2)}, "positions")
	// A renewal that came in one run only is no part of the request; a release that was late in one run is.
	runs := [][]Position{
		{at("GET", 1), at("SET", 1), at("DEL", 1)},
		{at("GET", 1), at("PEXPIRE", 1), at("SET", 1), at("DEL", 1)},
		{at("GET", 1), at("SET", 1)},
	}
	want := []Position{at("GET", 1), at("SET", 1), at("DEL", 1)}
	testkit.Same(t, common(runs), want, "what most runs have")
	testkit.Same(t, differing(runs), []Position{at("DEL", 1), at("PEXPIRE", 1)}, "what not all runs have")
}

// judged returns the verdict on a scene in which one of two units was sold and nothing went wrong.
func judged(t *testing.T, accuse func(s *Scene)) judge.Report {
	t.Helper()
	left := int64(1)
	l := idle(t, Service{Ledger: func(context.Context, Site) (*api.Ledger,
		error) {
		return &api.Ledger{
			ProductID: 1, Initial: map[api.Store]int64{api.SQL: 2}, Stock: map[api.Store]int64{api.SQL: 1},
			Orders: []api.Order{{OrderID: "a", ProductID: 1, Quantity: 1, Remaining: &left, Store: api.SQL, Mode: "m",
				Key: "k"}},
		}, nil
	}})
	s := &Scene{Lane: l, ask: Ask{Ask: target.Ask{Mode: "m", Store: api.SQL, Product: 1}}, diary: diary{began: time.Now()}}
	done := make(chan struct{})
	close(done)
	s.ops = []*Pending{{done: done, op: judge.Op{Call: 1, Return: 2, ProductID: 1, Quantity: 1, Key: "k",
		Outcome: judge.OK, OrderID: "a", Remaining: &left}}}
	accuse(s)
	r, err := s.Judge(t.Context())
	testkit.Must(t, err)
	return r
}

// Accuse adds a letter, and its reason, to what the judge finds; without Accuse the judge finds nothing in this scene.
func TestAccuse(t *testing.T) {
	t.Parallel()
	if r := judged(t, func(*Scene) {}); r.Verdict != judge.Exact || r.Found != "" {
		t.Errorf("without Accuse: %s %q, want exact: %v %v", r.Verdict, r.Found, r.Violations, r.Missing)
	}
	r := judged(t, func(s *Scene) { s.Accuse("X", "nobody woke up") })
	if r.Verdict != judge.Broken || r.Found != "X" || !strings.Contains(strings.Join(r.Violations, " "),
		"nobody woke up") {
		t.Errorf("accused of X: %s %q %q, want broken, X and the reason", r.Verdict, r.Found, r.Violations)
	}
	r = judged(t, func(s *Scene) {
		s.ops[0].op.OrderID = "lost"
		s.Accuse("A", "no such order")
	})
	if r.Verdict != judge.Broken || strings.Count(r.Found, "A") != 1 {
		t.Errorf("accused of A, which the judge has found too: %s %q, want broken, and A once", r.Verdict, r.Found)
	}
}

// The promise of an order that was cancelled was kept: it is found that the order was shipped too.
func TestPromiseOfACancelledOrder(t *testing.T) {
	t.Parallel()
	r := judged(t, func(s *Scene) {
		s.ops = append(s.ops, &Pending{promised: true, op: judge.Op{Call: 3, Return: 4, ProductID: 1, Quantity: 1,
			Key: "j", Outcome: judge.OK, OrderID: "b"}})
		for _, kind := range []Kind{Ship, Cancel} {
			end := judge.ReservationOp{Kind: kind, OrderID: "b", Outcome: judge.OK}
			s.endings = append(s.endings, &Pending{hold: end})
		}
	})
	testkit.Is(t, r.Found, "A", "found in %s", r.Text("en"))
}

// A stuck request that bought something has an unknown outcome; nobody told its client that nothing happened. The
// others count as turned away.
func TestDecline(t *testing.T) {
	t.Parallel()
	order := func(key string) api.Order { return api.Order{OrderID: "1", Key: key, Quantity: 1} }
	for name, c := range map[string]struct {
		orders []api.Order
		want   []judge.Outcome // of an ok, a lost answer, and two stuck requests a and b
	}{
		"nobody bought": {nil, []judge.Outcome{judge.OK, judge.Unknown, judge.Declined, judge.Declined}},
		"b bought": {[]api.Order{order("ok"), order("b")}, []judge.Outcome{judge.OK, judge.Unknown, judge.Declined,
			judge.Unknown}},
		"by the number": {[]api.Order{order(""), {}, {}},
			[]judge.Outcome{judge.OK, judge.Unknown, judge.Unknown, judge.Declined}},
		"the first was cancelled": {[]api.Order{{}, {}},
			[]judge.Outcome{judge.OK, judge.Unknown, judge.Unknown, judge.Declined}},
	} {
		s := &Scene{}
		for i, key := range []string{"ok", "lost", "a", "b"} {
			p := &Pending{stuck: i > 1, op: judge.Op{Key: key, Quantity: 1, Outcome: judge.Unknown}}
			if i == 0 {
				p.op.Outcome, p.op.OrderID = judge.OK, "1"
			}
			s.ops = append(s.ops, p)
		}
		history := s.History()
		s.decline(history, c.orders)
		for i, want := range c.want {
			if history[i].Outcome != want || (want == judge.Declined) != (history[i].Code == api.LockBusy) {
				t.Errorf("%s: request %d is %s %q, want %s", name, i, history[i].Outcome, history[i].Code, want)
			}
		}
	}
}

// A service whose answers have no order id and whose orders have no key: a repeated request that is sold again is a
// double charge.
func TestRepeatedWithoutKeys(t *testing.T) {
	t.Parallel()
	l := idle(t, Service{Waits: true, Gone: new(target.Foreign).Gone, Ledger: func(context.Context, Site) (*api.Ledger,
		error) {
		ledger := &api.Ledger{ProductID: 1001, Initial: map[api.Store]int64{target.ForeignStore: 10},
			Stock: map[api.Store]int64{target.ForeignStore: 7}}
		for _, id := range []string{"1", "2", "3"} {
			ledger.Orders = append(ledger.Orders, api.Order{OrderID: id, ProductID: 1001, Quantity: 1,
				Store: target.ForeignStore})
		}
		return ledger, nil
	}})
	s := &Scene{Lane: l, ask: Ask{Ask: target.Ask{Store: target.ForeignStore}}, diary: diary{began: time.Now()}}
	for i, key := range []string{"k", "k", "another"} {
		call := int64(20 * i)
		s.ops = append(s.ops, &Pending{op: judge.Op{Client: i, Call: call, Return: call + 10, ProductID: 1001, Quantity: 1,
			Key: key, Outcome: judge.OK}})
	}
	s.GiveUp(s.ops[0])
	r, err := s.Judge(t.Context())
	if err != nil || r.Found != "D" {
		t.Errorf("Judge() = %v, %s; want D", err, r.Text("en"))
	}
}

// A service whose every request is longer than a quarter of the TTL is traced until two traces agree, in whatever order
// its commands came, and not ten times. The second of them counts, however short an odd one was. None begins after the
// context has ended.
func TestCalm(t *testing.T) {
	t.Parallel()
	ab, ba := []Position{{Pattern: "A"}, {Pattern: "B"}}, []Position{{Pattern: "B"}, {Pattern: "A"}}
	ended, end := context.WithCancel(t.Context())
	end()
	for _, tt := range []struct {
		name    string
		ctx     context.Context
		foreign bool
		runs    [][]Position
		times   int
		want    []Position
	}{
		{"two agree", t.Context(), true, [][]Position{ab, ba}, 2, ba},
		{"the first lacks a command", t.Context(), true, [][]Position{ab[:1], ab, ba}, 3, ba},
		{"the second lacks a command", t.Context(), true, [][]Position{ab, ab[:1], ab, ba}, 4, ba},
		{"lastitem's own", t.Context(), false, [][]Position{ab, ba}, traceTries, ab},
		{"the context has ended", ended, true, [][]Position{ab, ba}, 0, nil},
	} {
		times := 0
		got, err := calm(tt.ctx, time.Millisecond, tt.foreign, func() ([]Position, time.Duration, error) {
			times++
			return tt.runs[min(times, len(tt.runs))-1], time.Duration(times) * time.Second, nil
		})
		testkit.IsError(t, err, tt.ctx.Err(), "%s: calm()", tt.name)
		testkit.Same(t, got, tt.want, "%s: trace", tt.name)
		testkit.Is(t, times, tt.times, "%s: traces", tt.name)
	}
}
