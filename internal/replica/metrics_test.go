package replica

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"lastitem/internal/stock"
	"lastitem/testkit"
	"lastitem/testkit/reservationtest"
	"lastitem/testkit/testenv"
)

// /metrics says which build answers, so that a deploy that stopped half-way can be seen, and which backends can be
// used.
func TestReplicaMetrics(t *testing.T) {
	t.Parallel()
	c := Config{Replica: "7", Redis: testenv.Miniredis(t).URL, DefaultMode: "noop", LockTTL: time.Second, Conns: 1}
	r, err := New(c, quiet)
	testkit.Must(t, err)
	t.Cleanup(r.Close)
	page := func() string { return send(t, r, http.MethodGet, "/metrics", "", http.StatusOK) }
	if got := page(); !strings.Contains(got, `shop_build_info{go="go1.`) || !strings.Contains(got, `version="a1b2c3"} 1`) {
		t.Errorf("no shop_build_info of version a1b2c3 in\n%s", got)
	}
	testkit.Until(t, "a Redis that answers is up", func() bool {
		return strings.Contains(page(), "shop_backend_up{backend=\"redis\"} 1\n")
	})
}

// engineNumbers reads what the page of metrics says about the lock engine, without the buckets.
func engineNumbers(t *testing.T, h http.Handler) map[string]float64 {
	t.Helper()
	got := map[string]float64{}
	for line := range strings.Lines(send(t, h, http.MethodGet, "/metrics", "", http.StatusOK)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, ours := strings.CutPrefix(name, "shop_lock_engine_")
		if !ours || strings.Contains(name, "_bucket") {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil || strings.Contains(name, "{") {
			t.Errorf("metric %q, want a number and no label", line)
		}
		got[name] = n
	}
	return got
}

func TestEngineMetrics(t *testing.T) {
	t.Parallel()
	r := openReplica(t)
	for name, n := range engineNumbers(t, r) {
		if n != 0 {
			t.Errorf("%s = %v before the first request, want 0", name, n)
		}
	}
	const requests = 40
	send(t, r, http.MethodPut, "/products/101/stock", fmt.Sprintf(`{"stock":%d}`, requests), http.StatusOK)
	var wg sync.WaitGroup
	for range requests {
		wg.Go(func() { send(t, r, http.MethodPost, "/deduct_stock/handoff?wait_ms=30000", "", http.StatusOK) })
	}
	wg.Wait()
	got := engineNumbers(t, r)
	wantNumbers(t, fmt.Sprintf("after %d requests", requests), got, map[string]float64{
		"acquired_total": requests, "wait_seconds_count": requests, "hold_seconds_count": requests, "waiting": 0, "held": 0,
		"timed_out_total": 0, "lost_total": 0, "renew_failed_total": 0, "skipped_total": 0,
		"handoff_seconds_count": got["contended_total"],
	})
	for _, name := range []string{"wait_seconds_sum", "hold_seconds_sum"} {
		if got[name] <= 0 {
			t.Errorf("shop_lock_engine_%s = %v, want more than 0", name, got[name])
		}
	}
}

func TestEngineMetricsOfABusyLock(t *testing.T) {
	t.Parallel()
	r := openReplica(t)
	send(t, r, http.MethodPut, "/products/101/stock", `{"stock":5}`, http.StatusOK)
	lease, err := r.engine.Handoff().Acquire(t.Context(), r.prefix+"lock:handoff:{101}")
	testkit.Must(t, err)
	send(t, r, http.MethodPost, "/deduct_stock/handoff?wait_ms=0", "", http.StatusServiceUnavailable)
	var waiter sync.WaitGroup
	waiter.Go(func() { send(t, r, http.MethodPost, "/deduct_stock/handoff?wait_ms=30000", "", http.StatusOK) })
	want := map[string]float64{"acquired_total": 1, "timed_out_total": 1, "held": 1, "waiting": 1, "contended_total": 0}
	got := engineNumbers(t, r)
	for end := time.Now().Add(30 * time.Second); got["waiting"] != 1 && time.Now().Before(end); got = engineNumbers(t, r) {
		time.Sleep(time.Millisecond)
	}
	wantNumbers(t, "while it is held", got, want)
	testkit.Is(t, lease.Release(t.Context()), nil, "Release()")
	waiter.Wait()
	want = map[string]float64{"acquired_total": 2, "timed_out_total": 1, "held": 0, "waiting": 0, "contended_total": 1,
		"handoff_seconds_count": 1}
	wantNumbers(t, "after it", engineNumbers(t, r), want)
}

func wantNumbers(t *testing.T, when string, got, want map[string]float64) {
	t.Helper()
	for name, want := range want {
		if n, ok := got[name]; !ok || n != want {
			t.Errorf("%s: shop_lock_engine_%s = %v (there: %t), want %v", when, name, n, ok, want)
		}
	}
}

// Every mode that says it is served by the engine is: each deduction takes a lock of it, the others take none.
func TestModesOfTheEngine(t *testing.T) {
	t.Parallel()
	r := openReplica(t)
	want := map[string]bool{
		"handoff": true, "fair": true, "rwlock": true, "global-lock": true, "segmented": true, "multi-lock": true,
		"lease-seq":  true,
		"idempotent": true,
	}
	for _, m := range stock.Modes() {
		send(t, r, http.MethodPut, "/products/101/stock", `{"stock":100}`, http.StatusOK)
		if status, err := r.Shop.Mode(m.Name); err != nil || status.Err != nil {
			continue // it needs what this replica does not have
		}
		before := engineNumbers(t, r)["acquired_total"]
		sold := map[bool]int{false: http.StatusOK, true: http.StatusAccepted}[m.Tickets]
		send(t, r, http.MethodPost, "/deduct_stock/"+m.Name, "", sold)
		if took := engineNumbers(t, r)["acquired_total"] - before; (took == 1) != want[m.Name] || took > 1 {
			t.Errorf("%s took %v locks of the engine, want one: %t", m.Name, took, want[m.Name])
		}
	}
}

// A replica with a collector sends a trace of each deduction below the client's, and what waits when it ends; one
// without makes none. The metrics name the traces that go to the collector, and no others.
func TestReplicaSendsTraces(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	spans := map[string][]string{} // names, by trace
	systems := map[string]bool{}
	c := testkit.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var got collector.ExportTraceServiceRequest
		testkit.Check(t, proto.Unmarshal(body, &got))
		mu.Lock()
		defer mu.Unlock()
		for _, s := range got.ResourceSpans[0].ScopeSpans[0].Spans {
			id := string(s.TraceId)
			spans[id] = append(spans[id], s.Name)
			for _, a := range s.Attributes {
				if a.Key == "db.system.name" {
					systems[a.Value.GetStringValue()] = true
				}
			}
		}
	}))
	redis := testenv.Miniredis(t)
	r := startReplica(t, Config{Redis: redis.URL, Prefix: redis.Prefix, SQL: testenv.SQLite(t), Conns: 16, OTLP: c.URL})
	waitReady(t, r)
	send(t, r, "PUT", "/products/101/stock", `{"stock":5}`, http.StatusOK)
	for target, parent := range map[string]string{
		"/deduct_stock/lua-lock": "0123456789abcdef-01", "/deduct_stock/unsafe-sql": "0123456789abcdef-01",
		"/deduct_stock": "fedcba9876543210-00", // not sampled
	} {
		req := httptest.NewRequestWithContext(t.Context(), "POST", target, strings.NewReader(""))
		req.Header.Set("Traceparent", "00-0123456789abcdef"+parent[:16]+"-"+parent)
		rec := httptest.NewRecorder()
		r.ServeHTTP(rec, req)
		if rec.Code != http.StatusOK {
			t.Fatalf("POST %s = %d %s", target, rec.Code, rec.Body)
		}
	}
	r.Close()
	mu.Lock()
	defer mu.Unlock()
	var all []string
	for _, names := range spans {
		all = append(all, names...)
	}
	slices.Sort(all)
	const root = "POST /deduct_stock/{mode}"
	if diff := cmp.Diff([]string{root, root, "append order", "append order", "commit", "lock hold", "lock wait",
		"read stock", "read stock", "write stock", "write stock"}, all); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]bool{"redis": true, "sqlite": true}, systems); diff != "" || len(spans) != 1 {
		t.Errorf("%d traces; db.system.name (-want +got):\n%s", len(spans), diff)
	}
	req := httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil)
	req.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	rec := httptest.NewRecorder()
	r.ServeHTTP(rec, req)
	var named []string
	for _, m := range regexp.MustCompile(`(?m)_bucket\{(mode="[^"]*").* # \{(.*)\} `).FindAllStringSubmatch(
		rec.Body.String(), -1) {
		named = append(named, m[1]+" "+m[2])
	}
	slices.Sort(named)
	const id = ` trace_id="0123456789abcdef0123456789abcdef"`
	if diff := cmp.Diff([]string{`mode="lua-lock"` + id, `mode="unsafe-sql"` + id}, named); diff != "" {
		t.Errorf("exemplars (-want +got):\n%s", diff)
	}
	if plain := openReplica(t); plain.spans != nil || plain.Answered != nil {
		t.Error("a replica without a collector has an exporter")
	}
}

