package judge

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lastitem/contract/api"
)

func TestLedgerAlone(t *testing.T) {
	t.Parallel()
	l := good().Ledger
	reports := OfLedger(l, "")
	if len(reports) != 2 || reports[0].Store != api.Redis || reports[0].Verdict != Vacuous || reports[1].Verdict != Exact {
		t.Fatalf("OfLedger = %+v, want redis VACUOUS, sql EXACT", reports)
	}
	if len(reports[1].Unchecked) == 0 {
		t.Error("OfLedger does not say what it could not check")
	}
	if v := Overall(reports); v != Exact {
		t.Errorf("Overall = %s, want EXACT: nothing was sold from the other store", v)
	}
	l.Initial[api.Etcd], l.Stock[api.Etcd] = 5, 5
	if r := OfLedger(l, ""); len(r) != 3 || r[2].Store != api.Etcd || r[2].Verdict != Vacuous || Overall(r) != Exact {
		t.Errorf("OfLedger with a third store = %+v, want etcd VACUOUS after the others, EXACT in all", r)
	}
	delete(l.Initial, api.Etcd)
	delete(l.Stock, api.Etcd)
	l.Stock[api.Redis]--
	if v := Overall(OfLedger(l, "")); v != Broken {
		t.Errorf("Overall with a unit gone from the other store = %s, want BROKEN", v)
	}
	delete(l.Stock, api.Redis)
	delete(l.Initial, api.Redis)
	l.Unavailable = map[api.Store]string{api.Redis: "down"}
	if v := Overall(OfLedger(l, "")); v != Inconclusive {
		t.Errorf("Overall with a store down = %s, want INCONCLUSIVE", v)
	}
	l.Unavailable = map[api.Store]string{api.Redis: string(api.StaleRead)}
	if r := OfLedger(l, "")[0]; r.Verdict != Inconclusive || !strings.Contains(r.Text(""),
		"SHOP_SQL lead to the primary") {
		t.Errorf("of a copy: %s, want INCONCLUSIVE, and what to do", r.Text(""))
	}
}

func TestLedgerWithNothing(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]*api.Ledger{"none": nil, "empty": {ProductID: 101}} {
		if got := OfLedger(l, "zh"); len(got) != 1 || got[0].Verdict != Inconclusive {
			t.Errorf("OfLedger(%s) = %+v, want INCONCLUSIVE", name, got)
		}
	}
	if v := Overall(nil); v != Vacuous {
		t.Errorf("Overall(nil) = %s, want VACUOUS", v)
	}
}

// TestAllowances checks what Input excuses, and that it is not excused otherwise (the mutants do that too).
func TestAllowances(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(in *Input)
		want   Verdict
	}{
		{"other clients bought too", func(in *Input) {
			in.Partial = true
			in.History = slices.Delete(in.History, firstOK, firstOK+1)
		}, Exact},
		{"an early refusal may be theirs", func(in *Input) {
			in.Partial = true
			in.History = slices.Delete(in.History, 6, 9) // without the requests behind o6
			in.History[6].Call, in.History[6].Return = 56, 61
		}, Exact},
		{"a retry after the answer", func(in *Input) {
			in.Sequential, in.Replicas, in.WantSoldOut = true, 1, false
			in.History = []Op{op(OK, 0, 1, 1, "o1", "k"), op(OK, 2, 3, 1, "o1", "k")}
			in.History[1].Replayed = true
			in.Ledger.Orders, in.Ledger.Keys = []api.Order{row("o1", 1, 9, "k", 1)}, nil
			in.Ledger.Stock[api.SQL] = 9
		}, Exact},
		{"one replica stood there", func(in *Input) {
			in.Replicas = 1
			for i := range in.History {
				in.History[i].Replica = "1"
			}
			for i := range in.Ledger.Orders {
				in.Ledger.Orders[i].Replica = "1"
			}
		}, Exact},
		{"the first answer never came, the replay did", func(in *Input) {
			in.History[keyedOK].Outcome, in.History[keyedOK].OrderID = Unknown, ""
		}, Exact},
		{"a refusal between the first call and its replay", func(in *Input) {
			in.Replicas = 1
			in.History = []Op{op(Unknown, 0, 0, 1, "", "k"), op(Refused, 5, 9, 1, "", ""), op(OK, 10, 12, 1, "o1", "k")}
			in.History[2].Replayed = true
			in.Ledger.Orders, in.Ledger.Keys = []api.Order{row("o1", 1, 0, "k", 1)}, nil
			in.Ledger.Initial[api.SQL] = 1
		}, Exact},
		{"answers do not name the replica, orders do", func(in *Input) {
			for i := range in.History {
				in.History[i].Replica = ""
			}
		}, Exact},
		{"the stock does not have to run out", func(in *Input) {
			in.WantSoldOut = false
			in.History = slices.Delete(in.History, lastOK, lastNo+1)
			in.Ledger.Orders = in.Ledger.Orders[:6]
			in.Ledger.Stock[api.SQL] = 1
		}, Exact},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			in := good()
			c.change(&in)
			if r := Judge(in); r.Verdict != c.want {
				t.Errorf("Judge = %s, want %s\n%s", r.Verdict, c.want, r.Text("en"))
			}
		})
	}
}

