package stock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lastitem/internal/idempotency"
	"lastitem/internal/step"
	"lastitem/internal/stock"
	"lastitem/testkit"
	"lastitem/testkit/stocktest"
)

// once sends an idempotent request.
func once(ctx context.Context, r *stocktest.Replica, product, quantity int64, key string) (stock.Receipt, error) {
	return r.Deduct(ctx, "idempotent", stock.SQL, product, quantity, key)
}

// A key belongs to the first request, of whichever product, until the stock of that is set. The suite has more on what
// is replayed.
func TestIdempotentReplays(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		product := h.Product(t, 5, 0)
		for i := range 2 {
			if r, err := once(t.Context(), h.Replicas[i], product, 2, "sale"); err != nil || r.Replayed != (i > 0) {
				t.Fatalf("Deduct() %d = %+v, %v, want a replay: %t", i, r, err, i > 0)
			}
		}
		_, err := once(t.Context(), h.Replicas[1], h.Product(t, 5, 0), 2, "sale")
		testkit.IsError(t, err, stock.ErrKeyReused, "Deduct() of another product with the same key")
		h.SetStock(t, product, 5, 0)
		if r, err := once(t.Context(), h.Replicas[2], product, 1, "sale"); err != nil || r.Replayed {
			t.Errorf("Deduct() after SetStock = %+v, %v, want a first execution: the keys are cleared", r, err)
		}
	})
}

// There are as many keys as requests, so a lock on a key must leave nothing that lives much longer than the TTL.
func TestIdempotentLeavesNoLocks(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		product, r := h.Product(t, 5, 0), h.Replicas[0]
		for i := range 3 {
			if _, err := once(t.Context(), r, product, 2, fmt.Sprint(i)); err != nil && !errors.Is(err, stock.ErrSoldOut) {
				t.Fatalf("Deduct() = %v", err)
			}
		}
		hungUp := r.HangUp(t, step.Committed)
		_, _ = once(hungUp.Ctx, r, product, 1, "gone")
		for _, key := range r.Backends.Lockers.Client.Keys(t.Context(), r.Backends.Lockers.Prefix+"lock:key:*").Val() {
			ttl, err := r.Backends.Lockers.Client.PTTL(t.Context(), key).Result()
			if err != nil || ttl < 0 || ttl > r.Backends.Lockers.TTL {
				t.Errorf("%s stays for %v, %v, want the TTL of the lock, %v, at most", key, ttl, err, r.Backends.Lockers.TTL)
			}
		}
	})
}

func TestIdempotentOneKeyManyRivals(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		product := h.Product(t, 50, 0)
		var results []func() stocktest.Result
		for i := range 12 {
			results = append(results, stocktest.Go(t, func() (stock.Receipt, error) {
				return once(t.Context(), h.Replicas[i%3], product, 1, "one")
			}))
		}
		executed := 0
		for _, await := range results {
			switch r := await(); {
			case r.Err == nil && !r.Receipt.Replayed:
				executed++
			case r.Err != nil && !errors.Is(r.Err, stock.ErrInFlight):
				t.Errorf("rival's Deduct() = %v, want the replay or ErrInFlight", r.Err)
			}
		}
		want := stocktest.Books{Initial: 50, Stock: 49, Sold: 1, Orders: 1, Keys: 1}
		if got := h.Books(t, product, stock.SQL); executed != 1 || got != want {
			t.Errorf("%d executed, books = %+v, want 1 and %+v", executed, got, want)
		}
	})
}

// The lock on the key is deleted while the first request holds it: the unique index blocks the rival until the first
// has committed.
func TestIdempotentLockLost(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		product := h.Product(t, 5, 0)
		a, b := h.Replicas[0], h.Replicas[1]
		held := a.Hold(t, step.Ordered)
		first := stocktest.Go(t, func() (stock.Receipt, error) { return once(held.Ctx, a, product, 1, "k") })
		held.Await(t)
		_, err := once(t.Context(), b, product, 1, "k")
		var busy *idempotency.InFlightError
		if !errors.As(err, &busy) || !errors.Is(err, stock.ErrInFlight) || busy.Left <= 0 ||
			busy.Held+busy.Left != b.Backends.Lockers.TTL {
			t.Errorf("rival's Deduct() while the first is in its transaction = %v, want ErrInFlight with what is over of the "+
				"TTL, and what is left", err)
		} else if again := busy.Again(); again > max(busy.Held, time.Second) {
			t.Errorf("the rival may come again after %s, want that to be soon: the first is alive", again)
		}
		h.DeleteLocks(t)
		rival := b.Hold(t, step.Locked)
		second := stocktest.Go(t, func() (stock.Receipt, error) { return once(rival.Ctx, b, product, 1, "k") })
		rival.Await(t)
		rival.Resume()
		awaitBlocked(t, h)
		held.Resume()
		want := first()
		if want.Err != nil {
			t.Fatalf("the first's Deduct() = %v, want nil", want.Err)
		}
		got := second()
		if diff := cmp.Diff(stock.Receipt{Stored: want.Receipt.Stored, Replayed: true}, got.Receipt); got.Err != nil ||
			diff != "" {
			t.Errorf("the rival's Deduct(): %v (-want +got):\n%s", got.Err, diff)
		}
		h.WantBooks(t, product, stock.SQL, stocktest.Books{Initial: 5, Stock: 4, Sold: 1, Orders: 1, Keys: 1})
	})
}

