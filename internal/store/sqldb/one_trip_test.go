package sqldb_test

import (
	"errors"
	"testing"

	"github.com/go-sql-driver/mysql"

	"lastitem/contract/ledger"
	"lastitem/internal/store"
	"lastitem/internal/store/sqldb"
	"lastitem/stack/wire/codec"
	"lastitem/testkit"
	"lastitem/testkit/storetest"
	"lastitem/testkit/testenv"
)

// A packet sells whole or not at all: when its UPDATE finds too little, when its INSERT fails after the UPDATE, when
// another transaction keeps the row, and when the answer is lost, which is unknown. After each the next sale is
// untouched by what was left on the connection.
func TestSellInOneTrip(t *testing.T) {
	t.Parallel()
	cfg, err := mysql.ParseDSN(testenv.MySQL(t))
	testkit.Must(t, err)
	near := openSQL(t, cfg.FormatDSN())
	gate := storetest.Gate(t, cfg.Addr, codec.MySQL)
	cfg.Addr = gate.Addr
	s := openSet(t, cfg.FormatDSN(), 1).SQL // each sale takes the connection of the one before
	resetSQL(t, near, 1, 9, 0)
	resetSQL(t, near, 2, 9, 3)
	sells := func(id string, product, quantity, left int64, sold bool, want error) {
		t.Helper()
		o := ledger.Order{ID: id, ProductID: product, Quantity: quantity, Mode: "m", Replica: "r", Key: []byte("k")}
		remaining, ok, err := s.SellInOneTrip(t.Context(), o)
		if remaining != left || ok != sold || !errors.Is(err, want) {
			t.Errorf("%s: SellInOneTrip() = %d, %t, %v, want %d, %t, %v", id, remaining, ok, err, left, sold, want)
		}
	}
	sells("a", 1, 2, 7, true, nil)
	sells("b", 1, 8, 0, false, nil)
	sells("c", 3, 1, 0, false, nil)
	sells("d", 2, 1, 0, false, nil)
	sells("a", 1, 1, 0, false, store.ErrUnavailable) // its order is there: the UPDATE is rolled back
	sells("e", 1, 1, 6, true, nil)
	do(t, near, func(tx *sqldb.Tx) error {
		_, _, err := tx.ReadLocked(1)
		sells("f", 1, 1, 0, false, store.ErrConflict)
		return err
	})
	lost := storetest.Cut(t, gate, "^UPDATE product_stock")
	sells("g", 1, 1, 0, false, store.ErrUnknown)
	if !storetest.WasCut(lost) {
		t.Error("no answer was lost")
	}
	sells("h", 1, 1, 4, true, nil)
	f, err := storetest.Whole(t, near, 1)
	testkit.Must(t, err)
	ids := ""
	for _, o := range f.Orders {
		ids += o.ID
	}
	if f.Stock != 4 || ids != "aegh" {
		t.Errorf("%d left and the orders %q, want 4 and aegh", f.Stock, ids)
	}
}
