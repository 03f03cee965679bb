package shop

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lastitem/internal/stock"
)

// check checks a request against the limits and its mode, merges its items, and fills in the default store.
func check(m stock.Mode, req *stock.Request) error {
	if err := req.Check(); err != nil {
		return err
	}
	switch {
	case len(req.Items) > 1 && !m.Cart:
		return invalid("items", "mode "+m.Name+" takes one product at a time")
	case m.KeyRequired && len(req.Key) == 0:
		return stock.ErrKeyMissing
	}
	if err := m.CheckHold(req.Hold); err != nil {
		return err
	}
	if m.Cart && len(req.Items) > 1 {
		req.Items = merged(req.Items)
	}
	return chooseStore(m, req)
}

// chooseStore fills in the default store, or checks that the mode can keep its count in the one asked for.
func chooseStore(m stock.Mode, req *stock.Request) error {
	if req.Store == "" && len(m.Stores) > 0 {
		req.Store = m.Stores[0]
	}
	for _, s := range m.Stores {
		if s == req.Store {
			return nil
		}
	}
	if len(m.Stores) == 0 {
		if req.Store == "" {
			return nil
		}
		return invalid("store", "mode "+m.Name+" touches none")
	}
	return invalid("store", fmt.Sprintf("mode %s keeps its stock in %s, not in %s", m.Name, oneOf(m.Stores), req.Store))
}

func invalid(field, why string) error { return &stock.InvalidError{Field: field, Why: why} }

// oneOf joins stores as a sentence does: "redis or sql".
func oneOf(stores []stock.Store) string {
	names := make([]string, len(stores))
	for i, s := range stores {
		names[i] = string(s)
	}
	return strings.Join(names, " or ")
}

// A cart is one order for several products: one order id, a row per product, all or nothing. A mode gets its items
// merged and sorted by product. Requests that take locks or rows in that order never deadlock.
//
//	A  {2,1}   row 1 ── row 2 ── order
//	B  {1,2}   row 1: waits ············ row 1 ── row 2 ── order        and not  A: 2 ── 1?   B: 1 ── 2?

// merged returns the items sorted by product, each product once, without changing its argument.
func merged(items []stock.Item) []stock.Item {
	sorted := slices.SortedFunc(slices.Values(items), func(a, b stock.Item) int {
		return cmp.Compare(a.ProductID, b.ProductID)
	})
	all := sorted[:0]
	for _, item := range sorted {
		last := len(all) - 1
		if last < 0 || all[last].ProductID != item.ProductID {
			all = append(all, item)
			continue
		}
		all[last].Quantity += item.Quantity
	}
	return all
}
