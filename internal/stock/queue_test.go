package stock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lastitem/internal/idempotency"
	"lastitem/internal/step"
	"lastitem/internal/stock"
	"lastitem/testkit"
	"lastitem/testkit/stocktest"
)

// aQueue is the queue of one replica, whose writer is held in its first batch, the order of one unit.
type aQueue struct {
	stock.Deductor
	t       *testing.T
	h       *stocktest.Harness
	product int64
	resume  func() stocktest.Result
}

func newQueue(t *testing.T, h *stocktest.Harness, units int64) *aQueue {
	t.Helper()
	a := h.Replicas[0]
	d, err := named(t, "queue", nil).New(a.Deps["queue"])
	testkit.Must(t, err)
	q := &aQueue{Deductor: d, t: t, h: h, product: h.Product(t, units, 0)}
	held := a.Hold(t, step.Written)
	first := stocktest.Go(t, func() (stock.Receipt, error) {
		return q.Deduct(held.Ctx, stocktest.Request(q.product, 1, ""))
	})
	held.Await(t)
	q.resume = func() stocktest.Result { held.Resume(); return first() }
	return q
}

// until waits until the given numbers of requests wait and of products have a writer.
func (q *aQueue) until(writers, waiting int) {
	q.t.Helper()
	testkit.NoError(q.t, fmt.Sprintf("%d writers, %d waiting", writers, waiting), func() error {
		if w, n := stock.QueueState(q.Deductor, q.product); w != writers || n != waiting {
			return fmt.Errorf("%d and %d", w, n)
		}
		return nil
	})
}

// join sends a request and returns when it waits, at place n of the queue.
func (q *aQueue) join(ctx context.Context, req stock.Request, n int) (await func() stocktest.Result) {
	q.t.Helper()
	await = stocktest.Go(q.t, func() (stock.Receipt, error) { return q.Deduct(ctx, req) })
	q.until(1, n)
	return await
}

func (q *aQueue) request(quantity int64, key string) stock.Request {
	if key != "" {
		key = fmt.Sprintf("%d/%s", q.product, key)
	}
	req := stocktest.Request(q.product, quantity, key)
	req.Store = stock.SQL // as the shop fills it in
	return req
}

func (q *aQueue) leaseSeq() uint64 {
	q.t.Helper()
	p, err := q.h.Replicas[0].Product(q.t.Context(), q.product)
	testkit.Must(q.t, err)
	return p.LeaseSeq
}

// All requests that wait while a batch is committed share one update, and each gets its own remaining count.
func TestQueueCommitsTogether(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		const many = 20
		q := newQueue(t, h, 100)
		var results []func() stocktest.Result
		for i := range many {
			results = append(results, q.join(t.Context(), q.request(1, ""), i+1))
		}
		if r := q.resume(); r.Err != nil || *r.Receipt.Remaining != 99 {
			t.Errorf("the first's Deduct() = %+v, %v, want 99 left", r.Receipt, r.Err)
		}
		for i, await := range results {
			if r := await(); r.Err != nil || *r.Receipt.Remaining != int64(98-i) {
				t.Errorf("Deduct() %d = %+v, %v, want %d left", i, r.Receipt, r.Err, 98-i)
			}
		}
		q.until(0, 0)
		if got := q.leaseSeq(); got != 2 {
			t.Errorf("lease_seq = %d after two batches, want 2: one update for each raises it", got)
		}
	})
}

// First come, first served; a request for more than is left is refused, and does not block a smaller one after it.
func TestQueueServesInOrder(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		q := newQueue(t, h, 6)
		three := q.join(t.Context(), q.request(3, ""), 1)
		four := q.join(t.Context(), q.request(4, "four"), 2)
		huge := q.join(t.Context(), q.request(math.MaxInt64, ""), 3)
		two := q.join(t.Context(), q.request(2, "two"), 4)
		one := q.join(t.Context(), q.request(1, "one"), 5)
		if r := q.resume(); r.Err != nil {
			t.Errorf("the first's Deduct() = %v, want nil", r.Err)
		}
		for name, c := range map[string]struct {
			await func() stocktest.Result
			left  int64 // -1 = refused
			has   int64
		}{"three": {three, 2, 0}, "four": {four, -1, 2}, "huge": {huge, -1, 2}, "two": {two, 0, 0}, "one": {one, -1, 0}} {
			r := c.await()
			var refused *stock.SoldOutError
			switch {
			case c.left >= 0 && (r.Err != nil || *r.Receipt.Remaining != c.left):
				t.Errorf("%s: Deduct() = %+v, %v, want %d left", name, r.Receipt, r.Err, c.left)
			case c.left < 0 && (!errors.As(r.Err, &refused) || refused.Available != c.has):
				t.Errorf("%s: Deduct() = %v, want refused, with %d there", name, r.Err, c.has)
			}
		}
		h.WantBooks(t, q.product, stock.SQL, stocktest.Books{Initial: 6, Stock: 0, Sold: 6, Orders: 3, Keys: 3})
	})
}

