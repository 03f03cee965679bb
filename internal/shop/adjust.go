package shop

import (
	"context"
	"errors"
	"fmt"

	"lastitem/contract/ledger"
	"lastitem/internal/lock"
	"lastitem/internal/stock"
	"lastitem/internal/store"
)

// Adjusted is what an adjustment has left in each store that has the product.
type Adjusted struct {
	Left   map[stock.Store]ledger.Adjustment
	Replay bool // all of it was done before
}

// adjusting is one store's way to adjust the stock of a product: see [lastitem/internal/store/sqldb.Store.Adjust].
type adjusting func(ctx context.Context, product int64, a ledger.Adjustment, look bool) (done ledger.Adjustment,
	earlier bool, err error)

// Adjust adds units to the stock of a product while it is sold, or takes free ones: in one store, or, at "", in each
// that has the product. A *stock.SoldOutError, or stock.ErrAdjustUnsupported: nothing was changed. Each store is
// changed at once; of several, all are asked first whether they can. If one fails after another was changed, the error
// is stock.ErrUnknown: repeat it with the same key, under which a store that was changed answers the same again.
func (s *Shop) Adjust(ctx context.Context, product int64, at stock.Store, a ledger.Adjustment) (Adjusted, error) {
	if len(a.Key) == 0 {
		return Adjusted{}, stock.ErrKeyMissing
	}
	if err := (stock.Request{Key: a.Key, Items: []stock.Item{{ProductID: product, Quantity: 1}}}).Check(); err != nil {
		return Adjusted{}, err
	}
	ways, err := s.adjusters(product, at)
	if err == nil && at != "" {
		err = s.alone(ctx, product)
	}
	var names []stock.Store
	begun, look := false, adjusted{} // begun: an earlier request with the key has changed a store
	stores := stock.Stores()
	if a.Delta > 0 { // who wins a ticket in Redis must find its unit in SQL
		stores = []stock.Store{stock.SQL, stock.Redis, stock.Etcd}
	}
	for _, name := range stores {
		way, there := ways[name]
		if !there || err != nil {
			continue
		}
		look, err = s.adjust(ctx, way, product, a, true)
		begun = begun || look.earlier
		if errors.Is(err, stock.ErrUnknownProduct) {
			err = nil
		} else {
			names = append(names, name)
		}
	}
	switch {
	case err != nil && begun:
		return Adjusted{}, fmt.Errorf("%w: an earlier request has adjusted another store: %w", stock.ErrUnknown, err)
	case err != nil:
		return Adjusted{}, err
	case len(names) == 0:
		return Adjusted{}, &ledger.ProductError{Err: stock.ErrUnknownProduct, ProductID: product, Store: string(at)}
	}
	out := Adjusted{Left: map[stock.Store]ledger.Adjustment{}, Replay: true}
	for _, name := range names {
		done, err := s.adjust(ctx, ways[name], product, a, false)
		if err != nil && len(out.Left) > 0 {
			err = fmt.Errorf("%w: stores adjusted: %d: %s: %w", stock.ErrUnknown, len(out.Left), name, err)
		}
		if err != nil {
			return Adjusted{}, err
		}
		out.Left[name], out.Replay = done.Adjustment, out.Replay && done.earlier
	}
	return out, nil
}

// alone refuses to adjust one store only of a product that is sold by tickets: Redis and SQL would differ from then on.
func (s *Shop) alone(ctx context.Context, product int64) error {
	ticketed, err := s.sells(ctx, product)
	if err == nil && ticketed {
		err = &ledger.ProductError{Err: store.ErrAdjustUnsupported, ProductID: product}
	}
	return err
}

type adjusted struct {
	ledger.Adjustment
	earlier bool
}

// adjust adjusts one store, or looks whether that would do.
func (s *Shop) adjust(ctx context.Context, way adjusting, id int64, a ledger.Adjustment, look bool) (adjusted, error) {
	done, err := settled(ctx, &s.requests, settleWait, func(ctx context.Context) (done adjusted, err error) {
		if !look {
			if err := stock.Begin(ctx); err != nil {
				return done, err
			}
		}
		ctx, cancel := stock.Settling(ctx)
		defer cancel()
		done.Adjustment, done.earlier, err = way(ctx, id, a, look)
		return done, err
	})
	if short, ok := errors.AsType[*ledger.ShortError](err); ok {
		err = &stock.SoldOutError{ProductID: short.ProductID, Requested: short.Requested, Available: short.Available}
	}
	return done, err
}

// adjusters are the ways of the stores that are configured; at is the only one, unless it is "".
func (s *Shop) adjusters(product int64, at stock.Store) (map[stock.Store]adjusting, error) {
	ways := map[stock.Store]adjusting{}
	if q := s.backends.SQL; q != nil {
		ways[stock.SQL] = q.Adjust
	}
	if s.redis != nil {
		ways[stock.Redis] = func(ctx context.Context, _ int64, a ledger.Adjustment, l bool) (ledger.Adjustment, bool, error) {
			return s.redis.Adjust(ctx, product, a, l, s.lockSegments(ctx, product))
		}
	}
	if e := s.backends.Etcd; e != nil {
		ways[stock.Etcd] = e.Adjust
	}
	for name := range ways {
		if at != "" && name != at {
			delete(ways, name)
			continue
		}
		if err := s.backends.silent(name, product); err != nil {
			return nil, err
		}
	}
	if len(ways) == 0 && at != "" {
		return nil, invalid("store", "is not configured")
	}
	return ways, nil
}

// lockSegments returns what takes the locks of a product's segments, in the order in which the mode segmented does.
func (s *Shop) lockSegments(ctx context.Context, product int64) func(int) (func(), error) {
	return func(segments int) (func(), error) {
		engine, names := s.backends.Lockers.Engine, s.locks("segmented")
		if engine == nil {
			return nil, &ledger.ProductError{Err: store.ErrAdjustUnsupported, ProductID: product}
		}
		var held []lock.Lease
		unlock := func() {
			for _, lease := range held {
				names.Release(ctx, lease)
			}
		}
		waiting := lock.WithWait(ctx, settleWait)
		for i := range segments {
			lease, err := engine.Handoff().Acquire(waiting, names.SegmentKey(product, i))
			if err != nil {
				unlock()
				return nil, err
			}
			held = append(held, lease)
		}
		return unlock, nil
	}
}
