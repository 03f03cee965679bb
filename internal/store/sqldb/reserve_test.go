package sqldb_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"lastitem/contract/ledger"
	"lastitem/internal/idempotency"
	"lastitem/internal/store"
	"lastitem/internal/store/sqldb"
	"lastitem/stack/wire"
	"lastitem/stack/wire/codec"
	"lastitem/testkit"
	"lastitem/testkit/reservationtest"
	"lastitem/testkit/storetest"
	"lastitem/testkit/testenv"
)

// aWay holds by the counter.
var aWay = sqldb.Way{
	Act: ledger.Reserve,
	Take: func(tx sqldb.ReservationTx, _ string, i ledger.ReservationItem) (*int64, bool, error) {
		left, ok, err := tx.TakeReservation(i)
		return &left, ok, err
	},
	Give: func(tx sqldb.ReservationTx, i ledger.ReservationItem, _ ...string) { tx.GiveToRun(i) },
}

// life is a database as the table of reservations plays on it.
type life struct {
	*sqldb.Reservations
	s *sqldb.Store
}

func (l life) tx(ctx context.Context, do func(tx sqldb.ReservationTx) error) error {
	return l.s.Tx(ctx, sqldb.ReadCommitted, func(tx *sqldb.Tx) error { return do(sqldb.ReservationTx{Tx: tx}) })
}

func (l life) Reserve(ctx context.Context, r ledger.Reservation, hold time.Duration) (made ledger.Reservation,
	left *int64, earlier bool, err error) {
	err = l.tx(ctx, func(tx sqldb.ReservationTx) (err error) {
		made, left, err = tx.Reserve(r, hold, aWay)
		return err
	})
	return made, left, false, err
}

func (l life) Sell(ctx context.Context, o ledger.Order) (left *int64, err error) {
	err = l.tx(ctx, func(tx sqldb.ReservationTx) (err error) {
		left, o.Run, err = tx.TakeBy(aWay, o.ID, o.Buyer, o.ProductID, o.Quantity)
		if err == nil {
			err = errors.Join(tx.InsertOrder(o), tx.BoughtBy(o.Buyer, o.ID, o.ProductID, o.Run))
		}
		return err
	})
	return left, err
}

func (l life) Adjust(ctx context.Context, product int64, a ledger.Adjustment) (ledger.Adjustment, bool, error) {
	return l.s.Adjust(ctx, product, a, false)
}

func (l life) Reset(ctx context.Context, product, stock int64, rules ledger.Rules) error {
	return l.s.Reset(ctx, product, stock, rules)
}

func (l life) Sweep(ctx context.Context, _ int64) (int, error) {
	_, n, err := l.Reservations.Sweep(ctx, sqldb.Due{}, 100, "r 2")
	return n, err
}

// inSQL is a player of a new product 1.
func inSQL(t *testing.T, s *sqldb.Store, rules ledger.Rules) (*reservationtest.Player, life) {
	t.Helper()
	l := life{holdsIn(t, s).r, s}
	p := reservationtest.New(t, reservationtest.InStore(l, "sql", "again"), 1)
	p.Begin(rules)
	return p, l
}

func TestLifeInSQL(t *testing.T) {
	onEachSQL(t, func(t *testing.T, s *sqldb.Store) {
		p, _ := inSQL(t, s, ledger.Rules{})
		reservationtest.Play(t, p.Seam, 2)
		reservationtest.Race(t, p.Seam, 1)
	})
}

// Of a cart a late payment buys all lines, so each of them must allow it.
func TestLatePaymentsForCarts(t *testing.T) {
	onEachSQL(t, func(t *testing.T, s *sqldb.Store) {
		p, l := inSQL(t, s, ledger.Rules{})
		for rules, refund := range map[[2]string]bool{{"rehold", "refund"}: true, {"refund", "rehold"}: true,
			{"rehold", "rehold"}: false} {
			cart := ledger.Reservation{ID: p.ID(""), Mode: "m", Items: []ledger.ReservationItem{{ProductID: 1, Quantity: 1},
				{ProductID: 2, Quantity: 1}}}
			for i, late := range rules {
				testkit.Must(t, s.Reset(t.Context(), int64(i+1), 5, ledger.Rules{Late: late}))
			}
			_, _, _, err := l.Reserve(t.Context(), cart, time.Millisecond)
			testkit.Must(t, err)
			testkit.Until(t, "it has expired", func() bool {
				r, err := l.Read(t.Context(), cart.ID, "r")
				return err == nil && r.State == ledger.Expired
			})
			e, err := l.Confirm(t.Context(), cart.ID, "r", strings.TrimPrefix(cart.ID, "sql-1-"), []byte(cart.ID))
			if err != nil || e.Refund != refund {
				t.Errorf("a late payment for lines with %v: refund %t, %v, want %t", rules, e.Refund, err, refund)
			}
		}
	})
}