// A client that hangs up before the batch begins is dropped at once; a full queue takes no request.
func TestQueueTurnsAway(t *testing.T) {
	t.Parallel()
	h := stocktest.Open(t, stocktest.Embedded(t), 1, stock.Modes())
	q := newQueue(t, h, 1<<20)
	ctx, cancel := context.WithCancel(t.Context())
	gone := q.join(ctx, q.request(1, ""), 1)
	cancel()
	if r := gone(); !errors.Is(r.Err, stock.ErrContended) || !errors.Is(r.Err, context.Canceled) {
		t.Errorf("Deduct() of a client that hung up = %v, want ErrContended, and why", r.Err)
	}
	// Most requests that fill the queue leave before they are served: selling to all of them would take half a minute on a
	// busy machine.
	const served = 50
	crowd, leave := context.WithCancel(t.Context())
	defer leave()
	var results, left []func() stocktest.Result
	for range served {
		results = append(results, stocktest.Go(t, func() (stock.Receipt, error) {
			return q.Deduct(t.Context(), q.request(1, ""))
		}))
	}
	for range stock.QueueLimit - 1 - served {
		left = append(left, stocktest.Go(t, func() (stock.Receipt, error) { return q.Deduct(crowd, q.request(1, "")) }))
	}
	q.until(1, stock.QueueLimit)
	if r, err := q.Deduct(t.Context(), q.request(1, "")); !errors.Is(err, stock.ErrContended) {
		t.Errorf("Deduct() with the queue full = %+v, %v, want ErrContended", r, err)
	}
	leave()
	for _, await := range left {
		if r := await(); !errors.Is(r.Err, stock.ErrContended) {
			t.Fatalf("Deduct() of a client that hung up = %+v, %v, want ErrContended", r.Receipt, r.Err)
		}
	}
	q.resume()
	for _, await := range results {
		if r := await(); r.Err != nil {
			t.Fatalf("Deduct() = %v, want nil", r.Err)
		}
	}
	q.until(0, 0)
	h.WantBooks(t, q.product, stock.SQL, stocktest.Books{Initial: 1 << 20, Stock: 1<<20 - served - 1, Sold: served + 1,
		Orders: served + 1})
}

// One key several times in a batch: one effect, and its answer to all; another payload under it is refused.
func TestQueueRepeatsWithinABatch(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		q := newQueue(t, h, 5)
		first := q.join(t.Context(), q.request(2, "k"), 1)
		again := q.join(t.Context(), q.request(2, "k"), 2)
		other := q.join(t.Context(), q.request(1, "k"), 3)
		short := q.join(t.Context(), q.request(9, "short"), 4)
		shortAgain := q.join(t.Context(), q.request(9, "short"), 5)
		q.resume()
		r := first()
		if r.Err != nil || r.Receipt.Stored == nil || r.Receipt.Replayed {
			t.Fatalf("the first's Deduct() = %+v, %v, want a stored answer", r.Receipt, r.Err)
		}
		got := again()
		if diff := cmp.Diff(stock.Receipt{Stored: r.Receipt.Stored, Replayed: true}, got.Receipt); got.Err != nil ||
			diff != "" {
			t.Errorf("the repetition's Deduct() = %v (-want +got):\n%s", got.Err, diff)
		}
		if r := other(); !errors.Is(r.Err, stock.ErrKeyReused) {
			t.Errorf("Deduct() of another payload = %v, want ErrKeyReused", r.Err)
		}
		refused := short()
		if !errors.Is(refused.Err, stock.ErrSoldOut) || refused.Receipt.Stored == nil {
			t.Errorf("Deduct(9) = %+v, %v, want ErrSoldOut and a stored answer", refused.Receipt, refused.Err)
		}
		if r := shortAgain(); r.Err != nil || !r.Receipt.Replayed ||
			!bytes.Equal(r.Receipt.Stored.Body, refused.Receipt.Stored.Body) {
			t.Errorf("Deduct(9) again = %+v, %v, want that refusal replayed", r.Receipt, r.Err)
		}
		h.WantBooks(t, q.product, stock.SQL, stocktest.Books{Initial: 5, Stock: 2, Sold: 3, Orders: 2, Keys: 2})
	})
}

