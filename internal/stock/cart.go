package stock

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"lastitem/internal/store"
)

// A cart is one order for several products: one order id, a row per product, and all of it or nothing. Its items come to a
// mode merged and in the order of their products, the same for everybody: who takes locks or rows in that order never
// waits in a circle.
//
//	A  {2,1}   row 1 ── row 2 ── order
//	B  {1,2}   row 1: waits ············ row 1 ── row 2 ── order        and not  A: 2 ── 1?   B: 1 ── 2?

// merged returns the items by product, each product once, without touching those given.
func merged(items []Item) ([]Item, error) {
	sorted := slices.SortedFunc(slices.Values(items), func(a, b Item) int { return cmp.Compare(a.ProductID, b.ProductID) })
	all := sorted[:0]
	for _, item := range sorted {
		last := len(all) - 1
		if last < 0 || all[last].ProductID != item.ProductID {
			all = append(all, item)
			continue
		}
		if all[last].Quantity > math.MaxInt64-item.Quantity {
			return nil, &InvalidError{"items", fmt.Sprintf("ask for more of product %d than can be counted", item.ProductID)}
		}
		all[last].Quantity += item.Quantity
	}
	return all, nil
}

// newOrders makes the order of a request, a row per item, under one id. remaining is by item; nil where nobody knows it.
func (d Deps) newOrders(req Request, remaining []int64, fence uint64) ([]store.Order, error) {
	orders := make([]store.Order, len(req.Items))
	for i, item := range req.Items {
		o, err := d.newOrder(item, req, nil, fence)
		if err != nil {
			return nil, err
		}
		if remaining != nil {
			o.Remaining = &remaining[i]
		}
		if i > 0 {
			o.ID, o.CreatedMicros = orders[0].ID, orders[0].CreatedMicros
		}
		orders[i] = o
	}
	return orders, nil
}

// receiptOf is the receipt for an order. Of a cart it does not say what remains: there is no one number.
func receiptOf(orders []store.Order) Receipt {
	r := Receipt{OrderID: orders[0].ID, Fence: orders[0].Fence, Items: make([]Item, len(orders))}
	for i, o := range orders {
		r.Items[i] = Item{ProductID: o.ProductID, Quantity: o.Quantity}
	}
	if len(orders) == 1 {
		r.Remaining = orders[0].Remaining
	}
	return r
}

// takeAll is the conditional update of each item. short is the refusal of the first that is not there; what was taken before
// it is for the caller to roll back.
func takeAll(tx *store.Tx, items []Item) (remaining []int64, short, err error) {
	for _, item := range items {
		left, ok, err := tx.Take(item.ProductID, item.Quantity)
		if err != nil {
			return nil, nil, err
		}
		if !ok { // too little, or no such product, or a segmented one: Read tells the last two
			row, err := tx.Read(item.ProductID)
			if err != nil {
				return nil, nil, err
			}
			return nil, soldOut(item, row.Stock), nil
		}
		remaining = append(remaining, left)
	}
	return remaining, nil, nil
}

// insertAll inserts the rows of an order.
func insertAll(tx *store.Tx, orders []store.Order) error {
	for _, o := range orders {
		if err := tx.InsertOrder(o); err != nil {
			return err
		}
	}
	return nil
}
