package shop

import (
	"context"
	"errors"
	"sync"

	"lastitem/internal/stock"
	"lastitem/internal/store"
)

// known remembers which products the stores have, so that each is looked up once: no product is ever deleted. Absent products are not
// remembered: they may be created at any time, and a client can ask for any number of them.
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

// exist returns stock.ErrUnknownProduct for the first item that the store does not have. A mode whose locks leave a counter per product in
// Redis must not lock before this check: anybody may ask for any number of products that do not exist.
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
		if err != nil && !errors.Is(err, stock.ErrSegmented) { // a segmented product is there; the mode refuses it
			return err
		}
		s.known.add(at, item.ProductID)
	}
	return nil
}

// existsAnywhere is like exist, but one store that has the product is enough: a read covers all stores.
func (s *Shop) existsAnywhere(ctx context.Context, product int64) error {
	for _, at := range stock.Stores() {
		if s.known.has(at, product) {
			return nil
		}
	}
	l, err := s.collect(product, func(_ stock.Store, r reader) (store.Facts, error) { return r.Facts(ctx, product, false) })
	for at := range l.Facts {
		s.known.add(at, product)
	}
	if err == nil && len(l.Facts) == 0 {
		err = l.Down()
	}
	return err
}
