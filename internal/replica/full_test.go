package replica

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"lastitem/contract/api"
	"lastitem/internal/backend"
	"lastitem/internal/stock"
	"lastitem/stack"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// An etcd that has no space left answers reads and refuses writes: that costs the modes that need it, at once and by
// name, and no other; and they come back without a restart when somebody has made space and ended the alarm.
func TestFullEtcd(t *testing.T) {
	t.Parallel()
	etcd := testenv.OwnWith(t, stack.Options{EtcdArgs: []string{"--quota-backend-bytes=4194304"}},
		stack.Etcd).Etcd
	r := openWithServices(t, Config{Etcd: etcd.URL})
	modes := []string{"etcd", "etcd-txn"}
	for _, mode := range modes {
		awaitMode(t, r, mode, func(m api.Mode) bool { return m.Available })
	}
	send(t, r, http.MethodPut, "/products/101/stock", `{"stock":9}`, http.StatusOK)
	send(t, r, http.MethodPost, "/deduct_stock/etcd-txn", "", http.StatusOK)

	admin := (&testenv.Coordination{Addr: etcd.Addr}).EtcdClient(t)
	fillEtcd(t, admin)
	for _, mode := range modes {
		awaitMode(t, r, mode, func(m api.Mode) bool { return !m.Available && strings.Contains(m.Why, "space exceeded") })
		if got := send(t, r, http.MethodPost, "/deduct_stock/"+mode, "",
			http.StatusServiceUnavailable); !strings.Contains(got, "backend_unavailable") {
			t.Errorf("%s = %s, want backend_unavailable", mode, got)
		}
	}
	for _, mode := range []string{"redis-lua", "lease-seq", "sql-atomic"} {
		send(t, r, http.MethodPost, "/deduct_stock/"+mode, "", http.StatusOK)
	}
	send(t, r, http.MethodGet, "/products/101", "", http.StatusOK) // reads need no space
	send(t, r, http.MethodGet, "/readyz", "", http.StatusOK)       // the other modes are served
	if got := send(t, r, http.MethodGet, "/metrics", "", http.StatusOK); !strings.Contains(got,
		`shop_backend_up{backend="etcd"} 0`) {
		t.Error("shop_backend_up of etcd is not 0")
	}

	makeSpace(t, admin)
	for _, mode := range modes {
		awaitMode(t, r, mode, func(m api.Mode) bool { return m.Available })
		send(t, r, http.MethodPost, "/deduct_stock/"+mode+"?quantity=1", "", http.StatusOK)
	}
}

// fillEtcd writes to the key "filling" until etcd raises its alarm.
func fillEtcd(t *testing.T, c *clientv3.Client) {
	t.Helper()
	for range 1000 {
		_, err := c.Put(t.Context(), "filling", strings.Repeat("x", 128<<10))
		if errors.Is(err, rpctypes.ErrNoSpace) {
			return
		}
		testkit.Must(t, err)
	}
	t.Fatal("etcd takes more than its quota")
}

// makeSpace does what etcd's manual says of an alarm for space: compact, defragment, disarm.
func makeSpace(t *testing.T, c *clientv3.Client) {
	t.Helper()
	deleted, err := c.Delete(t.Context(), "filling")
	testkit.Must(t, err)
	_, err = c.Compact(t.Context(), deleted.Header.Revision, clientv3.WithCompactPhysical())
	if err == nil {
		_, err = c.Defragment(t.Context(), c.Endpoints()[0])
	}
	if err == nil {
		_, err = c.AlarmDisarm(t.Context(), &clientv3.AlarmMember{})
	}
	testkit.Must(t, err)
}

// startFullRedis opens a replica on SQLite and on a Redis of its own, of which admin is a client.
func startFullRedis(t *testing.T) (r *Replica, admin redis.UniversalClient) {
	t.Helper()
	node := testenv.RedisNodes(t, 1)[0]
	admin, err := backend.OpenRedis(node.URL, 4)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = admin.Close() })
	r = startReplica(t, Config{Redis: node.URL, SQL: testenv.SQLite(t), ReadyNeeds: backendNames{"redis"}})
	awaitMode(t, r, "lease-seq", func(m api.Mode) bool { return m.Available })
	send(t, r, http.MethodPut, "/products/101/stock", `{"stock":9}`, http.StatusOK)
	return r, admin
}

