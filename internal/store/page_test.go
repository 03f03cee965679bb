package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"lastitem/contract/ledger"
	"lastitem/internal/idempotency"
	"lastitem/internal/store"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// reader is the reading half of a store.
type reader interface {
	Facts(context.Context, int64) (ledger.Facts, error)
	Snapshot(context.Context, int64, ledger.Want) (ledger.Facts, ledger.Position, error)
	Page(context.Context, int64, ledger.Position, ledger.Want) (ledger.Facts, ledger.Position, error)
	Scan(context.Context, int64, func(*ledger.Snapshot) error) error
}

// whole reads all rows of a product, in pages.
func whole(t *testing.T, s reader, product int64) (all ledger.Facts, err error) {
	t.Helper()
	want := ledger.Want{Orders: 100, Keys: 100}
	all, p, err := s.Snapshot(t.Context(), product, want)
	for err == nil && !p.End() {
		var f ledger.Facts
		f, p, err = s.Page(t.Context(), product, p, want)
		all.Orders, all.Keys = append(all.Orders, f.Orders...), append(all.Keys, f.Keys...)
	}
	return all, err
}

// wantFacts compares all rows of a product, and what the store says without them.
func wantFacts(t *testing.T, s reader, product int64, want ledger.Facts, when string) {
	t.Helper()
	got, err := whole(t, s, product)
	want.Totals.Orders = int64(len(want.Orders))
	for _, o := range want.Orders {
		want.Totals.Units += o.Quantity
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), anyRun); err != nil || diff != "" {
		t.Errorf("%s: product %d: %v (-want +got):\n%s", when, product, err, diff)
	}
	want.Totals, want.Orders, want.Keys = ledger.Totals{}, nil, nil
	if got, err := s.Facts(t.Context(), product); err != nil || !cmp.Equal(got, want, anyRun) {
		t.Errorf("%s: Facts(%d) = %+v, %v, want %+v", when, product, got, err, want)
	}
}

// anyRun: the name of a run and the number of its writes are the database's.
var anyRun = cmpopts.IgnoreFields(ledger.Facts{}, "Run", "LeaseSeq")

// shelf is a store whose rows are read in pages, with a function that sells from it.
type shelf struct {
	reader
	reset func(t *testing.T, product, stock int64)
	// sell takes the quantity and appends the order in one step; the order's Remaining is the stock that it leaves.
	sell func(ctx context.Context, o ledger.Order) error
	// lose deletes the count of a product, and leaves the rest of it.
	lose func(ctx context.Context, product int64) error
}

