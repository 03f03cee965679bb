package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caarlos0/env/v11"

	"lastitem/internal/api"
	"lastitem/internal/backend"
	"lastitem/internal/localstack/guest"
	"lastitem/internal/stock"
	"lastitem/internal/testenv"
	"lastitem/internal/testenv/wait"
)

// testReplica is a replica, and what its keys begin with.
type testReplica struct {
	*replica
	prefix string
}

// openReplica is a replica on embedded backends, with its tables.
func openReplica(t *testing.T) testReplica {
	t.Helper()
	redis := testenv.Miniredis(t)
	r := startReplica(t, config{Redis: redis.URL, Prefix: redis.Prefix, SQL: testenv.SQLite(t), Conns: 16})
	waitReady(t, r)
	return testReplica{r, redis.Prefix}
}

// startReplica is a replica with the tables of its database, until the test ends. Its backends may not have been met yet.
func startReplica(t *testing.T, c config) *replica {
	t.Helper()
	c.Replica, c.Token, c.DefaultMode, c.LockTTL = "1", "t0ken", "lease-seq", 10*time.Second
	c.Conns, c.Prefix = cmp.Or(c.Conns, 4), cmp.Or(c.Prefix, "shop:")
	r, err := newReplica(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	if _, err := backend.Migrate(t.Context(), r.set.DB); err != nil {
		t.Fatal(err)
	}
	return r
}

// waitReady waits until the probes have seen the backends answer.
func waitReady(t *testing.T, r *replica) {
	t.Helper()
	wait.NoError(t, "ready", func() error { return r.set.Ready() })
}

// send asks h, and wants the status.
func send(t *testing.T, h http.Handler, method, target, body string, want int) string {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer t0ken")
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", target)
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, req)
	if rec.Code != want {
		t.Errorf("%s %s = %d %s, want %d", method, target, rec.Code, rec.Body, want)
	}
	return rec.Body.String()
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
		wg.Go(func() { send(t, r, http.MethodPost, "/deduct_stock/handoff", "", http.StatusOK) })
	}
	wg.Wait()
	got := engineNumbers(t, r)
	wantNumbers(t, fmt.Sprintf("after %d requests", requests), got, map[string]float64{
		"acquired_total": requests, "wait_seconds_count": requests, "hold_seconds_count": requests, "waiting": 0, "held": 0,
		"timed_out_total": 0, "lost_total": 0, "renew_failed_total": 0, "skipped_total": 0, "handoff_seconds_count": got["contended_total"],
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
	if err != nil {
		t.Fatal(err)
	}
	send(t, r, http.MethodPost, "/deduct_stock/handoff?wait_ms=0", "", http.StatusServiceUnavailable)
	var waiter sync.WaitGroup
	waiter.Go(func() { send(t, r, http.MethodPost, "/deduct_stock/handoff?wait_ms=30000", "", http.StatusOK) })
	want := map[string]float64{"acquired_total": 1, "timed_out_total": 1, "held": 1, "waiting": 1, "contended_total": 0}
	got := engineNumbers(t, r)
	for end := time.Now().Add(30 * time.Second); got["waiting"] != 1 && time.Now().Before(end); got = engineNumbers(t, r) {
		time.Sleep(time.Millisecond)
	}
	wantNumbers(t, "while it is held", got, want)
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("Release() = %v, want nil", err)
	}
	waiter.Wait()
	want = map[string]float64{"acquired_total": 2, "timed_out_total": 1, "held": 0, "waiting": 0, "contended_total": 1, "handoff_seconds_count": 1}
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
		"handoff": true, "fair": true, "rwlock": true, "global-lock": true, "segmented": true, "multi-lock": true, "lease-seq": true,
		"idempotent": true,
	}
	send(t, r, http.MethodPut, "/products/101/stock", `{"stock":100}`, http.StatusOK)
	for _, m := range stock.Modes() {
		if status, err := r.shop.Mode(m.Name); err != nil || status.Err != nil {
			continue // it needs what this replica does not have
		}
		before := engineNumbers(t, r)["acquired_total"]
		send(t, r, http.MethodPost, "/deduct_stock/"+m.Name, "", http.StatusOK)
		if took := engineNumbers(t, r)["acquired_total"] - before; (took == 1) != want[m.Name] || took > 1 {
			t.Errorf("%s took %v locks of the engine, want one: %t", m.Name, took, want[m.Name])
		}
	}
}

