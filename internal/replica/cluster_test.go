package replica

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// A master that dies or hangs under load is replaced, and two seconds later all is sold again, although no command is
// ever sent twice. Until then the products of the other masters are refused by Redis at most, where it needs all of its
// slots, and never by the shop; and no unit is lost, in modes that promise that.
func TestRedisClusterFailover(t *testing.T) {
	testenv.Engines(t, "a replica takes over from a master after 1.5 s")
	t.Parallel()
	for _, tt := range []struct {
		coverage string
		signal   syscall.Signal
	}{{"no", syscall.SIGKILL}, {"no", syscall.SIGSTOP}, {"yes", syscall.SIGKILL}} {
		t.Run(tt.coverage+" "+tt.signal.String(), func(t *testing.T) {
			t.Parallel()
			o, nodes := testenv.RedisFailover(t, "cluster-require-full-coverage "+tt.coverage)
			r := shopOnCluster(t, o)
			slots, _ := r.Backends.Client.(*redis.ClusterClient)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var all []*buyer
			var buying sync.WaitGroup
			for id := int64(1); len(all) < 15; id++ {
				master, mode := len(all)%3, []string{"redis-lua", "redis-lua +key", "handoff", "lease-seq",
					"idempotent +key"}[len(all)/3]
				if at, err := slots.MasterForKey(ctx, r.Backends.Redis.CountKey(id)); err != nil ||
					at.Options().Addr != o.Addrs[master] {
					continue
				}
				b := &buyer{product: id, lives: master > 0}
				b.mode, _, b.keyed = strings.Cut(mode, " ")
				send(t, r, http.MethodPut, fmt.Sprintf("/products/%d/stock", id), `{"stock":100000}`, http.StatusOK)
				buying.Go(func() { b.buy(ctx, r, tt.coverage == "no") })
				all = append(all, b)
			}
			for _, b := range all {
				testkit.Until(t, "a sale before the fault", func() bool { return b.sold.Load() > 0 })
			}
			struck := time.Now()
			strike(t, nodes[0], tt.signal)
			testkit.Until(t, "a new master", func() bool {
				return strings.Contains(nodes[3].Info(ctx, "replication").Val(), "role:master") &&
					strings.Contains(nodes[3].ClusterInfo(ctx).Val(), "cluster_state:ok")
			})
			ok := time.Now()
			for _, b := range all {
				for b.sold.Load() < ok.UnixNano() && time.Since(ok) < 2*time.Second {
					time.Sleep(5 * time.Millisecond)
				}
			}
			t.Logf("sold %s after the fault, the cluster was ok after %s", time.Since(struck), ok.Sub(struck))
			cancel()
			buying.Wait()
			for _, b := range all {
				if b.sold.Load() < ok.UnixNano() {
					t.Errorf("%s, keyed: %t, of a living master: %t: not sold 2 s after the cluster was ok", b.mode, b.keyed, b.lives)
				}
				if wrong := b.wrong.Load(); wrong != nil {
					t.Errorf("%s, keyed: %t, of a living master: %s", b.mode, b.keyed, *wrong)
				}
				body := send(t, r, http.MethodGet, fmt.Sprintf("/products/%d/audit", b.product), "", http.StatusOK)
				if b.mode != "handoff" && !strings.Contains(body, `"verdict":"EXACT"`) {
					t.Errorf("%s, keyed: %t: audit = %s", b.mode, b.keyed, body)
				}
			}
		})
	}
}

// buyer buys one product.
type buyer struct {
	mode         string
	product      int64
	keyed, lives bool                   // lives: the product's master
	sold         atomic.Int64           // when it last got a unit
	wrong        atomic.Pointer[string] // a refusal of a product whose master lives
}

// buy buys 20 times a second until ctx ends, whether the shop answers or not.
func (b *buyer) buy(ctx context.Context, r *Replica, always bool) {
	var asking sync.WaitGroup
	defer asking.Wait()
	for n := 0; ctx.Err() == nil; n++ {
		target := fmt.Sprintf("/deduct_stock/%s?product_id=%d", b.mode, b.product)
		req := httptest.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodPost, target, http.NoBody)
		if b.keyed {
			req.Header.Set("Idempotency-Key", fmt.Sprintf("%d-%d", b.product, n))
		}
		asking.Go(func() {
			rec := httptest.NewRecorder()
			r.ServeHTTP(rec, req)
			switch body := rec.Body.String(); {
			case rec.Code == http.StatusOK:
				b.sold.Store(time.Now().UnixNano())
			case b.lives && (always && !b.keyed || strings.Contains(body, "nothing was sent")):
				b.wrong.Store(&body)
			}
		})
		time.Sleep(50 * time.Millisecond)
	}
}

// shopOnCluster is a replica with the time-outs of the defaults.
func shopOnCluster(t *testing.T, o *redis.ClusterOptions) *Replica {
	t.Helper()
	c, err := Defaults()
	testkit.Must(t, err)
	url := "redis://default:" + o.Password + "@"
	c.Redis, c.SQL, c.Hosts = url+strings.Join(o.Addrs, ","+url), testenv.SQLite(t), hostNames{"*"}
	r := startReplica(t, c)
	waitReady(t, r)
	return r
}

// strike sends a signal to a server; one that is stopped goes on at the end of the test.
func strike(t *testing.T, c *redis.Client, signal syscall.Signal) {
	t.Helper()
	pid := infoOf(t, c, "server", "process_id:")
	if pid == 0 || syscall.Kill(pid, signal) != nil {
		t.Fatalf("no process to signal: %d", pid)
	}
	if signal == syscall.SIGSTOP {
		t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	}
}
