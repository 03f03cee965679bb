package replica

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lastitem/contract/api"
	"lastitem/internal/backend"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// quiet are options without a log.
var quiet = Options{Log: slog.New(slog.DiscardHandler), Version: "a1b2c3"}

// testReplica is a replica, and what its keys begin with.
type testReplica struct {
	*Replica
	prefix string
}

// openReplica is a replica on embedded backends, with its tables.
func openReplica(t *testing.T) testReplica {
	t.Helper()
	redis := testenv.Miniredis(t)
	r := startReplica(t, Config{
		Redis: redis.URL, Prefix: redis.Prefix, SQL: testenv.SQLite(t), Conns: 16, HealthWithin: testenv.Still,
	})
	waitReady(t, r)
	return testReplica{r, redis.Prefix}
}

// startReplica is a replica with the tables of its database, until the test ends. Its backends may not have been met
// yet. Its time-outs are those of a busy machine, if c has none.
func startReplica(t *testing.T, c Config) *Replica {
	t.Helper()
	c.Replica, c.Token, c.DefaultMode, c.LockTTL = "1", "t0ken", "lease-seq", cmp.Or(c.LockTTL, testenv.Still)
	c.Conns, c.Prefix = cmp.Or(c.Conns, 4), cmp.Or(c.Prefix, "shop:")
	c.WorkTimeout, c.RedisTimeout = cmp.Or(c.WorkTimeout, testenv.Still), cmp.Or(c.RedisTimeout, testenv.Still)
	c.SettleTimeout, c.LockTimeout = cmp.Or(c.SettleTimeout, testenv.Still), cmp.Or(c.LockTimeout, 2*testenv.Still)
	c.HealthWithin = cmp.Or(c.HealthWithin, testenv.Still/4)
	r, err := New(c, quiet)
	testkit.Must(t, err)
	t.Cleanup(r.Close)
	_, err = backend.Migrate(t.Context(), r.Backends.DB)
	testkit.Must(t, err)
	return r
}

// waitReady waits until the probes have seen the backends answer.
func waitReady(t *testing.T, r *Replica) {
	t.Helper()
	testkit.NoError(t, "ready", func() error {
		_, err := r.Backends.Ready([]string{"redis", "sql"}, nil)
		return err
	})
}

// send asks h, with the target as the idempotency key, and wants the status.
func send(t *testing.T, h http.Handler, method, target, body string, want int) string {
	t.Helper()
	return sendKeyed(t, h, method, target, target, body, want)
}

func sendKeyed(t *testing.T, h http.Handler, method, target, key, body string, want int) string {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer t0ken")
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, req)
	if rec.Code != want {
		t.Errorf("%s %s = %d %s, want %d", method, target, rec.Code, rec.Body, want)
	}
	return rec.Body.String()
}

// A backend that is out takes the replica out of the balancer only if nothing else can be sold from, or the operator
// says so.
func TestReadyWithoutABackend(t *testing.T) {
	t.Parallel()
	for want, needs := range map[int]backendNames{http.StatusOK: nil, http.StatusServiceUnavailable: {"redis"}} {
		r := startReplica(t, Config{Redis: "redis://127.0.0.1:1/0", SQL: testenv.SQLite(t), ReadyNeeds: needs})
		testkit.NoError(t, "SQL answers", func() error { _, err := r.Backends.Ready([]string{"sql"}, nil); return err })
		if body := send(t, r, http.MethodGet, "/readyz", "", want); !strings.Contains(body,
			"redis: dial tcp 127.0.0.1:1: connect: connection refused") {
			t.Errorf("/readyz = %s, want the backend that is out", body)
		}
		send(t, r, http.MethodGet, "/readyz?exclude=redis", "", http.StatusOK)
	}
}