func TestEngineClosedIsUnavailable(t *testing.T) {
	t.Parallel()
	r := openReplica(t)
	send(t, r, http.MethodPut, "/products/101/stock", `{"stock":5}`, http.StatusOK)
	if err := closeEngine(r.engine); err != nil {
		t.Fatal(err)
	}
	body := send(t, r, http.MethodPost, "/deduct_stock/handoff", "", http.StatusServiceUnavailable)
	if !strings.Contains(body, "backend_unavailable") || !strings.Contains(body, "shutting down") {
		t.Errorf("answer of a closed engine = %s, want backend_unavailable, shutting down", body)
	}
}

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	var good config
	if err := env.ParseWithOptions(&good, env.Options{Environment: map[string]string{"SHOP_REDIS": "redis://localhost:6379/0"}}); err != nil {
		t.Fatal(err)
	}
	good.LockTTL = 50 * time.Millisecond
	if err := good.validate(); err != nil {
		t.Errorf("validate(%+v) = %v, want nil", good, err)
	}
	for want, change := range map[string]func(*config){
		"no backend":                            func(c *config) { c.Redis = "" },
		`SHOP_LISTEN is "8080", want host:port`: func(c *config) { c.Listen = "8080" },
		`is ":99999", want host`:                func(c *config) { c.Listen = ":99999" },
		"want at least 50ms":                    func(c *config) { c.LockTTL = 49 * time.Millisecond },
		"SHOP_CONNS is 0":                       func(c *config) { c.Conns = 0 },
		"SHOP_DRAIN is -1ns, want":              func(c *config) { c.Drain = -1 },
		"SHOP_LOCK_REPLICAS is -1":              func(c *config) { c.LockReplicas = -1 },
		"SHOP_REDLOCK_GUARD is 49ms, want 0, or SHOP_LOCK_TTL (50ms)": func(c *config) { c.RedlockGuard = 49 * time.Millisecond },
		"SHOP_SQL_TIMEOUT is 1s":  func(c *config) { c.SQLTimeout = time.Second },
		"SHOP_DIAL_TIMEOUT is 0s": func(c *config) { c.DialTimeout = 0 },
		"SHOP_KAFKA_HEARTBEAT is 7s, want less than SHOP_KAFKA_SESSION, 6s": func(c *config) { c.KafkaHeartbeat = 7 * time.Second },
		"SHOP_HEALTH_INTERVAL is -":                                         func(c *config) { c.HealthEvery = -time.Second },
		"SHOP_CONSUL_LOCK_DELAY is 1m1s, want at most 1m0s":                 func(c *config) { c.ConsulDelay = time.Minute + time.Second },
		"SHOP_CONSUL_SESSION is 24h0m1s, want at most 24h0m0s":              func(c *config) { c.ConsulSession = 24*time.Hour + time.Second },
		"SHOP_KAFKA_SESSION is 31m0s, want at most 30m0s":                   func(c *config) { c.KafkaSession = 31 * time.Minute },
		"SHOP_KAFKA_REBALANCE is 720h0m0s, want at most":                    func(c *config) { c.KafkaRebalance = 30 * 24 * time.Hour },
		"SHOP_LOCK_TTL is 600h0m0s, want at most":                           func(c *config) { c.LockTTL = 25 * 24 * time.Hour }, // ZooKeeper's sessions: 32 bits of milliseconds
		"SHOP_SQL_TIMEOUT is 300000h0m0s, want at most":                     func(c *config) { c.SQLTimeout = 300000 * time.Hour },
		"SHOP_HEALTH_INTERVAL is 300000h0m0s, want":                         func(c *config) { c.HealthEvery = 300000 * time.Hour },
	} {
		c := good
		change(&c)
		if err := c.validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("validate(%+v) = %v, want %q", c, err, want)
		}
	}
	// The engine and the configuration agree on the least TTL.
	redis := testenv.Miniredis(t)
	c := config{Replica: "1", Redis: redis.URL, DefaultMode: "noop", LockTTL: 50 * time.Millisecond, Conns: 1}
	r, err := newReplica(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatalf("newReplica with the least TTL = %v", err)
	}
	r.close()
}

