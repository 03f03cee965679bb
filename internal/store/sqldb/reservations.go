package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"lastitem/contract/ledger"
	"lastitem/internal/store"
)

// Page reads the reservations of a product's present run after an id, at most [ledger.ReservationsPage] of
// them. The first page, after "", has the counts of the same snapshot; the later ones have rows only.
func (r *Reservations) Page(ctx context.Context, product int64, after string) (h ledger.Reservations, err error) {
	if !plainASCII(after) {
		return h, store.ErrPosition
	}
	err = r.s.view(ctx, func(v *view) error {
		if err := v.conn.QueryRowContext(v.ctx, v.q.Clock).Scan(&v.now); err != nil {
			return statementError(err)
		}
		h = ledger.Reservations{AsOfMicros: v.now, BuyerUnits: map[string]int64{}}
		if after == "" {
			f, _, err := v.facts(product)
			if err != nil {
				return err
			}
			h.Initial, h.Stock, h.WrittenOff, h.Held, h.Overdue = f.Initial, f.Stock, f.WrittenOff, f.Held, v.overdue
			h.Ordered, h.Adjustments = f.Totals.Units-f.WrittenOff-f.Restocked, f.Adjustments
		}
		err := v.conn.QueryRowContext(v.ctx, v.q.HoldRules, product).Scan(&h.Run, &h.PerBuyer, &h.Extends)
		if errors.Is(err, sql.ErrNoRows) {
			return &ledger.ProductError{Err: store.ErrUnknownProduct, ProductID: product}
		}
		if err != nil {
			return statementError(err)
		}
		return v.reservations(product, after, &h)
	})
	return h, err
}

func (v *view) reservations(product int64, after string, h *ledger.Reservations) error {
	var err error
	h.Rows, err = allRows(v.ctx, v.conn, func(rows *sql.Rows, r *ledger.ReservationRow) error {
		item := ledger.ReservationItem{ProductID: product, Run: h.Run}
		err := rows.Scan(&r.ID, &r.Key, &r.Mode, &r.Replica, &r.Buyer, &r.State, &r.ExpiresMicros, &r.ExtendedMicros, &r.Late,
			&r.CreatedMicros, &r.ChangedMicros, &item.Quantity)
		r.Items = []ledger.ReservationItem{item}
		return err
	}, v.q.HoldsPage, product, h.Run, after, ledger.ReservationsPage)
	if err == nil && after == "" {
		err = eachRow(v.ctx, v.conn, v.q.BuyersOf, []any{product, h.Run}, func(rows *sql.Rows) error {
			var buyer string
			var units int64
			err := rows.Scan(&buyer, &units)
			h.BuyerUnits[buyer] = units
			return err
		})
	}
	if err != nil || len(h.Rows) == 0 {
		return err
	}
	at, ids := map[string]*ledger.ReservationRow{}, make([]any, len(h.Rows))
	for i := range h.Rows {
		at[h.Rows[i].ID], ids[i] = &h.Rows[i], h.Rows[i].ID
	}
	about := append(slices.Clone(ids), product)
	err = eachRow(v.ctx, v.conn, list(v.q.HoldEventsOf, len(ids)), about, func(rows *sql.Rows) error {
		var e ledger.ReservationEvent
		err := rows.Scan(&e.ReservationID, &e.Was, &e.Now, &e.DeadlineMicros, &e.Replica, &e.AtMicros, &e.CommittedMicros,
			&e.Request, &e.Quantity)
		if err == nil {
			at[e.ReservationID].Events = append(at[e.ReservationID].Events, e)
		}
		return err
	})
	if err != nil {
		return err
	}
	err = eachRow(v.ctx, v.conn, list(v.q.HoldPaymentsOf, len(ids)), ids, func(rows *sql.Rows) error {
		var p ledger.Payment
		err := rows.Scan(&p.ReservationID, &p.ID, &p.OrderID, &p.Outcome, &p.AtMicros)
		if err == nil {
			at[p.ReservationID].Payments = append(at[p.ReservationID].Payments, p)
		}
		return err
	})
	if err != nil {
		return err
	}
	args := append([]any{product}, ids...)
	err = eachRow(v.ctx, v.conn, list(v.q.HoldOrdersOf, len(ids)), args, func(rows *sql.Rows) error {
		var o ledger.ReservationOrder
		var id string
		err := rows.Scan(&id, &o.ID, &o.Payment, &o.Buyer, &o.Quantity)
		if err == nil {
			at[id].Orders = append(at[id].Orders, o)
		}
		return err
	})
	if err != nil {
		return err
	}
	return v.returns(product, h.Rows)
}

// returns reads what came back of the orders of rows.
func (v *view) returns(product int64, rows []ledger.ReservationRow) error {
	at, args := map[string]*ledger.ReservationOrder{}, []any{product}
	for _, r := range rows {
		for i := range r.Orders {
			at[r.Orders[i].ID] = &r.Orders[i]
			args = append(args, r.Orders[i].ID)
		}
	}
	if len(at) == 0 {
		return nil
	}
	all, err := allRows(v.ctx, v.conn, scanReturned, list(v.q.ReturnsOf, len(args)-1), args...)
	for _, b := range all {
		at[b.order].Returns = append(at[b.order].Returns, b.Returned)
	}
	return err
}
