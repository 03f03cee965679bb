package loadtest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lastitem/contract/api"
	"lastitem/loadtest/client"
	"lastitem/loadtest/plan"
	"lastitem/testkit"
	"lastitem/testkit/fakeshop"
)

var testMode = shopMode("lua-lock", api.Exact)

// drive runs a plan against u and returns the records.
func drive(ctx context.Context, t *testing.T, u *url.URL, plan plan.Plan) Result {
	t.Helper()
	plan = plan.WithDefaults()
	testkit.Must(t, plan.Validate())
	d, err := newDriver(plan, client.Target{URL: u}, new(Control).script(plan, testMode), true)
	testkit.Must(t, err)
	defer d.close()
	d.drive(ctx)
	var res Result
	d.rec.fill(&res)
	res.Dropped = int(d.dropped.Load())
	if n := d.inFlight.Load(); n != 0 {
		t.Errorf("%d requests are in flight after the run, want 0", n)
	}
	return res
}

// everyEngine runs test once per engine.
func everyEngine(t *testing.T, test func(t *testing.T, name string)) {
	t.Helper()
	for _, name := range plan.EngineNames {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, name)
		})
	}
}

func answerOK(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set(api.HeaderReplica, "r1")
	fmt.Fprint(w, `{"order_id":"o-1"}`)
}

func TestLoopsSendWhatWasPlanned(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		plan plan.Plan
		want int
	}{
		{"loops", plan.Plan{VUs: 7, Loops: 11}, 77},
		{"requests", plan.Plan{VUs: 7, Requests: 100}, 100},
		{"fewer requests than VUs", plan.Plan{VUs: 9, Requests: 4}, 4},
		{"burst", plan.Plan{VUs: 30, Loops: 2, Burst: true}, 60},
		{"open", plan.Plan{Rate: 1000, Duration: 200 * time.Millisecond, MaxInFlight: 1000}, 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			everyEngine(t, func(t *testing.T, name string) {
				plan := tt.plan
				plan.Engine = name
				res := drive(t.Context(), t, serve(t, answerOK), plan)
				if res.Sent != tt.want || res.Codes["ok"] != tt.want || len(res.History) != tt.want || res.Served["r1"] != tt.want {
					t.Errorf("sent %d, codes %v, history %d, want %d", res.Sent, res.Codes, len(res.History), tt.want)
				}
				if plan.Rate > 0 && (res.Dropped != 0 || res.Lag.Count != int64(tt.want)) {
					t.Errorf("dropped %d, lag of %d, want 0, %d", res.Dropped, res.Lag.Count, tt.want)
				}
			})
		})
	}
}

func TestClosedLoopEndsWithItsDuration(t *testing.T) {
	t.Parallel()
	const length = time.Second
	res := drive(t.Context(), t, serve(t, answerOK), plan.Plan{VUs: 2, Duration: length})
	for _, op := range res.History {
		// The budget is asked just before the call, so a call may begin a little after the end but not long.
		if op.Call > int64(length+patience) {
			t.Errorf("a call began at %v, want none after %v", time.Duration(op.Call), length)
		}
	}
	if res.Sent == 0 || res.Codes["ok"] != res.Sent {
		t.Errorf("sent %d, codes %v, want some, all ok", res.Sent, res.Codes)
	}
}

// Every connection of a burst is open before the first request arrives.
func TestBurstConnectsFirst(t *testing.T) {
	t.Parallel()
	const vus = 25
	var early, conns atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Accepting lags behind connecting, so a missing connection gets its time to show up; one that is opened only
		// after this answer never does.
		for give := time.Now().Add(patience); conns.Load() < vus; time.Sleep(time.Millisecond) {
			if time.Now().After(give) {
				early.Add(1)
				break
			}
		}
		answerOK(w, r)
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	testkit.Must(t, err)
	res := drive(t.Context(), t, u, plan.Plan{VUs: vus, Requests: vus, Burst: true, Timeout: 2 * patience})
	if res.Codes["ok"] != vus || early.Load() != 0 || conns.Load() != vus {
		t.Errorf("codes %v, %d answered before all %d connections were open", res.Codes, early.Load(), vus)
	}
}

