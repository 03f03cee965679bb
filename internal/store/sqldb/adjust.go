package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"lastitem/contract/ledger"
	"lastitem/internal/idempotency"
	"lastitem/internal/store"
)

// Adjust adds units to the stock of a run while it is sold, or takes free ones, in one transaction with the row of its
// key, and returns what it left. earlier: the key was there already, and nothing was done. A [ledger.ShortError]: fewer
// units are free. With look it writes nothing, and only says what it would do.
func (s *Store) Adjust(ctx context.Context, product int64, a ledger.Adjustment, look bool) (done ledger.Adjustment,
	earlier bool, err error) {
	err = s.TripTx(ctx, func(tx *Tx) error {
		done, earlier, err = ReservationTx{tx}.adjust(product, a)
		if err == nil && look {
			err = errLooked
		}
		return err
	})
	if errors.Is(err, errLooked) {
		err = nil
	}
	return done, earlier, err
}

var errLooked = errors.New("store: nothing was to be written")

// adjust locks the product first. That is not the order of the others, who lock units before it: a deadlock is a
// conflict, and begins again.
func (t ReservationTx) adjust(product int64, a ledger.Adjustment) (_ ledger.Adjustment, earlier bool, err error) {
	there, err := t.affected(t.q.AdjustLock, product)
	if err == nil && there == 0 {
		err = &ledger.ProductError{Err: store.ErrUnknownProduct, ProductID: product}
	}
	var f ledger.Facts
	row := func(query string, args ...any) *sql.Row { return t.conn.QueryRowContext(t.ctx, query, args...) }
	if err == nil {
		err = statementError(scanFacts(row(t.q.Facts, product), &f))
	}
	if err != nil {
		return a, false, err
	}
	first, err := allRows(t.ctx, t.conn, scanAdjustment, t.q.AdjustedBy, product, f.Run, a.Key)
	switch {
	case err != nil:
		return a, false, err
	case len(first) > 0 && (first[0].Delta != a.Delta || first[0].Reason != a.Reason):
		return a, false, idempotency.ErrKeyReused
	case len(first) > 0:
		return first[0], true, nil
	}
	if err = statementError(t.q.count(product, &f, row)); err == nil {
		a.AtMicros, err = t.now()
	}
	next, ok := f.Sold.After(ledger.Adjust)
	a.Initial, a.Stock = f.Initial+a.Delta, f.Stock+a.Delta
	switch {
	case err != nil:
		return a, false, err
	case !ok, f.Sold == ledger.InUnits && a.Initial > ledger.MaxUnits:
		return a, false, &ledger.ProductError{Err: store.ErrAdjustUnsupported, ProductID: product}
	case a.Stock < 0:
		return a, false, &ledger.ShortError{Err: store.ErrShort, ProductID: product, Requested: -a.Delta,
			Available: f.Stock}
	}
	if f.Sold == ledger.InUnits {
		if err := t.adjustUnits(product, f.Run, a.Delta); err != nil {
			return a, false, err
		}
	}
	if next != f.Sold {
		way, segments := columns(next, 0)
		t.later(t.q.HoldWay, way, segments, product, f.Run, way)
	}
	t.later(t.q.Adjust, a.Delta, a.Delta, product)
	t.later(t.q.AdjustmentInsert, product, f.Run, a.Key, a.Delta, a.Reason, a.Initial, a.Stock, a.AtMicros)
	return a, false, nil
}

// adjustUnits makes rows of units, or deletes free ones. Those that others have locked may come back: it begins again.
func (t ReservationTx) adjustUnits(product, run, delta int64) error {
	if delta > 0 {
		var last int64
		if err := t.conn.QueryRowContext(t.ctx, t.q.UnitsLast, product, run).Scan(&last); err != nil {
			return statementError(err)
		}
		return t.makeUnits(product, run, last, last+delta)
	}
	spare, err := allRows(t.ctx, t.conn, column[int64], t.q.UnitsSpare, product, run, -delta)
	if err == nil && int64(len(spare)) < -delta {
		err = errOvertaken
	}
	for part := range slices.Chunk(spare, 1000) {
		if err == nil {
			err = t.exec(list(t.q.UnitsDelete, len(part)), append([]any{product, run}, anys(part)...)...)
		}
	}
	return err
}
