package judge

import (
	"strings"
	"testing"

	"lastitem/contract/api"
)

// adjustedRun is an exact run: 2 units at first, 3 added while two are sold, one taken again, and the last two sold.
func adjustedRun() Input {
	l := &api.Ledger{
		ProductID: 101, Initial: map[api.Store]int64{api.SQL: 4}, Stock: map[api.Store]int64{api.SQL: 0},
		Orders: []api.Order{row("o1", 1, 1, "", 1), row("o2", 1, 0, "", 2), row("o3", 1, 1, "", 3),
			row("o4", 1, 0, "", 4)},
		Adjustments: map[api.Store][]api.Adjustment{api.SQL: {{Delta: 2}, {Delta: 3, Key: "a"}, {Delta: -1, Key: "b"}}},
	}
	return Input{Mode: "m", Store: api.SQL, Directed: true, Stock: new(int64(2)), Ledger: l,
		History: []Op{op(OK, 0, 10, 1, "o1", ""), op(OK, 5, 15, 1, "o2", ""), op(Refused, 30, 44, 1, "", ""),
			op(OK, 42, 60, 1, "o3", ""), op(OK, 62, 80, 1, "o4", ""), op(Refused, 85, 90, 1, "", "")},
		Adjusts: []Op{adjusting("a", 3, OK, 40, 50), adjusting("b", -1, OK, 52, 61),
			adjusting("c", -1, Refused, 83, 84)},
	}
}

func adjusting(key string, units int64, outcome Outcome, call, answer int64) Op {
	return Op{Key: key, Quantity: units, Outcome: outcome, Call: call, Return: answer}
}

func aboutStock(op Op) ReservationOp {
	return ReservationOp{Kind: Adjust, Key: op.Key, Quantity: op.Quantity, Outcome: op.Outcome, Call: op.Call,
		Return: op.Return}
}

func TestAdjustments(t *testing.T) {
	t.Parallel()
	rows := func(l *api.Ledger, rows ...api.Adjustment) { l.Adjustments[api.SQL] = rows }
	set, a, b := api.Adjustment{Delta: 2}, api.Adjustment{Delta: 3, Key: "a"}, api.Adjustment{Delta: -1, Key: "b"}
	for _, m := range []mutant{
		{"none", func(*Input, *api.Ledger) {}, Exact, "", ""},
		{"counted twice", func(_ *Input, l *api.Ledger) {
			l.Initial[api.SQL], l.Stock[api.SQL] = 7, 3
		}, Broken, "", "add up to 4"},
		{"counted twice in the stock", func(_ *Input, l *api.Ledger) { l.Stock[api.SQL] = 3 }, Broken, "O", ""},
		{"made twice for one key", func(_ *Input, l *api.Ledger) {
			l.Initial[api.SQL], l.Stock[api.SQL] = 7, 3
			rows(l, set, a, a, b)
		}, Broken, "", "a second time for the same key"},
		{"not counted", func(_ *Input, l *api.Ledger) { l.Initial[api.SQL], l.Stock[api.SQL] = 7, 0 }, Broken, "L", "add up"},
		{"not counted in the stock", func(_ *Input, l *api.Ledger) {
			l.Initial[api.SQL] = 5
			rows(l, set, a, b, api.Adjustment{Delta: 1, Key: "d"})
		}, Broken, "L", ""},
		{"lost from the journal", func(_ *Input, l *api.Ledger) { rows(l, set, b) }, Broken, "A", "add up to 1"},
		{"the whole journal lost", func(_ *Input, l *api.Ledger) { rows(l) }, Broken, "A", ""},
		{"answered and not done", func(_ *Input, l *api.Ledger) {
			l.Initial[api.SQL], l.Stock[api.SQL] = 5, 1
			rows(l, set, a)
		}, Broken, "A", ""},
		{"of another number than was answered", func(_ *Input, l *api.Ledger) {
			l.Initial[api.SQL], l.Stock[api.SQL] = 5, 1
			rows(l, set, api.Adjustment{Delta: 4, Key: "a"}, b)
		}, Broken, "", "of another number of units"},
		{"refused and done", func(_ *Input, l *api.Ledger) {
			rows(l, set, a, b, api.Adjustment{Key: "c"})
		}, Broken, "", "told that nothing happened"},
		{"sold before it was added", func(in *Input, _ *api.Ledger) {
			in.History[3].Call, in.History[3].Return = 16, 39
		}, Broken, "", "at one moment at least 3 units were held or sold, of 2"},
		{"refused after it was added", func(in *Input, _ *api.Ledger) {
			in.History[2].Call, in.History[2].Return = 51, 58
			in.History[3].Call = 59
		}, Broken, "", "refused though in stock"},
		{"an adjustment refused though there was enough", func(in *Input, _ *api.Ledger) {
			in.Adjusts[2].Call, in.Adjusts[2].Return = 51, 58
		}, Broken, "", "refused though in stock"},
		{"refused while it was added", func(in *Input, _ *api.Ledger) {
			in.History[2].Call, in.History[2].Return = 41, 49
		}, Exact, "", ""},
		{"done without an answer: it may have come at any time", func(in *Input, _ *api.Ledger) {
			in.Adjusts[0].Outcome = Unknown
			in.History[2].Call, in.History[2].Return = 51, 58
			in.History[3].Call = 59
		}, Exact, "", ""},
		{"by somebody else", func(in *Input, _ *api.Ledger) {
			in.Adjusts = in.Adjusts[1:]
			in.History[2].Call, in.History[2].Return = 51, 58
			in.History[3].Call = 59
		}, Exact, "", ""},
		{"without an answer, and not done", func(in *Input, _ *api.Ledger) {
			in.Adjusts = append(in.Adjusts, adjusting("d", 9, Unknown, 1, 0))
		}, Exact, "", ""},
		{"older ones are not listed", func(in *Input, l *api.Ledger) {
			rows(l, api.Adjustment{Delta: 5, Older: 1}, b)
			in.History[2].Call, in.History[2].Return = 51, 58
		}, Exact, "", ""},
		{"another stock than was set", func(in *Input, _ *api.Ledger) {
			in.Stock = new(int64(4))
		}, Inconclusive, "", "which had begun with 4"},
	} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			in := adjustedRun()
			m.change(&in, in.Ledger)
			r := Judge(in)
			said := strings.Join(append(r.Violations, r.Missing...), "\n")
			if r.Verdict != m.verdict || r.Found != m.found || !strings.Contains(said, m.phrase) ||
				m.phrase == "" && said != "" {
				t.Errorf("Judge = %s %q %q, want %s %q %q\n%s", r.Verdict, r.Found, said, m.verdict, m.found, m.phrase,
					r.Text("en"))
			}
			if m.verdict == Broken && m.found != "" && strings.Contains(m.name, "count") {
				alone := OfLedger(in.Ledger, "en")[0] // an audit sees it too
				if alone.Found != m.found {
					t.Errorf("of the ledger alone = %s %q, want %q", alone.Verdict, alone.Found, m.found)
				}
			}
		})
	}
}