// Keys that already have an answer, from this mode or from idempotent, do not make the rest of their batch fail.
// Another payload under such a key is refused; a repetition of the first payload after it, in the same batch, is not.
func TestQueueReplays(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		product := h.Product(t, 9, 0)
		key := func(name string) string { return fmt.Sprintf("%d/%s", product, name) }
		stored := map[string]*idempotency.Answer{}
		for _, mode := range []string{"queue", "idempotent"} {
			r, err := h.Replicas[1].Deduct(t.Context(), mode, stock.SQL, product, 2, key(mode))
			if err != nil || r.Stored == nil {
				t.Fatalf("%s: Deduct() = %+v, %v, want a stored answer", mode, r, err)
			}
			stored[mode] = r.Stored
		}
		q := newQueue(t, h, 9)
		q.resume() // an idle queue, with a product of its own
		q = &aQueue{Deductor: q.Deductor, t: t, h: h, product: product}
		held := h.Replicas[0].Hold(t, step.Written)
		first := stocktest.Go(t, func() (stock.Receipt, error) { return q.Deduct(held.Ctx, q.request(1, "")) })
		held.Await(t)
		fresh := q.join(t.Context(), q.request(1, "fresh"), 1)
		reused := q.join(t.Context(), q.request(1, "queue"), 2)
		again := q.join(t.Context(), q.request(2, "queue"), 3)
		mixed := q.join(t.Context(), q.request(2, "idempotent"), 4)
		plain := q.join(t.Context(), q.request(1, ""), 5)
		held.Resume()
		for name, await := range map[string]func() stocktest.Result{"first": first, "fresh": fresh, "plain": plain} {
			if r := await(); r.Err != nil || r.Receipt.Replayed {
				t.Errorf("%s: Deduct() = %+v, %v, want a first execution", name, r.Receipt, r.Err)
			}
		}
		r := again()
		if diff := cmp.Diff(stock.Receipt{Stored: stored["queue"], Replayed: true}, r.Receipt); r.Err != nil || diff != "" {
			t.Errorf("Deduct() again = %v (-want +got):\n%s", r.Err, diff)
		}
		for what, await := range map[string]func() stocktest.Result{"of another payload": reused,
			"with a key of idempotent": mixed} {
			if r := await(); !errors.Is(r.Err, stock.ErrKeyReused) {
				t.Errorf("Deduct() %s = %+v, %v, want ErrKeyReused", what, r.Receipt, r.Err)
			}
		}
		h.WantBooks(t, product, stock.SQL, stocktest.Books{Initial: 9, Stock: 2, Sold: 7, Orders: 5, Keys: 3})
	})
}

// A request that panics in the writer panics on its own goroutine, and the other requests of its batch are served.
func TestQueuePanics(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		q := newQueue(t, h, 5)
		before := q.join(t.Context(), q.request(1, "a"), 1)
		req := q.request(1, "b")
		req.Answer = func(stock.Receipt, error) idempotency.Answer { panic("crash") }
		crashed := make(chan any, 1)
		go func() {
			defer func() { crashed <- recover() }()
			_, _ = q.Deduct(t.Context(), req)
		}()
		q.until(1, 2)
		after := q.join(t.Context(), q.request(1, ""), 3)
		q.resume()
		if p := <-crashed; fmt.Sprint(p) != "crash" {
			t.Errorf("recovered %v, want the panic of Answer", p)
		}
		for _, await := range []func() stocktest.Result{before, after} {
			if r := await(); r.Err != nil {
				t.Errorf("Deduct() beside it = %v, want nil", r.Err)
			}
		}
		h.WantBooks(t, q.product, stock.SQL, stocktest.Books{Initial: 5, Stock: 2, Sold: 3, Orders: 3, Keys: 1})
	})
}

// An address may make the server count matched rows instead of changed ones; then a key that exists would look new.
func TestQueueReplaysWhateverTheAddressCounts(t *testing.T) {
	t.Parallel()
	env := stocktest.Real(t)
	sign := "?"
	if strings.Contains(env.SQL, "?") {
		sign = "&"
	}
	env.SQL += sign + "clientFoundRows=true&charset=gbk&time_zone=%27-10%3A00%27"
	h := stocktest.Open(t, env, 2, stock.Modes())
	product := h.Product(t, 5, 0)
	for i, r := range h.Replicas {
		if got, err := r.Deduct(t.Context(), "queue", stock.SQL, product, 1, "k"); err != nil || got.Replayed != (i > 0) {
			t.Errorf("Deduct() %d with one key = %+v, %v, want a replay: %t", i, got, err, i > 0)
		}
	}
	h.WantBooks(t, product, stock.SQL, stocktest.Books{Initial: 5, Stock: 4, Sold: 1, Orders: 1, Keys: 1})
}
