package shop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lastitem/contract/ledger"
	"lastitem/internal/stock"
	"lastitem/internal/store"
)

// Cursor is a reader's position in a product's rows, store by store; a store that is not in it has no more rows.
// Clients hold cursors, so every use checks its content.
type Cursor map[stock.Store]ledger.Position

// Page selects the rows of a product to read.
type Page struct {
	After Cursor // nil = from the start
	Limit int    // at most so many orders, and as many keys
	Keys  bool   // the rows of the idempotency table too
}

// Page reads a page of a product's rows in all stores. The first page has the facts and totals of each store, from one
// snapshot per store, and the first rows. A page after a cursor has rows only, and fails if any store fails.
// stock.ErrUnknownProduct when no store has the product.
func (s *Shop) Page(ctx context.Context, id int64, p Page) (Ledger, error) {
	return within(ctx, &s.requests, 0, false, func(ctx context.Context) (Ledger, error) { return s.page(ctx, id, p) })
}

func (s *Shop) page(ctx context.Context, id int64, p Page) (Ledger, error) {
	if p.After != nil {
		return s.pageAfter(ctx, id, p)
	}
	left, next := p.Limit, Cursor{}
	l, err := s.collect(id, func(name stock.Store, r reader) (ledger.Facts, error) {
		f, at, err := r.Snapshot(ctx, id, p.want(left))
		if left -= len(f.Orders); err == nil && !at.End() {
			next[name] = at
		}
		return f, err
	})
	if len(next) > 0 {
		l.Next = next
	}
	return l, err
}

func (p Page) want(orders int) ledger.Want {
	w := ledger.Want{Orders: orders}
	if p.Keys {
		w.Keys = p.Limit
	}
	return w
}

func (s *Shop) pageAfter(ctx context.Context, id int64, p Page) (Ledger, error) {
	l, next := Ledger{Facts: map[stock.Store]ledger.Facts{}}, Cursor{}
	left := p.Limit
	for _, name := range stock.Stores() {
		at, there := p.After[name]
		if !there {
			continue
		}
		r := s.reader(name)
		if r == nil {
			return l, invalid("cursor", "names a store that is not configured")
		}
		if err := s.backends.silent(name, id); err != nil {
			return l, err
		}
		f, at, err := r.Page(ctx, id, at, p.want(left))
		switch {
		case errors.Is(err, store.ErrPosition):
			return l, invalid("cursor", "was not issued by this service")
		case err != nil:
			return l, err
		}
		left -= len(f.Orders)
		if l.Facts[name] = f; !at.End() {
			next[name] = at
		}
	}
	if len(next) > 0 {
		l.Next = next
	}
	return l, nil
}

// AuditLimit is the longest time for an audit that makes progress: enough for some millions of rows. An audit that
// receives nothing from a store for [Options.Work] ends earlier.
const AuditLimit = time.Minute

// Audit calls read with a snapshot of each store that has the product. The result names stores that could not be read.
// stock.ErrUnknownProduct when no store has the product.
func (s *Shop) Audit(ctx context.Context, id int64, read func(stock.Store, *ledger.Snapshot) error) (Ledger, error) {
	return within(ctx, &s.requests, AuditLimit, false, func(ctx context.Context) (Ledger, error) {
		return s.collect(id, func(name stock.Store, r reader) (f ledger.Facts, err error) {
			err = s.progressing(ctx, func(ctx context.Context, progress func()) error {
				return r.Scan(ctx, id, func(snap *ledger.Snapshot) error {
					f = snap.Facts
					snap.Orders, snap.Keys = heard(snap.Orders, progress), heard(snap.Keys, progress)
					return read(name, snap)
				})
			})
			return f, err
		})
	})
}

// heard wraps a reading of rows so that each batch counts as progress.
func heard[T any](rows func(func([]T) error) error, progress func()) func(func([]T) error) error {
	if rows == nil {
		return nil
	}
	return func(each func([]T) error) error {
		return rows(func(batch []T) error {
			progress()
			return each(batch)
		})
	}
}

// progressing runs f with a context that ends once f has not called progress for [Options.Work].
func (s *Shop) progressing(ctx context.Context, f func(ctx context.Context, progress func()) error) error {
	silence := s.requests.work
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(silence, func() { cancel(stock.ErrTooLate) })
	defer cancel(nil)
	defer timer.Stop()
	err := f(ctx, func() { timer.Reset(silence) })
	if err != nil && errors.Is(context.Cause(ctx), stock.ErrTooLate) {
		err = fmt.Errorf("%w: %w: silent for %s: %w", stock.ErrUnavailable, stock.ErrTooLate, silence, err)
	}
	return err
}
