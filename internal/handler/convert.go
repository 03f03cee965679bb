package handler

import (
	"cmp"
	"slices"
	"time"

	"lastitem/internal/api"
	"lastitem/internal/stock"
)

// mode writes a mode as the API shows it. Lists are never null, and every claim names all hazards.
func (h *Handler) mode(s stock.Status) api.Mode {
	m := s.Mode
	out := api.Mode{
		Name: m.Name, Title: api.Text{En: m.Title.En, Zh: m.Title.Zh},
		Needs: make([]string, len(m.Needs)), Stores: make([]api.Store, len(m.Stores)),
		Cart: m.Cart, KeyRequired: m.KeyRequired, Segments: m.Segments,
		Baseline: len(m.Stores) == 0, Default: m.Name == h.DefaultMode,
		Claims: map[api.Store]map[api.Hazard]api.Outcomes{}, Available: s.Err == nil,
	}
	for i, b := range m.Needs {
		out.Needs[i] = string(b)
	}
	for i, store := range m.Stores {
		out.Stores[i] = api.Store(store)
	}
	for store, claims := range m.Claims {
		row := map[api.Hazard]api.Outcomes{}
		for i, o := range claims.Row() {
			row[api.Hazard(stock.Hazards[i])] = api.Outcomes(o)
		}
		out.Claims[api.Store(store)] = row
	}
	if s.Err != nil {
		out.Why = s.Err.Error()
	}
	return out
}

// product writes a product as the API shows it: the stock in each store that has it.
func product(id int64, p stock.Product) api.Product {
	out := api.Product{ProductID: id, Stock: map[api.Store]int64{}, LeaseSeq: p.LeaseSeq, Segments: p.Segments}
	for store, units := range p.Stock {
		out.Stock[api.Store(store)] = units
	}
	return out
}

// This file turns the types of package stock into those of package api. It may read the fields of a store's facts, but not
// name their type: the arrows of the design end at package stock.

// ledger writes a ledger as the API shows it: one list of orders over all stores. Of a store that could not be read it
// says with which code; the cause is in the log.
func ledger(id int64, l stock.Ledger) api.Ledger {
	out := api.Ledger{
		ProductID: id, Initial: map[api.Store]int64{}, Stock: map[api.Store]int64{},
		Orders: orders(l), Keys: []api.KeyRow{}, Purged: map[api.Store]api.Purged{}, Unavailable: map[api.Store]string{},
	}
	for store, f := range l.Facts {
		out.Initial[api.Store(store)], out.Stock[api.Store(store)] = f.Initial, f.Stock
		if p := api.Purged(f.Purged); p != (api.Purged{}) {
			out.Purged[api.Store(store)] = p
		}
		if store == stock.Redis {
			out.Segments = f.Segments
		}
		for _, k := range f.Keys {
			out.Keys = append(out.Keys, api.KeyRow{
				Key: api.KeyText(k.Key), Status: k.Status, CreatedAt: time.UnixMicro(k.CreatedMicros).UTC(),
			})
		}
	}
	for store, err := range l.Unavailable {
		out.Unavailable[api.Store(store)] = string(problemOf(err, "").Code)
	}
	slices.SortFunc(out.Keys, func(a, b api.KeyRow) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.Key, b.Key))
	})
	return out
}

// orders merges the orders of all stores, the oldest first. The time is by the replicas' clocks, so between two replicas the
// order is as good as those are; the id settles what they leave open.
func orders(l stock.Ledger) []api.Order {
	out := []api.Order{}
	for store, f := range l.Facts {
		for _, o := range f.Orders {
			out = append(out, api.Order{
				OrderID: o.ID, ProductID: o.ProductID, Quantity: o.Quantity, Remaining: o.Remaining,
				Mode: o.Mode, Store: api.Store(store), Replica: o.Replica, Key: api.KeyText(o.Key),
				Fence: o.Fence, CreatedAt: time.UnixMicro(o.CreatedMicros).UTC(),
			})
		}
	}
	slices.SortFunc(out, func(a, b api.Order) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.OrderID, b.OrderID))
	})
	return out
}
