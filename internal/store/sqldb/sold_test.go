package sqldb_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"lastitem/contract/ledger"
	"lastitem/internal/store"
	"lastitem/internal/store/sqldb"
	"lastitem/testkit"
	"lastitem/testkit/storetest"
)

func TestSQLActsOnProducts(t *testing.T) {
	onEachSQL(t, func(t *testing.T, s *sqldb.Store) {
		r := holdsIn(t, s).r
		c := storetest.Counter{
			Reader: s, Sold: []ledger.Sold{ledger.Undecided, ledger.Absolutely, ledger.Relatively, ledger.PerBuyer,
				ledger.Computed, ledger.InUnits, ledger.InSegments},
			Reset: func(product int64, rules ledger.Rules) error { return s.Reset(t.Context(), product, 9, rules) },
			Order: func(o ledger.Order) error {
				return inTx(t, s, func(tx *sqldb.Tx) error { return tx.InsertOrder(o) })
			},
			Acts: map[ledger.Act]func(int64) error{ledger.Return: func(product int64) error {
				_, _, err := r.Return(t.Context(), product, fmt.Sprint("o", product), true, ledger.Part{})
				return err
			}, ledger.Adjust: func(product int64) error {
				_, _, err := s.Adjust(t.Context(), product, ledger.Adjustment{Delta: 3, Key: []byte("k")}, false)
				return err
			}},
		}
		for act, do := range sqlActs {
			c.Acts[act] = func(product int64) error {
				return inTx(t, s, func(tx *sqldb.Tx) error { return do(tx, product) })
			}
		}
		if !s.MySQL() { // SQLite takes no units, see the statement units_take
			delete(c.Acts, ledger.ReserveUnits)
		}
		c.Every(t)
		const held = 99 // an adjustment leaves open what a hold decides
		testkit.Must(t, errors.Join(c.Reset(held, ledger.Rules{}), c.Acts[ledger.Adjust](held), c.Acts[ledger.Reserve](held)))
		testkit.IsError(t, c.Acts[ledger.ReserveComputed](held), store.ErrReservationUnsupported, "counted after a hold")
	})
}

var sqlActs = map[ledger.Act]func(tx *sqldb.Tx, product int64) error{
	ledger.Overwrite: computed(func(tx *sqldb.Tx, product int64, r sqldb.Row) (bool, error) {
		return true, tx.Set(product, r.Stock-1)
	}),
	storetest.Fenced: computed(func(tx *sqldb.Tx, product int64, r sqldb.Row) (bool, error) {
		return tx.SetFenced(product, r.Stock-1, 1)
	}),
	ledger.Swap: computed(func(tx *sqldb.Tx, product int64, r sqldb.Row) (bool, error) {
		return tx.SetVersion(product, r.Stock-1, r.Version)
	}),
	ledger.SwapInTime: computed(func(tx *sqldb.Tx, product int64, r sqldb.Row) (bool, error) {
		return tx.SetUpdated(product, r.Stock-1, r.UpdatedAt)
	}),
	ledger.Take: func(tx *sqldb.Tx, product int64) error {
		_, ok, err := tx.Take(product, 1)
		if err == nil && !ok {
			_, err = tx.Read(product)
		}
		return err
	},
	ledger.TakeLogged: func(tx *sqldb.Tx, product int64) error {
		_, run, err := tx.ReadLocked(product)
		if err == nil {
			err = tx.RefuseHeld(product)
		}
		if err == nil {
			_, _, err = tx.TakeOfRun(product, 1, run)
		}
		return err
	},
	ledger.Sell: func(tx *sqldb.Tx, product int64) error {
		_, _, err := sqldb.ReservationTx{Tx: tx}.TakeBy(aWay, "", "ann", product, 1)
		return err
	},
	ledger.Reserve: reserves(aWay),
	ledger.ReserveComputed: reserves(sqldb.Way{Act: ledger.ReserveComputed,
		Take: func(tx sqldb.ReservationTx, _ string, i ledger.ReservationItem) (*int64, bool, error) {
			free, err := tx.Free(i)
			return nil, free >= i.Quantity, err
		}}),
	ledger.ReserveUnits: reserves(sqldb.Way{Act: ledger.ReserveUnits,
		Take: func(tx sqldb.ReservationTx, id string, i ledger.ReservationItem) (*int64, bool, error) {
			ok, err := tx.TakeUnits(id, i)
			return nil, ok, err
		}}),
}

// computed writes a count that it has computed from the row.
func computed(write func(*sqldb.Tx, int64, sqldb.Row) (bool, error)) func(*sqldb.Tx, int64) error {
	return func(tx *sqldb.Tx, product int64) error {
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
func reserves(way sqldb.Way) func(*sqldb.Tx, int64) error {
	return func(tx *sqldb.Tx, product int64) error {
		id := fmt.Sprint(way.Act, product, time.Now().UnixNano())
		_, _, err := sqldb.ReservationTx{Tx: tx}.Reserve(ledger.Reservation{ID: id, Mode: "m", Replica: "r", Buyer: "ann",
			Items: []ledger.ReservationItem{
				{ProductID: product, Quantity: 1}}}, time.Minute, way)
		return err
	}
}