// onEachShelf runs a test on every store, once for each kind of server.
func onEachShelf(t *testing.T, test func(*testing.T, shelf)) {
	t.Parallel()
	redis := func(open func(testing.TB) *testenv.RedisServer) func(*testing.T) shelf {
		return func(t *testing.T) shelf {
			s := open(t)
			r := store.NewRedis(s.Client, s.Prefix)
			return shelf{r,
				func(t *testing.T, product, stock int64) { reset(t, r, product, stock, 0) },
				func(ctx context.Context, o ledger.Order) error {
					_, err := r.Sell(ctx, store.Sale{Orders: []ledger.Order{o}})
					return err
				},
				func(ctx context.Context, product int64) error {
					return s.Client.Del(ctx, fmt.Sprintf("%sstock:{%d}", s.Prefix, product)).Err()
				}}
		}
	}
	sql := func(dsn func(testing.TB) string) func(*testing.T) shelf {
		return func(t *testing.T) shelf {
			s := openSQL(t, dsn(t))
			return shelf{s,
				func(t *testing.T, product, stock int64) { resetSQL(t, s, product, stock, 0) },
				func(ctx context.Context, o ledger.Order) error {
					return s.Tx(ctx, store.ReadCommitted, func(tx *store.Tx) error {
						if _, _, err := tx.Take(o.ProductID, o.Quantity); err != nil {
							return err
						}
						return tx.InsertOrder(o)
					})
				},
				func(ctx context.Context, product int64) error {
					return s.DB().WithContext(ctx).Exec("DELETE FROM product_stock WHERE id = ?", product).Error
				}}
		}
	}
	etcd := func(t *testing.T) shelf {
		e, c, s := openEtcd(t)
		return shelf{e,
			func(t *testing.T, product, stock int64) { resetEtcd(t, e, product, stock, 0) },
			func(ctx context.Context, o ledger.Order) error {
				_, err := e.Write(ctx, always, *o.Remaining, o)
				return err
			},
			func(ctx context.Context, product int64) error {
				_, err := c.Delete(ctx, fmt.Sprint(s.Prefix, "stock/", product))
				return err
			}}
	}
	for name, open := range map[string]func(*testing.T) shelf{
		"redis": redis(testenv.Redis), "miniredis": redis(testenv.Miniredis), "mysql": sql(testenv.MySQL),
		"sqlite": sql(testenv.SQLite), "etcd": etcd,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

// nth returns the n-th order of a product, for one to three units.
func nth(n int, product, left int64) ledger.Order {
	return ledger.Order{
		ID: fmt.Sprintf("00000000-0000-7000-%04d-%012d", product, n), ProductID: product, Quantity: int64(1 + n%3),
		Remaining: &left,
		Mode:      "m", Replica: "1", CreatedMicros: int64(1000 + n),
	}
}

// sellUntil sells the orders with the numbers from from to below to. left is the stock before; it returns the stock
// after.
func sellUntil(t *testing.T, s shelf, product int64, from, to int, left int64) int64 {
	t.Helper()
	for n := from; n < to; n++ {
		left -= int64(1 + n%3)
		testkit.Mustf(t, s.sell(t.Context(), nth(n, product, left)), "order %d", n)
	}
	return left
}

// pagesAfter reads all pages after a position and returns their orders.
func pagesAfter(t *testing.T, s shelf, product int64, p ledger.Position, want ledger.Want) (all []ledger.Order) {
	t.Helper()
	for tries := 0; !p.End(); tries++ {
		f, next, err := s.Page(t.Context(), product, p, want)
		if err != nil || len(f.Orders) > want.Orders || tries > 100 {
			t.Fatalf("Page(%+v) = %d orders, %v", p, len(f.Orders), err)
		}
		all, p = append(all, f.Orders...), throughJSON(t, next)
	}
	return all
}

// throughJSON returns a position after a round trip through JSON.
func throughJSON(t *testing.T, p ledger.Position) (back ledger.Position) {
	t.Helper()
	text, err := json.Marshal(p)
	testkit.Must(t, errors.Join(err, json.Unmarshal(text, &back)))
	return back
}

func numbers(orders []ledger.Order) (n []int) {
	for _, o := range orders {
		var product, i int
		_, _ = fmt.Sscanf(o.ID, "00000000-0000-7000-%04d-%012d", &product, &i)
		n = append(n, i)
	}
	return n
}

func count(from, to int) (n []int) {
	for i := from; i < to; i++ {
		n = append(n, i)
	}
	return n
}

// A snapshot counts all rows and carries the first; the pages after it carry the others, each once, and no later ones.
func TestPages(t *testing.T) {
	onEachShelf(t, func(t *testing.T, s shelf) {
		_, _, err := s.Snapshot(t.Context(), 1, ledger.Want{Orders: 7})
		testkit.IsError(t, err, store.ErrUnknownProduct, "Snapshot() of a product that nobody made")
		s.reset(t, 1, 1000)
		s.reset(t, 2, 1000)
		if f, p, err := s.Snapshot(t.Context(), 1, ledger.Want{Orders: 7}); err != nil || f.Initial != 1000 ||
			f.Totals != (ledger.Totals{}) || !p.NoOrders {
			t.Errorf("Snapshot() without orders = %+v, %+v, %v", f, p, err)
		}
		left := sellUntil(t, s, 1, 0, 25, 1000)
		sellUntil(t, s, 2, 0, 3, 1000)
		for round := range 2 {
			sold := 25 + 10*round
			f, p, err := s.Snapshot(t.Context(), 1, ledger.Want{Orders: 7})
			if err != nil || f.Initial != 1000 || f.Stock != left || f.Totals != (ledger.Totals{Orders: int64(sold),
				Units: 1000 - left}) {
				t.Fatalf("Snapshot() = %+v, %v, want %d orders for %d units", f, err, sold, 1000-left)
			}
			left = sellUntil(t, s, 1, sold, sold+10, left) // after the snapshot
			all := append(slices.Clip(f.Orders), pagesAfter(t, s, 1, throughJSON(t, p), ledger.Want{Orders: 7})...)
			if got := numbers(all); !slices.Equal(got, count(0, sold)) {
				t.Errorf("pages hold %v, want 0 to %d", got, sold-1)
			}
			if p.Until == "" && p.Revision == 0 {
				t.Errorf("position %+v has no end", p)
			}
		}
		f, p, err := s.Snapshot(t.Context(), 1, ledger.Want{})
		if err != nil || len(f.Orders) > 0 || f.Totals.Orders != 45 || f.Totals.Units != 1000-left {
			t.Errorf("Snapshot() of no orders = %+v, %v", f, err)
		}
		if got := numbers(pagesAfter(t, s, 1, p, ledger.Want{Orders: 1000})); !slices.Equal(got, count(0, 45)) {
			t.Errorf("the page after it = %v", got)
		}
	})
}

// A product whose count is gone while the rest of it is there is damaged. A reader that called it unknown would judge
// the other stores only.
func TestCountLost(t *testing.T) {
	onEachShelf(t, func(t *testing.T, s shelf) {
		s.reset(t, 7, 5)
		sellUntil(t, s, 7, 0, 1, 5)
		testkit.Must(t, s.lose(t.Context(), 7))
		for product, want := range map[int64]error{7: store.ErrUnavailable, 8: store.ErrUnknownProduct} { // nobody made 8
			if _, _, err := s.Snapshot(t.Context(), product, ledger.Want{Orders: 10}); !errors.Is(err, want) {
				t.Errorf("Snapshot(%d) = %v, want %v", product, err, want)
			}
			if _, isSQL := s.reader.(*store.SQL); isSQL { // it would have to count the orders
				continue
			}
			if _, err := s.Facts(t.Context(), product); !errors.Is(err, want) {
				t.Errorf("Facts(%d) = %v, want %v", product, err, want)
			}
		}
	})
}

// A scan reads the rows of one moment, as often as it is asked.
func TestScan(t *testing.T) {
	onEachShelf(t, func(t *testing.T, s shelf) {
		if err := s.Scan(t.Context(), 1, func(*ledger.Snapshot) error {
			return nil
		}); !errors.Is(err, store.ErrUnknownProduct) {
			t.Errorf("Scan() of a product that nobody made = %v, want ErrUnknownProduct", err)
		}
		s.reset(t, 1, 10_000)
		sold := 1005 // more than one batch
		if testing.Short() {
			sold = 5
		}
		left := sellUntil(t, s, 1, 0, sold, 10_000)
		err := s.Scan(t.Context(), 1, func(snap *ledger.Snapshot) error {
			if snap.Stock != left || snap.Initial != 10_000 || snap.Totals.Orders != int64(sold) {
				t.Errorf("Snapshot = %+v, want %d of 10000 left", snap.Facts, left)
			}
			for range 2 {
				var all []ledger.Order
				if err := snap.Orders(func(batch []ledger.Order) error {
					all = append(all, slices.Clone(batch)...)
					return nil
				}); err != nil {
					return err
				}
				slices.SortFunc(all, func(a, b ledger.Order) int { return strings.Compare(a.ID, b.ID) })
				if got := numbers(all); !slices.Equal(got, count(0, sold)) {
					t.Errorf("%d orders, want %d", len(got), sold)
				}
			}
			enough := errors.New("enough")
			if err := snap.Orders(func([]ledger.Order) error { return enough }); !errors.Is(err, enough) {
				t.Errorf("Orders() = %v, want the error of its reader", err)
			}
			return nil
		})
		testkit.Is(t, err, nil, "Scan()")
	})
}

// The conservation law holds on every first page while sales go on, and the pages hold what it counts.
func TestSnapshotWhileSalesGoOn(t *testing.T) {
	onEachShelf(t, func(t *testing.T, s shelf) {
		const initial = 1_000_000
		s.reset(t, 1, initial)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			left := int64(initial)
			for n := 0; ; n++ {
				left -= int64(1 + n%3)
				if err := s.sell(t.Context(), nth(n, 1, left)); err != nil || ctx.Err() != nil {
					ended <- err
					return
				}
			}
		}()
		defer func() {
			stop()
			testkit.Is(t, <-ended, nil, "sell")
		}()
		var f ledger.Facts
		for seen := int64(0); seen < 60; { // until some have been sold
			var p ledger.Position
			var err error
			if f, p, err = s.Snapshot(t.Context(), 1, ledger.Want{Orders: 5}); err != nil {
				t.Fatalf("Snapshot() = %v", err)
			}
			if f.Initial != initial || f.Stock+f.Totals.Units != initial {
				t.Fatalf("initial %d, stock %d, %+v: %d units are neither here nor there", f.Initial, f.Stock, f.Totals,
					initial-f.Stock-f.Totals.Units)
			}
			orders := append(slices.Clip(f.Orders), pagesAfter(t, s, 1, p, ledger.Want{Orders: 10})...)
			if got := numbers(orders); !slices.Equal(got, count(0, int(f.Totals.Orders))) {
				t.Fatalf("pages hold %v, want 0 to %d", got, f.Totals.Orders-1)
			}
			seen = f.Totals.Orders
		}
	})
}

// The product is set again while its pages are read: the reader ends.
func TestRedisPagesOfAnotherRun(t *testing.T) {
	onEachRedis(t, func(t *testing.T, r *store.Redis, _ *testenv.RedisServer) {
		s := shelf{reader: r, sell: func(ctx context.Context, o ledger.Order) error {
			_, err := r.Sell(ctx, store.Sale{Orders: []ledger.Order{o}})
			return err
		}}
		reset(t, r, 1, 1000, 0)
		sellUntil(t, s, 1, 0, 30, 1000)
		_, p, err := r.Snapshot(t.Context(), 1, ledger.Want{Orders: 5})
		testkit.Must(t, err)
		for _, sold := range []int{2, 30, 40} {
			reset(t, r, 1, 500, 0)
			left := sellUntil(t, s, 1, 100, 100+sold, 500)
			if got := pagesAfter(t, s, 1, p, ledger.Want{Orders: 6}); len(got) > 25 {
				t.Errorf("after another run of %d the pages hold %d orders", sold, len(got))
			}
			f, _, err := r.Snapshot(t.Context(), 1, ledger.Want{Orders: 1})
			if err != nil || f.Totals != (ledger.Totals{Orders: int64(sold), Units: 500 - left}) {
				t.Errorf("Snapshot() of a run of %d = %+v, %v, want %d units", sold, f.Totals, err, 500-left)
			}
		}
		for _, bad := range []ledger.Position{{Order: "x", Until: "3"}, {Order: "1", Until: ""}, {Order: "-1", Until: "3"}} {
			_, _, err := r.Page(t.Context(), 1, bad, ledger.Want{Orders: 3})
			testkit.IsError(t, err, store.ErrPosition, "Page(%+v)", bad)
		}
	})
}

// Keys come in pages too, each once; the key of a cart comes with the orders of each of its products.
func TestSQLPagesOfKeys(t *testing.T) {
	onEachSQL(t, func(t *testing.T, s *store.SQL) {
		resetSQL(t, s, 1, 100, 0)
		resetSQL(t, s, 2, 100, 0)
		claim := func(tx *store.Tx, key string, product int64) error {
			_, _, err := tx.ClaimKey([]byte(key), product, make([]byte, 32), 5)
			return err
		}
		do(t, s, func(tx *store.Tx) (err error) {
			for n := range 9 {
				o := nth(n, 1, 0)
				o.Key = []byte{byte(n), 0xff}
				err = errors.Join(err, claim(tx, string(o.Key), 1), tx.InsertOrder(o))
			}
			cart := nth(9, 1, 0)
			cart.Key = []byte("cart")
			err = errors.Join(err, claim(tx, "cart", 2), tx.InsertOrder(cart), claim(tx, "of the other", 2),
				claim(tx, "refused", 1),
				tx.KeepAnswer(cart.Key, idempotency.Record{Status: 200, Body: []byte(cart.ID), Mode: "m"}))
			cart.ProductID = 2
			return errors.Join(err, tx.InsertOrder(cart))
		})
		want := []string{"\x00\xff", "\x01\xff", "\x02\xff", "\x03\xff", "\x04\xff", "\x05\xff", "\x06\xff", "\x07\xff",
			"\x08\xff", "cart of m", "refused"}
		for how, got := range readings(t, s, 1) {
			slices.Sort(got)
			testkit.Same(t, got, want, "%s: keys", how)
		}
		if f, p, err := s.Snapshot(t.Context(), 2, ledger.Want{Orders: 4}); err != nil || len(f.Orders) != 1 || !p.NoKeys {
			t.Errorf("Snapshot() without keys = %+v, %+v, %v", f, p, err)
		}
		if _, _, err := s.Page(t.Context(), 1, ledger.Position{Order: "é", Until: "z"},
			ledger.Want{Orders: 3}); !errors.Is(err,
			store.ErrPosition) {
			t.Errorf("Page() after no id = %v, want ErrPosition", err)
		}
	})
}

// compact makes etcd forget all revisions up to now.
func compact(t *testing.T, c *clientv3.Client) {
	t.Helper()
	res, err := c.Put(t.Context(), "another", "revision")
	testkit.Must(t, err)
	if _, err = c.Compact(t.Context(), res.Header.Revision); !errors.Is(err, rpctypes.ErrCompacted) { // by another test
		testkit.Must(t, err)
	}
}

// The rows that a snapshot of etcd counts are read at its revision, whatever was written since.
func TestEtcdPagesAfterCompaction(t *testing.T) {
	t.Parallel()
	e, c, _ := openEtcd(t)
	resetEtcd(t, e, 1, 100, 0)
	for n := range 9 {
		_, err := e.Write(t.Context(), always, 5, nth(n, 1, 5))
		testkit.Must(t, err)
	}
	f, p, err := e.Snapshot(t.Context(), 1, ledger.Want{Orders: 4})
	testkit.Must(t, err)
	compact(t, c)
	s := shelf{reader: e}
	if got := numbers(append(f.Orders, pagesAfter(t, s, 1, p, ledger.Want{Orders: 4})...)); !slices.Equal(got,
		count(0, 9)) {
		t.Errorf("after a compaction the pages hold %v, want 0 to 8", got)
	}
}

// The count and the orders of a scan are of one revision: if etcd compacts it meanwhile, the scan fails rather than mix
// two.
func TestEtcdScanDuringCompaction(t *testing.T) {
	t.Parallel()
	e, c, _ := openEtcd(t)
	resetEtcd(t, e, 1, 100, 0)
	_, err := e.Write(t.Context(), always, 95, nth(0, 1, 5))
	testkit.Must(t, err)
	err = e.Scan(t.Context(), 1, func(snap *ledger.Snapshot) error {
		_, err := e.Write(t.Context(), always, 90, nth(1, 1, 5))
		testkit.Must(t, err)
		compact(t, c)
		return snap.Orders(func(batch []ledger.Order) error {
			t.Errorf("a scan that saw a stock of %d holds orders %v", snap.Stock, numbers(batch))
			return nil
		})
	})
	testkit.IsError(t, err, store.ErrUnavailable, "Scan()")
}

// afterScript runs a function after the first script of its client.
type afterScript struct {
	testenv.Hook
	then func()
}

func (h *afterScript) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if then := h.then; then != nil && err == nil && strings.HasPrefix(cmd.Name(), "eval") {
			h.then = nil
			then()
		}
		return err
	}
}

