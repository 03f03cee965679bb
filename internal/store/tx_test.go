package store_test

import (
	"context"
	"errors"
	"regexp"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"lastitem/contract/ledger"
	"lastitem/internal/store"
	"lastitem/stack/wire"
	"lastitem/stack/wire/codec"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// gate puts a proxy before the server at an address.
func gate(t *testing.T, addr string, codec wire.Codec) *wire.Proxy {
	t.Helper()
	p, err := wire.NewProxy("server", addr, codec)
	testkit.Must(t, err)
	t.Cleanup(p.Close)
	return p
}

// cut loses the answer to the next command whose text has a pattern: when the answer comes, both ends of the connection
// are closed.
func cut(t *testing.T, p *wire.Proxy, pattern string) *wire.Hold {
	t.Helper()
	match := regexp.MustCompile(pattern).MatchString
	held := p.Add(wire.Rule{Answer: true, Match: func(c wire.Call) bool { return match(c.Text) }})
	go func() {
		select {
		case <-held.Reached():
			held.Drop(true)
		case <-t.Context().Done():
		}
	}()
	return held
}

// wasCut reports whether an answer was lost.
func wasCut(h *wire.Hold) bool {
	select {
	case <-h.Reached():
		return true
	default:
		return false
	}
}

// A COMMIT without an answer is given up after its own time limit, not after the driver's thirty seconds. Its outcome
// is unknown, and its connection is not used again.
func TestCommitIsBounded(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQL(t)
	cfg, err := mysql.ParseDSN(dsn)
	testkit.Must(t, err)
	gate := gate(t, cfg.Addr, codec.MySQL)
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
		return inTx(t, s, func(tx *store.Tx) error { return tx.Set(1, 4) })
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
	err := s.GroupTx(t.Context(), func(tx *store.Tx) error {
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
func setFenced(t *testing.T, s *store.SQL, product, stock int64, fence uint64) (ok bool) {
	t.Helper()
	if err := inTx(t, s, func(tx *store.Tx) (err error) {
		ok, err = tx.SetFenced(product, stock, fence)
		return err
	}); err != nil {
		t.Fatalf("SetFenced(%d, %d, %d) = %v", product, stock, fence, err)
	}
	return ok
}

func TestSQLFence(t *testing.T) {
	onEachSQL(t, func(t *testing.T, s *store.SQL) {
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

// atOnce sends a command without a time limit.
func atOnce(ctx context.Context, send func(context.Context) error) error { return send(ctx) }

// Count and order are written together, or not at all: when somebody has written the count since it was read, when the
// caller declines, and when there is no such count.
func TestWatch(t *testing.T) {
	onEachRedis(t, func(t *testing.T, r *store.Redis, _ *testenv.RedisServer) {
		reset(t, r, 1, 5, 0)
		reset(t, r, 2, 6, 3)
		o, declined := someOrder("a", 1), errors.New("declined")
		var rival func() error
		take := func(int64) (ledger.Order, error) { return o, rival() }
		for _, c := range []struct {
			name    string
			product int64
			rival   func() error
			want    error
			stock   int64
			orders  []ledger.Order
		}{
			{"declined", 1, func() error { return declined }, declined, 5, nil},
			{"overtaken", 1, func() error { return r.Set(t.Context(), 1, 9) }, store.ErrConflict, 9, nil},
			{"overtaken by the same value", 1, func() error { return r.Set(t.Context(), 1, 9) }, store.ErrConflict, 9, nil},
			{"segmented", 2, func() error { return nil }, store.ErrSegmented, 9, nil},
			{"unknown", 3, func() error { return nil }, store.ErrUnknownProduct, 9, nil},
			{"alone", 1, func() error { return nil }, nil, 4, []ledger.Order{o}},
		} {
			rival = c.rival
			if err := r.Watch(t.Context(), c.product, take, atOnce); !errors.Is(err, c.want) {
				t.Errorf("%s: Watch() = %v, want %v", c.name, err, c.want)
			}
			f, err := whole(t, r, 1)
			testkit.Must(t, err)
			testkit.Is(t, f.Stock, c.stock, "%s: stock", c.name)
			if diff := cmp.Diff(c.orders, f.Orders, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: orders (-want +got):\n%s", c.name, diff)
			}
		}
	})
}

// Before EXEC is sent, an error means that nothing has happened; after it, that the outcome is unknown.
func TestWatchWithoutAnAnswer(t *testing.T) {
	onEachRedis(t, func(t *testing.T, r *store.Redis, _ *testenv.RedisServer) {
		reset(t, r, 1, 5, 0)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		take := func(int64) (ledger.Order, error) { return someOrder("a", 1), nil }
		if err := r.Watch(ended, 1, take, atOnce); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) {
			t.Errorf("Watch() that cannot read = %v, want ErrUnavailable", err)
		}
		lost := func(ctx context.Context, send func(context.Context) error) error {
			if err := send(ctx); err != nil {
				return err
			}
			return context.DeadlineExceeded
		}
		testkit.IsError(t, r.Watch(t.Context(), 1, take, lost), store.ErrUnknown, "Watch() whose answer is lost")
	})
}
