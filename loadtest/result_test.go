package loadtest

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest/client"
	"lastitem/loadtest/plan"
	"lastitem/testkit"
	"lastitem/testkit/fakeshop"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for an event that must happen.
const patience = 20 * time.Second

// serve starts a standard HTTP server.
func serve(t *testing.T, h http.HandlerFunc) *url.URL {
	t.Helper()
	s := testkit.Serve(t, h)
	u, err := url.Parse(s.URL)
	testkit.Must(t, err)
	return u
}

func TestUnmet(t *testing.T) {
	t.Parallel()
	five, _ := plan.Named("five")
	tests := []struct {
		name        string
		claim       api.Outcomes
		lang        string
		final, sold int64
		finding     judge.Finding
		why         string
		before      int64 // 0 = the plan's stock
	}{
		{name: "met", claim: api.Exact, lang: "en", final: 95, sold: 5},
		{name: "met, with an unknown outcome", claim: api.Exact, lang: "en", final: 95, sold: 4},
		{name: "met, from another stock", claim: api.Exact, lang: "en", final: 995, sold: 5, before: 1000},
		{"missed, from another stock", api.Exact, "en", 996, 5, judge.Contradicted,
			`stock ended at 996, plan "five" wants 995`, 1000},
		{"missed", api.Exact, "en", 96, 5, judge.Contradicted, `stock ended at 96, plan "five" wants 95`, 0},
		{"missed, in Chinese", api.Exact, "zh", 96, 5, judge.Contradicted, `最终库存为 96，而计划 "five" 要求 95`, 0},
		{"declined", api.Exact, "en", 99, 1, judge.Undecided, `stock ended at 99, plan "five" wants 95, but only 1 of 5 ` +
			`requests succeeded`, 0},
		{"declined, in Chinese", api.Exact, "zh", 99, 1, judge.Undecided, `最终库存为 99，而计划 "five" 要求 95，但 5 个请求中只有 1 个成交`, 0},
		{name: "claims to break", claim: "O", lang: "en", final: 99, sold: 5},
	}
	for _, tt := range tests {
		r := Result{
			Plan: five[0].WithDefaults(), Claim: tt.claim, Sent: 5,
			Latency:  map[client.Kind]Latency{client.Accepted: {Count: tt.sold}},
			Verdicts: []judge.Report{{Verdict: judge.Exact, Initial: cmp.Or(tt.before, 100), Final: tt.final, Lang: tt.lang}},
		}
		if finding, why := r.Unmet(); finding != tt.finding || why != tt.why {
			t.Errorf("%s: Unmet() = %q, %q, want %q, %q", tt.name, finding, why, tt.finding, tt.why)
		}
	}
}

// A mode that is right is not called wrong because a rival held the lock: plan "five" cannot decide then.
func TestDeclinedRequestsContradictNothing(t *testing.T) {
	t.Parallel()
	five, _ := plan.Named("five")
	var n atomic.Int64
	all := make(chan struct{}) // have come: one that comes after the sale would show that it left its lock behind
	shop := &fakeshop.Shop{Replicas: 1, Fail: func(w http.ResponseWriter, r *http.Request) bool {
		switch n.Add(1) {
		case 1:
			select {
			case <-all:
			case <-r.Context().Done():
			}
			return false
		case 5:
			close(all)
		}
		fakeshop.Refuse(w, api.LockBusy, "busy")
		return true
	}}
	res, err := Run(t.Context(), open(t, shop), shopMode("m", api.Exact), five[0], nil)
	testkit.Must(t, err)
	if res.Finding != judge.Undecided || !strings.Contains(strings.Join(res.Why, " "), "1 of 5") {
		t.Errorf("finding %s (%q), want undecided, since 1 of 5 requests was accepted", res.Finding, res.Why)
	}
}

