package audit

import (
	"strings"
	"testing"
	"time"

	"lastitem/internal/api"
)

// A holder is stopped from 1 s to 3 s, and its lock may live for 2 s after that: only requests that are refused as busy after 5 s show that
// the product is stuck. The report says in any case how long others were blocked.
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
		{"turned away after the bound, and by a limit", 3, 2 * time.Second, []Op{no(5.1), no(5.2), no(5.3), limited}, "X", "", 1400 * time.Millisecond},
		{"turned away before it only", 3, 2 * time.Second, []Op{no(2), no(3.5), no(4), no(4.5)}, "", "too few requests after 5s", 3 * time.Second},
		{"two turned away after it", 3, 2 * time.Second, []Op{no(2), no(3), no(5.1), no(5.2)}, "", "too few requests after 5s", 3700 * time.Millisecond},
		{"served after it", 3, 2 * time.Second, []Op{no(2), no(3.5), no(4), op(OK, at(5), at(6), 1, "o2", "")}, "", "", 4 * time.Second},
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
			r := Judge(Input{Mode: "m", Store: api.SQL, Replicas: 1, Ledger: l, History: history, Resumed: at(c.resumed), Bound: c.bound})
			if said := strings.Join(r.Missing, "; "); r.Found != c.found || !strings.Contains(said, c.missing) || c.missing == "" && said != "" {
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
		if got := blocked(c.ops); got != c.want {
			t.Errorf("blocked(%s) = %v, want %v", c.name, got, c.want)
		}
	}
}
