package loadtest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest/client"
	"lastitem/testkit"
	"lastitem/testkit/fakeshop"
)

// reserving is a mode that reserves, and the named plan.
func reserving() (api.Mode, Plan) {
	plans, _ := Named("reserve")
	m := shopMode("reserve-sql", api.Exact)
	m.Reserves = true
	return m, plans[0]
}

// The plan limit shows a shop that never looks at the buyer, and no other plan does. It is for such modes alone.
func TestRunJudgesALimit(t *testing.T) {
	t.Parallel()
	plans, _ := Named("limit")
	plan, mode := plans[0], shopMode("buyer-check", "B")
	plan.Stock, plan.Requests, plan.Warmup, mode.PerBuyer = 60, 90, 0, true
	c := open(t, &fakeshop.Shop{Replicas: 2})
	res, err := Run(t.Context(), c, mode, plan, nil)
	testkit.Must(t, err)
	if res.Verdicts[0].Found != "B" || res.Finding != judge.Confirmed || res.Plan.Holding.Buyers != 120 {
		t.Errorf("%s %+v of %d buyers, want B of 120", res.Finding, res.Verdicts[0], res.Plan.Holding.Buyers)
	}
	if _, err := Run(t.Context(), c, mode, Plan{}, nil); err == nil {
		t.Error("a plan without a limit fits a mode that breaks one")
	}
	if m := shopMode("unsafe", "O"); plan.Suits(m) || !plan.Suits(mode) || !(Plan{}).Suits(m) || (Plan{}).Suits(mode) {
		t.Error("the plan limit is for the modes that break a limit, and no other plan is")
	}
	if _, err := Run(t.Context(), c, shopMode("unsafe", "O"), plan, nil); err == nil {
		t.Error("a plan with a limit fits a mode that knows none")
	}
}

// What buyers do follows from the seed alone, and in the shares of the plan.
func TestVisits(t *testing.T) {
	t.Parallel()
	_, p := reserving()
	p.Seed = 7
	one, two, other := visits(p, 3), visits(p, 3), visits(p, 4)
	acts, twice, buyers, differ := map[act]int{}, 0, map[string]int{}, 0
	extras := map[string]int{}
	const n = 20_000
	for range n {
		v := one()
		if again := two(); v != again {
			t.Fatalf("the same seed gives %+v and %+v", v, again)
		}
		if v != other() {
			differ++
		}
		acts[v.act]++
		buyers[v.buyer]++
		if v.twice {
			twice++
		}
		for what, is := range map[string]bool{"extend": v.extends && v.act != leaves, "return": v.returns, "cart": v.cart,
			"restock": v.restock, "extend and leave": v.extends && v.act == leaves} {
			if is {
				extras[what]++
			}
		}
		if v.act != paysLate && (v.after < p.Holding.PayFrom || v.after > p.Holding.PayTo) ||
			v.act == paysLate && v.after < p.Holding.For {
			t.Fatalf("%+v: too early or too late", v)
		}
	}
	for what, got := range map[string][2]float64{
		"pay": {float64(acts[pays]), 0.7}, "pay late": {float64(acts[paysLate]), 0.1},
		"cancel": {float64(acts[cancels]), 0.1},
		"leave":  {float64(acts[leaves]), 0.1}, "click twice": {float64(twice), 0.05},
		"extend": {float64(extras["extend"]), 0.045}, "extend and leave": {float64(extras["extend and leave"]), 0.0525},
		"return": {float64(extras["return"]), 0.05}, "want two": {float64(extras["cart"]), 0.08},
		"restock": {float64(extras["restock"]), 0.5},
	} {
		if share := got[0] / n; share < got[1]-0.01 || share > got[1]+0.01 {
			t.Errorf("%.3f %s, want %.2f", share, what, got[1])
		}
	}
	if differ < n/2 || buyers["buyer-1"] < 10*buyers["buyer-100"] {
		t.Errorf("%d differ from another stream; %d of the first buyer, %d of the hundredth", differ, buyers["buyer-1"],
			buyers["buyer-100"])
	}
}

