package sqldb_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
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

// onHolds runs a test of reservations on MySQL and on SQLite.
func onHolds(t *testing.T, test func(h holdsOn)) {
	for name, dsn := range map[string]func(testing.TB) string{"mysql": testenv.MySQL, "sqlite": testenv.SQLite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openSQL(t, dsn(t))
			resetSQL(t, s, 1, 5, 0)
			test(holdsIn(t, s))
		})
	}
}

type holdsOn struct {
	*testing.T
	s *sqldb.Store
	r *sqldb.Reservations
}

// holdsIn plays with reservations whose modes all hold in aWay.
func holdsIn(t *testing.T, s *sqldb.Store) holdsOn {
	return holdsOn{t, s, sqldb.NewReservations(s, func(string) sqldb.Way { return aWay })}
}

// aWay holds by the counter.
var aWay = sqldb.Way{
	Act: ledger.Reserve,
	Take: func(tx sqldb.ReservationTx, _ string, i ledger.ReservationItem) (*int64, bool, error) {
		left, ok, err := tx.TakeReservation(i)
		return &left, ok, err
	},
	Give: func(tx sqldb.ReservationTx, i ledger.ReservationItem, _ ...string) { tx.GiveToRun(i) },
}

// hold holds units of product 1.
func (h holdsOn) hold(id string, units int64) error {
	return h.s.Tx(h.Context(), sqldb.ReadCommitted, func(tx *sqldb.Tx) error {
		_, _, err := sqldb.ReservationTx{Tx: tx}.Reserve(ledger.Reservation{ID: id, Mode: "m", Replica: "r",
			Items: []ledger.ReservationItem{{ProductID: 1, Quantity: units}}}, time.Minute, aWay)
		return err
	})
}

// overdue moves a deadline into the past.
func (h holdsOn) overdue(id string) {
	h.Helper()
	testkit.Must(h.T, h.s.DB().Exec("UPDATE reservation SET expires_us = expires_us - 120000000 WHERE id = ?", id).Error)
}

// is checks stock and state, and that nothing is lost: stock + held + ordered = 5.
func (h holdsOn) is(id string, state ledger.ReservationState, stock int64) {
	h.Helper()
	r, err := h.r.Read(h.Context(), id, "r")
	testkit.Must(h.T, err)
	var held, ordered int64
	testkit.Must(h.T, h.s.DB().Raw(`SELECT COALESCE(SUM(i.quantity), 0) FROM reservation_item i JOIN reservation r
		ON r.id = i.reservation_id JOIN product_stock p ON p.id = i.product_id AND p.run = i.run WHERE r.state = 'held'`).
		Row().Scan(&held))
	testkit.Must(h.T, h.s.DB().Raw("SELECT COALESCE(SUM(quantity), 0) FROM orders").Row().Scan(&ordered))
	if left := stockOf(h.T, h.s, 1); r.State != state || left != stock || left+held+ordered != 5 {
		h.Errorf("%s is %s, %d in stock, %d held, %d ordered; want %s, %d, and 5 in all", id, r.State, left, held, ordered,
			state, stock)
	}
}

func (h holdsOn) confirm(id, payment string) ledger.Ended {
	h.Helper()
	e, err := h.r.Confirm(h.Context(), id, "r", "order-"+payment, []byte(payment))
	testkit.Must(h.T, err)
	return e
}

// Each arrow of the state machine, and what a repetition of it answers.
func TestHoldArrows(t *testing.T) {
	t.Parallel()
	onHolds(t, func(h holdsOn) {
		testkit.Must(h.T, h.hold("a", 2))
		h.is("a", ledger.Held, 3)
		if err := h.hold("b", 4); !errors.Is(err, store.ErrShort) {
			h.Errorf("a hold of more than there is: %v", err)
		}
		for range 2 {
			if e := h.confirm("a", "p1"); e.Refund || e.OrderID != "order-p1" {
				h.Errorf("confirm = %+v, want the order", e)
			}
		}
		if e := h.confirm("a", "p2"); !e.Refund {
			h.Errorf("another payment = %+v, want a refund", e)
		}
		h.is("a", ledger.Confirmed, 3)

		testkit.Must(h.T, h.hold("c", 1))
		for range 2 {
			_, err := h.r.Cancel(h.Context(), "c", "r")
			testkit.Must(h.T, err)
			h.is("c", ledger.Cancelled, 3)
		}
		if e := h.confirm("c", "p3"); !e.Refund {
			h.Errorf("a payment for what was cancelled = %+v, want a refund", e)
		}
		if _, err := h.r.Confirm(h.Context(), "a", "r", "o", []byte("p3")); !errors.Is(err, store.ErrPaymentReused) {
			h.Errorf("a payment of another reservation: %v", err)
		}
		if _, err := h.r.Confirm(h.Context(), "none", "r", "o", []byte("p9")); !errors.Is(err, store.ErrNoReservation) {
			h.Errorf("no reservation: %v", err)
		}
		h.is("c", ledger.Cancelled, 3)
	})
}

