package replica

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/backend"
	"lastitem/internal/testenv"
	"lastitem/internal/testenv/wait"
)

// clusterModes are sold through a failover: a script, a lock with the stock in Redis, a lock with the stock in SQL, and keys in both.
var clusterModes = []struct {
	mode  string
	keyed bool
	first int64 // the first of its three products, one for each master
	exact bool  // its claims promise that a failover leaves the ledger exact
}{
	{"redis-lua", false, 0, true}, {"redis-lua", true, 3, true}, {"handoff", false, 6, false}, {"lease-seq", false, 9, true}, {"idempotent", true, 12, true},
}

// answered is an answer to a buyer.
type answered struct {
	at   time.Time
	code int
	body string
}

// A master that dies or hangs under load is replaced, and two seconds later all is sold again, although no command is ever sent twice. Until then
// the products of the other masters are refused by Redis at most, where it needs all of its slots, and never by the shop; and no unit is
// lost.
func TestRedisClusterFailover(t *testing.T) {
	testenv.Slow(t, "a replica takes over from a master after 1.5 s")
	t.Parallel()
	for _, tt := range []struct {
		name, coverage string
		signal         syscall.Signal
	}{{"kill", "no", syscall.SIGKILL}, {"stop", "no", syscall.SIGSTOP}, {"kill, all slots needed", "yes", syscall.SIGKILL}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := testenv.RedisFailover(t, "cluster-require-full-coverage "+tt.coverage)
			r, products := shopOnCluster(t, o)
			var buyers sync.WaitGroup
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			got := make([][]answered, len(products)*len(clusterModes))
			for i, m := range clusterModes {
				for k, product := range products[m.first : m.first+3] {
					buyers.Go(func() { got[3*i+k] = buyer(ctx, r, m.mode, product, m.keyed) })
				}
			}
			time.Sleep(time.Second) // of sales, before the fault
			struck := time.Now()
			strike(t, o, 0, tt.signal)
			promoted := nodeOf(t, o, 3)
			wait.Until(t, "a new master", func() bool {
				return strings.Contains(promoted.Info(ctx, "replication").Val(), "role:master") &&
					strings.Contains(promoted.ClusterInfo(ctx).Val(), "cluster_state:ok")
			})
			ok := time.Now()
			time.Sleep(3 * time.Second)
			cancel()
			buyers.Wait()
			for i, m := range clusterModes {
				for k, product := range products[m.first : m.first+3] {
					name := fmt.Sprintf("%s, keyed %t, master %d", m.mode, m.keyed, k)
					judge(t, name, got[3*i+k], struck, ok, k > 0, tt.coverage == "no" && !m.keyed)
					if body := send(t, r, http.MethodGet, fmt.Sprintf("/products/%d/audit", product), "", http.StatusOK); m.exact && !strings.Contains(body, `"verdict":"EXACT"`) {
						t.Errorf("%s: audit = %s", name, body)
					}
				}
			}
		})
	}
}

// shopOnCluster is a replica with the time-outs of the defaults, and products in stock, of which every third has the same master.
func shopOnCluster(t *testing.T, o *redis.ClusterOptions) (r *Replica, products []int64) {
	t.Helper()
	urls := make([]string, len(o.Addrs))
	for i, addr := range o.Addrs {
		urls[i] = "redis://default:" + o.Password + "@" + addr
	}
	c, err := Defaults()
	if err != nil {
		t.Fatal(err)
	}
	c.Redis, c.SQL, c.Token, c.LockTTL, c.Hosts = strings.Join(urls, ","), testenv.SQLite(t), "t0ken", 2*time.Second, hostNames{"*"}
	if r, err = New(c, quiet); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	if _, err := backend.Migrate(t.Context(), r.Backends.DB); err != nil {
		t.Fatal(err)
	}
	waitReady(t, r)
	cluster, _ := r.Backends.Client.(*redis.ClusterClient)
	for id := int64(1); len(products) < 3*len(clusterModes); id++ {
		at, err := cluster.MasterForKey(t.Context(), r.Backends.Redis.CountKey(id))
		if err != nil {
			t.Fatal(err)
		}
		if at.Options().Addr == o.Addrs[len(products)%3] {
			send(t, r, http.MethodPut, fmt.Sprintf("/products/%d/stock", id), `{"stock":100000}`, http.StatusOK)
			products = append(products, id)
		}
	}
	return r, products
}

// buyer buys 20 times a second until ctx ends, whether the shop answers or not.
func buyer(ctx context.Context, r *Replica, mode string, product int64, keyed bool) (all []answered) {
	var mu sync.Mutex
	var asking sync.WaitGroup
	defer asking.Wait()
	for n := 0; ctx.Err() == nil; n++ {
		req := httptest.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodPost, fmt.Sprintf("/deduct_stock/%s?product_id=%d", mode, product), http.NoBody)
		if keyed {
			req.Header.Set("Idempotency-Key", fmt.Sprintf("%d-%d", product, n))
		}
		asking.Go(func() {
			rec := httptest.NewRecorder()
			r.ServeHTTP(rec, req)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, answered{time.Now(), rec.Code, rec.Body.String()})
		})
		time.Sleep(50 * time.Millisecond)
	}
	return all
}

// nodeOf is a client of one server of a cluster.
func nodeOf(t *testing.T, o *redis.ClusterOptions, i int) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: o.Addrs[i], Username: o.Username, Password: o.Password})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// strike sends a signal to a server of a cluster; one that is stopped goes on at the end of the test.
func strike(t *testing.T, o *redis.ClusterOptions, i int, signal syscall.Signal) {
	t.Helper()
	var pid int
	_, rest, _ := strings.Cut(nodeOf(t, o, i).Info(t.Context(), "server").Val(), "process_id:")
	if _, err := fmt.Sscan(rest, &pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, signal); err != nil {
		t.Fatal(err)
	}
	if signal == syscall.SIGSTOP {
		t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	}
}

// judge wants sales again soon after the cluster was ok; of a master that lives, no refusal by the shop, and none at all where it may serve.
func judge(t *testing.T, name string, all []answered, struck, ok time.Time, lives, always bool) {
	t.Helper()
	slices.SortFunc(all, func(a, b answered) int { return a.at.Compare(b.at) })
	var before, refused int
	var back, last time.Time
	why := ""
	for _, a := range all {
		switch {
		case a.code == http.StatusOK && a.at.Before(struck):
			before++
		case a.code == http.StatusOK && a.at.After(ok) && back.IsZero():
			back = a.at
		case a.code != http.StatusOK:
			refused++
			last = a.at
			if lives && (always || strings.Contains(a.body, "nothing was sent")) {
				why = a.body
			}
		}
	}
	t.Logf("%s: %d answers, %d of them refusals, the last %.1f s after the fault; sold %.1f s after it (cluster ok after %.1f s)",
		name, len(all), refused, max(0, last.Sub(struck).Seconds()), back.Sub(struck).Seconds(), ok.Sub(struck).Seconds())
	switch {
	case before == 0 || back.IsZero() || back.Sub(ok) > 2*time.Second:
		t.Errorf("%s: sold %d before the fault, and again %v after the cluster was ok, want less than 2 s", name, before, back.Sub(ok))
	case why != "":
		t.Errorf("%s: refused: %s", name, why)
	}
}
