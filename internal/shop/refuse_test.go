package shop_test

import (
	"errors"
	"testing"
	"time"

	"lastitem/internal/backend"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/shop"
	"lastitem/internal/stock"
	"lastitem/internal/testkit/testenv"
)

// Once a product is sold out, a refusal needs neither the lock nor the row, which somebody else holds here; and what is
// remembered of the refusal does not outlive a restock, of which this replica is not told.
func TestRefusalIsARead(t *testing.T) {
	t.Parallel()
	set := opened(t, backend.Config{Redis: testenv.Redis(t).URL, SQL: testenv.MySQL(t), Health: backend.Health{Every: -1}})
	s := open(t, shop.Backends{Redis: set.Redis, SQL: set.SQL, Lockers: stock.Lockers{
		Client: set.Client, TTL: time.Second, Engine: engine(t, set, handoff.Options{}),
	}})
	for product, mode := range map[int64]string{1: "sql-atomic", 2: "sql-for-update", 3: "lease-seq", 4: "sql-version"} {
		ask := func(units int64) error {
			_, err := s.Deduct(t.Context(), mode, stock.Request{Items: []stock.Item{{ProductID: product, Quantity: units}}})
			return err
		}
		restock := func(units int64) {
			if err := set.SQL.Reset(t.Context(), product, units, 0); err != nil {
				t.Fatal(err)
			}
		}
		restock(1)
		if err := ask(1); err != nil {
			t.Fatalf("%s: the last unit: %v", mode, err)
		}
		if err := ask(1); !errors.Is(err, stock.ErrSoldOut) {
			t.Fatalf("%s: one more: %v, want sold out", mode, err)
		}
		holder := set.DB.Begin()
		if err := holder.Exec("SELECT stock FROM product_stock WHERE id = ? FOR UPDATE", product).Error; err != nil {
			t.Fatal(err)
		}
		if err := ask(1); !errors.Is(err, stock.ErrSoldOut) {
			t.Errorf("%s: while the row is locked: %v, want sold out at once", mode, err)
		}
		holder.Rollback()
		restock(2) // as another replica does
		for n := range 2 {
			if err := ask(1); err != nil {
				t.Errorf("%s: unit %d after the restock: %v", mode, n+1, err)
			}
		}
	}
}
