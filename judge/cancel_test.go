package judge

import (
	"strings"
	"testing"

	"lastitem/contract/api"
)

// An order that was cancelled counts as sold until its cancel, and its unit comes back once. The books list orders that
// stand.
func TestCancels(t *testing.T) {
	t.Parallel()
	sold := func(id string, call, end int64) Op {
		return Op{Outcome: OK, ProductID: 1, Quantity: 1, OrderID: id, Call: call, Return: end}
	}
	refused := func(call, end int64) Op {
		return Op{Outcome: Refused, ProductID: 1, Quantity: 1, Call: call, Return: end}
	}
	end := func(kind ReservationKind, id string, outcome Outcome, call, end int64) ReservationOp {
		return ReservationOp{Kind: kind, OrderID: id, Outcome: outcome, Quantity: 1, Call: call, Return: end}
	}
	one := []Op{sold("a", 0, 10)}
	done := end(Cancel, "a", OK, 20, 30)
	first, again := sold("a", 0, 10), sold("a", 12, 15)
	first.Key, again.Key, again.Replayed = "k", "k", true
	for _, tt := range []struct {
		name    string
		left    int64 // of one
		rows    string
		history []Op
		cancels []ReservationOp
		verdict Verdict
		found   string
		says    string
	}{
		{"cancelled once", 1, "", one, []ReservationOp{done}, Exact, "", ""},
		{"cancelled twice", 1, "", one, []ReservationOp{done, end(Cancel, "a", Refused, 21, 31)}, Exact, "",
			""},
		{"answered again", 1, "", []Op{first, again}, []ReservationOp{done}, Exact, "", ""},
		{"sold again", 0, "b", []Op{sold("a", 0, 10), sold("b", 40, 50)}, []ReservationOp{done}, Exact, "", ""},
		{"sold again before", 0, "b", []Op{sold("a", 0, 10), sold("b", 12, 15)}, []ReservationOp{done}, Broken, "",
			"at least 2 units were held or sold, of 1"},
		{"put back twice", 2, "", one, []ReservationOp{done}, Broken, "O", ""},
		{"not put back", 0, "", one, []ReservationOp{done}, Broken, "L", ""},
		{"stands", 0, "a", one, []ReservationOp{done}, Broken, "A", "1 order was answered as cancelled and " +
			"stands"},
		{"stands, and was put back", 1, "a", one, []ReservationOp{done}, Broken, "OA", ""},
		{"no answer, gone", 1, "", one, []ReservationOp{end(Cancel, "a", Unknown, 20, 30)}, Exact, "", ""},
		{"no answer, stands", 0, "a", one, []ReservationOp{end(Cancel, "a", Unknown, 20, 30)}, Exact, "",
			""},
		{"refused, and gone", 1, "", one, []ReservationOp{end(Cancel, "a", Refused, 20, 30)}, Broken, "A",
			""},
		{"shipped, not cancelled", 0, "a", one, []ReservationOp{end(Ship, "a", OK, 20, 30),
			end(Cancel, "a", Refused, 20, 30)}, Exact, "", ""},
		{"shipped and cancelled", 1, "", one, []ReservationOp{end(Ship, "a", OK, 20, 30), done}, Broken, "A",
			"1 order was answered as shipped and was cancelled"},
		{"refused while it was sold", 1, "", []Op{sold("a", 0, 10), refused(11, 25)}, []ReservationOp{done}, Exact, "", ""},
		{"refused when it was back", 1, "", []Op{sold("a", 0, 10), refused(31, 35)}, []ReservationOp{done}, Broken, "",
			"refused though in stock"},
		{"refused, and nobody knows", 1, "", []Op{sold("a", 0, 10), refused(31, 35)},
			[]ReservationOp{end(Cancel, "a", Unknown, 20, 30)}, Exact, "", ""},
	} {
		l := &api.Ledger{ProductID: 1, Initial: map[api.Store]int64{"s": 1}, Stock: map[api.Store]int64{"s": tt.left}}
		for _, id := range strings.Fields(tt.rows) {
			l.Orders = append(l.Orders, api.Order{OrderID: id, ProductID: 1, Quantity: 1, Store: "s"})
		}
		r := Judge(Input{Store: "s", Ledger: l, History: tt.history, Cancels: tt.cancels, Directed: true})
		said := strings.Join(append(r.Violations, r.Consequences...), "; ")
		if r.Verdict != tt.verdict || r.Found != tt.found || !strings.Contains(said, tt.says) {
			t.Errorf("%s: %s %q (%s), want %s %q %s", tt.name, r.Verdict, r.Found, said, tt.verdict, tt.found, tt.says)
		}
		if r.Orders != len(l.Orders) {
			t.Errorf("%s: %d orders, want the %d that stand", tt.name, r.Orders, len(l.Orders))
		}
	}
}
