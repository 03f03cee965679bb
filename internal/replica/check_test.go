package replica

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
	"lastitem/internal/backend"
	"lastitem/internal/stock"
	"lastitem/judge"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// An attempt to get a lock waits for Redis for half of SHOP_LOCK_TIMEOUT: a Redis that is silent for 1.6 s delays it,
// where by default it would have been given up after a second.
func TestLockTimeout(t *testing.T) {
	t.Parallel()
	redis := testenv.RedisNodes(t, 1)[0].URL
	r, err := New(Config{
		Replica: "1", Redis: redis, DefaultMode: "noop", LockTTL: time.Minute, Conns: 2, HealthEvery: noProbes,
		WorkTimeout: testenv.Still, RedisTimeout: testenv.Still, SettleTimeout: testenv.Still, LockTimeout: 2 * testenv.Still,
	}, quiet)
	testkit.Must(t, err)
	t.Cleanup(r.Close)
	testkit.Must(t, r.Shop.SetStock(t.Context(), 1, 5, ledger.Rules{}))
	c, err := backend.OpenRedis(redis, 1)
	testkit.Must(t, err)
	defer c.Close()
	began := time.Now()
	testkit.Must(t, c.Do(t.Context(), "CLIENT", "PAUSE", 1600, "ALL").Err())
	_, err = r.Shop.Deduct(t.Context(), "handoff", stock.Request{Items: []stock.Item{{ProductID: 1, Quantity: 1}}})
	if took := time.Since(began); err != nil || took < time.Second {
		t.Errorf("Deduct() while Redis is silent = %v after %v, want a sale when it answers again", err, took)
	}
}