// Whoever meets an overdue hold first ends it, once: the sweeper, a cancel, or a late payment, which gets its money
// back, or the units where the product says so and they are free.
func TestHoldsExpire(t *testing.T) {
	t.Parallel()
	onHolds(t, func(h holdsOn) {
		for i, end := range []func(id string) error{
			func(string) error {
				_, n, err := h.r.Sweep(h.Context(), sqldb.Due{}, 100, "r")
				if n != 1 {
					h.Errorf("the sweep saw %d, want 1", n)
				}
				return err
			},
			func(id string) error { _, err := h.r.Cancel(h.Context(), id, "r"); return err },
			func(id string) error {
				if e := h.confirm(id, id); !e.Refund {
					h.Errorf("a late payment = %+v, want a refund", e)
				}
				return nil
			},
			func(id string) error { _, err := h.r.Extend(h.Context(), id, "r", time.Hour); return err },
		} {
			id := fmt.Sprint("h", i)
			testkit.Must(h.T, h.hold(id, 2))
			h.overdue(id)
			for range 2 {
				if err := end(id); err != nil {
					h.Errorf("%s: %v", id, err)
				}
				h.is(id, ledger.Expired, 5)
				if i == 0 {
					break
				}
			}
		}
		testkit.Must(h.T, h.s.DB().Exec("UPDATE product_stock SET late = 'rehold'").Error)
		testkit.Must(h.T, h.hold("x", 3))
		h.overdue("x")
		if e := h.confirm("x", "late"); e.Refund { // its units were still there
			h.Errorf("confirm = %+v, want the order", e)
		}
		h.is("x", ledger.Confirmed, 2)
		testkit.Must(h.T, h.hold("y", 2))
		h.overdue("y")
		_, _, err := h.r.Sweep(h.Context(), sqldb.Due{}, 100, "r")
		testkit.Must(h.T, err)
		testkit.Must(h.T, h.hold("z", 1))
		if e := h.confirm("y", "later"); !e.Refund {
			h.Errorf("confirm = %+v, want a refund: one of its units is held by another", e)
		}
		h.is("y", ledger.Expired, 1)
	})
}

// A reservation that was told as expired stays expired, whatever is set. A cancel of an overdue one wins over rehold,
// swept or not; and of a cart a late payment buys all lines, so each of them must allow it.
func TestLatePaymentsAreLast(t *testing.T) {
	t.Parallel()
	onHolds(t, func(h holdsOn) {
		testkit.Must(h.T, h.hold("told", 1))
		h.overdue("told")
		h.is("told", ledger.Expired, 5)
		resetSQL(h.T, h.s, 1, 5, 0)
		h.is("told", ledger.Expired, 5)
		late := func(product int64, rule string) {
			testkit.Must(h.T, h.s.Reset(h.Context(), product, 5, ledger.Rules{Late: rule}))
		}
		late(1, ledger.LateRehold)
		for i, swept := range []bool{false, true} {
			id := fmt.Sprint("c", i)
			testkit.Must(h.T, h.hold(id, 1))
			h.overdue(id)
			if swept {
				h.is(id, ledger.Expired, 5)
			}
			_, err := h.r.Cancel(h.Context(), id, "r")
			testkit.Must(h.T, err)
			if e := h.confirm(id, id); !e.Refund || e.Reservation.State != ledger.Expired {
				h.Errorf("a payment after a cancel, swept %t = %+v, want a refund", swept, e)
			}
		}
		testkit.Must(h.T, h.r.Purge(h.Context(), 0, 0))
		testkit.Must(h.T, h.hold("after the purge", 1))
		_, err := h.r.Confirm(h.Context(), "after the purge", "r", "o", []byte("c0"))
		if !errors.Is(err, store.ErrPaymentReused) {
			h.Errorf("a payment whose refund was long ago = %v, want ErrPaymentReused", err)
		}
		for rules, refund := range map[[2]string]bool{{"rehold", "refund"}: true, {"refund", "rehold"}: true,
			{"rehold", "rehold"}: false} {
			late(1, rules[0])
			late(2, rules[1])
			id := rules[0] + rules[1]
			testkit.Must(h.T, h.s.Tx(h.Context(), sqldb.ReadCommitted, func(tx *sqldb.Tx) error {
				_, _, err := sqldb.ReservationTx{Tx: tx}.Reserve(ledger.Reservation{ID: id, Mode: "m",
					Items: []ledger.ReservationItem{{ProductID: 1, Quantity: 1},
						{ProductID: 2, Quantity: 1}}}, time.Minute, aWay)
				return err
			}))
			h.overdue(id)
			if e := h.confirm(id, id); e.Refund != refund {
				h.Errorf("a late payment for lines with %v: refund %t, want %t", rules, e.Refund, refund)
			}
		}
	})
}

