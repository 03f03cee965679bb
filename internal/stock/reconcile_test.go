package stock_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"lastitem/contract/ledger"
	"lastitem/internal/stock"
	"lastitem/internal/store/redisdb"
	"lastitem/testkit"
	"lastitem/testkit/stocktest"
)

// front sets what Redis has of the product: its count, and other fields of its rules, in pairs.
func (l aLine) front(count int64, rules ...any) {
	l.t.Helper()
	c, of := l.Replicas[0].Set.Client, fmt.Sprintf(":{%d}", l.product)
	testkit.Must(l.t, c.Set(l.t.Context(), l.prefix+"stock"+of, fmt.Sprint("limited:0:", count), 0).Err())
	if len(rules) > 0 {
		testkit.Must(l.t, c.HSet(l.t.Context(), l.prefix+"rules"+of, rules...).Err())
	}
}

// exec changes what SQL has.
func (l aLine) exec(query string, args ...any) {
	l.t.Helper()
	testkit.Must(l.t, l.Replicas[0].Set.DB.Exec(query, args...).Error)
}

// adjustSQL adjusts one side only, which the shop refuses.
func (l aLine) adjustSQL(delta int64) {
	l.t.Helper()
	a := ledger.Adjustment{Delta: delta, Key: fmt.Append(nil, delta)}
	_, _, err := l.Replicas[0].Backends.SQL.Adjust(l.t.Context(), l.product, a, false)
	testkit.Must(l.t, err)
}

// reconcile is Reconcile by the second replica, again while a consumer has the row.
func (l aLine) reconcile(repair bool) (r ledger.Reconciled, err error) {
	l.t.Helper()
	testkit.Until(l.t, "nobody has the row", func() bool {
		r, err = l.Replicas[1].Reconcile(l.t.Context(), l.product, repair)
		return !errors.Is(err, stock.ErrContended)
	})
	return r, err
}

// wantRepair repairs, and compares what was found with leaked and forgotten; afterwards both sides must agree.
func (l aLine) wantRepair(leaked, forgotten int64) {
	l.t.Helper()
	seen, err := l.reconcile(false)
	testkit.Must(l.t, err)
	if seen.Leaked() != leaked || seen.Forgotten() != forgotten || seen.Drift() != leaked-forgotten ||
		seen.Corrected != seen.Journal {
		l.t.Fatalf("a look = %+v: drift %d, leaked %d, forgotten %d; want leaked %d, forgotten %d", seen, seen.Drift(),
			seen.Leaked(), seen.Forgotten(), leaked, forgotten)
	}
	did, err := l.reconcile(true)
	testkit.Must(l.t, err)
	testkit.Is(l.t, did.Repaired, leaked-forgotten, "units repaired")
	l.wantAgreement()
}

// wantAgreement wants no drift, and Redis' own books to be even.
func (l aLine) wantAgreement() {
	l.t.Helper()
	r, err := l.reconcile(true)
	testkit.Must(l.t, err)
	if r.Drift() != 0 || r.Leaked() != 0 || r.Repaired != 0 || r.Corrected != r.Journal ||
		r.Front+r.InFlight+r.Passed != r.Initial+r.Corrected {
		l.t.Errorf("after a repair a look = %+v", r)
	}
}

// Both sides agree at every moment at which tickets are won, committed and ended.
func TestLooksWhileItSells(t *testing.T) {
	t.Parallel()
	onEachLine(t, 400, ledger.Rules{}, func(l aLine) {
		l.consume()
		l.consume()
		l.win("", "") // before the first ticket there is nothing to compare
		var buyers sync.WaitGroup
		for range 3 {
			buyers.Go(func() {
				for {
					req := stocktest.Request(l.product, 1, "")
					req.Store = stock.SQL
					_, err := l.Replicas[0].Shop.Deduct(l.t.Context(), "redis-stream", req)
					if err != nil && !errors.Is(err, stock.ErrQueueFull) {
						testkit.IsError(l.t, err, stock.ErrSoldOut, "a deduction")
						return
					}
				}
			})
		}
		sold := make(chan struct{})
		go func() { defer close(sold); buyers.Wait() }()
		looks, moving := 0, 0
		for selling := true; selling; looks++ {
			select {
			case <-sold:
				selling = false
			case <-time.After(time.Millisecond):
			}
			r, err := l.reconcile(false)
			testkit.Must(l.t, err)
			if moving += min(1, int(r.InFlight)); r.Drift() != 0 || r.Forgotten() != 0 {
				l.t.Fatalf("look %d while it sells = %+v: drift %d, forgotten %d", looks, r, r.Drift(), r.Forgotten())
			}
		}
		if looks < 5 || moving == 0 {
			l.t.Errorf("%d looks, %d of them with tickets in flight: too few to show anything", looks, moving)
		}
	})
}

