package shop_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lastitem/contract/ledger"
	"lastitem/internal/backend"
	"lastitem/internal/shop"
	"lastitem/internal/step"
	"lastitem/internal/stock"
	"lastitem/internal/store/sqldb"
	"lastitem/testkit"
	"lastitem/testkit/stocktest"
	"lastitem/testkit/testenv"
)

// The deadline of the requests below, and the tolerance for a busy machine. Without a deadline the drivers' time-outs
// decide: 10 to 30 s.
const (
	frozenWork  = time.Second
	frozenSlack = 8 * time.Second
)

// use is a mode on one of its stores, with products of its own.
type use struct {
	mode     stock.Mode
	store    stock.Store
	products []int64
}

// frozen is a shop on its own servers, whose deductors count their calls.
type frozen struct {
	*stocktest.Harness
	calls atomic.Int64
	last  int64 // the last product

	without []stock.Backend // that are not there
	stores  int             // that are
}

func (f *frozen) shop() *stocktest.Replica { return f.Replicas[0] }

// counted returns all modes, with deductors that count their calls.
func (f *frozen) counted() []stock.Mode {
	all := stock.Modes()
	for i, m := range all {
		made := m.New
		all[i].New = func(d stock.Deps) (stock.Deductor, error) {
			inner, err := made(d)
			return deductorFunc(func(ctx context.Context, req stock.Request) (stock.Receipt, error) {
				f.calls.Add(1)
				return inner.Deduct(ctx, req)
			}), err
		}
	}
	return all
}

// uses lists the ways in which modes need one of the backends, with three products each.
func (f *frozen) uses(t *testing.T, backends ...stock.Backend) []use {
	t.Helper()
	var all []use
	for _, m := range stock.Modes() {
		if slices.ContainsFunc(m.Needs, func(b stock.Backend) bool { return slices.Contains(f.without, b) }) {
			continue
		}
		for _, s := range m.Stores {
			if slices.ContainsFunc(backends, func(b stock.Backend) bool {
				return s.Backend() == b || slices.Contains(m.Required(), b)
			}) {
				all = append(all, use{mode: m, store: s, products: make([]int64, 3)})
			}
		}
	}
	for _, u := range all {
		for i := range u.products {
			f.last++
			u.products[i] = f.last
			f.set(t, f.last, stocktest.Rules(u.mode, math.MaxInt))
		}
	}
	return all
}

// set sets the stock of a product, which on a busy machine may take more than one request.
func (f *frozen) set(t *testing.T, product int64, r ledger.Rules) {
	t.Helper()
	testkit.NoError(t, "stock is set", func() error { return f.shop().SetStock(t.Context(), product, 9, r) })
}

// deduct requests one unit by a use.
func (f *frozen) deduct(t *testing.T, u use, product int, wait time.Duration) error {
	id := u.products[product]
	req := stocktest.Request(id, 1, "key "+u.mode.Name+string(u.store)+strconv.FormatInt(id, 10))
	req.Store, req.Wait = u.store, wait
	_, err := f.shop().Shop.Deduct(t.Context(), u.mode.Name, req)
	return err
}

// While a server is stopped, no request takes longer than its wait plus Work. Once the health check has noticed,
// requests fail before they begin, but for those whose orders are written later. When the server goes on, they are
// served again.
func TestFrozen(t *testing.T) {
	t.Parallel()
	s := testenv.Own(t, "redis", "mysql")
	f := openFrozen(t, stocktest.Env{Redis: s.Redis.URL, SQL: s.SQL.URL})
	t.Run("redis", func(t *testing.T) {
		f.round(t, []int{s.Redis.PID}, []stock.Backend{stock.NeedRedis}, stock.Redis)
	})
	t.Run("sql", func(t *testing.T) {
		f.round(t, []int{s.SQL.PID}, []stock.Backend{stock.NeedSQL, stock.NeedMySQL}, stock.SQL)
	})
}