// A line of a cart can be cancelled, or units of it, and the books of each product tell of their own.
func TestPartsOfACart(t *testing.T) {
	onEachSQL(t, func(t *testing.T, s *sqldb.Store) {
		p, l := inSQL(t, s, ledger.Rules{})
		other := reservationtest.New(t, p.Seam, 2)
		other.Begin(ledger.Rules{})
		made, _, _, err := l.Reserve(t.Context(), ledger.Reservation{ID: p.ID(""), Mode: "m", Items: []ledger.ReservationItem{
			{ProductID: 1, Quantity: 3}, {ProductID: 2, Quantity: 2}}}, time.Minute)
		testkit.Must(t, err)
		for _, c := range []struct {
			part ledger.Part
			want string
		}{
			{ledger.Part{Quantity: 1, Key: []byte("k")}, "store: no such line"},
			{ledger.Part{ProductID: 3}, "store: no such line"},
			{ledger.Part{ProductID: 1, Quantity: 1, Key: []byte("k")}, "held [2 2] false"},
			{ledger.Part{ProductID: 1, Quantity: 1, Key: []byte("k")}, "held [2 2] true"},
			{ledger.Part{ProductID: 2, Quantity: 1, Key: []byte("k")}, idempotency.ErrKeyReused.Error()},
			{ledger.Part{ProductID: 2}, "held [2 0] false"},
			{ledger.Part{ProductID: 2}, "held [2 0] false"},
			{ledger.Part{ProductID: 2, Quantity: 1, Key: []byte("l")}, "store: more units than are left: product 2 has 0"},
		} {
			e, err := l.Cancel(t.Context(), made.ID, "r", c.part)
			got := fmt.Sprint(err)
			if err == nil {
				got = fmt.Sprint(e.Reservation.State, " ", []int64{e.Reservation.Items[0].Quantity,
					e.Reservation.Items[1].Quantity}, " ", e.Replay)
			}
			testkit.Is(t, got, c.want, "Cancel(%+v)", c.part)
			p.Sound("product 1")
			other.Sound("product 2")
		}
		order := strings.TrimPrefix(made.ID, "sql-1-")
		e, err := l.Confirm(t.Context(), made.ID, "r", order, []byte("p"))
		testkit.Must(t, err)
		testkit.Is(t, e.OrderID, order, "Confirm")
		testkit.Is(t, [2]int64{p.Sound("1").Stock, other.Sound("2").Stock}, [2]int64{3, 5}, "stocks")
		_, _, err = l.Return(t.Context(), 2, order, true, ledger.Part{})
		testkit.Is(t, err, store.ErrNoOrder, "Return of the line that was cancelled")
	})
}

// An order that was confirmed while the stock was set belongs to the run before: no book has it, and nobody returns it.
func TestOrdersOfAnEarlierRun(t *testing.T) {
	onEachSQL(t, func(t *testing.T, s *sqldb.Store) {
		p, _ := inSQL(t, s, ledger.Rules{})
		p.Say("hold a 2 = held 3; confirm a p = confirmed op")
		testkit.Must(t, s.DB().Exec("UPDATE product_stock SET run = run + 1, stock = 5").Error)
		f, _, err := s.Snapshot(t.Context(), 1, ledger.Want{Orders: 9})
		if n := f.Totals.Orders + int64(len(f.Orders)); err != nil || n != 0 {
			t.Errorf("Snapshot() = %+v, %v; want no order", f, err)
		}
		p.Say("restock op = unknown_order")
		reservationtest.New(t, p.Seam, 1).Play("hold b 5 = held 0")
	})
}

// A purge waits for a late payment, and leaves the reservation that it has paid. What it deletes leaves its payments.
func TestPurgeLeavesLatePayments(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQL(t)
	s := openSQL(t, dsn)
	p, l := inSQL(t, s, ledger.Rules{Late: ledger.LateRehold})
	p.Say("brief a 1 = held 4; late a = ; sweep = 1")
	testkit.Must(t, s.DB().Exec("UPDATE reservation SET expires_us = 1, changed_us = 1").Error)
	c, err := mysql.ParseDSN(dsn)
	testkit.Must(t, err)
	proxy := storetest.Gate(t, c.Addr, codec.MySQL)
	c.Addr = proxy.Addr
	other := holdsIn(t, openSQL(t, c.FormatDSN())).r
	paying := proxy.Add(wire.Rule{Answer: true, Match: func(c wire.Call) bool {
		return strings.Contains(c.Text, "INSERT INTO payment")
	}})
	paid, purged := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := other.Confirm(t.Context(), p.ID("a"), "r", "o", []byte("p"))
		paid <- err
	}()
	<-paying.Reached()
	go func() { purged <- l.Purge(t.Context(), time.Minute, time.Minute) }()
	testkit.Until(t, "the purge waits", func() bool {
		var n int
		testkit.Must(t, s.DB().Raw(`SELECT COUNT(*) FROM information_schema.processlist
			WHERE info LIKE 'SELECT id FROM reservation WHERE changed_us%'`).Row().Scan(&n))
		return n > 0
	})
	paying.Pass()
	testkit.Must(t, errors.Join(<-paid, <-purged))
	p.Play("read a = confirmed; brief b 1 = held 3; late b = ; cancel b = expired; confirm b q = expired refund")
	testkit.Must(t, l.Purge(t.Context(), 0, 0))
	p.Say("read b = unknown_reservation; hold c 1 = held 3; confirm c q = idempotency_key_reused")
}

// A product may have become a counted one since the hold has read it. Setting the stock forgets what buyers had.
func TestTakesAreOfTheWayThatWasRead(t *testing.T) {
	onEachSQL(t, func(t *testing.T, s *sqldb.Store) {
		p, _ := inSQL(t, s, ledger.Rules{PerBuyer: 1})
		p.Say("hold b 1 = held 4")
		testkit.Must(t, s.DB().Exec("UPDATE product_stock SET way = 'counted'").Error)
		run, err := s.Run(t.Context(), 1)
		testkit.Must(t, err)
		do(t, s, func(tx *sqldb.Tx) error {
			item := ledger.ReservationItem{ProductID: 1, Run: run, Quantity: 1}
			_, ok, err := sqldb.ReservationTx{Tx: tx}.TakeReservation(item)
			testkit.Is(t, ok, false, "a take from the counter of a product that is counted")
			return err
		})
		p.Say("reset =")
		var kept int
		testkit.Must(t, s.DB().Raw("SELECT COUNT(*) FROM buyer_units").Row().Scan(&kept))
		testkit.Is(t, kept, 0, "buyers of earlier runs")
	})
}