// An address that cannot be read is named by the variable that it was given by.
func TestAddressesAreNamed(t *testing.T) {
	t.Parallel()
	for backend, c := range map[string]Config{
		"redis": {Redis: "x"}, "sql": {SQL: "sqlite:/nowhere/shop.db"}, "redlock": {Redlock: "redis://a"},
		"zookeeper": {ZooKeeper: "x"},
		"etcd":      {Etcd: "x"}, "consul": {Consul: "x"}, "kafka": {Kafka: "x"},
	} {
		c.Conns = 1
		_, err := New(c, quiet)
		if want := "SHOP_" + strings.ToUpper(backend) + ": "; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("New(%+v) = %v, want %s", c, err, want)
		}
	}
}

// A replica whose Redis is away says so by itself.
func TestDeadBackendIsLogged(t *testing.T) {
	t.Parallel()
	var log testkit.Log
	r, err := New(Config{Replica: "1", Redis: "redis://127.0.0.1:1", DefaultMode: "noop", LockTTL: time.Second, Conns: 1},
		Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	testkit.Must(t, err)
	t.Cleanup(r.Close)
	testkit.Until(t, "a warning", func() bool {
		return strings.Contains(log.String(), `level=WARN msg="backend does not answer" backend=redis`)
	})
}

// An unreachable database is logged once, and not every second.
func TestMigrateSaysItOnce(t *testing.T) {
	t.Parallel()
	set, err := backend.Open(backend.Config{SQL: "shop:x@tcp(127.0.0.1:1)/shop", Conns: 1})
	testkit.Must(t, err)
	defer func() { _ = set.Close() }()
	var log bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond) // three tries
	defer cancel()
	err = migrateUntilDone(ctx, slog.New(slog.NewTextHandler(&log, nil)), set, nil)
	if n := strings.Count(log.String(), "connection refused"); n != 1 || err != nil {
		t.Errorf("%v, %d lines, want one:\n%s", err, n, &log)
	}
}

// serviceModes are the modes that need more than Redis and SQL.
var serviceModes = []string{"redlock", "zookeeper", "etcd", "etcd-txn", "consul"}

// openWithServices is a replica on embedded backends and the services of c.
func openWithServices(t *testing.T, c Config) *Replica {
	t.Helper()
	c.Redis, c.SQL = testenv.Miniredis(t).URL, testenv.SQLite(t)
	r := startReplica(t, c)
	waitReady(t, r)
	return r
}

// modeOf asks the replica for one mode.
func modeOf(t *testing.T, r *Replica, name string) (m api.Mode) {
	t.Helper()
	testkit.Must(t, json.Unmarshal([]byte(send(t, r, http.MethodGet, "/modes/"+name, "", http.StatusOK)), &m))
	return m
}

// awaitMode waits until the health of its backends is known to be what good wants.
func awaitMode(t *testing.T, r *Replica, name string, good func(api.Mode) bool) {
	t.Helper()
	testkit.NoError(t, "another mode "+name, func() error {
		if m := modeOf(t, r, name); !good(m) {
			return fmt.Errorf("it stays %+v", m)
		}
		return nil
	})
}

// A cart is sold again after the stock of its first product was set, as a cart of idempotent is; no product's audit
// calls that a double charge, while one request that is charged twice still is one.
func TestCartSoldAgainAfterAReset(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t)
	r := startReplica(t, Config{Redis: s.URL, SQL: testenv.SQLite(t), Prefix: s.Prefix})
	for _, mode := range []string{"idempotent", "redis-lua"} {
		awaitMode(t, r, mode, func(m api.Mode) bool { return m.Available })
		for _, product := range []string{"101", "102"} {
			send(t, r, http.MethodPut, "/products/"+product+"/stock", `{"stock":9}`, http.StatusOK)
		}
		const cart = `{"items":[{"product_id":101,"quantity":1},{"product_id":102,"quantity":1}]}`
		first := sendKeyed(t, r, http.MethodPost, "/deduct_stock/"+mode, "R1", cart, http.StatusOK)
		send(t, r, http.MethodPut, "/products/101/stock", `{"stock":9}`, http.StatusOK)
		if again := sendKeyed(t, r, http.MethodPost, "/deduct_stock/"+mode, "R1", cart, http.StatusOK); again == first {
			t.Errorf("%s replayed %s after a reset, want a new sale", mode, again)
		}
		for _, product := range []string{"101", "102"} {
			if got := send(t, r, http.MethodGet, "/products/"+product+"/audit", "", http.StatusOK); strings.Contains(got,
				"BROKEN") {
				t.Errorf("%s: audit of %s = %s, want none that is broken", mode, product, got)
			}
		}
	}
	row := s.Client.LIndex(t.Context(), s.Prefix+"orders:{102}", -1).Val()
	s.Client.RPush(t.Context(), s.Prefix+"orders:{102}", strings.Replace(row, `"id":"`, `"id":"x`, 1))
	s.Client.Decr(t.Context(), s.Prefix+"stock:{102}")
	if got := send(t, r, http.MethodGet, "/products/102/audit", "", http.StatusOK); !strings.Contains(got, `"found":"D"`) {
		t.Errorf("audit of two orders of one cart = %s, want D", got)
	}
}

