package tickets

import (
	"context"
	"sync"
	"time"

	"lastitem/internal/stock"
)

// waiting are the readers of this replica that wait for an end. Those of a product share one question to Redis at a
// time.
type waiting struct {
	most int
	mu   sync.Mutex
	all  int
	of   map[int64]map[string]*gone
}

// gone is closed when a ticket is not in flight any more, or nobody can tell.
type gone struct {
	closed  chan struct{}
	readers int
}

// askEvery is the time between two questions about the tickets of a product.
const askEvery = 25 * time.Millisecond

// wait waits until a ticket is not in flight any more, at most for some time.
func (w *waiting) wait(ctx context.Context, product int64, order string, most time.Duration,
	queued func(ctx context.Context, product int64, ids ...string) ([]int64, error)) error {
	w.mu.Lock()
	if w.all >= w.most {
		w.mu.Unlock()
		return stock.ErrCrowded
	}
	w.all++
	if w.of == nil {
		w.of = map[int64]map[string]*gone{}
	}
	if w.of[product] == nil {
		w.of[product] = map[string]*gone{}
		go w.ask(product, queued) //nolint:gosec // it asks for all who wait, and some may wait longer than the first
	}
	g := w.of[product][order]
	if g == nil {
		g = &gone{closed: make(chan struct{})}
		w.of[product][order] = g
	}
	g.readers++
	w.mu.Unlock()
	defer w.leave(product, order, g)
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-g.closed:
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (w *waiting) leave(product int64, order string, g *gone) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all--
	if g.readers--; g.readers == 0 && w.of[product][order] == g {
		delete(w.of[product], order)
	}
}

// ask asks about the tickets of a product that somebody waits for, until nobody does.
func (w *waiting) ask(product int64, queued func(ctx context.Context, product int64, ids ...string) ([]int64, error)) {
	for {
		time.Sleep(askEvery)
		w.mu.Lock()
		ids := make([]string, 0, len(w.of[product]))
		for id := range w.of[product] {
			ids = append(ids, id)
		}
		if len(ids) == 0 {
			delete(w.of, product)
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), 20*askEvery)
		units, err := queued(ctx, product, ids...)
		cancel()
		w.mu.Lock()
		for i, id := range ids {
			if g := w.of[product][id]; g != nil && (err != nil || units[i] == 0) {
				close(g.closed)
				delete(w.of[product], id)
			}
		}
		w.mu.Unlock()
	}
}