// Reservations follow the same adjustments.
func TestReservationsFollowAdjustments(t *testing.T) {
	t.Parallel()
	run := func(change func(b *api.Reservations, ops []ReservationOp)) ReservationReport {
		h := func(id string) api.ReservationRow {
			return api.ReservationRow{ReservationID: id, State: held, Quantity: 1, ExpiresMicros: 1 << 60,
				Events: []api.ReservationEvent{{Now: held, DeadlineMicros: 1 << 60}}}
		}
		b := &api.Reservations{Initial: 2, Held: 2, Rows: []api.ReservationRow{h("r1"), h("r2")},
			Adjustments: []api.Adjustment{{Delta: 1}, {Delta: 2, Key: "a"}, {Delta: -1, Key: "b"}}}
		ops := []ReservationOp{{Kind: Reserve, Outcome: OK, ReservationID: "r1", Quantity: 1, Call: 0, Return: 10},
			{Kind: Reserve, Outcome: Refused, Quantity: 1, Call: 12, Return: 25}, aboutStock(adjusting("a", 2, OK, 20, 30)),
			{Kind: Reserve, Outcome: OK, ReservationID: "r2", Quantity: 1, Call: 28, Return: 40},
			aboutStock(adjusting("b", -1, OK, 45, 50)),
			{Kind: Reserve, Outcome: Refused, Quantity: 1, Call: 60, Return: 70}}
		change(b, ops)
		return Reservations(b, ops, "en")
	}
	for name, c := range map[string]struct {
		change func(b *api.Reservations, ops []ReservationOp)
		found  string
	}{
		"none": {func(*api.Reservations, []ReservationOp) {}, ""},
		"held before it was added": {func(_ *api.Reservations, ops []ReservationOp) {
			ops[3].Call, ops[3].Return = 11, 19
		}, "O"},
		"refused after it was added": {func(_ *api.Reservations, ops []ReservationOp) {
			ops[1].Call, ops[1].Return = 41, 44
		}, "U"},
		"lost from the journal": {func(b *api.Reservations, _ []ReservationOp) {
			b.Adjustments, b.Initial, b.Stock = b.Adjustments[:2], 3, 1
		}, "A"},
	} {
		if r := run(c.change); r.Found != c.found || (r.Verdict == Broken) != (c.found != "") {
			t.Errorf("%s: %s %q, want %q\n%s", name, r.Verdict, r.Found, c.found, r.Text("en"))
		}
	}
}