// overdue reads for how long the oldest overdue reservation of a backend has waited, by the page of metrics; -1 = that
// is not told.
func overdue(t *testing.T, r *Replica, backend string) float64 {
	t.Helper()
	_, after, told := strings.Cut(send(t, r, http.MethodGet, "/metrics", "", http.StatusOK),
		"\nshop_overdue_hold_seconds{backend=\""+backend+"\"} ")
	if !told {
		return -1
	}
	line, _, _ := strings.Cut(after, "\n")
	n, err := strconv.ParseFloat(line, 64)
	testkit.Must(t, err)
	return n
}

// While the sweep of one store hangs, that store's gauge says so, and the holds of the other store end.
func TestOneStoreSweepsBesideAnother(t *testing.T) {
	t.Parallel()
	redis := testenv.Miniredis(t)
	r := startReplica(t, Config{Redis: redis.URL, Prefix: redis.Prefix, SQL: testenv.SQLite(t),
		Sweep: 20 * time.Millisecond})
	waitReady(t, r)
	url := testkit.Serve(t, r).URL
	inSQL := reservationtest.New(t, serve(t, url, "reserve-sql", "", "sql"), 101)
	inRedis := reservationtest.New(t, serve(t, url, "reserve-redis", "", "redis"), 102)
	inRedis.Say("reset =")
	inSQL.Brief = 2 * time.Second
	inSQL.Say("reset = ; brief a 1 = held 4; brief b 1 = held 3; brief c 1 = held 2; brief d 1 = held 1")
	pool, err := r.Backends.DB.DB()
	testkit.Must(t, err)
	c, err := pool.Conn(t.Context())
	testkit.Must(t, err)
	defer c.Close()
	_, err = c.ExecContext(t.Context(), "BEGIN IMMEDIATE") // no other writes
	testkit.Must(t, err)
	testkit.Until(t, "the gauge tells what the sweep does not end", func() bool { return overdue(t, r, "sql") > .1 })
	for range 2 {
		testkit.Until(t, "the unit is there", func() bool {
			return strings.HasPrefix(inRedis.Do("brief a-b 5"), "held")
		})
	}
	_, err = c.ExecContext(t.Context(), "ROLLBACK")
	testkit.Must(t, err)
	testkit.Until(t, "all have ended", func() bool { return overdue(t, r, "sql") == 0 && overdue(t, r, "redis") == 0 })
}

// A gauge that cannot be read is absent, and the log says why.
func TestOverdueThatCannotBeRead(t *testing.T) {
	t.Parallel()
	var log testkit.Log
	r, err := New(Config{Replica: "1", Redis: "redis://127.0.0.1:1", DefaultMode: "noop", LockTTL: time.Second, Conns: 1},
		Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	testkit.Must(t, err)
	t.Cleanup(r.Close)
	if n := overdue(t, r, "redis"); n != -1 || !strings.Contains(log.String(), "read of the oldest overdue reservation") {
		t.Errorf("shop_overdue_hold_seconds = %v, want none; the log says\n%s", n, log.String())
	}
}
