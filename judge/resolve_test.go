package judge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/contract/api"
	"lastitem/testkit"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// row is an order row of the test product, created n milliseconds after noon.
func row(id string, quantity, remaining int64, key string, n int) api.Order {
	return api.Order{
		OrderID: id, ProductID: 101, Quantity: quantity, Remaining: &remaining, Mode: "m", Store: api.SQL,
		Replica: fmt.Sprint(1 + n%3), Key: key, CreatedAt: noon.Add(time.Duration(n) * time.Millisecond),
	}
}

func op(out Outcome, call, ret, quantity int64, id, key string) Op {
	o := Op{
		Outcome: out, Call: call, Return: ret, ProductID: 101, Quantity: quantity, OrderID: id, Key: key,
		Replica: fmt.Sprint(1 + call%3),
	}
	switch out {
	case Refused:
		o.Code = api.SoldOut
	case Declined:
		o.Code = api.LockBusy
	}
	return o
}

// good is a run that is exact: 10 units sold over three replicas, with a replay, three unknown requests of which two
// happened, one that was declined, and refusals that only the moment of their return justifies.
func good() Input {
	replay := op(OK, 50, 60, 1, "o4", "k4")
	replay.Replayed = true
	return Input{
		Mode: "m", Store: api.SQL, Replicas: 3, WantSoldOut: true,
		History: []Op{
			op(OK, 0, 10, 1, "o1", ""),
			op(OK, 5, 15, 1, "o2", ""),
			op(OK, 12, 30, 2, "o3", ""),
			op(OK, 20, 40, 1, "o4", "k4"),
			replay,
			op(Unknown, 55, 0, 1, "", "k5"),
			op(Unknown, 62, 0, 3, "", ""),
			op(Unknown, 63, 0, 1, "", ""),
			op(Declined, 64, 70, 1, "", ""),
			op(Refused, 65, 78, 2, "", ""),
			op(OK, 80, 100, 1, "o7", ""),
			op(Refused, 95, 110, 1, "", "k6"),
		},
		Ledger: &api.Ledger{
			ProductID: 101,
			Initial:   map[api.Store]int64{api.SQL: 10, api.Redis: 10},
			Stock:     map[api.Store]int64{api.SQL: 0, api.Redis: 10},
			Orders: []api.Order{
				row("o1", 1, 9, "", 1), row("o2", 1, 8, "", 2), row("o3", 2, 6, "", 3), row("o4", 1, 5, "k4", 4),
				row("o5", 1, 4, "k5", 5), row("o6", 3, 1, "", 6), row("o7", 1, 0, "", 7),
			},
			Keys: []api.KeyRow{{Key: "k4", Status: 200}, {Key: "k5", Status: 200}, {Key: "k6", Status: 409}},
		},
	}
}

// The places of the good history that the mutants touch.
const (
	firstOK     = 0
	keyedOK     = 3
	theReplay   = 4
	keyedGone   = 5
	theDeclined = 8
	earlyNo     = 9
	lastOK      = 10
	lastNo      = 11
)

// logged is an exact run of a mode that executes from a log and notes each order's own id as its key: 20 requests
// without a key over two replicas, a second apart, of which the last 3 got no answer and were executed all the same.
func logged() Input {
	l := &api.Ledger{ProductID: 101, Initial: map[api.Store]int64{api.SQL: 30}, Stock: map[api.Store]int64{api.SQL: 10}}
	in := Input{Mode: "m", Store: api.SQL, Replicas: 2, Ledger: l}
	for i := range 20 {
		call := int64(i) * int64(time.Second)
		id := fmt.Sprint("o", i)
		request := op(OK, call, call+int64(2*time.Second), 1, id, "")
		order := row(id, 1, int64(29-i), id, 0)
		order.CreatedAt = noon.Add(time.Duration(call) + time.Second)
		request.Replica, order.Replica = fmt.Sprint(i%2), fmt.Sprint(i%2)
		if i >= 17 {
			request.Outcome, request.OrderID, request.Return = Unknown, "", 0
		}
		in.History, l.Orders = append(in.History, request), append(l.Orders, order)
	}
	return in
}

