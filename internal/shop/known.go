package shop

import (
	"context"
	"errors"
	"sync"

	"lastitem/internal/stock"
)

// known remembers which products the stores have, so that each is looked up once: no product is ever deleted. Absent
// products are not remembered: they may be created at any time, and a client can ask for any number of them.
type known struct{ products sync.Map } // stored -> nothing

type stored struct {
	at      stock.Store
	product int64
}

func (k *known) add(at stock.Store, product int64) { k.products.Store(stored{at, product}, nil) }

func (k *known) has(at stock.Store, product int64) bool {
	_, ok := k.products.Load(stored{at, product})
	return ok
}

// exist returns stock.ErrUnknownProduct for the first item that the store does not have. A mode whose locks leave a
// counter per product in Redis for good must not lock before this check: anybody may ask for any number of products
// that do not exist.
func (s *Shop) exist(ctx context.Context, at stock.Store, items []stock.Item) error {
	for _, item := range items {
		if s.known.has(at, item.ProductID) {
			continue
		}
		var err error
		if at == stock.SQL {
			_, err = s.backends.SQL.Read(ctx, item.ProductID)
		} else {
			_, err = s.backends.Redis.Read(ctx, item.ProductID)
		}
		// a product that is segmented, or held, or has a limit, is there; the mode refuses it
		if err != nil && !errors.Is(err, stock.ErrSegmented) && !errors.Is(err, stock.ErrOtherWay) &&
			!errors.Is(err, stock.ErrReservationUnsupported) {
			return err
		}
		s.known.add(at, item.ProductID)
	}
	return nil
}
