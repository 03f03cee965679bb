package audit

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lastitem/internal/api"
)

// logged is an exact run of a mode that executes from a log and notes each order's own id as its key: 20 requests without a
// key over two replicas, a second apart, of which the last 3 got no answer and were executed all the same.
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

// An unknown request explains one order of its quantity that was written after its call, whatever key the mode noted on it;
// it explains no second one, none of another quantity, and none from before.
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
		{"a row from before the unknown requests", func(in *Input) { lose(in); extra(in, 1, 5*time.Second, "extra") }, Broken},
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
			if said := strings.Join(r.Violations, "; "); c.verdict == Broken && !strings.Contains(said, "no answer accounts for") && !strings.Contains(said, "told that nothing happened") {
				t.Errorf("Judge says %q, want that nobody asked for a row", said)
			}
		})
	}
}