// A setting that cannot be read is named as it is set, with what it should be.
func TestConfigUnreadable(t *testing.T) {
	for setting, want := range map[string]string{
		"SHOP_LOCK_TTL=10": "such as 10s", "SHOP_DRAIN=x": "such as 10s", "SHOP_CONNS=many": "a whole number", "SHOP_LOG_LEVEL=loud": "debug, info",
		"SHOP_CONNS=99999999999999999999": "64 bits", "SHOP_MISSING=etcd": "JSON", "SHOP_LOG_FORMAT=xml": "text or json", "SHOP_HOSTS=http://a": "without a port",
	} {
		name, value, _ := strings.Cut(setting, "=")
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			t.Setenv("SHOP_REDIS", "redis://127.0.0.1:1")
			code, _, errOut := commandLine(t.Context(), newServe("en"))
			if code != exitUsage || !strings.Contains(errOut, fmt.Sprintf("%s is %q, want ", name, value)) || !strings.Contains(errOut, want) {
				t.Errorf("%s: exit %d, %s; want exit %d, and %q", setting, code, errOut, exitUsage, want)
			}
		})
	}
}

// An address that cannot be read is named by the variable or the flag that it was given by.
func TestAddressesAreNamed(t *testing.T) {
	t.Parallel()
	for backend, c := range map[string]config{
		"redis": {Redis: "x"}, "sql": {SQL: "sqlite:/nowhere/shop.db"}, "redlock": {Redlock: "redis://a"}, "zookeeper": {ZooKeeper: "x"},
		"etcd": {Etcd: "x"}, "consul": {Consul: "x"}, "kafka": {Kafka: "x"},
	} {
		c.Conns = 1
		_, err := newReplica(c, slog.New(slog.DiscardHandler))
		if want := "SHOP_" + strings.ToUpper(backend) + ": "; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("newReplica(%+v) = %v, want %s", c, err, want)
		}
		own := guest.Servers{Redis: c.Redis, SQL: c.SQL, Redlock: c.Redlock, Etcd: c.Etcd, ZooKeeper: c.ZooKeeper, Consul: c.Consul, Kafka: c.Kafka}
		var e *exitError
		if _, err := newGuest(t.Context(), own); !errors.As(err, &e) || e.code != exitUsage || !strings.HasPrefix(err.Error(), "--"+backend+": ") {
			t.Errorf("newGuest(%+v) = %v, want a usage error of --%s", own, err, backend)
		}
	}
}

