package etcddb_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"lastitem/contract/ledger"
	"lastitem/internal/store"
	"lastitem/testkit"
	"lastitem/testkit/storetest"
)

// The rows of a product are read as in every store.
func TestRows(t *testing.T) {
	storetest.Run(t, map[string]func(*testing.T) storetest.Shelf{"etcd": func(t *testing.T) storetest.Shelf {
		e, c, s := openEtcd(t)
		return storetest.Shelf{
			Reader: e, Reset: func(t *testing.T, product, stock int64) { resetEtcd(t, e, product, stock, 0) },
			Sell: func(ctx context.Context, o ledger.Order) error {
				_, err := write(ctx, e, e, always, *o.Remaining, o)
				return err
			},
			Lose: func(ctx context.Context, product int64) error {
				_, err := c.Delete(ctx, fmt.Sprint(s.Prefix, "stock/", product))
				return err
			}}
	}})
}

// compact makes etcd forget all revisions up to now, those of other tests too: who calls it is not parallel to them.
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
	e, c, _ := openEtcd(t)
	resetEtcd(t, e, 1, 100, 0)
	for n := range 9 {
		_, err := write(t.Context(), e, e, always, 5, storetest.Nth(n, 1, 5))
		testkit.Must(t, err)
	}
	f, p, err := e.Snapshot(t.Context(), 1, ledger.Want{Orders: 4})
	testkit.Must(t, err)
	compact(t, c)
	s := storetest.Shelf{Reader: e}
	orders := slices.Concat(f.Orders, storetest.PagesAfter(t, s, 1, p, ledger.Want{Orders: 4}))
	if got := storetest.Numbers(orders); !slices.Equal(got, storetest.Count(0, 9)) {
		t.Errorf("after a compaction the pages hold %v, want 0 to 8", got)
	}
}

// The count and the orders of a scan are of one revision: if etcd compacts it meanwhile, the scan fails rather than mix
// two.
func TestEtcdScanDuringCompaction(t *testing.T) {
	e, c, _ := openEtcd(t)
	resetEtcd(t, e, 1, 100, 0)
	_, err := write(t.Context(), e, e, always, 95, storetest.Nth(0, 1, 5))
	testkit.Must(t, err)
	err = e.Scan(t.Context(), 1, func(snap *ledger.Snapshot) error {
		_, err := write(t.Context(), e, e, always, 90, storetest.Nth(1, 1, 5))
		testkit.Must(t, err)
		compact(t, c)
		return snap.Orders(func(batch []ledger.Order) error {
			t.Errorf("a scan that saw a stock of %d holds orders %v", snap.Stock, storetest.Numbers(batch))
			return nil
		})
	})
	testkit.IsError(t, err, store.ErrUnavailable, "Scan()")
}
