package stock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"lastitem/internal/lock/sqllock"
	"lastitem/internal/step"
	"lastitem/internal/stock"
	"lastitem/testkit"
	"lastitem/testkit/stocktest"
)

// The lock is free before the commit. A stops between the two; B gets the lock, and reads units that A has already
// sold.
func TestUnlockedBeforeCommit(t *testing.T) {
	t.Parallel()
	h := stocktest.Open(t, stocktest.Real(t), 2, stock.Modes())
	for mode, b := range map[string]*stocktest.Replica{"mutex-in-tx": h.Replicas[0], "lock-in-tx": h.Replicas[1]} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			a, product := h.Replicas[0], h.Product(t, 1, 0)
			first := hold(t, a, step.Released, mode, stock.SQL, product, "a")
			second := hold(t, b, step.Read, mode, stock.SQL, product, "b")
			first.sells(t)
			second.sells(t)
			h.WantBooks(t, product, stock.SQL, soldTwice)
		})
	}
}

// overtakenSQL lets B buy a unit after A has read, and returns A's result, and the row's time as A read it and as B
// left it.
func overtakenSQL(t *testing.T, h *stocktest.Harness, mode string, product int64) (a stocktest.Result, read,
	left string) {
	t.Helper()
	first := hold(t, h.Replicas[0], step.Read, mode, stock.SQL, product, "a")
	read = updatedAt(t, h, product)
	h.Replicas[1].Sell(t, mode, stock.SQL, product, 1, "b")
	left = updatedAt(t, h, product)
	first.Resume()
	return first.result(), read, left
}

func updatedAt(t *testing.T, h *stocktest.Harness, product int64) string {
	t.Helper()
	row, err := h.Replicas[0].Backends.SQL.Read(t.Context(), product)
	testkit.Must(t, err)
	return row.UpdatedAt
}

// Two writes in one second leave the same time, and the last unit is sold twice; in different seconds it is not.
func TestSQLUpdatetimeWithinOneSecond(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		for begin := time.Now(); time.Since(begin) < stocktest.Patience; {
			product := h.Product(t, 1, 0)
			a, read, left := overtakenSQL(t, h, "sql-updatetime", product)
			got := h.Books(t, product, stock.SQL)
			if read != left { // the second ended in between, so the comparison has noticed
				want := stocktest.Books{Initial: 1, Stock: 0, Sold: 1, Orders: 1}
				if !errors.Is(a.Err, stock.ErrSoldOut) || got != want {
					t.Errorf("over two seconds: A's Deduct() = %v, books = %+v, want ErrSoldOut and %+v", a.Err, got, want)
				}
				continue
			}
			if want := (stocktest.Books{Initial: 1, Stock: 0, Sold: 2, Orders: 2}); a.Err != nil || got != want {
				t.Errorf("in one second: A's Deduct() = %v, books = %+v, want nil and %+v", a.Err, got, want)
			}
			return
		}
		t.Error("no two deductions fell into one second")
	})
}

// An overtaken deduction begins again, a bounded number of times.
func TestSQLVersionOvertaken(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		product := h.Product(t, 2, 0)
		if a, _, _ := overtakenSQL(t, h, "sql-version", product); a.Err != nil || a.Receipt.Remaining == nil ||
			*a.Receipt.Remaining != 0 {
			t.Errorf("overtakenSQL by one: Deduct() = %+v, %v, want the second unit", a.Receipt, a.Err)
		}
		product = h.Product(t, 1, 0)
		if a, _, _ := overtakenSQL(t, h, "sql-version", product); !errors.Is(a.Err, stock.ErrSoldOut) {
			t.Errorf("overtakenSQL by the buyer of the last: Deduct() = %v, want ErrSoldOut", a.Err)
		}
		product = h.Product(t, 100, 0)
		reads := int64(0)
		w := h.Replicas[0].Watch(t, func(_ *stocktest.Watched, p step.Point) {
			if p != step.Read {
				return
			}
			reads++
			h.Replicas[1].Sell(t, "sql-version", stock.SQL, product, 1, "")
		})
		if _, err := h.Replicas[0].Deduct(w.Ctx, "sql-version", stock.SQL, product, 1, "a"); !errors.Is(err,
			stock.ErrContended) || reads < 2 {
			t.Errorf("overtakenSQL each time: Deduct() = %v after %d reads, want ErrContended after several", err, reads)
		}
		h.WantBooks(t, product, stock.SQL, stocktest.Books{Initial: 100, Stock: 100 - reads, Sold: reads, Orders: int(reads)})
	})
}

// A lock row whose holder has died stays until somebody deletes it: here, the next run.
func TestSQLUniqueHolderDies(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		product := h.Product(t, 5, 0)
		crashed, err := sqllock.NewUnique(h.Replicas[0].Backends.SQL.DB(), nil)
		testkit.Must(t, err)
		key := fmt.Sprintf("%slock:sql-unique:{%d}", h.Replicas[0].Backends.Lockers.Prefix, product)
		_, err = crashed.Acquire(t.Context(), key)
		testkit.Must(t, err)
		for _, r := range h.Replicas {
			req := stocktest.Request(product, 1, "k")
			req.Wait = 20 * time.Millisecond
			_, err := r.Shop.Deduct(t.Context(), "sql-unique", req)
			testkit.IsError(t, err, stock.ErrLockBusy, "Deduct() on %s once a holder has died", r.Options.Replica)
		}
		h.SetStock(t, product, 5, 0)
		h.Replicas[1].Sell(t, "sql-unique", stock.SQL, product, 1, "k")
	})
}

// A client that hangs up while it waits for the row leaves at once, and its statement at the server does not block
// others.
func TestSQLForUpdateHangsUpWaiting(t *testing.T) {
	t.Parallel()
	h := stocktest.Open(t, stocktest.Real(t), 2, stock.Modes())
	a, b, product := h.Replicas[0], h.Replicas[1], h.Product(t, 5, 0)
	first := hold(t, a, step.Locked, "sql-for-update", stock.SQL, product, "a")
	waiting := b.Watch(t, nil)
	req := stocktest.Request(product, 1, "b")
	req.Wait = stocktest.Patience
	second := stocktest.Go(t, func() (stock.Receipt, error) { return b.Shop.Deduct(waiting.Ctx, "sql-for-update", req) })
	awaitStatement(t, h, "%FOR UPDATE")
	waiting.Cancel()
	if r := second(); !errors.Is(r.Err, stock.ErrLockBusy) || !errors.Is(r.Err, context.Canceled) {
		t.Errorf("B's Deduct() = %v, want ErrLockBusy, since its client has gone", r.Err)
	}
	first.sells(t)
	b.Sell(t, "sql-atomic", stock.SQL, product, 1, "c")
	h.WantBooks(t, product, stock.SQL, stocktest.Books{Initial: 5, Stock: 3, Sold: 2, Orders: 2})
}