func TestModesOnServices(t *testing.T) {
	testenv.Slow(t, "starts etcd, ZooKeeper, Consul and five masters of Redis")
	t.Parallel()
	var nodes []string
	for _, n := range testenv.RedisNodes(t, 5) {
		nodes = append(nodes, n.URL)
	}
	etcd := testenv.Etcd(t)
	r := openWithServices(t, Config{
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
	if got, want := send(t, r, http.MethodGet, "/products/101", "", http.StatusOK),
		`"stock":{"etcd":8,"redis":5,"sql":9}`; !strings.Contains(got, want) {
		t.Errorf("product = %s, want %s", got, want)
	}
	var l api.Ledger
	testkit.Must(t, json.Unmarshal([]byte(send(t, r, http.MethodGet, "/products/101/ledger", "", http.StatusOK)), &l))
	if n := len(l.Orders); n != 5 || l.Initial[api.Etcd] != 9 || l.Stock[api.Etcd] != 8 {
		t.Errorf("ledger has %d orders, initial %v, stock %v, want 5, and 9 and 8 in etcd", n, l.Initial, l.Stock)
	}
	if got := send(t, r, http.MethodGet, "/products/101/audit", "", http.StatusOK); !strings.Contains(got,
		`"store":"etcd"`) {
		t.Errorf("audit = %s, want a report on etcd", got)
	}
}

// The program that starts a replica may know better what to do about a missing backend, and passes it on in
// SHOP_MISSING.
func TestModesSayWhatToDo(t *testing.T) {
	t.Parallel()
	var missing reasons
	testkit.Must(t, missing.UnmarshalText([]byte(`{"etcd":"ask your administrator","mysql":"buy one"}`)))
	r := openWithServices(t, Config{Missing: missing})
	for name, want := range map[string]string{
		"etcd": "no etcd configured: ask your administrator", "mutex-in-tx": "its lesson needs InnoDB: buy one",
		"consul": "no Consul configured: set SHOP_CONSUL",
	} {
		testkit.Is(t, modeOf(t, r, name).Why, want, "%s is not available", name)
	}
}

// A service that cannot be reached costs its own modes, which say so, and no other.
func TestModesOnServicesOutOfReach(t *testing.T) {
	t.Parallel()
	const nowhere = "127.0.0.1:1"
	r := openWithServices(t, Config{
		Redlock: "redis://127.0.0.1:1,redis://127.0.0.1:2,redis://127.0.0.1:3", ZooKeeper: nowhere, Etcd: "http://" + nowhere,
		Consul:       "http://" + nowhere,
		HealthWithin: 2 * time.Second,
	})
	for name, why := range map[string]string{
		"redlock": "0 of 3 nodes answer", "zookeeper": "zookeeper: ", "etcd": "etcd: ", "etcd-txn": "etcd: ",
		"consul": "connection refused",
	} {
		awaitMode(t, r, name, func(m api.Mode) bool {
			return !m.Available && strings.Contains(m.Why, why) && !strings.Contains(m.Why, "not asked")
		})
	}
	awaitMode(t, r, "handoff", func(m api.Mode) bool { return m.Available })
}