func TestFrozenServices(t *testing.T) {
	testenv.Slow(t, "starts etcd, ZooKeeper, Consul and six servers of Redis")
	t.Parallel()
	s := testenv.Own(t, "redis", "etcd", "zookeeper", "consul", "redlock")
	pids := []int{s.Etcd.PID, s.ZooKeeper.PID, s.Consul.PID}
	var nodes []string
	for i, n := range s.Redlock {
		nodes = append(nodes, n.URL)
		if i < 3 {
			pids = append(pids, n.PID)
		}
	}
	f := openFrozen(t, stocktest.Env{
		Redis: s.Redis.URL, SQL: testenv.SQLite(t), Redlock: strings.Join(nodes, ","), Etcd: s.Etcd.URL,
		ZooKeeper: s.ZooKeeper.URL, Consul: s.Consul.URL,
	})
	f.round(t, pids, []stock.Backend{stock.NeedRedlock, stock.NeedEtcd, stock.NeedZooKeeper, stock.NeedConsul}, stock.Etcd)
}

func openFrozen(t *testing.T, e stocktest.Env) *frozen {
	t.Helper()
	f := &frozen{stores: 2}
	if e.Etcd == "" {
		f.without = []stock.Backend{stock.NeedRedlock, stock.NeedEtcd, stock.NeedZooKeeper, stock.NeedConsul}
	} else {
		f.stores++
	}
	e.Kafka, e.Prefix, e.Work = testenv.EmbeddedKafka(t).Seeds, "frozen:", frozenWork
	e.Health = backend.Health{Every: 2 * time.Second, Within: 500 * time.Millisecond}
	f.Harness = stocktest.Open(t, e, 1, f.counted())
	return f
}

// round stops the processes of some backends, one of which keeps the stock at a store.
func (f *frozen) round(t *testing.T, pids []int, needs []stock.Backend, at stock.Store) {
	uses := f.uses(t, needs...)
	for _, u := range uses { // each once, to open sessions and connections
		awaitSold(t, f, u, 0)
	}
	goOn := freeze(t, pids)
	f.inTime(t, uses)
	f.atOnce(t, uses, needs, at)
	goOn()
	f.again(t, uses, needs)
}

// freeze stops processes until the returned function is called, or the test ends.
func freeze(t *testing.T, pids []int) (goOn func()) {
	t.Helper()
	signal := func(sig syscall.Signal) {
		for _, pid := range pids {
			p, err := os.FindProcess(pid)
			if err == nil {
				err = p.Signal(sig)
			}
			testkit.Is(t, err, nil, "%s to %d", sig, pid)
		}
	}
	goOn = sync.OnceFunc(func() { signal(syscall.SIGCONT) })
	t.Cleanup(goOn)
	signal(syscall.SIGSTOP)
	return goOn
}

// inTime sends requests before the health check has noticed.
func (f *frozen) inTime(t *testing.T, uses []use) {
	t.Helper()
	var wg sync.WaitGroup
	for _, u := range uses {
		for i, wait := range []time.Duration{0, 500 * time.Millisecond} {
			wg.Go(func() {
				begin := time.Now()
				err := f.deduct(t, u, i, wait)
				if took, most := time.Since(begin), wait+frozenWork+frozenSlack; took > most {
					t.Errorf("%s/%s with wait %s took %s, want at most %s: %v", u.mode.Name, u.store, wait, took, most, err)
				}
				busy := u.mode.Name == "global-lock" && errors.Is(err, stock.ErrLockBusy) // the uses share one lock
				// a request that does not need the server sells
				if err != nil && !busy && !unavailable(err) && !errors.Is(err, stock.ErrUnknown) {
					t.Errorf("%s/%s with wait %s = %v, want unavailable or unknown", u.mode.Name, u.store, wait, err)
				}
			})
		}
	}
	wg.Wait()
}

// unavailable reports whether nothing happened because a backend is missing.
func unavailable(err error) bool {
	return errors.Is(err, stock.ErrUnavailable) || errors.Is(err, stock.ErrLockUnavailable) ||
		errors.Is(err, stock.ErrTooLate)
}

// health waits until all of the backends are down, or none is.
func (f *frozen) health(t *testing.T, needs []stock.Backend, down bool) {
	t.Helper()
	for _, b := range needs {
		testkit.Until(t, fmt.Sprintf("%s is down: %t", b, down), func() bool {
			return (f.shop().Backends.Down(b) != nil) == down
		})
	}
}

