package handler

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
	"lastitem/internal/shop"
	"lastitem/internal/stock"
)

// This file turns what shop and the ledger have into the answers of package api.

// modeOf writes a mode as the API shows it; usual is the default mode.
func modeOf(s shop.Status, usual string) api.Mode {
	out := s.Mode.API()
	out.Default, out.Available, out.Down = out.Name == usual, s.Err == nil, s.Down
	switch {
	case s.Err != nil:
		out.Why = s.Err.Error()
	case s.Unlocked != nil:
		out.Why = "it deducts without its lock, which only saves work: " + s.Unlocked.Error()
	case s.Late != nil:
		out.Why = "its tickets wait for SQL: " + s.Late.Error()
	}
	return out
}

// product writes a product as the API shows it: the stock in each store that has it.
func product(id int64, p shop.Product) api.Product {
	out := api.Product{ProductID: id, Stock: map[api.Store]int64{}, LeaseSeq: p.LeaseSeq, Segments: p.Segments,
		InFlight: p.InFlight}
	for store, units := range p.Stock {
		out.Stock[api.Store(store)] = units
	}
	return out
}

func keyRow(k ledger.KeyRow) api.KeyRow {
	return api.KeyRow{Key: api.KeyText(k.Key), Status: k.Status, CreatedAt: time.UnixMicro(k.CreatedMicros).UTC(),
		Mode: k.Mode}
}

// adjustments writes how an initial stock came about.
func adjustments(rows []ledger.Adjustment) (all []api.Adjustment) {
	for _, a := range rows {
		all = append(all, api.Adjustment{Delta: a.Delta, Reason: a.Reason, Key: api.KeyText(a.Key), AtMicros: a.AtMicros,
			Older: a.Older})
	}
	return all
}

// orders merges the orders of a page, the oldest first. The time is by the replicas' clocks, so between two replicas
// the order is as good as those are; the id settles what they leave open.
func orders(l shop.Ledger) []api.Order {
	out := []api.Order{}
	for store, f := range l.Facts {
		for _, o := range f.Orders {
			out = append(out, order(store, o))
		}
	}
	slices.SortFunc(out, func(a, b api.Order) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.OrderID, b.OrderID))
	})
	return out
}

// order writes an order row as the API shows it.
func order(store stock.Store, o ledger.Order) api.Order {
	return api.Order{
		OrderID: o.ID, ProductID: o.ProductID, Quantity: o.Quantity, Remaining: o.Remaining,
		Mode: o.Mode, Store: api.Store(store), Replica: o.Replica, Key: api.KeyText(o.Key),
		ReservationID: o.ReservationID, Fence: o.Fence, CreatedAt: time.UnixMicro(o.CreatedMicros).UTC(),
	}
}

// reservationOf writes a reservation as the API shows it.
func reservationOf(h ledger.Reservation) api.Reservation {
	r := api.Reservation{ReservationID: h.ID, State: string(h.State), ExpiresAt: time.UnixMicro(h.ExpiresMicros).UTC(),
		Mode: h.Mode, Buyer: h.Buyer, Items: []api.Line{}}
	for _, item := range h.Items {
		if r.OrderID = item.OrderID; item.Quantity > 0 { // else the line was cancelled
			r.Items = append(r.Items, api.Line{ProductID: item.ProductID, Quantity: item.Quantity})
		}
	}
	return r
}

// ReservationsOf writes a page of a product's reservations.
func ReservationsOf(id int64, at stock.Store, h ledger.Reservations) api.Reservations {
	out := api.Reservations{ProductID: id, Store: api.Store(at), AsOfMicros: h.AsOfMicros, Initial: h.Initial,
		Stock: h.Stock,
		Held:  h.Held, Ordered: h.Ordered, WrittenOff: h.WrittenOff, Overdue: h.Overdue, PerBuyer: h.PerBuyer, Run: h.Run,
		Extends: h.Extends, BuyerUnits: h.BuyerUnits, SweepMS: h.Sweep.Milliseconds(),
		Adjustments: adjustments(h.Adjustments), Rows: []api.ReservationRow{}}
	for _, r := range h.Rows {
		row := api.ReservationRow{ReservationID: r.ID, Key: api.KeyText(r.Key), Mode: r.Mode, Replica: r.Replica,
			Buyer: r.Buyer, State: string(r.State), Late: r.Late, ExpiresMicros: r.ExpiresMicros,
			ExtendedMicros: r.ExtendedMicros, CreatedMicros: r.CreatedMicros,
			ChangedMicros: r.ChangedMicros, Events: []api.ReservationEvent{}}
		for _, item := range r.Items {
			row.Quantity += item.Quantity
		}
		for _, e := range r.Events {
			row.Events = append(row.Events, api.ReservationEvent{Was: string(e.Was), Now: string(e.Now),
				DeadlineMicros: e.DeadlineMicros, Replica: e.Replica, AtMicros: e.AtMicros, CommittedMicros: e.CommittedMicros,
				Request: e.Request, Quantity: e.Quantity})
		}
		for _, p := range r.Payments {
			row.Payments = append(row.Payments, api.ReservationPaid{Payment: api.KeyText(p.ID), OrderID: p.OrderID,
				Outcome: p.Outcome, AtMicros: p.AtMicros})
		}
		for _, o := range r.Orders {
			order := api.ReservationOrder{OrderID: o.ID, Payment: api.KeyText([]byte(o.Payment)), Buyer: o.Buyer,
				Quantity: o.Quantity}
			for _, b := range o.Returns {
				order.Returns = append(order.Returns, api.ReturnedPart(b))
			}
			row.Orders = append(row.Orders, order)
		}
		out.Rows = append(out.Rows, row)
	}
	if len(h.Rows) == ledger.ReservationsPage {
		out.NextCursor = h.Rows[len(h.Rows)-1].ID
	}
	return out
}

// idIn reads the reservation's id out of a stored answer.
func idIn(body []byte) string {
	var r struct {
		ReservationID string `json:"reservation_id"`
	}
	if json.Unmarshal(body, &r) != nil {
		return ""
	}
	return r.ReservationID
}