// TestStuck checks who counts as turned away for good.
func TestStuck(t *testing.T) {
	t.Parallel()
	no := func(call int64) Op { return op(Declined, call, call+50, 2, "", "") }
	down := no(30)
	down.Code = api.BackendUnavailable
	for _, c := range []struct {
		name string
		ops  []Op
		left int64
		want bool
	}{
		{"three in a row", []Op{no(11), no(12), no(13)}, 9, true},
		{"two in a row", []Op{no(11), no(12)}, 9, false},
		{"one was waiting when the last one finished", []Op{no(10), no(12), no(13)}, 9, false},
		{"one got through", []Op{no(11), no(12), no(13), op(OK, 14, 60, 1, "o", "")}, 9, false},
		{"one was refused", []Op{no(11), no(12), no(13), op(Refused, 14, 60, 12, "", "")}, 9, false},
		{"one got no answer", []Op{no(11), no(12), no(13), op(Unknown, 14, 0, 1, "", "")}, 9, true},
		{"nobody answers", []Op{op(Unknown, 14, 0, 1, "", ""), op(Unknown, 15, 0, 1, "", ""), op(Unknown, 16, 0, 1, "", "")},
			9, false},
		{"less left than they want", []Op{no(11), no(12), no(13)}, 1, false},
		{"another trouble", []Op{no(11), no(12), no(13), down}, 9, false},
	} {
		history := append([]Op{op(OK, 0, 10, 1, "a", "")}, c.ops...)
		if _, got := stuck(history, c.left, always); got != c.want {
			t.Errorf("stuck(%s) = %v, want %v", c.name, got, c.want)
		}
	}
	in := good()
	in.Ledger.Orders, in.Ledger.Stock[api.SQL], in.Ledger.Keys = nil, 10, nil
	in.History, in.Partial = []Op{no(1), no(2), no(3)}, true
	if r := Judge(in); r.Verdict != Vacuous {
		t.Errorf("Judge of an interrupted run in which all were busy = %s, want VACUOUS", r.Verdict)
	}
}