// Between two steps of a reading the stock is set again, and as much is sold: the orders of one run must not be read
// with the counts of another.
func TestRedisSetAgainWhileRead(t *testing.T) {
	onEachRedis(t, func(t *testing.T, r *store.Redis, s *testenv.RedisServer) {
		h := &afterScript{}
		s.Client.AddHook(h)
		reset(t, r, 1, 5, 0)
		_, err := r.Sell(t.Context(), sale("old", "", 1))
		testkit.Must(t, err)
		again := func() {
			reset(t, r, 1, 500, 0)
			_, err := r.Sell(t.Context(), sale("new", "", 1))
			testkit.Check(t, err)
		}
		h.then = again
		err = r.Scan(t.Context(), 1, func(f *ledger.Snapshot) error {
			return f.Orders(func(orders []ledger.Order) error {
				if f.Initial == 5 && orders[0].ID == "new0" {
					t.Errorf("an order of the new run, beside the stock of the old one")
				}
				return nil
			})
		})
		testkit.IsError(t, err, store.ErrUnavailable, "Scan()")
		reset(t, r, 1, 5, 0)
		for range 2 {
			_, err := r.Sell(t.Context(), sale("old", "", 1))
			testkit.Must(t, err)
		}
		h.then = again
		if err := r.Scan(t.Context(), 1, func(f *ledger.Snapshot) error {
			return f.Orders(func([]ledger.Order) error { return nil })
		}); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("Scan() of more orders than the new run has = %v, want ErrUnavailable", err)
		}
		reset(t, r, 1, 5, 0)
		first := sale("old", "", 1)
		first.Orders[0].Quantity = 3
		_, err = r.Sell(t.Context(), first)
		testkit.Must(t, err)
		h.then = again
		f, _, err := r.Snapshot(t.Context(), 1, ledger.Want{}) // the sum comes after the script
		if want := (ledger.Totals{Orders: 1, Units: 1}); err != nil || f.Initial != 500 || f.Totals != want {
			t.Errorf("Snapshot() = %+v, %v, want that of the new run", f, err)
		}
	})
}