// If a plan is stopped early, every sent request is answered, and none is sent after that.
func TestStopEndsAPlanEarly(t *testing.T) {
	t.Parallel()
	for name, plan := range map[string]plan.Plan{
		"closed": {VUs: 2, Duration: time.Hour},
		"open":   {Rate: 500, Duration: time.Hour, MaxInFlight: 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stop := make(chan struct{})
			var once sync.Once
			var arrived atomic.Int64
			plan.Stop = stop
			res := drive(t.Context(), t, serve(t, func(w http.ResponseWriter, r *http.Request) {
				if arrived.Add(1) > 10 {
					once.Do(func() { close(stop) })
				}
				answerOK(w, r)
			}), plan)
			if res.Partial || res.Sent < 10 || res.Codes["ok"] != res.Sent || int64(res.Sent) != arrived.Load() {
				t.Errorf("partial %t, sent %d, codes %v, arrived %d; want a whole run of all that arrived", res.Partial, res.Sent,
					res.Codes, arrived.Load())
			}
		})
	}
}

func TestOpenLoopDropsAndCounts(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	u := serve(t, func(w http.ResponseWriter, r *http.Request) {
		<-release
		answerOK(w, r)
	})
	plan := plan.Plan{Rate: 500, Duration: 100 * time.Millisecond, MaxInFlight: 6}.WithDefaults()
	d, err := newDriver(plan, client.Target{URL: u}, new(Control).script(plan, testMode), true)
	testkit.Must(t, err)
	defer d.close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.drive(t.Context())
	}()
	testkit.Until(t, "44 of 50 arrivals dropped", func() bool { return d.dropped.Load() == 44 })
	close(release)
	<-ended
	var res Result
	d.rec.fill(&res)
	if res.Sent != 6 || res.Codes["ok"] != 6 {
		t.Errorf("sent %d, codes %v, want 6 ok", res.Sent, res.Codes)
	}
}

// A server that stalls for a while delays every arrival of that time. A closed loop sees one slow request and reports a
// good p90: coordinated omission. An open loop shows the stall.
func TestOpenLoopShowsAStallThatTheClosedOneHides(t *testing.T) {
	t.Parallel()
	const stall = 500 * time.Millisecond
	stalling := func() *url.URL {
		var once sync.Once
		var until atomic.Int64
		return serve(t, func(w http.ResponseWriter, r *http.Request) {
			once.Do(func() { until.Store(time.Now().Add(stall).UnixNano()) })
			time.Sleep(time.Until(time.Unix(0, until.Load())))
			answerOK(w, r)
		})
	}
	closed := drive(t.Context(), t, stalling(), plan.Plan{VUs: 1, Requests: 100})
	open := drive(t.Context(), t, stalling(), plan.Plan{Rate: 100, Duration: time.Second, MaxInFlight: 200})
	if got := closed.Latency[client.Accepted]; got.Max < stall*9/10 || got.P90 > got.Max/2 {
		t.Errorf("closed loop: p90 %v, max %v, want one slow request of 100", got.P90, got.Max)
	}
	// Half of the arrivals fall into the stall; a tenth of all arrivals wait for at least four fifths of it.
	if got := open.Latency[client.Accepted]; got.P90 < stall/2 || open.Dropped != 0 {
		t.Errorf("open loop: p90 %v, %d dropped, want at least %v and none", got.P90, open.Dropped, stall/2)
	}
}

func TestInterruptionDrains(t *testing.T) {
	t.Parallel()
	models := map[string]plan.Plan{
		"closed": {VUs: 5, Loops: 1000},
		"open":   {Rate: 1000, Duration: time.Minute, MaxInFlight: 5},
	}
	for name, plan := range models {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			var arrived atomic.Int64
			release := make(chan struct{})
			u := serve(t, func(w http.ResponseWriter, r *http.Request) {
				arrived.Add(1)
				<-release
				answerOK(w, r)
			})
			go func() {
				for arrived.Load() < 5 {
					time.Sleep(time.Millisecond)
				}
				cancel()
				close(release)
			}()
			res := drive(ctx, t, u, plan)
			if res.Sent != 5 || res.Codes["ok"] != 5 || arrived.Load() != 5 {
				t.Errorf("sent %d, codes %v, arrived %d, want 5 ok: those in flight, and no more", res.Sent, res.Codes,
					arrived.Load())
			}
		})
	}
}

