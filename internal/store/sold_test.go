package store_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"lastitem/contract/ledger"
	"lastitem/internal/store"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// counter is a store in which modes act on products.
type counter struct {
	reader
	reset func(product int64, rules ledger.Rules) error
	// order adds an order and leaves the stock alone.
	order func(o ledger.Order) error
	acts  map[ledger.Act]func(product int64) error
	// sold are the ways of selling that the store knows.
	sold []ledger.Sold
}

// begin makes a product that is sold in a way.
func (c counter) begin(t *testing.T, product int64, sold ledger.Sold) {
	t.Helper()
	rules := map[ledger.Sold]ledger.Rules{ledger.InSegments: {Segments: 3}, ledger.PerBuyer: {PerBuyer: 5},
		ledger.InUnits: {Units: true}}
	testkit.Must(t, c.reset(product, rules[sold]))
	o := someOrder(fmt.Sprint("o", product), product)
	o.Fence = 0
	testkit.Must(t, c.order(o))
	first := map[ledger.Sold]ledger.Act{ledger.Absolutely: ledger.Overwrite, ledger.Relatively: ledger.Reserve,
		ledger.Computed: ledger.ReserveComputed}
	if act, there := first[sold]; there {
		testkit.Must(t, c.acts[act](product))
	}
}

// read says how a product is sold, and how many are left.
func (c counter) read(t *testing.T, product int64) (ledger.Sold, int64) {
	t.Helper()
	f, err := whole(t, c, product)
	testkit.Must(t, err)
	if f.Sold == ledger.Undecided && slices.ContainsFunc(f.Orders, func(o ledger.Order) bool {
		return o.Way == ledger.Absolutely
	}) {
		f.Sold = ledger.Absolutely
	}
	return f.Sold, f.Stock
}

// every tries every act on a product that is sold in every way: afterwards it is sold as the table says, or the act was
// refused, and has changed nothing.
func (c counter) every(t *testing.T) {
	product := int64(100)
	for _, was := range c.sold {
		for act, do := range c.acts {
			product++
			c.begin(t, product, was)
			sold, stock := c.read(t, product)
			testkit.Is(t, sold, was, "how it is sold at first")
			err := do(product)
			refused := errors.Is(err, store.ErrSegmented) || errors.Is(err, store.ErrOtherWay) ||
				errors.Is(err, store.ErrReservationUnsupported)
			next, ok := was.After(cmp.Or(map[ledger.Act]ledger.Act{fenced: ledger.Overwrite}[act], act))
			if refused == ok || err != nil && !refused {
				t.Errorf("sold %q: %s = %v, want it allowed: %t", was, act, err, ok)
			}
			if !ok {
				next = was
			}
			if sold, left := c.read(t, product); sold != next || !ok && left != stock {
				t.Errorf("sold %q: after %s it is sold %q, with %d left of %d; want %q", was, act, sold, left, stock, next)
			}
		}
	}
}

func TestSQLActsOnProducts(t *testing.T) {
	onEachSQL(t, func(t *testing.T, s *store.SQL) {
		s.HoldBy(func(string) store.Way { return aWay })
		c := counter{
			reader: s, sold: []ledger.Sold{ledger.Undecided, ledger.Absolutely, ledger.Relatively, ledger.PerBuyer,
				ledger.Computed, ledger.InUnits, ledger.InSegments},
			reset: func(product int64, rules ledger.Rules) error { return s.Reset(t.Context(), product, 9, rules) },
			order: func(o ledger.Order) error {
				return inTx(t, s, func(tx *store.Tx) error { return tx.InsertOrder(o) })
			},
			acts: map[ledger.Act]func(int64) error{ledger.Return: func(product int64) error {
				_, _, err := s.Return(t.Context(), product, fmt.Sprint("o", product), true)
				return err
			}},
		}
		for act, do := range sqlActs {
			c.acts[act] = func(product int64) error {
				return inTx(t, s, func(tx *store.Tx) error { return do(tx, product) })
			}
		}
		if !s.MySQL() { // SQLite takes no units, see the statement units_take
			delete(c.acts, ledger.ReserveUnits)
		}
		c.every(t)
	})
}

// fenced is Overwrite with a fencing token.
const fenced ledger.Act = "overwrite with a fence"

