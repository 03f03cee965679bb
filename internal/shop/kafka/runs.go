package kafka

import (
	"context"
	"sync"

	"lastitem/internal/stock"
)

// runReader reads the run that a product is in, once for all who ask at the same time: they join the next read, never
// one that is under way, which may have seen the product before its stock was set.
type runReader struct {
	of    func(ctx context.Context, product int64) (run int64, err error)
	mu    sync.Mutex
	calls map[int64]*runCalls // of the products that are being read
}

// runCalls is the read that is under way, and the one after it; nil = nobody has asked for it yet.
type runCalls struct{ next *runCall }

// runCall is one read.
type runCall struct {
	done chan struct{}
	run  int64
	err  error
}

// read returns the run as it is at some time after the call began.
func (r *runReader) read(ctx context.Context, product int64) (int64, error) {
	r.mu.Lock()
	calls, reading := r.calls[product]
	if !reading {
		calls = &runCalls{}
		r.calls[product] = calls
	}
	if calls.next == nil {
		calls.next = &runCall{done: make(chan struct{})}
	}
	call := calls.next
	r.mu.Unlock()
	if !reading {
		go r.readAll(product, calls) //nolint:gosec // it reads for others too, who may wait longer than the first
	}
	select {
	case <-call.done:
		return call.run, call.err
	case <-ctx.Done():
		return 0, contended(ctx)
	}
}

// readAll reads until nobody asks any more.
func (r *runReader) readAll(product int64, calls *runCalls) {
	for {
		r.mu.Lock()
		call := calls.next
		calls.next = nil
		if call == nil {
			delete(r.calls, product)
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		ctx, cancel := stock.Settling(context.Background())
		call.run, call.err = r.of(ctx, product)
		cancel()
		close(call.done)
	}
}
