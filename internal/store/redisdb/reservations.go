package redisdb

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"lastitem/contract/ledger"
	"lastitem/internal/store"
)

// Page reads the reservations of a product's present run after an id, at most [ledger.ReservationsPage] of
// them, with the counts of the same moment. It fails while the product is being sold: the rows come in many reads, and
// they count only if nothing has changed until the last one.
func (r *Reservations) Page(ctx context.Context, product int64, after string) (ledger.Reservations, error) {
	for range holdReads {
		v, err := r.s.view(ctx, product, 0)
		if err != nil {
			return ledger.Reservations{}, err
		}
		h, err := r.pageOf(ctx, product, v, after)
		if err != nil {
			return h, err
		}
		end, err := r.s.view(ctx, product, 0)
		if err != nil {
			return h, err
		}
		// an expiry changes nothing before it is written
		v.held.overdue, v.held.now, end.held.overdue, end.held.now = 0, 0, 0, 0
		if v.held == end.held && v.end == end.end && v.last == end.last && v.Stock == end.Stock &&
			len(v.Adjustments) == len(end.Adjustments) && v.Initial == end.Initial {
			return h, nil
		}
	}
	return ledger.Reservations{}, fmt.Errorf("%w: the reservations of product %d changed meanwhile", store.ErrUnavailable,
		product)
}

// holdReads is how often Page tries.
const holdReads = 3

// pageOf reads the rows of a snapshot.
func (r *Reservations) pageOf(ctx context.Context, product int64, v view, after string) (ledger.Reservations, error) {
	units, err := r.s.units(ctx, product, v)
	h := ledger.Reservations{
		AsOfMicros: v.held.now, Initial: v.Initial, Stock: v.Stock, Held: v.Held, WrittenOff: v.WrittenOff,
		Ordered: units - v.WrittenOff - v.Restocked, Overdue: v.held.overdue, PerBuyer: v.held.perBuyer, Run: v.held.run,
		BuyerUnits: map[string]int64{}, Adjustments: v.Adjustments,
		Extends: int(v.held.extends),
	}
	if err != nil {
		return h, err
	}
	texts := map[string]string{}
	err = r.fields(ctx, product, "holds", func(id, text string) error {
		if id > after {
			texts[id] = text
		}
		return nil
	})
	if err != nil {
		return h, err
	}
	ids := slices.Sorted(maps.Keys(texts))
	at := map[string]*ledger.ReservationRow{}
	h.Rows = make([]ledger.ReservationRow, min(len(ids), ledger.ReservationsPage))
	for i := range h.Rows {
		id := ids[i]
		k, hold, err := decodeReservation(id, texts[id])
		if err != nil {
			return h, err
		}
		h.Rows[i], at[id] = ledger.ReservationRow{Reservation: hold}, &h.Rows[i]
		if h.Rows[i].Events, err = reservationEvents(id, k.Events); err != nil {
			return h, err
		}
	}
	if err := r.paid(ctx, product, at); err != nil {
		return h, err
	}
	if err := r.ordered(ctx, product, v, at); err != nil || after != "" {
		return h, err
	}
	return h, r.fields(ctx, product, "buyers", func(buyer, units string) (err error) {
		h.BuyerUnits[buyer], err = strconv.ParseInt(units, 10, 64)
		return err
	})
}

// paid adds the payments to rows.
func (r *Reservations) paid(ctx context.Context, product int64, rows map[string]*ledger.ReservationRow) error {
	seen := map[string]bool{} // HSCAN may return a field twice
	err := r.fields(ctx, product, "run-payments", func(payment, text string) (err error) {
		parts := strings.Split(text, " ")
		if len(parts) != 3 {
			return fmt.Errorf("%w: redis: payment %q is %q", store.ErrUnavailable, payment, text)
		}
		row := rows[parts[0]]
		if row == nil || seen[payment] {
			return nil
		}
		seen[payment] = true
		p := ledger.Payment{ID: []byte(payment), ReservationID: row.ID, OrderID: parts[1]}
		p.AtMicros, err = strconv.ParseInt(parts[2], 10, 64)
		row.Payments = append(row.Payments, p)
		return err
	})
	for _, row := range rows {
		slices.SortFunc(row.Payments, func(a, b ledger.Payment) int { return int(a.AtMicros - b.AtMicros) })
	}
	return err
}

// ordered adds the orders to rows, and what became of them.
func (r *Reservations) ordered(
	ctx context.Context, product int64, v view, rows map[string]*ledger.ReservationRow,
) error {
	returned := map[string]map[string]ledger.Returned{} // HSCAN may return a field twice
	err := r.fields(ctx, product, "returned", func(field, text string) (err error) {
		order, request, part := strings.Cut(field, " ")
		if !part { // their sum
			return nil
		}
		if returned[order] == nil {
			returned[order] = map[string]ledger.Returned{}
		}
		units, put, _ := strings.Cut(text, " ")
		b := ledger.Returned{Request: request, Restocked: put == "1"}
		b.Quantity, err = strconv.ParseInt(units, 10, 64)
		returned[order][request] = b
		return err
	})
	if err != nil {
		return err
	}
	return r.s.walk(ctx, product, v, 0, func(texts []string) error {
		for _, text := range texts {
			if !strings.Contains(text, `"reservation_id":`) {
				continue
			}
			var o ledger.Order
			if err := json.Unmarshal([]byte(text), &o); err != nil {
				return fmt.Errorf("%w: an order of product %d: %w", store.ErrUnavailable, product, err)
			}
			if row := rows[o.ReservationID]; row != nil {
				row.Orders = append(row.Orders, ledger.ReservationOrder{ID: o.ID, Payment: string(o.Key), Buyer: o.Buyer,
					Quantity: o.Quantity, Returns: slices.Collect(maps.Values(returned[o.ID]))})
			}
		}
		return nil
	})
}

// fields calls each for the fields of a product's hash, for one perhaps twice.
func (r *Reservations) fields(
	ctx context.Context, product int64, family string, each func(field, value string) error,
) error {
	key := r.s.key(family, product)
	var cursor uint64
	for more := true; more; more = cursor != 0 {
		page, next, err := r.s.c.HScan(ctx, key, cursor, "", store.BatchRows).Result()
		if err != nil {
			return readError(err, product)
		}
		cursor = next
		for i := 0; i+1 < len(page); i += 2 {
			if err := each(page[i], page[i+1]); err != nil {
				return fmt.Errorf("%w: redis: %s of product %d: %w", store.ErrUnavailable, family, product, err)
			}
		}
	}
	return nil
}