// A key that is repeated after its retention sells again, and the audit, which still sees the first order, does not
// call that a double charge.
func TestKeyAfterItsRetention(t *testing.T) {
	t.Parallel()
	redis := testenv.Miniredis(t)
	r := startReplica(t, Config{
		Redis: redis.URL, Prefix: redis.Prefix, SQL: testenv.SQLite(t), Conns: 16,
		KeepKeys: 3 * time.Second, PurgeEvery: 100 * time.Millisecond,
	})
	waitReady(t, r)
	for _, mode := range []string{"idempotent", "queue", "redis-lua"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			product := map[string]string{"idempotent": "101", "queue": "102", "redis-lua": "103"}[mode]
			send(t, r, http.MethodPut, "/products/"+product+"/stock", `{"stock":9}`, http.StatusOK)
			deduct := func() (a api.Deduction) {
				t.Helper()
				body := sendKeyed(t, r, http.MethodPost, "/deduct_stock/"+mode, mode, `{"product_id":`+product+`}`, http.StatusOK)
				if err := json.Unmarshal([]byte(body), &a); err != nil || t.Failed() {
					t.Fatal(body, err)
				}
				return a
			}
			first := deduct()
			testkit.Until(t, "the key is purged", func() bool { return deduct().OrderID != first.OrderID })
			var l api.Ledger
			if err := json.Unmarshal([]byte(send(t, r, http.MethodGet, "/products/"+product+"/ledger", "", http.StatusOK)),
				&l); err != nil {
				t.Fatal(err)
			}
			var a struct {
				Verdict judge.Verdict
				Reports []judge.Report
			}
			if err := json.Unmarshal([]byte(send(t, r, http.MethodGet, "/products/"+product+"/audit", "", http.StatusOK)),
				&a); err != nil {
				t.Fatal(err)
			}
			if len(l.Orders) != 2 || l.Orders[0].Key != l.Orders[1].Key || a.Verdict != judge.Exact {
				t.Errorf("%d orders, and the audit is %s: %+v; want 2 of one key, and EXACT", len(l.Orders), a.Verdict, a.Reports)
			}
		})
	}
}

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	good, err := Defaults()
	testkit.Must(t, err)
	good.Redis, good.LockTTL = "redis://localhost:6379/0", 50*time.Millisecond
	good.Replica = strings.Repeat("r", 64)
	testkit.Is(t, good.Validate(), nil, "Validate(%+v)", good)
	for want, change := range map[string]func(*Config){
		"no backend":                                     func(c *Config) { c.Redis = "" },
		`SHOP_LISTEN is "8080", want host:port`:          func(c *Config) { c.Listen = "8080" },
		`is ":99999", want host`:                         func(c *Config) { c.Listen = ":99999" },
		"want at least 50ms":                             func(c *Config) { c.LockTTL = 49 * time.Millisecond },
		"SHOP_REPLICA is 65 bytes long, want at most 64": func(c *Config) { c.Replica += "r" },
		"SHOP_CONNS is 0":                                func(c *Config) { c.Conns = 0 },
		`SHOP_READY_NEEDS names "sql", want backends that are configured: redis`: func(c *Config) {
			c.ReadyNeeds = backendNames{"redis", "sql"}
		},
		"SHOP_DRAIN is -1ns, want": func(c *Config) { c.Drain = -1 },
		"SHOP_LOCK_REPLICAS is -1": func(c *Config) { c.LockReplicas = -1 },
		"SHOP_REDLOCK_GUARD is 49ms, want 0, or SHOP_LOCK_TTL (50ms)": func(c *Config) {
			c.RedlockGuard = 49 * time.Millisecond
		},
		"SHOP_SQL_TIMEOUT is 1s":   func(c *Config) { c.SQLTimeout = time.Second },
		"SHOP_LOCK_TIMEOUT is 1ms": func(c *Config) { c.LockTimeout = time.Millisecond },
		"SHOP_DIAL_TIMEOUT is 0s":  func(c *Config) { c.DialTimeout = 0 },
		"SHOP_KAFKA_HEARTBEAT is 7s, want less than SHOP_KAFKA_SESSION, 6s": func(c *Config) {
			c.KafkaHeartbeat = 7 * time.Second
		},
		"SHOP_HEALTH_INTERVAL is -":                         func(c *Config) { c.HealthEvery = -time.Second },
		"SHOP_CONSUL_LOCK_DELAY is 1m1s, want at most 1m0s": func(c *Config) { c.ConsulDelay = time.Minute + time.Second },
		"SHOP_CONSUL_SESSION is 24h0m1s, want at most 24h0m0s": func(c *Config) {
			c.ConsulSession = 24*time.Hour + time.Second
		},
		"SHOP_KAFKA_SESSION is 31m0s, want at most 30m0s": func(c *Config) { c.KafkaSession = 31 * time.Minute },
		"SHOP_KAFKA_REBALANCE is 720h0m0s, want at most":  func(c *Config) { c.KafkaRebalance = 30 * 24 * time.Hour },
		// ZooKeeper's sessions: 32 bits of milliseconds
		"SHOP_LOCK_TTL is 600h0m0s, want at most": func(c *Config) {
			c.LockTTL = 25 * 24 * time.Hour
		},
		"SHOP_SQL_TIMEOUT is 300000h0m0s, want at most": func(c *Config) {
			c.SQLTimeout = 300000 * time.Hour
		},
		"SHOP_PURGE_INTERVAL is 1000000h0m0s, want 0 or at most 8784h0m0s": func(c *Config) {
			c.PurgeEvery = 1000000 * time.Hour
		},
		"SHOP_HEALTH_INTERVAL is 300000h0m0s, want": func(c *Config) { c.HealthEvery = 300000 * time.Hour },
	} {
		c := good
		change(&c)
		var settings *SettingsError
		if err := c.Validate(); !errors.As(err, &settings) || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate(%+v) = %v, want a SettingsError with %q", c, err, want)
		}
	}
	// The engine and the configuration agree on the least TTL.
	redis := testenv.Miniredis(t)
	c := Config{Replica: "1", Redis: redis.URL, DefaultMode: "noop", LockTTL: 50 * time.Millisecond, Conns: 1}
	r, err := New(c, quiet)
	testkit.Mustf(t, err, "New() with the least TTL")
	r.Close()
}

// A wrong setting that shows only when the replica is made is a SettingsError too.
func TestSettingsErrors(t *testing.T) {
	t.Parallel()
	good := Config{Replica: "1", Redis: testenv.Miniredis(t).URL, DefaultMode: "noop", LockTTL: time.Second, Conns: 1}
	for want, change := range map[string]func(*Config){
		`SHOP_DEFAULT_MODE is "none", want a mode`: func(c *Config) { c.DefaultMode = "none" },
		"OTEL_EXPORTER_OTLP_ENDPOINT: ":            func(c *Config) { c.OTLP = "localhost" },
	} {
		c := good
		change(&c)
		var settings *SettingsError
		if _, err := New(c, quiet); !errors.As(err, &settings) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want a SettingsError with %q", err, want)
		}
	}
}
