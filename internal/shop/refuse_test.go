package shop_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"lastitem/contract/ledger"
	"lastitem/internal/backend"
	"lastitem/internal/idempotency"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/shop"
	"lastitem/internal/stock"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// Once a product is sold out, a refusal needs neither the lock nor the row, which somebody else holds here; and what is
// remembered of the refusal does not outlive a restock, of which this replica is not told.
func TestRefusalIsARead(t *testing.T) {
	t.Parallel()
	set := opened(t, backend.Config{Redis: testenv.Redis(t).URL, SQL: testenv.MySQL(t), Health: backend.Health{Every: -1}})
	s := open(t, shop.Backends{Redis: set.Redis, SQL: set.SQL, Lockers: stock.Lockers{
		Client: set.Client, TTL: time.Second, Engine: engine(t, set, handoff.Options{}),
	}})
	for product, mode := range map[int64]string{1: "sql-atomic", 2: "sql-for-update", 3: "lease-seq", 4: "sql-version",
		5: "sql-one-trip"} {
		ask := func(units int64) error {
			_, err := s.Deduct(t.Context(), mode, stock.Request{Items: []stock.Item{{ProductID: product, Quantity: units}}})
			return err
		}
		restock := func(units int64) {
			testkit.Must(t, set.SQL.Reset(t.Context(), product, units, ledger.Rules{}))
		}
		restock(1)
		testkit.Mustf(t, ask(1), "%s: the last unit", mode)
		if err := ask(1); !errors.Is(err, stock.ErrSoldOut) {
			t.Fatalf("%s: one more: %v, want sold out", mode, err)
		}
		holder := set.DB.Begin()
		testkit.Must(t, holder.Exec("SELECT stock FROM product_stock WHERE id = ? FOR UPDATE", product).Error)
		if err := ask(1); !errors.Is(err, stock.ErrSoldOut) {
			t.Errorf("%s: while the row is locked: %v, want sold out at once", mode, err)
		}
		holder.Rollback()
		restock(2) // as another replica does
		for n := range 2 {
			testkit.Is(t, ask(1), nil, "%s: unit %d after the restock", mode, n+1)
		}
	}
}

// A crowd that comes too late, each with a key, is refused in groups, and each refusal is kept: it is replayed byte for
// byte, also by the way that a lone request takes. A key that has sold is not refused.
func TestRefusalsAreKept(t *testing.T) {
	t.Parallel()
	set := opened(t, backend.Config{Redis: testenv.Redis(t).URL, SQL: testenv.MySQL(t), Health: backend.Health{Every: -1}})
	backends := shop.Backends{Redis: set.Redis, SQL: set.SQL, Lockers: stock.Lockers{
		Client: set.Client, TTL: time.Second, Engine: engine(t, set, handoff.Options{}),
	}}
	crowd, alone := open(t, backends), open(t, backends) // the second replica remembers nothing
	ask := func(s *shop.Shop, key string) (stock.Receipt, error) {
		return s.Deduct(t.Context(), "idempotent", stock.Request{
			Items: []stock.Item{{ProductID: 1, Quantity: 1}}, Key: []byte(key), Wait: 5 * time.Second,
			Answer: func(_ stock.Receipt, err error) idempotency.Answer {
				return idempotency.Answer{Status: 200, Body: []byte(fmt.Sprint(key, err))}
			},
		})
	}
	testkit.Must(t, set.SQL.Reset(t.Context(), 1, 1, ledger.Rules{}))
	sold, err := ask(crowd, "first")
	testkit.Must(t, err)
	if _, err := ask(crowd, "late"); !errors.Is(err, stock.ErrSoldOut) {
		t.Fatalf("the next key: %v, want sold out", err)
	}
	var all sync.WaitGroup
	kept := make([]stock.Receipt, 40)
	for n := range kept {
		all.Go(func() {
			var err error
			if kept[n], err = ask(crowd, fmt.Sprint("key ", n%20)); err != nil && !errors.Is(err, stock.ErrSoldOut) {
				t.Errorf("key %d: %v, want sold out", n%20, err)
			}
		})
	}
	all.Wait()
	testkit.Must(t, set.SQL.Reset(t.Context(), 2, 1, ledger.Rules{})) // another product: no key of this one goes
	for n, first := range kept {
		again, err := ask(alone, fmt.Sprint("key ", n%20))
		if err != nil || !again.Replayed || first.Stored == nil || !bytes.Equal(again.Stored.Body, first.Stored.Body) {
			t.Errorf("key %d again: %+v, %v, want the answer %+v", n%20, again, err, first.Stored)
		}
	}
	again, err := ask(crowd, "first")
	if err != nil || !again.Replayed || !bytes.Equal(again.Stored.Body, sold.Stored.Body) {
		t.Errorf("the key that sold, again: %+v, %v, want its answer %q", again, err, sold.Stored.Body)
	}
}
