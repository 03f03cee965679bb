package redisdb

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"lastitem/contract/ledger"
	"lastitem/internal/store"
)

// The orders in Redis are a list that only grows at its end, until the stock is set again. An order's number is its
// index.

// view is what one script reads of a product: a snapshot, and its first rows. On a cluster the segments are in other
// slots, and are read after it.
type view struct {
	ledger.Facts
	end  int64 // the number that the next order will have
	rows []string
	last string // the row below end, "" if there is none
	held heldView
}

// Snapshot reads a product in one script: its facts, and its first orders. The position is the one after them. The
// units of the remaining orders are summed afterwards: Redis cannot sum a list.
func (r *Store) Snapshot(ctx context.Context, product int64, want ledger.Want) (ledger.Facts, ledger.Position, error) {
	for range maxMoves {
		v, err := r.view(ctx, product, max(want.Orders, 0))
		if err != nil {
			return ledger.Facts{}, ledger.Position{}, err
		}
		f := v.Facts
		if f.Orders, err = r.decodeOrders(ctx, v.rows, product); err != nil {
			return ledger.Facts{}, ledger.Position{}, err
		}
		f.Totals.Orders = v.end
		f.Totals.Units, err = r.units(ctx, product, v)
		if errors.Is(err, errSetAgain) {
			continue
		}
		if err != nil {
			return ledger.Facts{}, ledger.Position{}, err
		}
		p := ledger.Position{Until: strconv.FormatInt(v.end, 10), NoKeys: true}
		passed(&p, int64(len(v.rows)), v.end)
		return f, p, nil
	}
	return ledger.Facts{}, ledger.Position{}, setAgain(product)
}

// units sums the orders of a snapshot.
func (r *Store) units(ctx context.Context, product int64, v view) (sum int64, err error) {
	add := func(rows []string) error {
		for _, row := range rows {
			_, rest, _ := strings.Cut(row, `"quantity":`) // decoding the JSON of a million orders would take seconds
			digits, _, _ := strings.Cut(rest, ",")
			quantity, err := strconv.ParseInt(digits, 10, 64)
			if err != nil {
				return fmt.Errorf("%w: an order of product %d: %w", store.ErrUnavailable, product, err)
			}
			sum += quantity
		}
		return nil
	}
	if err := add(v.rows); err != nil {
		return 0, err
	}
	err = r.walk(ctx, product, v, int64(len(v.rows)), add)
	return sum, err
}

// Page reads the orders after a position, and returns the position after them.
func (r *Store) Page(ctx context.Context, product int64, p ledger.Position, want ledger.Want) (f ledger.Facts,
	next ledger.Position, err error) {
	next = p
	next.NoKeys = true
	if p.NoOrders || want.Orders <= 0 {
		return f, next, nil
	}
	from, err1 := strconv.ParseInt(p.Order, 10, 64)
	end, err2 := strconv.ParseInt(p.Until, 10, 64)
	if err1 != nil || err2 != nil || from < 0 {
		return f, p, store.ErrPosition
	}
	rows, err := r.rows(ctx, product, from, min(end, from+int64(want.Orders)))
	if err != nil {
		return f, p, err
	}
	if f.Orders, err = r.decodeOrders(ctx, rows, product); err != nil {
		return f, p, err
	}
	reached := from + int64(len(rows))
	if len(rows) == 0 { // the product was set again and has fewer orders
		reached = end
	}
	passed(&next, reached, end)
	return f, next, nil
}

// passed records in a position that all orders below a number have been read.
func passed(p *ledger.Position, number, end int64) {
	p.Order, p.NoOrders = strconv.FormatInt(number, 10), number >= end
}

// Scan reads a product in one script and calls body with the snapshot, which has no later orders.
func (r *Store) Scan(ctx context.Context, product int64, body func(*ledger.Snapshot) error) error {
	v, err := r.view(ctx, product, 0)
	if err != nil {
		return err
	}
	s := &ledger.Snapshot{Facts: v.Facts}
	s.Totals.Orders = v.end
	s.Orders = func(each func([]ledger.Order) error) error {
		err := r.walk(ctx, product, v, 0, func(rows []string) error {
			orders, err := r.decodeOrders(ctx, rows, product)
			if err != nil {
				return err
			}
			return each(orders)
		})
		if errors.Is(err, errSetAgain) {
			err = setAgain(product)
		}
		return err
	}
	return body(s)
}

// errSetAgain says that the orders of a snapshot are gone.
var errSetAgain = errors.New("the stock was set again while the orders were read")

func setAgain(product int64) error {
	return fmt.Errorf("%w: product %d: %w", store.ErrUnavailable, product, errSetAgain)
}

// walk reads the orders of a snapshot from a number on, in batches. The last one must still be the one that was there.
func (r *Store) walk(ctx context.Context, product int64, v view, from int64, each func([]string) error) error {
	for from < v.end {
		rows, err := r.rows(ctx, product, from, min(v.end, from+store.BatchRows))
		if err != nil {
			return err
		}
		from += int64(len(rows))
		if len(rows) == 0 || from == v.end && rows[len(rows)-1] != v.last {
			return errSetAgain
		}
		if err := each(rows); err != nil {
			return err
		}
	}
	return nil
}

// rows reads the orders with numbers from from to below to.
func (r *Store) rows(ctx context.Context, product, from, to int64) ([]string, error) {
	if from >= to {
		return nil, nil
	}
	rows, err := r.c.LRange(ctx, r.key("orders", product), from, to-1).Result()
	if err != nil {
		return nil, readError(err, product)
	}
	return rows, nil
}

// maxMoves is how often the stock may be set while a snapshot is read.
const maxMoves = 20

// view reads a product and its first n orders in one script, except for segments in other slots.
func (r *Store) view(ctx context.Context, product int64, n int) (view, error) {
	for segments, try := 0, 0; ; try++ {
		v, split, err := r.tryView(ctx, product, segments, n)
		if err != nil || split == segments {
			return v, err
		}
		if segments = split; try == maxMoves {
			return v, fmt.Errorf("%w: the stock of product %d is being set again and again", store.ErrUnavailable, product)
		}
	}
}

// tryView is view, assuming a number of segments; split is the actual number.
func (r *Store) tryView(ctx context.Context, product int64, segments, n int) (v view, split int, err error) {
	together := segments
	if r.spread.Load() {
		together = 0
	}
	s, err := r.rawView(ctx, product, together, n)
	if redis.HasErrorPrefix(err, "CROSSSLOT") {
		r.spread.Store(true)
		return v, 0, nil // that is not the number of segments: it is tried again
	} else if err != nil {
		return v, 0, err
	}
	if v.Facts, split, err = counts(product, s.stock, s.initial, s.length > 0); err != nil {
		return v, 0, err
	}
	v.end, v.rows, v.last, v.held = s.length, s.rows, s.last, s.held
	v.Held, v.WrittenOff, v.Restocked, v.Passed = s.held.held, s.held.writtenOff, s.held.restocked, s.held.passed
	v.InFlight = s.held.inFlight
	v.Released, v.Adjustments = s.held.changes > 0, s.adjusts
	if split == 0 || split != segments {
		return v, split, nil
	}
	if together == segments {
		v.Segments, err = s.segments(product)
	} else {
		v.Segments, err = r.readSegments(ctx, product, segments)
	}
	v.Stock = sum(v.Segments)
	return v, split, err
}