// An extension counts from now, once, and an end of the run voids what is held of it.
func TestHoldsExtendAndVoid(t *testing.T) {
	t.Parallel()
	onHolds(t, func(h holdsOn) {
		testkit.Must(h.T, h.hold("a", 1))
		first, err := h.r.Extend(h.Context(), "a", "r", time.Hour)
		testkit.Must(h.T, err)
		again, err := h.r.Extend(h.Context(), "a", "r", 3*time.Hour)
		if err != nil || again.Reservation.ExpiresMicros != first.Reservation.ExpiresMicros ||
			first.Reservation.ExtendedMicros == 0 {
			h.Errorf("extended to %d and %d, %v, want once", first.Reservation.ExpiresMicros, again.Reservation.ExpiresMicros,
				err)
		}
		resetSQL(h.T, h.s, 1, 5, 0)
		h.is("a", ledger.Void, 5)
		if e := h.confirm("a", "p"); !e.Refund || e.Reservation.State != ledger.Void {
			h.Errorf("confirm of a void hold = %+v, want a refund", e)
		}
		h.is("a", ledger.Void, 5)
	})
}

// Confirm, cancel and sweep meet at the deadline, again and again: each hold ends once, and no unit is lost or made.
func TestHoldsRace(t *testing.T) {
	t.Parallel()
	onHolds(t, func(h holdsOn) {
		for round := range 20 {
			resetSQL(h.T, h.s, 1, 5, 0)
			id := fmt.Sprint("h", round)
			testkit.Must(h.T, h.hold(id, 5))
			h.overdue(id)
			testkit.Must(h.T, h.s.DB().Exec("UPDATE reservation SET expires_us = expires_us + 60005000 WHERE id = ?", id).Error)
			var all sync.WaitGroup
			for i, try := range []func() error{
				func() error { _, err := h.r.Confirm(h.Context(), id, "r", "o1"+id, []byte("1"+id)); return err },
				func() error { _, err := h.r.Confirm(h.Context(), id, "r", "o2"+id, []byte("2"+id)); return err },
				func() error { _, err := h.r.Cancel(h.Context(), id, "r"); return err },
				func() error { _, _, err := h.r.Sweep(h.Context(), sqldb.Due{}, 100, "r"); return err },
			} {
				all.Go(func() {
					time.Sleep(time.Duration(round%4*i) * time.Millisecond)
					err := store.Retry(h.Context(), time.Minute, func(int) error { return try() })
					if err != nil {
						h.Errorf("%d: %v", i, err)
					}
				})
			}
			all.Wait()
			r, err := h.r.Read(h.Context(), id, "r")
			testkit.Must(h.T, err)
			h.is(id, r.State, map[bool]int64{true: 0, false: 5}[r.State == ledger.Confirmed])
		}
	})
}

// An order that was confirmed while the stock was set belongs to the run before: no book has it, and nobody returns it.
func TestOrdersOfAnEarlierRun(t *testing.T) {
	t.Parallel()
	onHolds(t, func(h holdsOn) {
		testkit.Must(h.T, h.hold("a", 2))
		order := h.confirm("a", "p").OrderID
		testkit.Must(h.T, h.s.DB().Exec("UPDATE product_stock SET run = run + 1, stock = 5").Error)
		f, _, err := h.s.Snapshot(h.Context(), 1, ledger.Want{Orders: 9})
		held, also := h.r.Page(h.Context(), 1, "")
		n := f.Totals.Orders + int64(len(f.Orders)) + held.Ordered + held.WrittenOff
		if err = errors.Join(err, also); err != nil || n != 0 {
			h.Errorf("the books have %+v and %+v, %v; want no order", f, held, err)
		}
		if _, _, err := h.r.Return(h.Context(), 1, order, true); !errors.Is(err, store.ErrNoOrder) {
			h.Errorf("Return() = %v, want ErrNoOrder", err)
		}
	})
}

