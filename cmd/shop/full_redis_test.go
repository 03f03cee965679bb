package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/api"
	"lastitem/internal/backend"
	"lastitem/internal/testenv"
)

// A Redis at maxmemory costs the modes that need it, at once and by name, and no other; and all come back without a restart.
func TestFullRedis(t *testing.T) {
	t.Parallel()
	node := testenv.RedisNodes(t, 1)[0]
	o, err := redis.ParseURL(node.URL)
	if err != nil {
		t.Fatal(err)
	}
	admin := redis.NewClient(o)
	t.Cleanup(func() { _ = admin.Close() })
	r, err := newReplica(config{
		Replica: "1", Redis: node.URL, Prefix: "shop:", SQL: testenv.SQLite(t), Token: "t0ken", DefaultMode: "lease-seq",
		LockTTL: 10 * time.Second, Conns: 4,
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	if _, err := backend.Migrate(t.Context(), r.set.DB); err != nil {
		t.Fatal(err)
	}
	awaitMode(t, r, "lease-seq", func(m api.Mode) bool { return m.Available })
	send(t, r, http.MethodPut, "/products/101/stock", `{"stock":9}`, http.StatusOK)

	fillRedis(t, admin)
	for _, mode := range []string{"redis-lua", "lease-seq", "handoff"} {
		awaitMode(t, r, mode, func(m api.Mode) bool { return !m.Available && strings.Contains(m.Why, "OOM") })
		begun := admin.Info(t.Context(), "commandstats").Val()
		rec := httptest.NewRecorder()
		r.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/deduct_stock/"+mode, nil))
		if rec.Code != http.StatusServiceUnavailable || !strings.Contains(rec.Body.String(), "backend_unavailable") || rec.Header().Get("Retry-After") == "" {
			t.Errorf("%s = %d %v %s, want 503 backend_unavailable with Retry-After", mode, rec.Code, rec.Header(), rec.Body)
		}
		if scripts(begun) != scripts(admin.Info(t.Context(), "commandstats").Val()) {
			t.Errorf("%s sent something to a Redis that is known to refuse", mode)
		}
	}
	for _, mode := range []string{"sql-atomic", "queue", "unsafe-sql", "noop"} {
		send(t, r, http.MethodPost, "/deduct_stock/"+mode, "", http.StatusOK)
	}
	send(t, r, http.MethodGet, "/products/101", "", http.StatusOK) // reads need no memory
	if got := send(t, r, http.MethodGet, "/readyz", "", http.StatusServiceUnavailable); !strings.Contains(got, "redis: ") || !strings.Contains(got, "OOM") {
		t.Errorf("/readyz = %s, want Redis and why", got)
	}
	send(t, r, http.MethodGet, "/readyz?exclude=redis", "", http.StatusOK)

	if err := admin.Del(t.Context(), "filling").Err(); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{"redis-lua", "lease-seq", "handoff"} {
		awaitMode(t, r, mode, func(m api.Mode) bool { return m.Available })
		send(t, r, http.MethodPost, "/deduct_stock/"+mode, "", http.StatusOK)
	}
	send(t, r, http.MethodGet, "/readyz", "", http.StatusOK)
}

// scripts is what the command statistics of Redis say of scripts.
func scripts(info string) (lines string) {
	for line := range strings.Lines(info) {
		if strings.HasPrefix(line, "cmdstat_eval") {
			lines += line
		}
	}
	return lines
}

// fillRedis writes eight megabytes to the key "filling", and lets Redis keep four less than it has then.
func fillRedis(t *testing.T, c *redis.Client) {
	t.Helper()
	for range 128 {
		if err := c.RPush(t.Context(), "filling", strings.Repeat("x", 64<<10)).Err(); err != nil {
			t.Fatal(err)
		}
	}
	var used int64
	for line := range strings.Lines(c.Info(t.Context(), "memory").Val()) {
		if value, ok := strings.CutPrefix(line, "used_memory:"); ok {
			_, _ = fmt.Sscan(value, &used)
		}
	}
	if err := c.ConfigSet(t.Context(), "maxmemory", fmt.Sprint(used-4<<20)).Err(); err != nil {
		t.Fatalf("maxmemory below %d: %v", used, err)
	}
}
