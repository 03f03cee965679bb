package store

import (
	"context"
	"errors"
	"math"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Reset deletes the rows of a product in one transaction, which locks the product's row meanwhile. If there are very many, Trim first removes
// most of its orders in short transactions, like a purge: each adds what it removes to the product's [Purged]. So an audit still adds up if
// the reset fails, and the next Trim goes on where this one stopped.
//
// Until the reset the old run goes on selling, and the reset may never come. So what protects the old run from selling twice stays: the keys
// of its requests, and the orders by which a log's requests without a key are recognised.

// trimFrom is how many batches of rows a product must have before Trim removes any. Trim takes about three times as long as one DELETE of
// all rows: for half a million, 11 s instead of 4 s.
const trimFrom = 50

// Trimming is how a product is trimmed.
type Trimming struct {
	Batch int // how many rows one transaction removes at most
	// Log is the mode whose requests come from a log, "" = there is none. Its orders without a key that were made at Since, in microseconds
	// since the epoch, or later stay: the log may deliver their requests again.
	Log   string
	Since int64
	// Progress is called before the first batch, and after each.
	Progress func()
}

// Trim prepares a product with many rows for [SQL.Reset]: from [trimFrom] batches of orders and keys on, it removes the orders batch by
// batch. Keys stay, and carts with other products.
func (s *SQL) Trim(ctx context.Context, product int64, t Trimming) error {
	var rows int
	err := s.db.WithContext(ctx).Raw(s.q.many, product, trimFrom*t.Batch, product, trimFrom*t.Batch).Row().Scan(&rows)
	if err != nil || rows < trimFrom*t.Batch {
		return statementError(err)
	}
	t.Progress()
	return trim(t.Progress, func() (bool, error) {
		by := []any{product, t.Log, t.Since}
		_, more, err := purge[string](ctx, s, removal{s.q.trimOrders, by, t.Batch, math.MaxInt64, (*Tx).purgeOrders})
		return more, err
	})
}

// Trim is [SQL.Trim] for etcd, whose batches are those of its purge, and which has neither keys nor orders from a log.
func (e *Etcd) Trim(ctx context.Context, product int64, t Trimming) error {
	short, cancel := context.WithTimeout(ctx, e.within)
	res, err := e.c.Get(short, e.orderPrefix(product), clientv3.WithPrefix(), clientv3.WithCountOnly())
	cancel()
	if err != nil {
		return etcdReadError(err)
	}
	if res.Count < int64(trimFrom*t.Batch) {
		return nil
	}
	t.Progress()
	return trim(t.Progress, func() (bool, error) {
		_, more, err := e.purge(ctx, product, math.MaxInt64)
		return more, err
	})
}

// trim calls one until it finds nothing more. A few conflicts in a row, with a purge or a reset, are no failure.
func trim(progress func(), one func() (more bool, err error)) error {
	conflicts := 0
	for more := true; more; {
		var err error
		switch more, err = one(); {
		case err == nil:
			conflicts = 0
			progress()
		case errors.Is(err, ErrConflict) && conflicts < 5:
			more = true
			conflicts++
		default:
			return err
		}
	}
	return nil
}
