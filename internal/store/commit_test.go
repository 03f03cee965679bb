package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"lastitem/internal/store"
	"lastitem/internal/testenv"
	"lastitem/internal/wire"
)

// A COMMIT without an answer is given up after its own time limit, not after the driver's thirty seconds. Its outcome is unknown, and its
// connection is not used again.
func TestCommitIsBounded(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQL(t)
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	gate := gate(t, cfg.Addr, wire.MySQL)
	near := openSQL(t, dsn)
	cfg.Addr = gate.Addr
	s := openSQL(t, cfg.FormatDSN())
	const bound = 300 * time.Millisecond
	s.CommitsWithin(bound)
	resetSQL(t, near, 1, 5, 0)
	connection := func() (id int64) {
		t.Helper()
		if err := s.DB().Raw("SELECT CONNECTION_ID()").Row().Scan(&id); err != nil {
			t.Fatal(err)
		}
		return id
	}
	take := func() error {
		return inTx(t, s, func(tx *store.Tx) error { return tx.Set(1, 4) })
	}
	before := connection()
	held := gate.Add(wire.Rule{Answer: true, Match: func(c wire.Call) bool { return c.Text == "COMMIT" }})
	began := time.Now()
	if err := take(); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("Tx() with its COMMIT unanswered = %v, want ErrUnknown", err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("Tx() took %s, its COMMIT was to be waited for no longer than %s", took, bound)
	}
	<-held.Reached()
	if row, err := near.Read(t.Context(), 1); err != nil || row.Stock != 4 {
		t.Errorf("the stock is %d, %v, want 4: the COMMIT had arrived", row.Stock, err)
	}
	held.Pass()
	s.CommitsWithin(testenv.Still) // the server may be slow
	if err := take(); err != nil {
		t.Errorf("the next Tx() = %v, want nil", err)
	}
	if after := connection(); after == before {
		t.Error("the connection of the unanswered COMMIT is used again")
	}
}
