package stock

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"lastitem/internal/step"
	"lastitem/say/text"
)

// queue avoids contention for the row: in each replica, one writer per product takes all waiting requests and commits
// them together. A commit costs the same for one order and for a hundred, so the cost of an order falls as load rises.
// No request is answered before the commit; between replicas the row lock of the conditional update decides.
//
//	A, B, C   queued ─┐
//	writer            └─ UPDATE stock = stock - 3 WHERE stock >= 3 ── INSERT 3 orders ── COMMIT ── 200 to A, B, C
//	D, E                      queued ·········································· the next batch
var queue = Mode{
	Name:     "queue",
	Title:    text.Of("A single writer per product; one transaction for all that wait"),
	Needs:    []Backend{NeedSQL},
	Queued:   true,
	PerBuyer: true,
	Stores:   []Store{SQL},
	Adjusts:  true,
	Claims:   firstAnswer,
	New:      func(d Deps) (Deductor, error) { return newQueue(d), nil },
}

// queueLimit is how many requests may wait for one product in one replica; further requests are refused as contended.
// queueBatch is the most that the writer takes at once: a longer transaction would delay the other replicas.
const (
	queueLimit = 4096
	queueBatch = 500
)

type queueDeductor struct {
	deps  Deps
	mu    sync.Mutex
	lines map[int64]*line // of the products that have a writer
}

// line is the queue of one product.
type line struct{ waiting []*queued }

// queued is a ticket and the caller that waits for it.
type queued struct {
	Ticket
	taken, gone bool // under the deductor's mutex: the batch has begun, or the client hung up before it
	done        sync.WaitGroup
}

func newQueue(d Deps) *queueDeductor { return &queueDeductor{deps: d, lines: map[int64]*line{}} }

func (q *queueDeductor) Deduct(ctx context.Context, req Request) (Receipt, error) {
	order, err := q.deps.Orders.New(req, nil, 0)
	if err != nil {
		return Receipt{}, err
	}
	order.Buyer = req.Buyer
	w := &queued{Ticket: Ticket{Ctx: ctx, Order: order, Answer: req.Answer}}
	if len(req.Key) > 0 {
		if w.Fingerprint, err = fingerprint(req); err != nil {
			return Receipt{}, err
		}
	}
	q.deps.Steps.At(ctx, step.Waiting, "")
	if err := q.join(w); err != nil {
		return Receipt{}, err
	}
	stop := context.AfterFunc(ctx, func() { q.leave(w) })
	w.done.Wait()
	stop()
	if w.Panicked != nil {
		panic(w.Panicked) // in the request's goroutine, which recovers it
	}
	if w.Err == nil && !w.Receipt.Replayed {
		q.deps.Steps.At(ctx, step.Committed, "")
	}
	return w.Receipt, w.Err
}

// join appends w to its product's queue. The first request starts the writer.
func (q *queueDeductor) join(w *queued) error {
	product := w.Order.ProductID
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[product]
	if l == nil {
		l = &line{}
		q.lines[product] = l
		go q.write(product, l)
	}
	if len(l.waiting) >= queueLimit {
		return fmt.Errorf("%w: %d requests for product %d are waiting", ErrContended, queueLimit, product)
	}
	w.done.Add(1)
	l.waiting = append(l.waiting, w)
	return nil
}

// leave drops w, whose client has hung up, unless its batch has begun: then w is executed.
func (q *queueDeductor) leave(w *queued) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.taken || w.gone {
		return
	}
	w.gone = true
	w.Err = fmt.Errorf("%w: gave up in the queue: %w", ErrContended, context.Cause(w.Ctx))
	w.done.Done()
}

// write commits batches until no request waits.
func (q *queueDeductor) write(product int64, l *line) {
	for {
		runtime.Gosched() // lets requests that are about to join get into this batch
		batch := q.next(product, l)
		if batch == nil {
			return
		}
		tickets := make([]*Ticket, len(batch))
		for i, w := range batch {
			tickets[i] = &w.Ticket
		}
		q.deps.Group.Commit(product, tickets)
		for _, w := range batch {
			w.done.Done()
		}
	}
}

// next takes the next batch; nil = no request waits, and the writer ends.
func (q *queueDeductor) next(product int64, l *line) (batch []*queued) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for n < len(l.waiting) && len(batch) < queueBatch {
		w := l.waiting[n]
		n++
		if w.gone {
			continue
		}
		if err := Begin(w.Ctx); err != nil {
			w.gone, w.Err = true, err
			w.done.Done()
			continue
		}
		w.taken = true
		batch = append(batch, w)
	}
	if l.waiting = l.waiting[n:]; len(batch) == 0 {
		delete(q.lines, product)
	}
	return batch
}