// On a slow service most requests are refused as busy, and the plan's requests are used up before the stock: the run
// goes on until a request is refused as sold out. It does not go on after overselling, nor forever.
func TestRunUntilTheStockIsOut(t *testing.T) {
	t.Parallel()
	mostlyBusy := func() func(http.ResponseWriter, *http.Request) bool {
		var n atomic.Int64
		return func(w http.ResponseWriter, _ *http.Request) bool {
			turned := n.Add(1)%4 != 0
			if turned {
				fakeshop.Refuse(w, api.LockBusy, "busy")
			}
			return turned
		}
	}
	alwaysBusy := func(w http.ResponseWriter, _ *http.Request) bool {
		time.Sleep(time.Millisecond)
		fakeshop.Refuse(w, api.LockBusy, "busy")
		return true
	}
	invalid := func(w http.ResponseWriter, _ *http.Request) bool {
		fakeshop.Refuse(w, api.InvalidRequest, "quantity")
		return true
	}
	tests := []struct {
		name    string
		shop    *fakeshop.Shop
		claim   api.Outcomes
		sellOut time.Duration
		verdict judge.Verdict
		extra   bool
	}{
		{"slow", &fakeshop.Shop{Fail: mostlyBusy()}, api.Exact, patience, judge.Exact, true},
		{"slow, and it may not go on", &fakeshop.Shop{Fail: mostlyBusy()}, api.Exact, 0, judge.Vacuous, false},
		{"fast", &fakeshop.Shop{Together: true}, api.Exact, patience, judge.Exact, false},
		{"oversells", &fakeshop.Shop{Broken: map[string]bool{"m": true}}, "O", patience, judge.Broken, false},
		{"takes no such request", &fakeshop.Shop{Fail: invalid}, api.Exact, patience, judge.Vacuous, false},
		{"stuck", &fakeshop.Shop{Fail: alwaysBusy}, "X", 100 * time.Millisecond, judge.Broken, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.shop.Replicas = 1
			plan := plan.Plan{VUs: 8, Requests: 90, Stock: 60, Wait: time.Second, SellOut: tt.sellOut}
			res, err := Run(t.Context(), open(t, tt.shop), shopMode("m", tt.claim), plan, nil)
			testkit.Must(t, err)
			if v := res.Verdicts[0]; v.Verdict != tt.verdict || (res.Extra > 0) != tt.extra || res.Sent != 90+res.Extra {
				t.Errorf("verdict %s, %d sent, %d of them extra; want %s, extra %t\n%s", v.Verdict, res.Sent, res.Extra, tt.verdict,
					tt.extra, v.Text("en"))
			}
		})
	}
}

// If an open loop drops more than one arrival in a hundred, the service did not get the planned load: the run does not
// count, whatever the verdict on the stock.
func TestDroppedArrivalsDiscountTheRun(t *testing.T) {
	t.Parallel()
	slow := &fakeshop.Shop{Replicas: 1, Fail: func(http.ResponseWriter, *http.Request) bool {
		time.Sleep(50 * time.Millisecond)
		return false
	}}
	control := open(t, slow)
	plan := plan.Plan{Name: "open", Rate: 200, Duration: 500 * time.Millisecond, MaxInFlight: 2, Stock: 1000}
	res, err := Run(t.Context(), control, shopMode("m", api.Exact), plan, nil)
	testkit.Must(t, err)
	if res.Dropped == 0 || !strings.Contains(res.Discounted, "were dropped, more than 1%") ||
		res.Finding != judge.Confirmed {
		t.Fatalf("%d dropped, discounted %q, finding %s; want drops, the reason, confirmed", res.Dropped, res.Discounted,
			res.Finding)
	}
	res.Sent, res.Dropped = 990, 10
	if why := discounted(&res, "en"); why != "" {
		t.Errorf("10 of 1000 dropped: %q, want a run that counts", why)
	}
	res.Dropped = 11
	if why := discounted(&res, "zh"); why == "" || strings.Contains(why, "%!") {
		t.Errorf("11 of 1001 dropped: %q, want a reason", why)
	}
}