// A Redis at maxmemory costs the modes that need it, at once and by name, and no other; and all come back without a
// restart. The bounds are counted in probes, which come once a second at most, and so follow the server and the
// machine: three until the replica tells that Redis is full, and five until all is back.
func TestFullRedis(t *testing.T) {
	t.Parallel()
	r, admin := startFullRedis(t)

	send(t, r, http.MethodPost, "/deduct_stock/redis-lua?product_id=101", "", http.StatusOK)
	fillRedis(t, admin)
	_, before := probesOf(t, admin)
	seen, next := before, before // seen was read before the mode was last seen available: a probe may come after that
	awaitMode(t, r, "redis-lua", func(m api.Mode) bool {
		if m.Available {
			seen = next
			_, next = probesOf(t, admin)
		}
		return !m.Available
	})
	if seen-before > 3 {
		t.Errorf("modes were available after %d probes of a full Redis, want 3 at most", seen-before)
	}
	// without its lock
	awaitMode(t, r, "lease-seq", func(m api.Mode) bool { return m.Available && strings.Contains(m.Why, "OOM") })
	for _, mode := range []string{"redis-lua", "fencing-strict", "handoff"} {
		awaitMode(t, r, mode, func(m api.Mode) bool { return !m.Available && strings.Contains(m.Why, "OOM") })
		begun := scripts(t, admin)
		rec := httptest.NewRecorder()
		r.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/deduct_stock/"+mode, nil))
		if rec.Code != http.StatusServiceUnavailable || !strings.Contains(rec.Body.String(), "backend_unavailable") ||
			rec.Header().Get("Retry-After") == "" {
			t.Errorf("%s = %d %v %s, want 503 backend_unavailable with Retry-After", mode, rec.Code, rec.Header(), rec.Body)
		}
		if scripts(t, admin) != begun {
			t.Errorf("%s sent something to a Redis that is known to refuse", mode)
		}
	}
	for _, mode := range []string{"sql-atomic", "queue", "unsafe-sql", "noop", "lease-seq"} {
		send(t, r, http.MethodPost, "/deduct_stock/"+mode, "", http.StatusOK)
	}
	readsNeedNoMemory(t, r)
	send(t, r, http.MethodPut, "/products/102/stock", `{"stock":9}`, http.StatusOK)
	send(t, r, http.MethodPut, "/products/101/stock", `{"stock":9}`, http.StatusOK)
	if got := send(t, r, http.MethodGet, "/readyz", "", http.StatusServiceUnavailable); !strings.Contains(got,
		"redis: ") || !strings.Contains(got, "OOM") {
		t.Errorf("/readyz = %s, want Redis and why", got)
	}
	send(t, r, http.MethodGet, "/readyz?exclude=redis", "", http.StatusOK)

	testkit.Must(t, admin.Del(t.Context(), "filling").Err())
	before, _ = probesOf(t, admin)
	awaitMode(t, r, "redis-lua", func(m api.Mode) bool { return m.Available })
	if now, _ := probesOf(t, admin); now-before > 5 {
		t.Errorf("modes were unavailable for %d probes after Redis had memory again, want 5 at most", now-before)
	}
	for _, mode := range []string{"redis-lua", "lease-seq", "handoff"} {
		awaitMode(t, r, mode, func(m api.Mode) bool { return m.Available })
		send(t, r, http.MethodPost, "/deduct_stock/"+mode, "", http.StatusOK)
	}
	send(t, r, http.MethodGet, "/readyz", "", http.StatusOK)
}

// readsNeedNoMemory reads product 101, of which redis-lua has sold one, in all ways there are.
func readsNeedNoMemory(t *testing.T, r *Replica) {
	t.Helper()
	send(t, r, http.MethodGet, "/products/101", "", http.StatusOK)
	for _, path := range []string{"orders", "orders?limit=1", "ledger"} {
		got := send(t, r, http.MethodGet, "/products/101/"+path, "", http.StatusOK)
		if !strings.Contains(got, `"redis-lua"`) {
			t.Errorf("%s of a product in a full Redis = %s, want the order of redis-lua", path, got)
		}
	}
	if got := send(t, r, http.MethodGet, "/products/101/audit", "", http.StatusOK); !strings.Contains(got,
		`"store":"redis","verdict":"EXACT"`) {
		t.Errorf("audit of a product in a full Redis = %s, want EXACT", got)
	}
}

// A Redis that is full to the brim takes a short write still, and no sale: it counts as full.
func TestRedisAtTheBrim(t *testing.T) {
	t.Parallel()
	r, admin := startFullRedis(t)
	fillRedis(t, admin)
	testkit.Must(t, admin.Del(t.Context(), "filling").Err())
	pushed, full := fillAgain(t, admin)
	testkit.Until(t, "a Redis that takes no kilobyte more", func() bool { return full.Load() > 0 })
	awaitMode(t, r, "handoff", func(m api.Mode) bool { return !m.Available && strings.Contains(m.Why, "OOM") })
	send(t, r, http.MethodGet, "/readyz", "", http.StatusServiceUnavailable)
	room := pushed.Load()
	begun, seen := probesOf(t, admin)
	testkit.Until(t, "three more probes, which are refused too", func() bool {
		answered, refused := probesOf(t, admin)
		if answered > begun {
			tried := full.Load()
			testkit.Until(t, "another write after the probe", func() bool { return full.Load() > tried+1 })
			if pushed.Load() == room {
				t.Fatal("a probe was answered by a Redis at the brim")
			}
			room, begun, seen = pushed.Load(), answered, refused // a connection has ended, and there was room for a moment
		}
		return refused > seen+3
	})
}