// An unknown request explains one order of its quantity that was written after its call, whatever key the mode noted on
// it; it explains no second one, none of another quantity, and none from before.
func TestUnknownWithoutAKey(t *testing.T) {
	t.Parallel()
	extra := func(in *Input, quantity int64, at time.Duration, key string) {
		o := row("extra", quantity, 10-quantity, key, 0)
		o.Replica, o.CreatedAt = "1", noon.Add(at)
		in.Ledger.Orders = append(in.Ledger.Orders, o)
		in.Ledger.Stock[api.SQL] -= quantity
	}
	// lose makes the row of the last unknown request disappear, so that one more could be explained.
	lose := func(in *Input) {
		in.Ledger.Orders = in.Ledger.Orders[:19]
		in.Ledger.Stock[api.SQL]++
	}
	for _, c := range []struct {
		name    string
		change  func(in *Input)
		verdict Verdict
	}{
		{"every row explained", func(*Input) {}, Exact},
		{"one of the unknown was not executed", lose, Exact},
		{"written much later", func(in *Input) { in.Ledger.Orders[18].CreatedAt = noon.Add(time.Hour) }, Exact},
		{"one row more than unknown requests", func(in *Input) { extra(in, 1, 20*time.Second, "extra") }, Broken},
		{"one row more, without a key", func(in *Input) { extra(in, 1, 20*time.Second, "") }, Broken},
		{"a row of another quantity", func(in *Input) { lose(in); extra(in, 2, 20*time.Second, "extra") }, Broken},
		{"a row from before the unknown requests", func(in *Input) {
			lose(in)
			extra(in, 1, 5*time.Second, "extra")
		}, Broken},
		{"a row under the key of a request that was told no", func(in *Input) {
			lose(in)
			extra(in, 1, 20*time.Second, "k")
			in.History = append(in.History, op(Declined, 1, 2, 1, "", "k"))
		}, Broken},
		{"every answer is known", func(in *Input) { in.History = in.History[:17] }, Broken},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			in := logged()
			c.change(&in)
			r := Judge(in)
			if r.Verdict != c.verdict || r.Found != "" {
				t.Fatalf("Judge = %s %q, want %s\n%s", r.Verdict, r.Found, c.verdict, r.Text("en"))
			}
			if said := strings.Join(r.Violations, "; "); c.verdict == Broken &&
				!strings.Contains(said, "no answer accounts for") && !strings.Contains(said, "told that nothing happened") {
				t.Errorf("Judge says %q, want that nobody asked for a row", said)
			}
		})
	}
}

