package shop_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/backend"
	"lastitem/internal/shop"
	"lastitem/internal/stock"
	"lastitem/testkit"
	"lastitem/testkit/stocktest"
	"lastitem/testkit/testenv"
)

// The mode belongs to the payload of a key: another mode neither replays the answer nor sells.
func TestKeyOfAnotherMode(t *testing.T) {
	t.Parallel()
	for _, e := range stocktest.Envs {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			env := e.Open(t)
			env.Kafka = testenv.EmbeddedKafka(t).Seeds
			h := stocktest.Open(t, env, 1, stock.Modes())
			modes := []string{"idempotent", "queue", "kafka"}
			for i, first := range modes {
				product := h.Product(t, 9, 0)
				key := fmt.Sprint(product)
				h.Replicas[0].Sell(t, first, stock.SQL, product, 1, key)
				for j, mode := range modes {
					r, err := h.Replicas[0].Deduct(t.Context(), mode, stock.SQL, product, 1, key)
					switch {
					case i == j && (err != nil || !r.Replayed):
						t.Errorf("%s again: Deduct() = %+v, %v, want a replay", mode, r, err)
					case i != j && !errors.Is(err, stock.ErrKeyReused):
						t.Errorf("%s after %s: Deduct() = %+v, %v, want ErrKeyReused", mode, first, r, err)
					}
				}
				h.WantBooks(t, product, stock.SQL, stocktest.Books{Initial: 9, Stock: 8, Sold: 1, Orders: 1, Keys: 1}, first)
			}
		})
	}
}

// The work that a request asks for extends its deadline.
func TestHoldExtendsTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit, work, wait = 2 * time.Second, 25 * time.Second, time.Second
		var ends time.Time
		s := as(t, shop.Options{Work: limit}, func(ctx context.Context, _ stock.Request) (stock.Receipt, error) {
			ends, _ = ctx.Deadline()
			return stock.Receipt{}, nil
		})
		req, begin := stocktest.Request(101, 1, ""), time.Now()
		req.Wait, req.Hold.Work = wait, work
		_, err := s.Deduct(t.Context(), "mutex", req)
		testkit.Mustf(t, err, "Deduct()")
		if got, want := ends.Sub(begin), wait+work+limit; got != want {
			t.Errorf("the deadline is %s after the beginning, want %s", got, want)
		}
	})
}

// leastRights reads from docs/servers.md the documented rights of the shop: the rules of a Redis user, with the shop's
// prefix, and the privileges of the MySQL accounts of 'shop migrate' and 'shop serve'.
func leastRights(t *testing.T) (acl, migrate, serve string) {
	t.Helper()
	text := testkit.Read(t, "../../docs/servers.md")
	rights := regexp.MustCompile("(?s)```acl\n(.*?)\n```.*\\| `shop migrate` \\| `(.*?)` \\|\n\\| `shop serve` \\| " +
		"`(.*?)` \\|").FindStringSubmatch(string(text))
	if rights == nil {
		t.Fatal("docs/servers.md: no rights found")
	}
	return rights[1], rights[2], rights[3]
}

// restricted is stocktest.Real with accounts that have only the documented rights.
func restricted(t *testing.T) stocktest.Env {
	acl, migrate, serve := leastRights(t)
	r, dsn := testenv.Redis(t), testenv.MySQL(t)
	db, err := backend.OpenSQL(testenv.MySQLUser(t, dsn, migrate), 1)
	testkit.Must(t, err)
	if _, err := backend.Migrate(t.Context(), db); err != nil {
		t.Fatalf("Migrate() = %v, want nil with %s", err, migrate)
	}
	if pool, err := db.DB(); err == nil {
		pool.Close()
	}
	e := stocktest.On(r, testenv.MySQLUser(t, dsn, serve))
	e.Redis = testenv.RedisUser(t, r, strings.Fields(strings.ReplaceAll(acl, "lastitem:", r.Prefix))...)
	return e
}

// The documented rights suffice: with them each mode sells to rivals on two replicas, and all reads work.
func TestLeastRights(t *testing.T) {
	t.Parallel()
	e := restricted(t)
	h := stocktest.Open(t, e, 2, stock.Modes())
	for _, m := range stock.Modes() {
		if m.Name == "kafka" || slices.ContainsFunc(m.Needs, elsewhere) {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			for _, s := range m.Stores {
				const rivals = 6
				product := h.ProductOf(t, m, 50, math.MaxInt)
				var done sync.WaitGroup
				for i := range rivals {
					done.Go(func() {
						req := stocktest.Request(product, 1, fmt.Sprint("key ", product, i))
						req.Store, req.Wait = s, stocktest.Patience
						_, err := h.Replicas[i%2].Shop.Deduct(t.Context(), m.Name, req)
						testkit.Is(t, err, nil, "%s: Deduct()", s)
					})
				}
				done.Wait()
				_, err := h.Replicas[0].Ledger(t.Context(), product)
				testkit.Is(t, err, nil, "%s: Ledger()", s)
			}
		})
	}
}

// elsewhere says that a backend is neither Redis nor SQL.
func elsewhere(b stock.Backend) bool {
	return b != stock.NeedRedis && b != stock.NeedSQL && b != stock.NeedMySQL
}