// awaitBlocked waits until the rival's insert is running, if the server can report that. The insert cannot end before
// the first transaction has.
func awaitBlocked(t *testing.T, h *stocktest.Harness) {
	t.Helper()
	if h.Replicas[2].Backends.SQL.MySQL() {
		awaitStatement(t, h, "INSERT IGNORE%")
	}
}

// awaitStatement waits until a statement that matches like is running on the server.
func awaitStatement(t *testing.T, h *stocktest.Harness, like string) {
	t.Helper()
	ctx := testkit.Within(t, stocktest.Patience)
	for running := 0; running == 0; time.Sleep(time.Millisecond) {
		err := h.Replicas[0].Set.DB.WithContext(ctx).Raw(
			"SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND info LIKE ?",
			like).Row().Scan(&running)
		testkit.Mustf(t, err, "no statement like %s came", like)
	}
}

func TestIdempotentKeysAreBytes(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		keys := []string{
			"a", "A", "a ", " a", "á", "a\x00", "\xff\xfe", "\xff", "97", "?", "'", `\`,
			strings.Repeat("k", idempotency.MaxKey), strings.Repeat("k", idempotency.MaxKey-1),
			strings.Repeat("\xff", idempotency.MaxKey),
		}
		product := h.Product(t, int64(len(keys)), 0)
		for _, k := range keys {
			if r, err := once(t.Context(), h.Replicas[0], product, 1, k); err != nil || r.Replayed {
				t.Errorf("Deduct() with key %.20q = %+v, %v, want a first execution", k, r, err)
			}
		}
		for _, k := range keys {
			if r, err := once(t.Context(), h.Replicas[1], product, 1, k); err != nil || !r.Replayed {
				t.Errorf("repeated Deduct() with key %.20q = %+v, %v, want a replay", k, r, err)
			}
		}
		l, err := h.Replicas[0].Ledger(t.Context(), product)
		testkit.Must(t, err)
		stored, ordered := map[string]bool{}, map[string]bool{}
		for _, row := range l.Facts[stock.SQL].Keys {
			stored[string(row.Key)] = true
		}
		for _, o := range l.Facts[stock.SQL].Orders {
			ordered[string(o.Key)] = true
		}
		for _, k := range keys {
			if !stored[k] || !ordered[k] {
				t.Errorf("key %.20q: stored %t, on its order %t, want both", k, stored[k], ordered[k])
			}
		}
	})
}

// An outcome that is not final leaves neither the key nor the lock.
func TestIdempotentKeepsNoFailure(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		unknown := h.Product(t, 1, 0) + 1000
		segmented, product := h.Product(t, 5, 2), h.Product(t, 5, 0)
		r := h.Replicas[0]
		_, err := once(t.Context(), r, unknown, 1, "1")
		testkit.IsError(t, err, stock.ErrUnknownProduct, "Deduct() of an unknown product")
		_, err = once(t.Context(), r, segmented, 1, "2")
		testkit.IsError(t, err, stock.ErrSegmented, "Deduct() of a segmented product")
		crash(t, r, product, "3")
		for i, key := range []string{"1", "2", "3"} {
			if r, err := once(t.Context(), h.Replicas[1], product, 1, key); err != nil || r.Replayed {
				t.Errorf("Deduct() with key %d, which failed before, = %+v, %v, want a first execution", i+1, r, err)
			}
		}
		h.WantBooks(t, product, stock.SQL, stocktest.Books{Initial: 5, Stock: 2, Sold: 3, Orders: 3, Keys: 3})
	})
}

// crash panics inside the transaction, after all its writes but one.
func crash(t *testing.T, r *stocktest.Replica, product int64, key string) {
	t.Helper()
	req := stocktest.Request(product, 1, key)
	req.Answer = func(stock.Receipt, error) idempotency.Answer { panic("crash") }
	defer func() {
		if p := recover(); !strings.HasPrefix(fmt.Sprint(p), "crash") {
			t.Errorf("recovered %v, want the panic of Answer", p)
		}
	}()
	got, err := r.Shop.Deduct(t.Context(), "idempotent", req)
	t.Errorf("Deduct() = %+v, %v, want a panic", got, err)
}