// A holder is stopped from 1 s to 3 s, and its lock may live for 2 s after that: only requests that are refused as busy
// after 5 s show that the product is stuck. The report says in any case how long others were blocked.
func TestStuckAfterTheResume(t *testing.T) {
	t.Parallel()
	at := func(seconds float64) int64 { return int64(seconds * float64(time.Second)) }
	no := func(call float64) Op { return op(Declined, at(call), at(call+0.5), 1, "", "") }
	limited := no(6)
	limited.Code = api.RateLimited
	for _, c := range []struct {
		name    string
		resumed float64
		bound   time.Duration
		ops     []Op
		found   string
		missing string
		blocked time.Duration
	}{
		{"turned away after the bound", 3, 2 * time.Second, []Op{no(5.1), no(5.2), no(5.3)}, "X", "", 900 * time.Millisecond},
		{"turned away after the bound, and by a limit", 3, 2 * time.Second, []Op{no(5.1), no(5.2), no(5.3), limited}, "X", "",
			1400 * time.Millisecond},
		{"turned away before it only", 3, 2 * time.Second, []Op{no(2), no(3.5), no(4), no(4.5)}, "",
			"too few requests after 5s", 3 * time.Second},
		{"two turned away after it", 3, 2 * time.Second, []Op{no(2), no(3), no(5.1), no(5.2)}, "",
			"too few requests after 5s", 3700 * time.Millisecond},
		{"served after it", 3, 2 * time.Second, []Op{no(2), no(3.5), no(4), op(OK, at(5), at(6), 1, "o2", "")}, "", "",
			4 * time.Second},
		{"no fault", 0, 0, []Op{no(2), no(3.5), no(4)}, "X", "", 2500 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := &api.Ledger{
				ProductID: 101, Initial: map[api.Store]int64{api.SQL: 10}, Stock: map[api.Store]int64{api.SQL: 10},
			}
			history := append([]Op{op(OK, at(0), at(1), 1, "o1", ""), op(OK, at(0.5), at(0.9), 1, "o0", "")}, c.ops...)
			for _, o := range history {
				if o.Outcome == OK {
					l.Stock[api.SQL]--
					l.Orders = append(l.Orders, row(o.OrderID, 1, l.Stock[api.SQL], "", 1))
				}
			}
			for i := range l.Orders {
				l.Orders[i].Remaining = nil
			}
			r := Judge(Input{Mode: "m", Store: api.SQL, Replicas: 1, Ledger: l, History: history, Resumed: at(c.resumed),
				Bound: c.bound})
			if said := strings.Join(r.Missing, "; "); r.Found != c.found || !strings.Contains(said, c.missing) ||
				c.missing == "" && said != "" {
				t.Errorf("Judge found %q, missing %q; want %q, %q\n%s", r.Found, said, c.found, c.missing, r.Text("en"))
			}
			if r.Blocked != c.blocked {
				t.Errorf("blocked for %v, want %v", r.Blocked, c.blocked)
			}
			if text := r.Text("en"); !strings.Contains(text, "no request finished for "+c.blocked.String()) {
				t.Errorf("the text does not say for how long the others were blocked:\n%s", text)
			}
		})
	}
}

func TestBlocked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		ops  []Op
		want time.Duration
	}{
		{"nobody", nil, 0},
		{"one after the other, with pauses", []Op{op(OK, 0, 5, 1, "", ""), op(OK, 100, 107, 1, "", "")}, 7},
		{"one waits for another", []Op{op(OK, 0, 50, 1, "", ""), op(OK, 10, 60, 1, "", "")}, 50},
		{"waiting since the finish before", []Op{op(OK, 0, 10, 1, "", ""), op(Refused, 5, 90, 1, "", "")}, 80},
		{"no answer, no end", []Op{op(OK, 0, 10, 1, "", ""), op(Unknown, 5, 0, 1, "", ""), op(OK, 80, 90, 1, "", "")}, 80},
		{"turned away at the end", []Op{op(OK, 0, 10, 1, "", ""), op(Declined, 20, 70, 1, "", "")}, 50},
	} {
		testkit.Is(t, blocked(c.ops), c.want, "blocked(%s)", c.name)
	}
}

// An audit of many orders takes longer than a sale, so even then units without an order are looked at twice.
func TestWatch(t *testing.T) {
	t.Parallel()
	lost, exact := Report{Store: api.Redis, Verdict: Broken, Found: "L"}, Report{Store: api.Redis, Verdict: Exact}
	more := Report{Store: api.Redis, Verdict: Broken, Found: "L", Violations: []string{"an order has no id"}}
	for name, test := range map[string]struct {
		looks []Report // the last is repeated
		took  time.Duration
		until time.Duration // when the context ends, 0 = never
		want  Verdict
		times int
		says  string
	}{
		"written by the second look": {[]Report{lost, exact}, 3 * time.Second, 0, Exact, 2, ""},
		"lost":                       {[]Report{lost}, 3 * time.Second, 0, Broken, 2, ""},
		"quick looks":                {[]Report{lost}, 480 * time.Millisecond, 0, Broken, 3, ""},
		"nothing to look for":        {[]Report{more}, time.Millisecond, 0, Broken, 1, ""},
		"no time for a second": {[]Report{lost}, 3 * time.Second, 5 * time.Second, Inconclusive, 2,
			"no time to look again"},
		"no time at all": {[]Report{lost}, 3 * time.Second, 3 * time.Second, Inconclusive, 1, "no time to look again"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if test.until > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.until)
					defer cancel()
				}
				times := 0
				reports, err := Watch(ctx, func() ([]Report, error) {
					times++
					select {
					case <-time.After(test.took):
					case <-ctx.Done():
					}
					if times > 1 && ctx.Err() != nil {
						return nil, ctx.Err()
					}
					return []Report{test.looks[min(times, len(test.looks))-1]}, nil
				})
				if (err != nil) != (test.until > 0) || len(reports) != 1 || reports[0].Verdict != test.want || times != test.times {
					t.Fatalf("%d looks, %+v, %v, want %d and %s", times, reports, err, test.times, test.want)
				}
				if !strings.Contains(strings.Join(reports[0].Missing, ""), test.says) {
					t.Errorf("missing %q, want %q", reports[0].Missing, test.says)
				}
			})
		})
	}
	down := errors.New("down")
	if reports, err := Watch(t.Context(), func() ([]Report, error) {
		return nil, down
	}); reports != nil || !errors.Is(err, down) {
		t.Errorf("Watch() = %v, %v, want the error of the look", reports, err)
	}
}

