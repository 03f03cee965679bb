package redisdb_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"lastitem/contract/ledger"
	"lastitem/internal/store"
	"lastitem/internal/store/redisdb"
	"lastitem/testkit"
	"lastitem/testkit/storetest"
	"lastitem/testkit/testenv"
)

// The rows of a product are read as in every store.
func TestRows(t *testing.T) {
	open := func(server func(testing.TB) *testenv.RedisServer) func(*testing.T) storetest.Shelf {
		return func(t *testing.T) storetest.Shelf {
			s := server(t)
			r := redisdb.New(s.Client, s.Prefix)
			return storetest.Shelf{
				Reader: r, Reset: func(t *testing.T, product, stock int64) { reset(t, r, product, stock, 0) },
				Sell: func(ctx context.Context, o ledger.Order) error {
					_, err := r.Sell(ctx, redisdb.Sale{Orders: []ledger.Order{o}})
					return err
				},
				Lose: func(ctx context.Context, product int64) error {
					return s.Client.Del(ctx, fmt.Sprintf("%sstock:{%d}", s.Prefix, product)).Err()
				}}
		}
	}
	storetest.Run(t, map[string]func(*testing.T) storetest.Shelf{"redis": open(testenv.Redis),
		"miniredis": open(testenv.Miniredis)})
}

// The product is set again while its pages are read: the reader ends.
func TestRedisPagesOfAnotherRun(t *testing.T) {
	onEachRedis(t, func(t *testing.T, r *redisdb.Store, _ *testenv.RedisServer) {
		s := storetest.Shelf{Reader: r, Sell: func(ctx context.Context, o ledger.Order) error {
			_, err := r.Sell(ctx, redisdb.Sale{Orders: []ledger.Order{o}})
			return err
		}}
		reset(t, r, 1, 1000, 0)
		storetest.SellUntil(t, s, 1, 0, 30, 1000)
		_, p, err := r.Snapshot(t.Context(), 1, ledger.Want{Orders: 5})
		testkit.Must(t, err)
		for _, sold := range []int{2, 30, 40} {
			reset(t, r, 1, 500, 0)
			left := storetest.SellUntil(t, s, 1, 100, 100+sold, 500)
			if got := storetest.PagesAfter(t, s, 1, p, ledger.Want{Orders: 6}); len(got) > 25 {
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
	onEachRedis(t, func(t *testing.T, r *redisdb.Store, s *testenv.RedisServer) {
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