func TestForeign(t *testing.T) {
	t.Parallel()
	sold := func(n int) (h []Op) {
		for i := range n {
			h = append(h, op(OK, int64(i), int64(i+5), 1, fmt.Sprint("o", i), ""))
		}
		return h
	}
	replay := op(OK, 9, 12, 1, "", "")
	replay.Replayed = true
	two := append(sold(3), op(OK, 3, 9, 1, "a", "k"), op(OK, 10, 12, 1, "b", "k"))
	again := append(sold(3), op(OK, 3, 9, 1, "a", "k"), op(OK, 10, 12, 1, "a", "k"))
	const blameless = "a lost update, and a refusal where unanswered requests may have sold the rest"
	for _, c := range []struct {
		name          string
		before, after int64
		history       []Op
		verdict       Verdict
		found         string
	}{
		{"exact", 5, 0, append(sold(5), op(Refused, 1, 9, 1, "", "")), Exact, ""},
		{"exact, not sold out", 100, 95, sold(5), Exact, ""},
		{"oversold, stock at 0", 4, 0, sold(5), Broken, "O"},
		{"lost update", 100, 96, sold(5), Broken, "O"},
		{"leaked", 100, 94, sold(5), Broken, "L"},
		{"a unit that the unanswered request may have", 100, 94, append(sold(5), op(Unknown, 2, 0, 1, "", "")), Inconclusive,
			""},
		{"two units gone, one unanswered", 100, 93, append(sold(5), op(Unknown, 2, 0, 1, "", "")), Broken, "L"},
		{"unanswered took nothing", 100, 95, append(sold(5), op(Unknown, 2, 0, 1, "", "")), Exact, ""},
		{"refused while in stock", 100, 95, append(sold(5), op(Refused, 2, 9, 1, "", "")), Broken, ""},
		{"negative stock", 4, -1, sold(5), Broken, "O"},
		{"negative stock, every unit sold", 5, -3, sold(5), Broken, ""},
		{"negative stock, one unit gone", 6, -3, sold(5), Broken, "L"},
		{"negative stock by an unanswered request", 5, -1, append(sold(5), op(Unknown, 2, 0, 1, "", "")), Broken, ""},
		{"two orders for a key", 5, 0, two, Broken, "D"},
		{"the same order for a key", 4, 0, again, Exact, ""},
		{"a marked replay", 4, 0, append(sold(4), replay), Exact, ""},
		{"no history", 5, 5, nil, Inconclusive, ""},
		{"nothing sold", 5, 5, []Op{op(Declined, 0, 1, 1, "", ""), op(Declined, 0, 1, 1, "", "")}, Vacuous, ""},
		{"one at a time", 5, 3, []Op{op(OK, 0, 1, 1, "", ""), op(OK, 1, 2, 1, "", "")}, Vacuous, ""},
		{blameless, 2, 1, []Op{op(OK, 0, 9, 1, "", ""), op(Unknown, 1, 0, 1, "", ""), op(Refused, 2, 5, 1, "", ""),
			op(OK, 20, 22, 1, "", "")}, Broken, "O"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := Foreign(c.before, c.after, Input{History: c.history})
			if r.Verdict != c.verdict || r.Found != c.found || c.name == blameless && len(r.Violations) > 0 {
				t.Errorf("Foreign = %s %q, want %s %q\n%s", r.Verdict, r.Found, c.verdict, c.found, r.Text("en"))
			}
		})
	}
}

func TestEvidence(t *testing.T) {
	t.Parallel()
	in := good()
	in.Ledger.Orders = append(in.Ledger.Orders,
		row("0193a5c0-77aa-7000-8000-00000000beef", 1, 8, "", 12), row("o9", 2, 7, "", 11), row("o10", 2, -2, "", 13))
	in.Ledger.Orders[9].Replica = "replica-9"
	r := Judge(in)
	var got []string
	for _, e := range r.Evidence {
		got = append(got, e.String(), e.Text("zh"))
	}
	want := []string{
		"unit 2 was sold 3 times: order o2, replica 3, 12:00:00.002; order o9, replica 3, 12:00:00.011; order 0193…00beef, " +
			"replica 1, 12:00:00.012",
		"第 2 件被卖出 3 次：订单 o2，副本 3，12:00:00.002；订单 o9，副本 3，12:00:00.011；订单 0193…00beef，副本 1，12:00:00.012",
		"unit 3 was sold 2 times: order o3, replica 1, 12:00:00.003; order o9, replica 3, 12:00:00.011",
		"第 3 件被卖出 2 次：订单 o3，副本 1，12:00:00.003；订单 o9，副本 3，12:00:00.011",
		"unit 11 of 10 was sold (times: 1): order o10, replica 9, 12:00:00.013",
		"第 11 件（共 10 件）被卖出（1 次）：订单 o10，副本 9，12:00:00.013",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("evidence (-want +got):\n%s", d)
	}
}

