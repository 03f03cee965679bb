package shop

import (
	"context"
	"errors"
	"sync"

	"lastitem/internal/stock"
)

// In a flash sale a thousand buyers are served and a million refused. A refusal needs no lock: a read of the primary
// that shows too little proves it, for the moment of the read. So while a product's last outcome here was a refusal,
// this is asked first:
//
//	a sale       the mode: BEGIN ── ... ── COMMIT
//	sold out     the mode, which refuses ── remembered
//	from then    SELECT stock: 0 ── refused          SELECT stock: 5 (restocked) ── forgotten ── the mode
//
// A mode that keeps the answer to a key refuses a crowd in groups instead, as queue does ([stock.Deps.SoldOut]).
//
// What is remembered chooses the way, never the answer: a flag that answers would refuse for ever after a restock.
type refusals struct{ products sync.Map } // whose last outcome was a refusal

// refused returns the refusal of a request by a read, nil if the mode has to be asked.
func (s *Shop) refused(ctx context.Context, mode stock.Mode, req stock.Request) error {
	if !mode.RefusedByRead || req.Hold != (stock.Hold{}) {
		return nil
	}
	for _, item := range req.Items {
		if !s.refusals.has(item.ProductID) {
			continue
		}
		units, there, err := s.backends.SQL.Look(ctx, item.ProductID)
		if err == nil && there && units < item.Quantity {
			return &stock.SoldOutError{ProductID: item.ProductID, Requested: item.Quantity, Available: units}
		}
		s.refusals.products.Delete(item.ProductID)
	}
	return nil
}

// note remembers the product that an outcome refuses, and forgets those of a sale.
func (r *refusals) note(req stock.Request, receipt stock.Receipt, err error) {
	if short, ok := errors.AsType[*stock.SoldOutError](err); ok {
		r.products.Store(short.ProductID, nil)
	} else if err == nil && !receipt.Replayed {
		for _, item := range req.Items {
			r.products.Delete(item.ProductID)
		}
	}
}

// has says whether a product's last outcome was a refusal.
func (r *refusals) has(product int64) bool {
	_, there := r.products.Load(product)
	return there
}