// atOnce sends requests that the health check refuses.
func (f *frozen) atOnce(t *testing.T, uses []use, needs []stock.Backend, at stock.Store) {
	t.Helper()
	f.health(t, needs, true)
	calls := f.calls.Load()
	for _, u := range uses {
		err := f.deduct(t, u, 1, stocktest.Patience)
		if u.mode.Tickets && !slices.Contains(needs, stock.NeedRedis) { // it is won in Redis, and its order waits
			testkit.Is(t, err, nil, "a ticket while SQL is out")
			calls++
			continue
		}
		if !errors.Is(err, stock.ErrUnavailable) ||
			errors.Is(err, stock.ErrTooLate) {
			t.Errorf("%s/%s = %v, want ErrUnavailable at once", u.mode.Name, u.store, err)
		}
	}
	if n := f.calls.Load() - calls; n > 0 {
		t.Errorf("%d of %d requests were begun", n, len(uses))
	}
	id := uses[0].products[1]
	// on a busy machine a probe of another store may be late too
	testkit.NoError(t, "a ledger without "+string(at), func() error {
		if l, err := f.shop().Ledger(t.Context(), id); err != nil || !errors.Is(l.Unavailable[at], stock.ErrUnavailable) ||
			len(l.Facts) != f.stores-1 {
			return fmt.Errorf("Ledger() = %+v, %w, want the facts of the other stores, and %s unavailable", l, err, at)
		}
		return nil
	})
	testkit.IsError(t, f.shop().SetStock(t.Context(), id, 9, ledger.Rules{}), stock.ErrUnavailable, "SetStock()")
	if !slices.Contains(needs, stock.NeedSQL) {
		beside := stock.Mode{Name: "sql-atomic"} // it needs only SQL, which is not frozen
		awaitSold(t, f, use{mode: beside, store: stock.SQL, products: uses[0].products}, 1)
	}
}

// again waits until every use sells.
func (f *frozen) again(t *testing.T, uses []use, needs []stock.Backend) {
	t.Helper()
	f.health(t, needs, false)
	begin := time.Now()
	var wg sync.WaitGroup
	for _, u := range uses {
		wg.Go(func() { awaitSold(t, f, u, 2) })
	}
	wg.Wait()
	t.Logf("all sell %s after health", time.Since(begin))
}

// awaitSold tries until a use sells.
func awaitSold(t *testing.T, f *frozen, u use, product int) {
	t.Helper()
	for end := time.Now().Add(stocktest.Patience); ; time.Sleep(20 * time.Millisecond) {
		err := f.deduct(t, u, product, stocktest.Patience)
		if err == nil {
			return
		}
		if time.Now().After(end) || !unavailable(err) && !errors.Is(err, stock.ErrUnknown) &&
			!errors.Is(err, stock.ErrLockBusy) {
			t.Errorf("%s/%s = %v, want a sale", u.mode.Name, u.store, err)
			return
		}
	}
}

// optional are the modes whose lock only saves work.
var optional = []string{"idempotent", "lease-seq"}

// sellOut has 64 clients buy all the units of some products.
func sellOut(t *testing.T, s *shop.Shop, rows *sqldb.Store, mode string, units int64, products ...int64) {
	t.Helper()
	var clients sync.WaitGroup
	var sold atomic.Int64
	for client := range 64 {
		clients.Go(func() {
			for n := 0; ; n++ {
				req := stocktest.Request(products[client%len(products)], 1,
					fmt.Sprintf("%d/%s/%d/%d", products[0], mode, client, n))
				req.Store, req.Wait = stock.SQL, stocktest.Patience
				if _, err := s.Deduct(t.Context(), mode, req); err != nil {
					if !errors.Is(err, stock.ErrSoldOut) {
						t.Errorf("%s: Deduct() = %v, want a sale or that it is sold out", mode, err)
					}
					return
				}
				sold.Add(1)
			}
		})
	}
	clients.Wait()
	for _, product := range products {
		if row, err := rows.Read(t.Context(), product); sold.Load() != units || err != nil || row.Stock != 0 {
			t.Errorf("%s: %d sold in all, %d left of product %d, %v, want all %d sold", mode, sold.Load(), row.Stock, product,
				err, units)
		}
	}
}

