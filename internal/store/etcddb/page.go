package etcddb

import (
	"context"
	"errors"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"lastitem/contract/ledger"
	"lastitem/internal/store"
)

// Snapshot reads a product at one revision: its facts and totals, and its first orders by id (ids begin with the time).
// The position is the one after these orders.
func (e *Store) Snapshot(ctx context.Context, product int64, want ledger.Want) (f ledger.Facts, p ledger.Position,
	err error) {
	f, p, err = e.first(ctx, product, want)
	if err != nil || p.NoOrders {
		return f, p, err
	}
	// The remaining orders are only summed.
	err = e.walk(ctx, product, p, func(batch []ledger.Order) error {
		for _, o := range batch {
			f.Totals.Units += o.Quantity
		}
		return nil
	})
	return f, p, err
}

// first is Snapshot, except that it sums only the first orders.
func (e *Store) first(ctx context.Context, product int64, want ledger.Want) (f ledger.Facts, p ledger.Position,
	err error) {
	short, cancel := context.WithTimeout(ctx, e.within)
	defer cancel()
	all := append(e.askFacts(product), e.askOrders(product, ledger.Position{}, max(want.Orders, 1)))
	res, err := e.c.Txn(short).Then(all...).Commit()
	if err != nil {
		return f, p, readError(err)
	}
	if f, err = decodeFacts(res, product); err != nil {
		return f, p, err
	}
	rows := res.Responses[len(all)-1].GetResponseRange()
	if f.Orders, err = decodeOrders(rows.Kvs[:min(len(rows.Kvs), max(want.Orders, 0))]); err != nil {
		return f, p, err
	}
	p = ledger.Position{Revision: res.Header.Revision, NoKeys: true}
	advance(&p, f.Orders, rows.Count)
	f.Totals.Orders = rows.Count
	for _, o := range f.Orders {
		f.Totals.Units += o.Quantity
	}
	return f, p, nil
}

// Page reads the orders after a position, and returns the position after them. It reads the reader's first snapshot, as
// long as etcd has not compacted its revision.
func (e *Store) Page(ctx context.Context, product int64, p ledger.Position, want ledger.Want) (f ledger.Facts,
	next ledger.Position, err error) {
	f, next, err = e.page(ctx, product, p, want)
	if errors.Is(err, rpctypes.ErrCompacted) || errors.Is(err, rpctypes.ErrFutureRev) {
		p.Revision = 0
		f, next, err = e.page(ctx, product, p, want)
	}
	return f, next, err
}

// page is Page at the position's revision only: orders of a later one do not belong to the count and the totals of the
// snapshot.
func (e *Store) page(ctx context.Context, product int64, p ledger.Position, want ledger.Want) (f ledger.Facts,
	next ledger.Position, err error) {
	next = p
	next.NoKeys = true
	if p.NoOrders || want.Orders <= 0 {
		return f, next, nil
	}
	short, cancel := context.WithTimeout(ctx, e.within)
	defer cancel()
	rows, err := e.c.Do(short, e.askOrders(product, p, want.Orders))
	if err != nil {
		return f, p, readError(err)
	}
	f.Orders, err = decodeOrders(rows.Get().Kvs)
	advance(&next, f.Orders, rows.Get().Count)
	return f, next, err
}

// advance moves a position behind a page, given how many orders were left before it.
func advance(p *ledger.Position, page []ledger.Order, left int64) {
	if p.NoOrders = int64(len(page)) >= left; len(page) > 0 {
		p.Order = page[len(page)-1].ID
	}
}

// askOrders asks for orders after a position, at its revision.
func (e *Store) askOrders(product int64, p ledger.Position, n int) clientv3.Op {
	from, end := e.orderPrefix(product), clientv3.GetPrefixRangeEnd(e.orderPrefix(product))
	if p.Order != "" {
		from += p.Order + "\x00"
	}
	if !strings.HasPrefix(from, e.orderPrefix(product)) || from >= end {
		from = end // nothing
	}
	return clientv3.OpGet(from, clientv3.WithRange(end), clientv3.WithLimit(int64(n)), clientv3.WithRev(p.Revision))
}

// Scan calls body with a snapshot of a product at one revision.
func (e *Store) Scan(ctx context.Context, product int64, body func(*ledger.Snapshot) error) error {
	f, p, err := e.first(ctx, product, ledger.Want{})
	if err != nil {
		return err
	}
	return body(&ledger.Snapshot{Facts: f, Orders: func(each func([]ledger.Order) error) error {
		return e.walk(ctx, product, p, each)
	}})
}

// walk reads the orders after a position in batches.
func (e *Store) walk(ctx context.Context, product int64, p ledger.Position, each func([]ledger.Order) error) error {
	for !p.NoOrders {
		f, next, err := e.page(ctx, product, p, ledger.Want{Orders: store.BatchRows})
		if err != nil {
			return err
		}
		if err := each(f.Orders); err != nil {
			return err
		}
		p = next
	}
	return nil
}
