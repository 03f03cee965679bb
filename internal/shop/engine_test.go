package shop_test

import (
	"errors"
	"testing"

	"lastitem/internal/backend"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/shop"
	"lastitem/internal/stock"
	"lastitem/internal/stock/stocktest"
	"lastitem/internal/testenv"
)

// byEngine lists the modes whose lock is the engine, with the store of each.
var byEngine = map[string]stock.Store{
	"handoff": stock.Redis, "fair": stock.Redis, "rwlock": stock.Redis, "global-lock": stock.SQL, "segmented": stock.Redis,
	"multi-lock": stock.Redis, "lease-seq": stock.SQL, "idempotent": stock.SQL,
}

// engineShop returns a shop whose engine has the options o.
func engineShop(t *testing.T, o handoff.Options) (*shop.Shop, *handoff.Engine) {
	t.Helper()
	r := testenv.Miniredis(t)
	set := opened(t, backend.Config{Redis: r.URL, SQL: testenv.SQLite(t), Prefix: r.Prefix, Conns: 8})
	e := engine(t, set, o)
	b := on(set, r.Prefix)
	b.Lockers.Engine = e
	shop := open(t, b)
	if err := shop.SetStock(t.Context(), 1, 5, 0); err != nil {
		t.Fatal(err)
	}
	return shop, e
}

// wantNothingDone sends a request by each mode of the engine: the lock fails with the expected error, and nothing is deducted.
func wantNothingDone(t *testing.T, shop *shop.Shop, want error) {
	t.Helper()
	for mode, s := range byEngine {
		req := stocktest.Request(1, 1, mode)
		req.Store = s
		if _, err := shop.Deduct(t.Context(), mode, req); !errors.Is(err, want) {
			t.Errorf("%s: Deduct() = %v, want %v", mode, err, want)
		}
	}
	p, err := shop.Product(t.Context(), 1)
	if err != nil || p.Stock[stock.Redis] != 5 || p.Stock[stock.SQL] != 5 {
		t.Errorf("Product() = %+v, %v, want all 5 in both stores", p, err)
	}
}

func TestEngineClosed(t *testing.T) {
	t.Parallel()
	shop, e := engineShop(t, handoff.Options{})
	if err := e.Close(t.Context()); err != nil {
		t.Fatalf("Close() = %v", err)
	}
	wantNothingDone(t, shop, stock.ErrLockClosed)
}

// A lock that too few replicas have confirmed is refused. Miniredis has no replicas.
func TestEngineWithoutItsReplicas(t *testing.T) {
	t.Parallel()
	shop, _ := engineShop(t, handoff.Options{Replicas: 1})
	wantNothingDone(t, shop, stock.ErrLockUnavailable)
}