// TestEvidenceIsBounded sells one unit a thousand times and a hundred others twice.
func TestEvidenceIsBounded(t *testing.T) {
	t.Parallel()
	in := good()
	in.Ledger.Initial[api.SQL] = 1000
	for i := range 1000 {
		in.Ledger.Orders = append(in.Ledger.Orders, row(fmt.Sprint("x", i), 1, 500, "", i))
	}
	for i := range 200 {
		in.Ledger.Orders = append(in.Ledger.Orders, row(fmt.Sprint("y", i), 1, int64(i/2), "", i))
	}
	r := Judge(in)
	if len(r.Evidence) != maxUnits || r.Evidence[0].Unit != 500 || r.Evidence[0].Times != 1000 ||
		len(r.Evidence[0].Orders) != maxOrders {
		t.Fatalf("evidence: %d units, first %+v", len(r.Evidence), r.Evidence[0])
	}
	if s := r.Evidence[0].String(); !strings.HasSuffix(s, "; and 996 more") {
		t.Errorf("evidence says %q", s)
	}
}

// large is an exact history of n requests over 64 clients, of which most sell and one in a hundred is unknown.
func large(n int) Input {
	r := rand.New(rand.NewPCG(7, 8))
	stock := int64(n * 3 / 4)
	l := &api.Ledger{ProductID: 101, Initial: map[api.Store]int64{api.SQL: stock}, Stock: map[api.Store]int64{api.SQL: 0}}
	history := make([]Op, n)
	for i := range history {
		at := int64(100 * i)
		o := op(OK, at-r.Int64N(6400), at+r.Int64N(6400), 1, "", fmt.Sprint("key-", i))
		left := stock - int64(i) - 1
		if left < 0 {
			o.Outcome = Refused
		} else {
			o.OrderID = fmt.Sprintf("order-%08d", i)
			l.Orders = append(l.Orders, api.Order{
				OrderID: o.OrderID, ProductID: 101, Quantity: 1, Remaining: &left, Mode: "m", Store: api.SQL,
				Replica: o.Replica, Key: o.Key, CreatedAt: noon.Add(time.Duration(at)),
			})
			if i%100 == 0 {
				o.Outcome, o.OrderID = Unknown, ""
			}
		}
		history[i] = o
	}
	return Input{Mode: "m", Store: api.SQL, Replicas: 3, WantSoldOut: true, Ledger: l, History: history}
}

func TestLargeIsExact(t *testing.T) {
	t.Parallel()
	if r := Judge(large(20_000)); r.Verdict != Exact {
		t.Errorf("Judge = %s, want EXACT\n%s", r.Verdict, r.Text("en"))
	}
}

func BenchmarkJudge(b *testing.B) {
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			in := large(n)
			for b.Loop() {
				if r := Judge(in); r.Verdict != Exact {
					b.Fatal(r.Verdict)
				}
			}
		})
	}
}

// A directed schedule may serve nobody, and be exact; what it breaks is found all the same.
func TestDirectedSchedules(t *testing.T) {
	t.Parallel()
	ledger := func(left int64) *api.Ledger {
		return &api.Ledger{
			ProductID: 101, Initial: map[api.Store]int64{api.Redis: 10}, Stock: map[api.Store]int64{api.Redis: left},
			Orders: []api.Order{}, Keys: []api.KeyRow{},
		}
	}
	busy := []Op{{ProductID: 101, Quantity: 1, Call: 1, Return: 2, Outcome: Declined, Code: api.LockBusy}}
	for left, want := range map[int64]Verdict{10: Exact, 9: Broken, 11: Broken} {
		got := Judge(Input{Store: api.Redis, Ledger: ledger(left), History: busy, Directed: true})
		if got.Verdict != want {
			t.Errorf("nobody was served, and %d of 10 are left: %s %q %q, want %s", left, got.Verdict, got.Found, got.Missing,
				want)
		}
	}
	if got := Judge(Input{Store: api.Redis, Ledger: ledger(10), History: busy}); got.Verdict != Vacuous {
		t.Errorf("the same without direction: %s, want %s", got.Verdict, Vacuous)
	}
}