// What is missing in Redis' count, or in it too much, is seen, named, and repaired once; the rest is in flight or sold.
func TestReconcile(t *testing.T) {
	t.Parallel()
	onEachLine(t, 9, ledger.Rules{}, func(l aLine) {
		l.consume()
		l.wantEnds(ledger.TicketSold, l.win("", ""))
		l.exec("UPDATE product_stock SET version = version + 1 WHERE id = ?", l.product) // no matter to a look
		for _, by := range []int64{-1, 1, -3} {
			l.front(8 + by)
			l.wantRepair(-by, 0)
		}
		tickets := redisdb.NewTickets(l.Replicas[0].Backends.Redis)
		r, err := l.reconcile(false)
		testkit.Must(l.t, err)
		again := ledger.Correction{Product: l.product, Run: r.Run, Base: r.Generation - 1, Generation: r.Generation,
			Leaked: 3}
		for _, c := range []struct {
			what string
			done bool
			ledger.Correction
		}{
			{"sent again", true, again},
			{"late", false, ledger.Correction{Product: l.product, Run: r.Run, Base: 1, Generation: 2, Leaked: 3}},
			{"of another run", false, ledger.Correction{Product: l.product, Run: r.Run - 1, Base: r.Generation, Generation: 9,
				Leaked: 3}},
		} {
			done, err := tickets.Correct(l.t.Context(), c.Correction)
			if testkit.Must(l.t, err); done != c.done {
				l.t.Errorf("a correction %s: done %v, want %v", c.what, done, c.done)
			}
		}
		l.wantAgreement()
		l.wantFront(8, 1)
	})
}

// After a failover the book has orders that Redis has forgotten: a repair lowers the count, below zero where tickets
// were won meanwhile, so that later buyers are refused and not promised what is sold.
func TestReconcileAfterAFailover(t *testing.T) {
	t.Parallel()
	onEachLine(t, 5, ledger.Rules{}, func(l aLine) {
		l.consume()
		l.wantEnds(ledger.TicketSold, l.win("", ""), l.win("", ""), l.win("", ""))
		l.wantFront(2, 3)
		l.front(4, "passed", 1) // Redis as it was after the first
		l.wantRepair(0, 2)
		l.exec("UPDATE reconciliation SET applied_us = NULL WHERE product_id = ?", l.product) // an answer was lost
		l.wantAgreement()
		l.front(4, "generation", 0, "corrected", 0) // it loses the correction too
		l.wantRepair(0, 2)
		l.wantEnds(ledger.TicketSold, l.win("", ""), l.win("", ""))
		l.Replicas[0].Refuse(l.t, stock.ErrSoldOut, "redis-stream", stock.SQL, l.product, 1, "")
		l.WantBooks(l.t, l.product, stock.SQL, stocktest.Books{Initial: 5, Sold: 5, Orders: 5})

		l.redis("DEL", "stream")
		testkit.Must(l.t, l.Replicas[2].Close(l.t.Context())) // nobody consumes
		l.front(2, "passed", 1)                               // and the last two are won again
		lost := []string{l.win("", ""), l.win("", "")}
		l.wantRepair(0, 2)
		l.consume()
		l.wantEnds(ledger.TicketRefused, lost...)
		l.Replicas[0].Refuse(l.t, stock.ErrSoldOut, "redis-stream", stock.SQL, l.product, 1, "")
		l.wantAgreement()
		l.WantBooks(l.t, l.product, stock.SQL, stocktest.Books{Initial: 5, Sold: 5, Orders: 5})
	})
}