var sqlActs = map[ledger.Act]func(tx *store.Tx, product int64) error{
	ledger.Overwrite: computed(func(tx *store.Tx, product int64, r store.Row) (bool, error) {
		return true, tx.Set(product, r.Stock-1)
	}),
	fenced: computed(func(tx *store.Tx, product int64, r store.Row) (bool, error) {
		return tx.SetFenced(product, r.Stock-1, 1)
	}),
	ledger.Swap: computed(func(tx *store.Tx, product int64, r store.Row) (bool, error) {
		return tx.SetVersion(product, r.Stock-1, r.Version)
	}),
	ledger.SwapInTime: computed(func(tx *store.Tx, product int64, r store.Row) (bool, error) {
		return tx.SetUpdated(product, r.Stock-1, r.UpdatedAt)
	}),
	ledger.Take: func(tx *store.Tx, product int64) error {
		_, ok, err := tx.Take(product, 1)
		if err == nil && !ok {
			_, err = tx.Read(product)
		}
		return err
	},
	ledger.TakeLogged: func(tx *store.Tx, product int64) error {
		_, run, err := tx.ReadLocked(product)
		if err == nil {
			err = tx.RefuseHeld(product)
		}
		if err == nil {
			_, _, err = tx.TakeOfRun(product, 1, run)
		}
		return err
	},
	ledger.Sell: func(tx *store.Tx, product int64) error {
		_, _, err := tx.TakeBy(aWay, "", "ann", product, 1)
		return err
	},
	ledger.Reserve: reserves(aWay),
	ledger.ReserveComputed: reserves(store.Way{Act: ledger.ReserveComputed,
		Take: func(tx *store.Tx, _ string, i ledger.ReservationItem) (*int64, bool, error) {
			free, err := tx.Free(i)
			return nil, free >= i.Quantity, err
		}}),
	ledger.ReserveUnits: reserves(store.Way{Act: ledger.ReserveUnits,
		Take: func(tx *store.Tx, id string, i ledger.ReservationItem) (*int64, bool, error) {
			ok, err := tx.TakeUnits(id, i)
			return nil, ok, err
		}}),
}

// computed writes a count that it has computed from the row.
func computed(write func(*store.Tx, int64, store.Row) (bool, error)) func(*store.Tx, int64) error {
	return func(tx *store.Tx, product int64) error {
		row, err := tx.Read(product)
		if err != nil {
			return err
		}
		ok, err := write(tx, product, row)
		if err == nil && !ok {
			err = errors.New("not written")
		}
		return err
	}
}

// reserves holds a unit.
func reserves(way store.Way) func(*store.Tx, int64) error {
	return func(tx *store.Tx, product int64) error {
		id := fmt.Sprint(way.Act, product, time.Now().UnixNano())
		_, _, err := tx.Reserve(ledger.Reservation{ID: id, Mode: "m", Replica: "r", Buyer: "ann",
			Items: []ledger.ReservationItem{
				{ProductID: product, Quantity: 1}}}, time.Minute, way)
		return err
	}
}

func TestRedisActsOnProducts(t *testing.T) {
	onEachRedis(t, func(t *testing.T, r *store.Redis, _ *testenv.RedisServer) {
		counter{
			reader: r, sold: []ledger.Sold{ledger.Undecided, ledger.Absolutely, ledger.Relatively, ledger.PerBuyer,
				ledger.InSegments},
			reset: func(product int64, rules ledger.Rules) error { return r.Reset(t.Context(), product, 9, rules, noKeys) },
			order: func(o ledger.Order) error { return r.Append(t.Context(), o) },
			acts: map[ledger.Act]func(int64) error{
				ledger.Overwrite: func(product int64) error {
					n, err := r.Read(t.Context(), product)
					if err != nil {
						return err
					}
					o := someOrder("absolute", product)
					o.Way = ledger.Absolutely
					return errors.Join(r.Set(t.Context(), product, n-1), r.Append(t.Context(), o))
				},
				ledger.Sell: func(product int64) error {
					_, err := r.Sell(t.Context(), sale("sold", "", product))
					return err
				},
				ledger.Reserve: func(product int64) error {
					h := ledger.Reservation{ID: fmt.Sprint("redis-", product, "-", time.Now().UnixNano()), Mode: "m", Replica: "r",
						Items: []ledger.ReservationItem{{ProductID: product, Quantity: 1}}}
					_, _, _, err := r.Reserve(t.Context(), h, time.Minute)
					return err
				},
				ledger.Return: func(product int64) error {
					_, _, err := r.Return(t.Context(), product, fmt.Sprint("o", product), true)
					return err
				},
			},
		}.every(t)
	})
}
