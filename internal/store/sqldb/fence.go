package sqldb

import (
	"context"
	"errors"
	"fmt"

	"lastitem/internal/store"
)

// A fencing token guards the row of a product: the row remembers the highest token that it has seen, in its column
// fence, and the statements here do nothing for a lower one.

// ReadFenced shows the row of a product that is not segmented a fencing token, and reads it, in one transaction. ok is
// false when the row has seen a higher token, or, strictly, when it has seen this one. After any error the stock is
// unchanged.
func (s *Store) ReadFenced(ctx context.Context, product int64, fence uint64, strictly bool) (row Row, ok bool,
	err error) {
	query := s.q.RaiseFence
	if strictly {
		query = s.q.RaiseFenceStrictly
	}
	err = s.Tx(ctx, ReadCommitted, func(tx *Tx) error {
		n, err := tx.affected(query, fence, product, fence)
		if err != nil {
			return err
		}
		ok = n > 0
		row, err = tx.Read(product)
		return err
	})
	if errors.Is(err, store.ErrUnknown) { // unknown is only whether the row has the token
		err = fmt.Errorf("%w: a read without its answer: %s", store.ErrUnavailable, err.Error())
	}
	return row, ok, err
}

// SetFenced writes the count absolutely, unless the row has seen a higher token than fence; ok is false when it has.
func (t *Tx) SetFenced(product, stock int64, fence uint64) (ok bool, err error) {
	n, err := t.affected(t.q.SetFenced, stock, fence, product, fence)
	if err == nil && n == 0 {
		err = t.RefuseHeld(product)
	}
	return n > 0, err
}