// Tickets whose entries somebody has deleted are named, and so are entries without tickets: a repair of what seems to
// be missing then would promise it twice.
func TestReconcileNamesWhatIsStuck(t *testing.T) {
	t.Parallel()
	onEachLine(t, 9, ledger.Rules{}, func(l aLine) {
		for _, c := range []struct {
			deleted string
			stuck   int64
		}{{"stream", 2}, {"tickets", -2}} {
			l.SetStock(l.t, l.product, 9, 0)
			l.win("", "")
			l.win("", "")
			l.redis("DEL", c.deleted)
			r, err := l.reconcile(false)
			testkit.Must(l.t, err)
			testkit.Is(l.t, r.Stuck, c.stuck, "tickets without entries")
			_, err = l.reconcile(true)
			if refused := errors.Is(err, stock.ErrReconcile); refused != (c.stuck < 0) {
				l.t.Errorf("a repair without %s = %v", c.deleted, err)
			}
		}
	})
}

// Where a reconciliation cannot tell, or would hide something else, it refuses with the reason and changes nothing.
func TestReconcileRefuses(t *testing.T) {
	t.Parallel()
	onEachLine(t, 9, ledger.Rules{}, func(l aLine) {
		l.consume()
		for _, c := range []struct {
			why    string
			repair bool
			make   func()
		}{
			{"different runs", false, func() { l.front(7, "book", 1) }},
			{"ordered or held", false, func() { l.front(7, "changes", 1) }},
			{"ordered or held", false, func() { l.Replicas[0].Sell(l.t, "redis-lua", stock.Redis, l.product, 1, "") }},
			{"than there were at first", true, func() { l.front(20) }},
			{"initial stocks differ", true, func() { l.adjustSQL(-1) }},
			{"in SQL differ by 1 units", true, func() {
				l.exec("UPDATE product_stock SET stock = stock + 1 WHERE id = ?", l.product)
			}},
		} {
			l.SetStock(l.t, l.product, 9, 0)
			l.wantEnds(ledger.TicketSold, l.win("", ""))
			l.wantFront(8, 1)
			c.make()
			r, err := l.reconcile(c.repair)
			why, no := errors.AsType[*stock.ReconcileError](err)
			if !no || !strings.Contains(why.Why, c.why) || r.Repaired != 0 {
				l.t.Errorf("Reconcile() = %+v, %v, want a refusal: %s", r, err, c.why)
			}
		}
		l.SetStock(l.t, l.product, 9, 0)
		_, err := l.reconcile(false)
		testkit.IsError(l.t, err, stock.ErrReconcile, "a product that nobody has bought by tickets")
		if l.Replicas[0].Backends.SQL.MySQL() {
			l.wantEnds(ledger.TicketSold, l.win("", ""))
			other := l.Replicas[0].Set.DB.Begin()
			testkit.Must(l.t, other.Exec("UPDATE product_stock SET version = version + 1 WHERE id = ?", l.product).Error)
			_, err = l.Replicas[1].Reconcile(l.t.Context(), l.product, false)
			testkit.IsError(l.t, err, stock.ErrContended, "a look while somebody has the row")
			testkit.Must(l.t, other.Rollback().Error)
		}
	})
}

// The list of tickets has each of a run, whether it is in flight or has ended, page by page.
func TestListOfTickets(t *testing.T) {
	t.Parallel()
	onEachLine(t, 4, ledger.Rules{PerBuyer: 2}, func(l aLine) {
		want := map[string]ledger.TicketState{}
		for _, buyer := range []string{"a", "b", "b", "c"} {
			_, id, _ := strings.Cut(l.win("", buyer), "-")
			want[id] = ledger.TicketQueued
		}
		list := func() (all map[string]ledger.TicketState) {
			all = map[string]ledger.TicketState{}
			for next, more := "", true; more; more = next != "" {
				var page []ledger.TicketEnd
				var err error
				page, next, _, err = l.Replicas[0].Tickets(l.t.Context(), l.product, next)
				testkit.Must(l.t, err)
				for _, e := range page {
					all[e.ID] = e.State
				}
			}
			return all
		}
		testkit.Same(l.t, list(), want, "tickets in flight")
		l.consume()
		for id := range want {
			want[id] = l.ends(stock.TicketID(l.product, id)).State
		}
		testkit.Same(l.t, list(), want, "tickets that have ended")
		_, _, _, err := l.Replicas[0].Tickets(l.t.Context(), l.product, "gone/x")
		testkit.IsError(l.t, err, stock.ErrInvalid, "an unknown position")
	})
}