// fillAgain fills a Redis until the end of the test, as a user fills it: with as much at a time as fits, and again when
// there is room. pushed is how many writes it took, full how often it refused even a kilobyte.
func fillAgain(t *testing.T, c redis.UniversalClient) (pushed, full *atomic.Int64) {
	t.Helper()
	pushed, full = new(atomic.Int64), new(atomic.Int64)
	ctx, stop := context.WithCancel(t.Context())
	var filler sync.WaitGroup
	t.Cleanup(func() { stop(); filler.Wait() })
	filler.Go(func() {
		const least = 1 << 10
		for size := 256 << 10; ctx.Err() == nil; size = max(size/2, least) {
			for ctx.Err() == nil && c.RPush(ctx, "filling", strings.Repeat("x", size)).Err() == nil {
				pushed.Add(1)
			}
			if size == least {
				full.Add(1)
			}
			time.Sleep(time.Millisecond)
		}
	})
	return pushed, full
}

// probesOf is how many writes by SET a Redis has answered, and refused; probes are the only ones where nobody sets
// stock.
func probesOf(t *testing.T, c redis.UniversalClient) (answered, refused int) {
	t.Helper()
	const sets = "cmdstat_set:"
	return infoOf(t, c, "commandstats", sets, "calls="), infoOf(t, c, "commandstats", sets, "rejected_calls=")
}

// scripts is how many scripts a Redis has executed.
func scripts(t *testing.T, c redis.UniversalClient) int {
	t.Helper()
	return infoOf(t, c, "commandstats", "cmdstat_eval:calls=") + infoOf(t, c, "commandstats", "cmdstat_evalsha:calls=")
}

// infoOf is the number that stands in a section of INFO behind some texts; 0 = they are not there.
func infoOf(t *testing.T, c redis.UniversalClient, section string, behind ...string) (n int) {
	t.Helper()
	rest, err := c.Info(t.Context(), section).Result()
	testkit.Must(t, err)
	for _, text := range behind {
		_, rest, _ = strings.Cut(rest, text)
	}
	_, _ = fmt.Sscan(rest, &n)
	return n
}

// fillRedis writes eight megabytes to the key "filling", and lets Redis keep four less than it has then.
func fillRedis(t *testing.T, c redis.UniversalClient) {
	t.Helper()
	for range 128 {
		testkit.Must(t, c.RPush(t.Context(), "filling", strings.Repeat("x", 64<<10)).Err())
	}
	used := infoOf(t, c, "memory", "used_memory:")
	testkit.Mustf(t, c.ConfigSet(t.Context(), "maxmemory", fmt.Sprint(used-4<<20)).Err(), "maxmemory below %d", used)
}

// Refusals of many products together leave a Redis its other half: while anybody asks for products that are sold out,
// each time with another key, a product in stock is sold by every mode.
func TestRefusalsLeaveRoom(t *testing.T) {
	t.Parallel()
	r, admin := startFullRedis(t)
	const soldOut, requests, limit = 40, 12_000, 6 << 20
	testkit.Must(t, admin.ConfigSet(t.Context(), "maxmemory", fmt.Sprint(limit)).Err())
	for i := range soldOut {
		send(t, r, http.MethodPut, fmt.Sprintf("/products/%d/stock", 200+i), `{"stock":0}`, http.StatusOK)
	}
	var modes []stock.Mode
	for _, m := range stock.Modes() {
		if s, err := r.Shop.Mode(m.Name); err == nil && s.Err == nil && m.Segments == 0 && !m.Units() {
			modes = append(modes, m)
		}
	}
	var next atomic.Int64
	var flood sync.WaitGroup
	for range 4 {
		flood.Go(func() {
			for n := next.Add(1); n <= requests && !t.Failed(); n = next.Add(1) {
				target := fmt.Sprintf("/deduct_stock/redis-lua?product_id=%d", 200+n%soldOut)
				sendKeyed(t, r, http.MethodPost, target, fmt.Sprintf("flood-%d", n), "", http.StatusConflict)
			}
		})
	}
	for round := 0; next.Load() < requests && !t.Failed(); round++ {
		send(t, r, http.MethodPut, "/products/101/stock", `{"stock":100}`, http.StatusOK)
		for _, m := range modes {
			want := http.StatusOK
			if m.Tickets { // which no mode that writes the count absolutely may precede
				send(t, r, http.MethodPut, "/products/101/stock", `{"stock":100}`, http.StatusOK)
				want = http.StatusAccepted
			}
			sendKeyed(t, r, http.MethodPost, "/deduct_stock/"+m.Name+"?product_id=101", fmt.Sprint(m.Name, round), "", want)
		}
	}
	flood.Wait()
	if used := infoOf(t, admin, "memory", "used_memory:"); used > limit*3/4 {
		t.Errorf("Redis uses %d of %d bytes", used, limit)
	}
	if len(modes) < 20 {
		t.Errorf("%d modes were tried: %v", len(modes), modes)
	}
}