// unlocked waits until a mode says that it deducts without its lock, or that it does not.
func unlocked(t *testing.T, s *shop.Shop, mode string, want bool) {
	t.Helper()
	testkit.NoError(t, fmt.Sprintf("%s deducts without its lock: %t", mode, want), func() error {
		m, err := s.Mode(mode)
		if err == nil && (m.Err != nil || (m.Unlocked != nil) != want) {
			return fmt.Errorf("Mode() = %w, unlocked: %w", m.Err, m.Unlocked)
		}
		return err
	})
}

// On SQL alone the modes sell everything without a lock, and say so.
func TestWithoutAnyRedis(t *testing.T) {
	t.Parallel()
	set := opened(t, backend.Config{SQL: testenv.SQLite(t), Conns: 8})
	_, err := backend.Migrate(t.Context(), set.DB)
	testkit.Must(t, err)
	s := open(t, on(set, ""))
	for i, mode := range optional {
		product := int64(i + 1)
		testkit.Must(t, s.SetStock(t.Context(), product, 20, ledger.Rules{}))
		unlocked(t, s, mode, true)
		sellOut(t, s, set.SQL, mode, 20, product)
	}
}

// A Redis that is stopped, read-only or gone costs the modes whose lock only saves work a second at most: after that
// nobody asks for the lock, and 64 clients sell everything.
func TestRedisIsOut(t *testing.T) {
	t.Parallel()
	for name, breakIt := range map[string]func(*testing.T, *testenv.RedisNode) (mend func()){
		"stopped": func(t *testing.T, n *testenv.RedisNode) func() { return freeze(t, []int{n.PID()}) },
		"read-only": func(t *testing.T, n *testenv.RedisNode) func() {
			r := opened(t, backend.Config{Redis: n.URL, Conns: 1})
			r.Client.Do(t.Context(), "REPLICAOF", "127.0.0.1", "1")
			return func() { r.Client.Do(t.Context(), "REPLICAOF", "NO", "ONE") }
		},
		"gone": func(_ *testing.T, n *testenv.RedisNode) func() { n.Kill(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := testenv.RedisNodes(t, 1)[0]
			h := stocktest.Open(t, stocktest.Env{
				Redis: node.URL, SQL: testenv.MySQL(t), Prefix: name + ":",
				Health: backend.Health{Every: time.Second, Within: 900 * time.Millisecond},
			}, 1, stock.Modes())
			r := h.Replicas[0]
			var asked atomic.Int64
			t.Cleanup(r.Options.Steps.Subscribe(func(_ context.Context, e step.Event) {
				if e.Point == step.Waiting && e.Key != "" { // those that come too late wait in a queue, which has no key
					asked.Add(1)
				}
			}))
			products := []int64{101, 102}
			for i, mode := range optional {
				testkit.NoError(t, "SQL is used", func() error {
					return errors.Join(r.Set.Check("sql"), r.SetStock(t.Context(), products[i], 200, ledger.Rules{}))
				})
				unlocked(t, r.Shop, mode, false)
				r.Sell(t, mode, stock.SQL, products[i], 1, mode+name)
			}
			if asked.Load() == 0 {
				t.Error("nobody asked for a lock, and Redis is there")
			}
			mend := breakIt(t, node)
			for i, mode := range optional {
				r.Sell(t, mode, stock.SQL, products[i], 1, mode+name+" first")
				unlocked(t, r.Shop, mode, true)
				before := asked.Load()
				sellOut(t, r.Shop, r.Backends.SQL, mode, 198, products[i])
				if n := asked.Load() - before; n > 0 {
					t.Errorf("%s: %d requests asked for the lock", mode, n)
				}
			}
			if mend != nil {
				mend()
				unlocked(t, r.Shop, "lease-seq", false)
			}
		})
	}
}