// A purge waits for a late payment, and leaves the reservation that it has paid.
func TestPurgeLeavesLatePayments(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQL(t)
	h := holdsIn(t, openSQL(t, dsn))
	testkit.Must(t, h.s.Reset(t.Context(), 1, 5, ledger.Rules{Late: ledger.LateRehold}))
	testkit.Must(t, h.hold("a", 1))
	h.overdue("a")
	_, _, err := h.r.Sweep(t.Context(), sqldb.Due{}, 100, "r")
	testkit.Must(t, err)
	testkit.Must(t, h.s.DB().Exec("UPDATE reservation SET changed_us = changed_us - 120000000").Error)
	c, err := mysql.ParseDSN(dsn)
	testkit.Must(t, err)
	p := storetest.Gate(t, c.Addr, codec.MySQL)
	c.Addr = p.Addr
	other := holdsIn(t, openSQL(t, c.FormatDSN()))
	paying := p.Add(wire.Rule{Answer: true, Match: func(c wire.Call) bool {
		return strings.Contains(c.Text, "INSERT INTO payment")
	}})
	paid, purged := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := other.r.Confirm(t.Context(), "a", "r", "o", []byte("p"))
		paid <- err
	}()
	<-paying.Reached()
	go func() { purged <- h.r.Purge(t.Context(), time.Minute, time.Minute) }()
	testkit.Until(t, "the purge waits", func() bool {
		var n int
		testkit.Must(t, h.s.DB().Raw(`SELECT COUNT(*) FROM information_schema.processlist
			WHERE info LIKE 'SELECT id FROM reservation WHERE changed_us%'`).Row().Scan(&n))
		return n > 0
	})
	paying.Pass()
	testkit.Must(t, errors.Join(<-paid, <-purged))
	h.is("a", ledger.Confirmed, 4)
}

// A limit per buyer says how many he may have; a late payment keeps to it.
func TestHoldsRefuse(t *testing.T) {
	t.Parallel()
	onHolds(t, func(h holdsOn) {
		testkit.Must(h.T, h.s.Reset(h.Context(), 1, 5, ledger.Rules{PerBuyer: 1, Late: ledger.LateRehold}))
		hold := func(id string) error {
			return h.s.Tx(h.Context(), sqldb.ReadCommitted, func(tx *sqldb.Tx) error {
				_, _, err := sqldb.ReservationTx{Tx: tx}.Reserve(ledger.Reservation{ID: id, Buyer: "ann",
					Items: []ledger.ReservationItem{{ProductID: 1, Quantity: 1}}},
					time.Minute, aWay)
				return err
			})
		}
		testkit.Must(h.T, hold("b"))
		short, ok := errors.AsType[*ledger.ShortError](hold("c"))
		if !ok || short.Available != 1 || short.Requested != 1 {
			h.Errorf("a second hold of one buyer: %+v", short)
		}
		h.overdue("b")
		_, _, err := h.r.Sweep(h.Context(), sqldb.Due{}, 100, "r")
		testkit.Must(h.T, errors.Join(err, hold("d")))
		if e := h.confirm("b", "late"); !e.Refund {
			h.Errorf("a late payment of a buyer who has what he may = %+v, want a refund", e)
		}
		testkit.Must(h.T, h.s.DB().Exec("UPDATE product_stock SET way = 'counted'").Error) // since the hold has read it
		run, err := h.s.Run(h.Context(), 1)
		testkit.Must(h.T, err)
		testkit.Must(h.T, h.s.Tx(h.Context(), sqldb.ReadCommitted, func(tx *sqldb.Tx) error {
			item := ledger.ReservationItem{ProductID: 1, Run: run, Quantity: 1}
			_, ok, err := sqldb.ReservationTx{Tx: tx}.TakeReservation(item)
			if ok {
				h.Error("a hold has taken from the counter of a product that is counted")
			}
			return err
		}))
		resetSQL(h.T, h.s, 1, 5, 0)
		var kept int
		testkit.Must(h.T, h.s.DB().Raw("SELECT COUNT(*) FROM buyer_units").Row().Scan(&kept))
		if kept > 0 {
			h.Errorf("%d buyers of earlier runs are kept", kept)
		}
	})
}
