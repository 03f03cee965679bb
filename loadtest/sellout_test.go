package loadtest

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lastitem/internal/api"
	"lastitem/internal/audit"
)

// On a slow service most requests are refused as busy, and the plan's requests are used up before the stock: the run goes on until a
// request is refused as sold out. It does not go on after overselling, nor forever.
func TestRunUntilTheStockIsOut(t *testing.T) {
	t.Parallel()
	mostlyBusy := func() func(http.ResponseWriter, *http.Request) bool {
		var n atomic.Int64
		return func(w http.ResponseWriter, _ *http.Request) bool {
			turned := n.Add(1)%4 != 0
			if turned {
				refuse(w, api.LockBusy, "busy")
			}
			return turned
		}
	}
	alwaysBusy := func(w http.ResponseWriter, _ *http.Request) bool {
		time.Sleep(time.Millisecond)
		refuse(w, api.LockBusy, "busy")
		return true
	}
	invalid := func(w http.ResponseWriter, _ *http.Request) bool {
		refuse(w, api.InvalidRequest, "quantity")
		return true
	}
	tests := []struct {
		name    string
		shop    *fakeShop
		claim   api.Outcomes
		sellOut time.Duration
		verdict audit.Verdict
		extra   bool
	}{
		{"slow", &fakeShop{fail: mostlyBusy()}, api.Exact, patience, audit.Exact, true},
		{"slow, and it may not go on", &fakeShop{fail: mostlyBusy()}, api.Exact, 0, audit.Vacuous, false},
		{"fast", &fakeShop{}, api.Exact, patience, audit.Exact, false},
		{"oversells", &fakeShop{broken: map[string]bool{"m": true}}, "O", patience, audit.Broken, false},
		{"takes no such request", &fakeShop{fail: invalid}, api.Exact, patience, audit.Vacuous, false},
		{"stuck", &fakeShop{fail: alwaysBusy}, "X", 100 * time.Millisecond, audit.Broken, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.shop.replicas = 1
			plan := Plan{VUs: 8, Requests: 90, Stock: 60, Wait: time.Second, SellOut: tt.sellOut}
			res, err := Run(t.Context(), tt.shop.open(t), shopMode("m", tt.claim), plan, nil)
			if err != nil {
				t.Fatal(err)
			}
			if v := res.Verdicts[0]; v.Verdict != tt.verdict || (res.Extra > 0) != tt.extra || res.Sent != 90+res.Extra {
				t.Errorf("verdict %s, %d sent, %d of them extra; want %s, extra %t\n%s", v.Verdict, res.Sent, res.Extra, tt.verdict, tt.extra, v.Text("en"))
			}
		})
	}
}

// If an open loop drops more than one arrival in a hundred, the service did not get the planned load: the run does not count, and the
// exit code says undecided, whatever the verdict on the stock.
func TestDroppedArrivalsDiscountTheRun(t *testing.T) {
	t.Parallel()
	slow := &fakeShop{replicas: 1, fail: func(http.ResponseWriter, *http.Request) bool { time.Sleep(50 * time.Millisecond); return false }}
	control := slow.open(t)
	plan := Plan{Name: "open", Rate: 200, Duration: 500 * time.Millisecond, MaxInFlight: 2, Stock: 1000}
	res, err := Run(t.Context(), control, shopMode("m", api.Exact), plan, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.Dropped == 0 || !strings.Contains(res.Discounted, "were dropped, more than 1%") || res.Finding != audit.Confirmed {
		t.Fatalf("%d dropped, discounted %q, finding %s; want drops, the reason, confirmed", res.Dropped, res.Discounted, res.Finding)
	}
	c := Comparison{Results: []Result{res}, Summaries: Summarize([]Result{res})}
	if code := c.ExitCode(); code != ExitUndecided {
		t.Errorf("exit code %d, want %d", code, ExitUndecided)
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