func TestSettle(t *testing.T) {
	t.Parallel()
	lost := func(final, sold int64) Report {
		return Report{Verdict: Broken, Found: "L", Initial: 10, Final: final, Sold: sold, Leaked: 10 - final - sold}
	}
	for name, test := range map[string]struct {
		looks []Report
		want  Verdict
		says  string
	}{
		"one look":      {[]Report{lost(8, 1)}, Broken, ""},
		"nothing moves": {[]Report{lost(8, 1), lost(8, 1), lost(8, 1)}, Broken, ""},
		"sold meanwhile": {[]Report{lost(8, 1), lost(5, 2), lost(6, 2)}, Inconclusive,
			"3 looks units were gone without an order, from 1 to 3"},
		"same gap":     {[]Report{lost(8, 1), lost(7, 2)}, Inconclusive, "from 1 to 1"},
		"written":      {[]Report{lost(8, 1), {Verdict: Exact, Initial: 10, Final: 8, Sold: 2}}, Exact, ""},
		"oversold too": {[]Report{lost(8, 1), {Verdict: Broken, Found: "OL", Initial: 10, Final: 8, Sold: 2}}, Broken, ""},
		"not put back": {[]Report{{Verdict: Broken, Final: -2, Overdrawn: 2, Violations: []string{"-2"}},
			{Verdict: Broken, Final: -1, Overdrawn: 1, Violations: []string{"-1"}}}, Inconclusive, "from 1 to 2"},
		"more is wrong": {[]Report{lost(8, 1), {Verdict: Broken, Found: "L", Final: 7,
			Violations: []string{"an order has no id"}}}, Broken, ""},
	} {
		got := Settle(test.looks)
		if got.Verdict != test.want || !strings.Contains(strings.Join(got.Missing, ""), test.says) {
			t.Errorf("%s: %s %q, want %s %q", name, got.Verdict, got.Missing, test.want, test.says)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	exact := Report{Verdict: Exact, Sold: 10, Initial: 10}
	broken := func(found string, violations ...string) Report {
		return Report{Verdict: Broken, Found: found, Violations: violations, Consequences: []string{"the stock is -1"}}
	}
	for _, c := range []struct {
		name  string
		r     Report
		claim api.Outcomes
		want  Finding
		why   string
	}{
		{"exact as claimed", exact, ".", Confirmed, "10 of 10"},
		{"exact, claimed broken", exact, "O", Contradicted, "not tested or not broken"},
		{"exact, no claim", exact, "", Unclaimed, ""},
		{"exact, not applicable", exact, "–", Undecided, "cannot happen"},
		{"claim misspelt", exact, "Q", Undecided, "outcome letters"},
		{"misspelt beside a right one", broken("O"), "OQ", Undecided, "outcome letters"},
		{"broken, claimed exact", broken("O"), ".", Contradicted, "claimed exact, but oversold"},
		{"broken as claimed", broken("O"), "O", Confirmed, "oversold"},
		{"one of the claimed", broken("L"), "X L", Confirmed, "without an order"},
		{"all of the claimed", broken("OLA"), "O A L", Confirmed, "not there"},
		{"another letter", broken("L"), "O", Contradicted, "claimed O, but 0 units"},
		{"one letter too many", broken("OD"), "O", Contradicted, "beyond the first"},
		{"stuck, claimed to leak", broken("X"), "L", Contradicted, "stuck"},
		{"a violation beside the letter", broken("O", "2 rows repeat an id"), "O", Contradicted, "repeat"},
		{"a violation alone", broken("", "refused though in stock"), "O", Contradicted, "refused"},
		{"a violation, claimed exact", broken("", "refused though in stock"), ".", Contradicted, "refused"},
		{"inconclusive", Report{Verdict: Inconclusive, Missing: []string{"no ledger"}}, ".", Undecided, "no ledger"},
		{"inconclusive, claimed broken", Report{Verdict: Inconclusive, Found: "O"}, "O", Undecided, "INCONCLUSIVE"},
		{"vacuous", Report{Verdict: Vacuous, Missing: []string{"one replica"}}, ".", Undecided, "one replica"},
		{"vacuous, claimed broken", Report{Verdict: Vacuous}, "O", Undecided, "VACUOUS"},
		{"no report", Report{}, ".", Undecided, "neither"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, why := Check(c.r, c.claim)
			if got != c.want || !strings.Contains(strings.Join(why, "\n"), c.why) {
				t.Errorf("Check(%s %q, %q) = %s %q, want %s %q", c.r.Verdict, c.r.Found, c.claim, got, why, c.want, c.why)
			}
		})
	}
}

// TestConsequences breaks the good run so that one outcome brings other broken rules with it: a claim of that outcome
// covers them, a claim of exactness does not.
func TestConsequences(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(in *Input, l *api.Ledger)
		claim  api.Outcomes
		phrase string
	}{
		{"negative stock after overselling", func(in *Input, l *api.Ledger) {
			l.Stock[api.SQL] = -1
			l.Orders = append(l.Orders, row("o8", 1, -1, "", 8))
			in.History = append(in.History, op(OK, 96, 105, 1, "o8", ""))
		}, "O", "the stock is -1"},
		{"negative stock after a refusal was not undone", func(_ *Input, l *api.Ledger) {
			l.Stock[api.SQL] = -1
		}, "L", "is at -1"},
		{"units shared after a lost update", func(in *Input, l *api.Ledger) {
			l.Orders = append(l.Orders, row("o8", 1, 5, "", 8))
			in.History = append(in.History, op(OK, 21, 41, 1, "o8", ""))
		}, "O", "more than one order"},
		{"refused because of a leak", func(in *Input, l *api.Ledger) { drop(in, l, "o7") }, "L", "because of the leaked"},
		{"more acknowledged than there was, rows rolled back", func(in *Input, _ *api.Ledger) {
			in.History = append(in.History, op(OK, 6, 7, 5, "lost", ""))
		}, "OAL", "11 units were acknowledged"},
		{"stored answer of a lost order", func(_ *Input, l *api.Ledger) {
			l.Orders = slices.Delete(l.Orders, 3, 4)
			l.Stock[api.SQL]++
		}, "A", "an order that is not there"},
		{"replay of the other of two charges", func(in *Input, l *api.Ledger) {
			l.Orders[6].Key, in.History[lastOK].Key = "k4", "k4"
			in.History[theReplay].OrderID = "o7"
		}, "D", "from the first answer for"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			in := good()
			c.change(&in, in.Ledger)
			r := Judge(in)
			if !strings.Contains(strings.Join(slices.Concat(r.Consequences, r.Violations), "\n"), c.phrase) {
				t.Errorf("consequences are %q, want %q", r.Consequences, c.phrase)
			}
			if got, why := Check(r, c.claim); got != Confirmed {
				t.Errorf("Check(%q) = %s %q, want confirmed", c.claim, got, why)
			}
			if got, _ := Check(r, api.Exact); got != Contradicted {
				t.Errorf("Check(%q) = %s, want contradicted", api.Exact, got)
			}
		})
	}
}
