package stock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"lastitem/internal/store"
)

// Cursor is where a reader of a product's rows has got to, store by store; a store that is not in it has no more. It may have been out
// of the house: what it says is checked where it is used.
type Cursor map[Store]store.Position

// Page says which rows of a product are wanted.
type Page struct {
	After Cursor // nil = from the start
	Limit int    // orders, and as many keys again
	Keys  bool   // the rows of the idempotency table too
}

// Page reads a page of what the stores hold on a product: from the start the facts and totals of each store from one snapshot, and the
// first rows; after a cursor rows only, and then any store that fails fails the page. ErrUnknownProduct when no store has the product.
func (s *Shop) Page(ctx context.Context, id int64, p Page) (Ledger, error) {
	return within(ctx, s, 0, false, func(ctx context.Context) (Ledger, error) { return s.page(ctx, id, p) })
}

func (s *Shop) page(ctx context.Context, id int64, p Page) (Ledger, error) {
	if p.After != nil {
		return s.pageAfter(ctx, id, p)
	}
	left, next := p.Limit, Cursor{}
	l, err := s.collect(id, func(name Store, r reader) (store.Facts, error) {
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

func (p Page) want(orders int) store.Want {
	w := store.Want{Orders: orders}
	if p.Keys {
		w.Keys = p.Limit
	}
	return w
}

func (s *Shop) pageAfter(ctx context.Context, id int64, p Page) (Ledger, error) {
	l, next := Ledger{Facts: map[Store]store.Facts{}}, Cursor{}
	left := p.Limit
	for _, name := range stores {
		at, there := p.After[name]
		if !there {
			continue
		}
		r := s.reader(name)
		if r == nil {
			return l, &InvalidError{"cursor", "names a store that is not there"}
		}
		if err := s.deps.silent(name); err != nil {
			return l, err
		}
		f, at, err := r.Page(ctx, id, at, p.want(left))
		switch {
		case errors.Is(err, store.ErrPosition):
			return l, &InvalidError{"cursor", "is none that this service has given"}
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

// Snapshot is one consistent view of a product in one store, with its rows to be read; it is closed when the reader returns.
type Snapshot = store.Snapshot

// Facts is what a snapshot holds of a product.
type Facts = store.Facts

// Order is a row of its orders.
type Order = store.Order

// KeyRow is a row of its answers under idempotency keys.
type KeyRow = store.KeyRow

// auditLimit is how long an audit may take as long as it gets on: some millions of rows. One that hears nothing from a store for
// [Deps.Work] ends.
const auditLimit = time.Minute

// Audit gives read a snapshot of each store that has the product. A store that could not be read, or whose rows could not, is named in
// the result. ErrUnknownProduct when no store has the product.
func (s *Shop) Audit(ctx context.Context, id int64, read func(Store, *Snapshot) error) (Ledger, error) {
	return within(ctx, s, auditLimit, false, func(ctx context.Context) (Ledger, error) {
		return s.collect(id, func(name Store, r reader) (f store.Facts, err error) {
			silence := cmp.Or(s.deps.Work, defaultWork)
			ctx, cancel := context.WithCancelCause(ctx)
			timer := time.AfterFunc(silence, func() { cancel(ErrTooLate) })
			defer cancel(nil)
			defer timer.Stop()
			err = r.Scan(ctx, id, func(snap *store.Snapshot) error {
				f = snap.Facts
				snap.Orders, snap.Keys = heard(snap.Orders, timer, silence), heard(snap.Keys, timer, silence)
				return read(name, snap)
			})
			if err != nil && errors.Is(context.Cause(ctx), ErrTooLate) {
				err = fmt.Errorf("%w: %w: silent for %s: %w", ErrUnavailable, ErrTooLate, silence, err)
			}
			return f, err
		})
	})
}

// heard makes a reading of rows that sets the timer back with each batch.
func heard[T any](rows func(func([]T) error) error, timer *time.Timer, silence time.Duration) func(func([]T) error) error {
	if rows == nil {
		return nil
	}
	return func(each func([]T) error) error {
		return rows(func(batch []T) error {
			timer.Reset(silence)
			return each(batch)
		})
	}
}
