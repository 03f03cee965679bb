package sqldb_test

import (
	"errors"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"lastitem/contract/ledger"
	"lastitem/internal/store"
	"lastitem/internal/store/sqldb"
	"lastitem/stack/wire"
	"lastitem/stack/wire/codec"
	"lastitem/testkit"
	"lastitem/testkit/storetest"
	"lastitem/testkit/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// A COMMIT without an answer is given up after its own time limit, not after the driver's thirty seconds. Its outcome
// is unknown, and its connection is not used again.
func TestCommitIsBounded(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQL(t)
	cfg, err := mysql.ParseDSN(dsn)
	testkit.Must(t, err)
	gate := storetest.Gate(t, cfg.Addr, codec.MySQL)
	near := openSQL(t, dsn)
	cfg.Addr = gate.Addr
	s := openSQL(t, cfg.FormatDSN())
	const bound = 300 * time.Millisecond
	s.CommitsWithin(bound)
	resetSQL(t, near, 1, 5, 0)
	connection := func() (id int64) {
		t.Helper()
		testkit.Must(t, s.DB().Raw("SELECT CONNECTION_ID()").Row().Scan(&id))
		return id
	}
	take := func() error {
		return inTx(t, s, func(tx *sqldb.Tx) error { return tx.Set(1, 4) })
	}
	before := connection()
	held := gate.Add(wire.Rule{Answer: true, Match: func(c wire.Call) bool { return c.Text == "COMMIT" }})
	began := time.Now()
	testkit.IsError(t, take(), store.ErrUnknown, "Tx() with its COMMIT unanswered")
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("Tx() took %s, its COMMIT was to be waited for no longer than %s", took, bound)
	}
	<-held.Reached()
	if row, err := near.Read(t.Context(), 1); err != nil || row.Stock != 4 {
		t.Errorf("the stock is %d, %v, want 4: the COMMIT had arrived", row.Stock, err)
	}
	held.Pass()
	s.CommitsWithin(testenv.Still) // the server may be slow
	testkit.Is(t, take(), nil, "the next Tx()")
	if after := connection(); after == before {
		t.Error("the connection of the unanswered COMMIT is used again")
	}
}

// The sessions read what others commit meanwhile, and are of a pool of their own: otherwise the second transaction
// would have no connection.
func TestGroupTxSessions(t *testing.T) {
	t.Parallel()
	set := openSet(t, testenv.MySQL(t), 1)
	s := set.SQL
	resetSQL(t, s, 1, 5, 0)
	err := s.GroupTx(t.Context(), func(tx *sqldb.Tx) error {
		for want := int64(5); want > 3; want-- {
			if row, err := tx.Read(1); err != nil || row.Stock != want {
				t.Errorf("Read() = %+v, %v, want %d", row, err, want)
			}
			do(t, s, take(t, 1, nil))
		}
		return nil
	})
	testkit.Is(t, err, nil, "GroupTx()")
	if _, sold, err := s.SellInOneTrip(t.Context(), ledger.Order{ID: "o", ProductID: 1, Quantity: 1}); !sold {
		t.Errorf("SellInOneTrip() = %t, %v, want a sale", sold, err)
	}
	var pools []string
	for _, p := range set.Pools() {
		pools = append(pools, p.Name)
		if p.Total != 1 {
			t.Errorf("pool %s has %d connections, want 1", p.Name, p.Total)
		}
	}
	testkit.Same(t, pools, []string{"sql", "sql_groups", "sql_trips"}, "pools")
}

// setFenced writes with a token, in a transaction of its own.
func setFenced(t *testing.T, s *sqldb.Store, product, stock int64, fence uint64) (ok bool) {
	t.Helper()
	if err := inTx(t, s, func(tx *sqldb.Tx) (err error) {
		ok, err = tx.SetFenced(product, stock, fence)
		return err
	}); err != nil {
		t.Fatalf("SetFenced(%d, %d, %d) = %v", product, stock, fence, err)
	}
	return ok
}

func TestSQLFence(t *testing.T) {
	onEachSQL(t, func(t *testing.T, s *sqldb.Store) {
		resetSQL(t, s, 1, 9, 0)
		resetSQL(t, s, 2, 9, 3)
		for product, want := range map[int64]error{2: store.ErrSegmented, 3: store.ErrUnknownProduct} {
			if _, _, err := s.ReadFenced(t.Context(), product, 1, true); !errors.Is(err, want) {
				t.Errorf("ReadFenced(%d) = %v, want %v", product, err, want)
			}
		}
		type call struct {
			do    string
			fence uint64
			want  bool
		}
		for i, c := range []call{
			{"set", 5, true},
			{"set", 4, false},
			{"set", 5, true},
			{"read", 4, false},
			{"read", 5, true}, // the row does not change, which must not look like a refusal
			{"read", 7, true},
			{"set", 6, false},
			{"read strictly", 7, false},
			{"read strictly", 8, true},
			{"read strictly", 8, false},
			{"set", 7, false},
			{"set", 8, true},
		} {
			var got bool
			switch c.do {
			case "set":
				got = setFenced(t, s, 1, int64(i), c.fence)
			default:
				row, ok, err := s.ReadFenced(t.Context(), 1, c.fence, c.do == "read strictly")
				if err != nil || ok && row.Stock != 2 {
					t.Errorf("%d: ReadFenced(%d) = %+v, %v, want the 2 units that call 2 wrote", i, c.fence, row, err)
				}
				got = ok
			}
			testkit.Is(t, got, c.want, "%d: %s with token %d", i, c.do, c.fence)
		}
		if row, err := s.Read(t.Context(), 1); err != nil || row.Stock != 11 {
			t.Errorf("Read() = %+v, %v, want what the last call wrote", row, err)
		}
		resetSQL(t, s, 1, 9, 0)
		if !setFenced(t, s, 1, 8, 1) {
			t.Error("after Reset token 1 is refused: a counter that was lost could never start again")
		}
	})
}