func TestReadHold(t *testing.T) {
	t.Parallel()
	problem := func(status int, body string) client.Answer {
		return client.Answer{Status: status, Problem: true, Body: []byte(body), Sent: true}
	}
	good := func(status int, body string) client.Answer {
		return client.Answer{Status: status, Body: []byte(body), Sent: true}
	}
	for _, tt := range []struct {
		name   string
		kind   judge.HoldKind
		answer client.Answer
		want   client.Reading
	}{
		{"held", judge.Reserve, good(201, `{"reservation_id":"a"}`), client.Reading{Outcome: judge.OK, Code: "held"}},
		{"confirmed", judge.Confirm, good(200, `{"order_id":"o","refund":false}`),
			client.Reading{Outcome: judge.OK, Kind: client.Accepted, Code: "ok"}},
		{"cancelled", judge.Cancel, good(200, `{"state":"cancelled"}`), client.Reading{Outcome: judge.OK, Code: "cancelled"}},
		{"cancelled too late", judge.Cancel, good(200, `{"state":"expired"}`),
			client.Reading{Outcome: judge.OK, Code: "expired"}},
		{"extended", judge.Extend, good(200, `{"state":"held"}`), client.Reading{Outcome: judge.OK, Code: "extended"}},
		{"returned", judge.Return, good(200, `{"restock":false}`), client.Reading{Outcome: judge.OK, Code: "returned"}},
		{"no such order", judge.Return, problem(404, `{"code":"unknown_order"}`),
			client.Reading{Outcome: judge.Declined, Kind: client.Refused, Code: "unknown_order"}},
		{"sold out", judge.Reserve, problem(409, `{"code":"sold_out"}`),
			client.Reading{Outcome: judge.Refused, Kind: client.Refused, Code: "sold_out"}},
		{"limit", judge.Reserve, problem(409, `{"code":"limit_reached"}`),
			client.Reading{Outcome: judge.Refused, Kind: client.Refused, Code: "limit_reached"}},
		{"paid too late", judge.Confirm, problem(410, `{"code":"reservation_expired","refund":true}`),
			client.Reading{Outcome: judge.Refused, Kind: client.Refused, Code: "reservation_expired"}},
		{"paid for nothing", judge.Confirm, problem(404, `{"code":"unknown_reservation","refund":true}`),
			client.Reading{Outcome: judge.Refused, Kind: client.Refused, Code: "unknown_reservation"}},
		{"nobody knows", judge.Confirm, problem(503, `{"code":"contended","refund":"unknown"}`),
			client.Reading{Outcome: judge.Unknown, Kind: client.Refused, Code: "contended", Again: true}},
		{"busy", judge.Reserve, problem(503, `{"code":"contended"}`),
			client.Reading{Outcome: judge.Declined, Kind: client.Refused, Code: "contended", Again: true}},
		{"lost", judge.Confirm, client.Answer{Err: client.ErrEOF, Sent: true},
			client.Reading{Outcome: judge.Unknown, Kind: client.Failed, Code: "eof", Again: true}},
		{"no JSON", judge.Reserve, good(201, `<html>`),
			client.Reading{Outcome: judge.Unknown, Kind: client.Failed, Code: "bad_answer", Again: true}},
	} {
		if got := readHold(tt.kind, &tt.answer).read; got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// A letter beyond the claim of the run's rung is within the claim only if deadlines or double clicks are claimed to
// show it.
func TestClaimOfReservations(t *testing.T) {
	t.Parallel()
	mode, plan := reserving()
	row := mode.Claims[api.Redis]
	row[api.Retry], row[api.Expiry] = "O", "L"
	for _, tt := range []struct {
		found  string
		clicks float64
		want   api.Outcomes
	}{
		{"", 0.1, api.Exact}, {"O", 0.1, "O"}, {"O", 0, api.Exact}, {"OL", 0.1, "O L"}, {"D", 0.1, api.Exact},
	} {
		plan.Holding.DoubleClicks = tt.clicks
		res := &Result{Store: api.Redis, Plan: plan, Verdicts: []judge.Report{{Found: tt.found}}}
		if got := claimOf(res, judging{mode: mode, replicas: 3}); got != tt.want {
			t.Errorf("found %q, double clicks %v: claim %q, want %q", tt.found, tt.clicks, got, tt.want)
		}
	}
}

// A mode that reserves runs under a plan that reserves, and no other.
func TestReservingModesFitReservingPlans(t *testing.T) {
	t.Parallel()
	mode, plan := reserving()
	other := shopMode("good", api.Exact)
	for _, tt := range []struct {
		mode api.Mode
		plan Plan
		want bool
	}{{mode, plan, true}, {mode, Plan{}, false}, {other, plan, false}, {other, Plan{}, true}} {
		if err := Fits(tt.mode, tt.plan); (err == nil) != tt.want {
			t.Errorf("%s, reserving %v: %v, want fit %v", tt.mode.Name, tt.plan.Holding.On(), err, tt.want)
		}
	}
	var ran []string
	run := func(_ context.Context, m api.Mode, p Plan, _ func(Progress)) (Result, error) {
		ran = append(ran, m.Name+" "+p.Name)
		return Result{}, nil
	}
	_, err := Compare(t.Context(), Comparing{Modes: []api.Mode{mode, other}, Plans: []Plan{{Name: "demo"}, plan},
		Fits: Fits, Run: run})
	testkit.Must(t, err)
	testkit.Same(t, ran, []string{"good demo", "reserve-sql reserve"}, "ran")
}

// transport answers requests without a network.
type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// answering is a control whose requests get these answers, by the seconds since the first and the number of the
// request: a code, a book, or the JSON of one.
func answering(t *testing.T, answer func(at float64, n int, r *http.Request) any) *Control {
	t.Helper()
	c, err := NewControl("http://shop", "")
	testkit.Must(t, err)
	began, n := time.Now(), 0
	c.client.SetTransport(transport(func(r *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		switch said := answer(time.Since(began).Seconds(), n, r).(type) {
		case api.Code:
			fakeshop.Refuse(w, said, "")
		case string:
			_, _ = w.WriteString(said)
		default:
			fakeshop.Send(w, said)
		}
		n++
		return w.Result(), nil
	}))
	return c
}

// Reservations are read again until a sweep must have been, for as long as it ends some, and while they change. Orders
// without a reservation count.
func TestReservationsAreReadAtRest(t *testing.T) {
	t.Parallel()
	book := func(overdue int64, since, sweep float64) any { // the oldest overdue reservation, and the sweeps, in seconds
		now := time.Now().UnixMicro()
		b := api.Reservations{AsOfMicros: now, Held: overdue, Overdue: overdue, SweepMS: int64(1000 * sweep)}
		if overdue > 0 {
			b.Rows = []api.ReservationRow{{State: "held", Quantity: overdue, ExpiresMicros: now - int64(1e6*since)}}
		}
		return b
	}
	for _, tt := range []struct {
		name        string
		answer      func(at float64, n int) any
		least, most int64 // seconds
		overdue     int64 // -1 = none, but an error
	}{
		{"at rest", func(float64, int) any { return book(0, 0, 1) }, 0, 0, 0},
		{"swept", func(at float64, _ int) any { return book(max(0, 3-int64(at)), at, 1) }, 3, 4, 0},
		{"lost", func(at float64, _ int) any { return book(2, at, 1) }, 3, 4, 2},
		{"not swept in time for the sweeps", func(at float64, _ int) any { return book(2, at, 20) }, 32, 33, 2},
		{"one replica does not sweep", func(at float64, n int) any { return book(2, at, float64(n%2)*20) }, 32, 33, 2},
		{"swept for two minutes", func(at float64, _ int) any { return book(max(0, 60-int64(at/2)), at, 1) }, 119, 121, 0},
		{"as many fall due as are swept", func(float64, int) any { return book(2, 0.5, 1) }, 30, 31, -1},
		{"refused twice", func(_ float64, n int) any {
			if n < 2 {
				return api.BackendUnavailable
			}
			return book(0, 0, 1)
		}, 0, 1, 0},
		{"refused", func(float64, int) any { return api.BackendUnavailable }, 30, 31, -1},
		{"refused for good", func(float64, int) any { return api.UnknownProduct }, 0, 0, -1},
		{"sold without", func(float64, int) any { return api.Reservations{Ordered: 3, Stock: 4, Initial: 7} }, 0, 1, 0},
		{"being sold without", func(_ float64, n int) any { return api.Reservations{Ordered: int64(n + 1)} }, 30, 31, -1},
		{"sold without, and limited", func(float64, int) any { return api.Reservations{Ordered: 3, PerBuyer: 1} }, 0, 1, -1},
		{"held, and not counted", func(at float64, _ int) any {
			b := book(2, at+1, 1).(api.Reservations)
			b.Held, b.Overdue = 0, 0
			return b
		}, 0, 1, 2},
		{"held by no row", func(float64, int) any { return api.Reservations{Held: 3} }, 0, 1, -1},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			c := answering(t, func(at float64, n int, _ *http.Request) any { return tt.answer(at, n) })
			got, err := c.Reservations(t.Context(), 101, api.SQL)
			switch took := time.Since(began).Milliseconds(); {
			case took < 1000*tt.least || took > 1000*tt.most:
				t.Errorf("%s: %d ms, want %d to %d s", tt.name, took, tt.least, tt.most)
			case (err == nil) != (tt.overdue >= 0):
				t.Errorf("%s: %+v, %v, want %d overdue", tt.name, got, err, tt.overdue)
			case err == nil:
				if held, _, _ := got.Count(); held != tt.overdue {
					t.Errorf("%s: %+v, want %d overdue", tt.name, got, tt.overdue)
				}
				if r := judge.JudgeHolds(got, nil, "en"); (r.Found != "") != (tt.overdue > 0) || r.Sold != got.Ordered {
					t.Errorf("%s: %+v, want L only of what is overdue", tt.name, r)
				}
			}
		})
	}
}

// After a full page, the last page may have no rows; one that has none and names another is refused.
func TestReservationsOfFullPages(t *testing.T) {
	t.Parallel()
	for last, want := range map[string]bool{`{"reservations":[]}`: true, `{"reservations":[],"next_cursor":"b"}`: false} {
		c := answering(t, func(_ float64, _ int, r *http.Request) any {
			if r.URL.Query().Get("cursor") != "" {
				return last
			}
			return `{"held":1,"reservations":[{"reservation_id":"a","state":"held","quantity":1}],"next_cursor":"a"}`
		})
		if book, err := c.Reservations(t.Context(), 101, api.SQL); (err == nil && len(book.Rows) == 1) != want {
			t.Errorf("the last page is %s: %+v, %v, want it read: %t", last, book, err, want)
		}
	}
}