// keys answers by a script per idempotency key: the n-th request with one key gets the n-th answer, the last one again.
type keys struct {
	mu      sync.Mutex
	seen    map[string]int
	answers []func(http.ResponseWriter, *http.Request)
}

func (k *keys) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	n := k.seen[r.Header.Get(api.HeaderKey)]
	k.seen[r.Header.Get(api.HeaderKey)]++
	k.mu.Unlock()
	k.answers[min(n, len(k.answers)-1)](w, r)
}

func problem(code api.Code) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) { fakeshop.Refuse(w, code, "") }
}

func TestRetriesKeepTheirKey(t *testing.T) {
	t.Parallel()
	hangUp := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	tests := []struct {
		name    string
		retry   int
		answers []func(http.ResponseWriter, *http.Request)
		want    map[string]int
	}{
		{"busy, then ok", 3, []func(http.ResponseWriter, *http.Request){problem(api.LockBusy), answerOK},
			map[string]int{"lock_busy": 10, "ok": 10}},
		{"lost, then ok", 3, []func(http.ResponseWriter, *http.Request){hangUp, answerOK},
			map[string]int{"eof": 10, "ok": 10}},
		{"unknown, then ok", 3, []func(http.ResponseWriter, *http.Request){problem(api.OutcomeUnknown), answerOK},
			map[string]int{"outcome_unknown": 10, "ok": 10}},
		{"busy forever", 2, []func(http.ResponseWriter, *http.Request){problem(api.Contended)},
			map[string]int{"contended": 30}},
		{"sold out is final", 3, []func(http.ResponseWriter, *http.Request){problem(api.SoldOut)},
			map[string]int{"sold_out": 10}},
		{"no retry", 0, []func(http.ResponseWriter, *http.Request){problem(api.LockBusy)}, map[string]int{"lock_busy": 10}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			k := &keys{seen: map[string]int{}, answers: tt.answers}
			res := drive(t.Context(), t, serve(t, k.ServeHTTP), plan.Plan{VUs: 5, Requests: 10, Retry: tt.retry})
			testkit.Same(t, res.Codes, tt.want, "codes")
			if res.Retried != res.Sent-10 {
				t.Errorf("retried %d of %d, want all but 10", res.Retried, res.Sent)
			}
			if wantKeys := map[bool]int{true: 10, false: 1}[tt.retry > 0]; len(k.seen) != wantKeys {
				t.Errorf("%d distinct keys, want %d", len(k.seen), wantKeys)
			}
			byKey := map[string]int{}
			for _, op := range res.History {
				byKey[op.Key]++
			}
			if diff := cmp.Diff(k.seen, byKey); diff != "" {
				t.Errorf("keys of the history (-sent +recorded):\n%s", diff)
			}
		})
	}
}

// In an open loop the response time of a repetition includes the wait since its request was due; the lag is that of the
// first attempt.
func TestRepetitionsHideNoWait(t *testing.T) {
	t.Parallel()
	k := &keys{seen: map[string]int{}, answers: []func(http.ResponseWriter, *http.Request){problem(api.LockBusy),
		answerOK}}
	res := drive(t.Context(), t, serve(t, k.ServeHTTP), plan.Plan{Rate: 10, Duration: 100 * time.Millisecond, Retry: 1})
	response, service := res.Latency[client.Accepted], res.Service[client.Accepted]
	if response.Count != 1 || response.Min < service.Min+shortestPause || res.Lag.Count != 1 || res.Retried != 1 {
		t.Errorf("response %+v, service %+v, lag %+v, want one response that is at least %v longer than its service",
			response, service, res.Lag, shortestPause)
	}
}

func TestPauseAfter(t *testing.T) {
	t.Parallel()
	tests := []struct {
		try   int
		asked time.Duration
		want  time.Duration
	}{
		{0, 0, shortestPause},
		{1, 0, 2 * shortestPause},
		{40, 0, longestPause},
		{0, 300 * time.Millisecond, 300 * time.Millisecond},
		{0, time.Minute, longestPause},
	}
	for _, tt := range tests {
		testkit.Is(t, pauseAfter(tt.try, tt.asked), tt.want, "pauseAfter(%d, %v)", tt.try, tt.asked)
	}
}