// A replica whose Redis is away says so by itself.
func TestDeadBackendIsLogged(t *testing.T) {
	t.Parallel()
	lines := make(chan string, 100)
	log := slog.New(slog.NewTextHandler(lineWriter(lines), nil))
	r, err := newReplica(config{Replica: "1", Redis: "redis://127.0.0.1:1", DefaultMode: "noop", LockTTL: time.Second, Conns: 1}, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	for end := time.After(30 * time.Second); ; {
		select {
		case line := <-lines:
			if strings.Contains(line, "level=WARN") && strings.Contains(line, `"backend does not answer" backend=redis`) {
				return
			}
		case <-end:
			t.Fatal("no warning in 30 s")
		}
	}
}

// lineWriter sends what is written; a write is a line.
type lineWriter chan string

func (w lineWriter) Write(p []byte) (int, error) {
	select {
	case w <- string(p):
	default: // nobody reads any more
	}
	return len(p), nil
}

// A database that is away is not told of every second.
func TestMigrateSaysItOnce(t *testing.T) {
	t.Parallel()
	set, err := backend.Open(backend.Config{SQL: "shop:x@tcp(127.0.0.1:1)/shop", Conns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = set.Close() }()
	var log bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond) // three tries
	defer cancel()
	migrateUntilDone(ctx, slog.New(slog.NewTextHandler(&log, nil)), set)
	if n := strings.Count(log.String(), "connection refused"); n != 1 {
		t.Errorf("%d lines, want one:\n%s", n, &log)
	}
}

// serviceModes are the modes that need more than Redis and SQL.
var serviceModes = []string{"redlock", "zookeeper", "etcd", "etcd-txn", "consul"}

// openWithServices is a replica on embedded backends and the services of c.
func openWithServices(t *testing.T, c config) *replica {
	t.Helper()
	c.Redis, c.SQL = testenv.Miniredis(t).URL, testenv.SQLite(t)
	r := startReplica(t, c)
	waitReady(t, r)
	return r
}

// modeOf asks the replica for one mode.
func modeOf(t *testing.T, r *replica, name string) (m api.Mode) {
	t.Helper()
	if err := json.Unmarshal([]byte(send(t, r, http.MethodGet, "/modes/"+name, "", http.StatusOK)), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// awaitMode waits until the health of its backends is known to be what good wants.
func awaitMode(t *testing.T, r *replica, name string, good func(api.Mode) bool) {
	t.Helper()
	wait.NoError(t, "another mode "+name, func() error {
		if m := modeOf(t, r, name); !good(m) {
			return fmt.Errorf("it stays %+v", m)
		}
		return nil
	})
}

func TestModesOnServices(t *testing.T) {
	t.Parallel()
	var nodes []string
	for _, n := range testenv.RedisNodes(t, 5) {
		nodes = append(nodes, n.URL)
	}
	etcd := testenv.Etcd(t)
	r := openWithServices(t, config{
		Redlock: strings.Join(nodes, ","), ZooKeeper: testenv.ZooKeeper(t).Addr,
		Etcd: "http://" + etcd.Addr, Consul: "http://" + testenv.Consul(t).Addr, Prefix: etcd.Prefix,
	})
	for _, name := range serviceModes {
		awaitMode(t, r, name, func(m api.Mode) bool { return m.Available })
	}
	send(t, r, http.MethodPut, "/products/101/stock", `{"stock":9}`, http.StatusOK)
	for _, name := range serviceModes {
		send(t, r, http.MethodPost, "/deduct_stock/"+name, "", http.StatusOK)
	}
	send(t, r, http.MethodPost, "/deduct_stock/etcd-txn?store=etcd&quantity=9", "", http.StatusConflict)
	send(t, r, http.MethodPost, "/deduct_stock/etcd-txn?store=sql", "", http.StatusBadRequest)
	if got, want := send(t, r, http.MethodGet, "/products/101", "", http.StatusOK), `"stock":{"etcd":8,"redis":5,"sql":9}`; !strings.Contains(got, want) {
		t.Errorf("product = %s, want %s", got, want)
	}
	var l api.Ledger
	if err := json.Unmarshal([]byte(send(t, r, http.MethodGet, "/products/101/ledger", "", http.StatusOK)), &l); err != nil {
		t.Fatal(err)
	}
	if n := len(l.Orders); n != 5 || l.Initial[api.Etcd] != 9 || l.Stock[api.Etcd] != 8 {
		t.Errorf("ledger has %d orders, initial %v, stock %v, want 5, and 9 and 8 in etcd", n, l.Initial, l.Stock)
	}
	if got := send(t, r, http.MethodGet, "/products/101/audit", "", http.StatusOK); !strings.Contains(got, `"store":"etcd"`) {
		t.Errorf("audit = %s, want a report on etcd", got)
	}
}

// Who started the replica may know better than it what to do about a backend that is missing.
func TestModesSayWhatToDo(t *testing.T) {
	t.Parallel()
	var missing reasons
	if err := missing.UnmarshalText([]byte(`{"etcd":"ask your administrator","mysql":"buy one"}`)); err != nil {
		t.Fatal(err)
	}
	r := openWithServices(t, config{Missing: missing})
	for name, want := range map[string]string{
		"etcd": "no etcd configured: ask your administrator", "mutex-in-tx": "its lesson needs InnoDB: buy one",
		"consul": "no Consul configured: set SHOP_CONSUL",
	} {
		if got := modeOf(t, r, name).Why; got != want {
			t.Errorf("%s is not available: %q, want %q", name, got, want)
		}
	}
}

// A service that cannot be reached costs its own modes, which say so, and no other.
func TestModesOnServicesOutOfReach(t *testing.T) {
	t.Parallel()
	const nowhere = "127.0.0.1:1"
	redis := "redis://" + nowhere
	r := openWithServices(t, config{
		Redlock: strings.Join([]string{redis, redis, redis}, ","), ZooKeeper: nowhere, Etcd: "http://" + nowhere, Consul: "http://" + nowhere,
	})
	for name, why := range map[string]string{
		"redlock": "0 of 3 nodes answer", "zookeeper": "zookeeper: ", "etcd": "etcd: ", "etcd-txn": "etcd: ", "consul": "connection refused",
	} {
		awaitMode(t, r, name, func(m api.Mode) bool {
			return !m.Available && strings.Contains(m.Why, why) && !strings.Contains(m.Why, "not asked")
		})
	}
	awaitMode(t, r, "handoff", func(m api.Mode) bool { return m.Available })
}
