package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// The orders in Redis are a list that grows at its end, and that a purge shortens at its start. An order's number, counted since the
// stock was set, is its index plus the number of purged orders. A purge changes no number, and orders below a number never change.

// view is what one script reads of a product: a snapshot, and rows from one number on. On a cluster the segments are in other slots,
// and are read after it.
type view struct {
	Facts
	first int64 // the number of the first row
	end   int64 // the number that the next order will have
	rows  []string
	last  string // the row below end, "" if there is none
}

// Snapshot reads a product in one script: its facts and totals, and its first orders. The position is the one after them.
func (r *Redis) Snapshot(ctx context.Context, product int64, want Want) (Facts, Position, error) {
	s, err := r.sums.of(ctx, product)
	if err != nil {
		return Facts{}, Position{}, err
	}
	defer s.done()
	for range maxMoves {
		v, err := r.view(ctx, product, want.Orders)
		if err != nil {
			return Facts{}, Position{}, err
		}
		f := v.Facts
		if f.Orders, err = r.decodeOrders(ctx, v.rows, product); err != nil {
			return Facts{}, Position{}, err
		}
		units, ok, err := r.unitsBelow(ctx, product, s, v)
		if err != nil {
			return Facts{}, Position{}, err
		}
		if !ok {
			continue
		}
		f.Totals = Totals{Orders: v.end - v.first, Units: units - v.Purged.Units}
		p := Position{Until: strconv.FormatInt(v.end, 10), Purged: v.Purged.Orders, NoKeys: true}
		p.passed(v.first+int64(len(v.rows)), v.end)
		return f, p, nil
	}
	return Facts{}, Position{}, fmt.Errorf("%w: orders of product %d are purged faster than they are summed", ErrUnavailable, product)
}

// Page reads the orders after a position, and returns the position after them.
func (r *Redis) Page(ctx context.Context, product int64, p Position, want Want) (f Facts, next Position, err error) {
	next = p
	next.NoKeys = true
	if p.NoOrders || want.Orders <= 0 {
		return f, next, nil
	}
	from, err1 := strconv.ParseInt(p.Order, 10, 64)
	end, err2 := strconv.ParseInt(p.Until, 10, 64)
	if err1 != nil || err2 != nil || from < 0 {
		return f, p, ErrPosition
	}
	c := view{Facts: Facts{Purged: Purged{Orders: p.Purged}}}
	for more := true; more; more = len(c.rows) == 0 && from < c.first && c.first < end { // the whole page was purged: read the next one
		from = max(from, c.first)
		if c, err = r.chunk(ctx, product, from, min(end, from+int64(want.Orders)), c.Purged.Orders); err != nil {
			return f, p, err
		}
	}
	if f.Orders, err = r.decodeOrders(ctx, c.rows, product); err != nil {
		return f, p, err
	}
	next.Purged = c.Purged.Orders
	reached := c.first + int64(len(c.rows))
	if len(c.rows) == 0 { // all were purged, or the product was set again and has fewer orders
		reached = end
	}
	next.passed(reached, end)
	return f, next, nil
}

// passed records that all orders below a number have been read.
func (p *Position) passed(number, end int64) {
	p.Order, p.NoOrders = strconv.FormatInt(number, 10), number >= end
}

// Scan reads a product in one script and calls body with the snapshot, which has no later orders. Missed counts the orders that a
// purge removes while the rows are being read.
func (r *Redis) Scan(ctx context.Context, product int64, body func(*Snapshot) error) error {
	v, err := r.view(ctx, product, 0)
	if err != nil {
		return err
	}
	s := &Snapshot{Facts: v.Facts}
	s.Totals.Orders = v.end - v.first
	s.Orders = func(each func([]Order) error) error {
		read := Totals{Orders: v.Purged.Orders, Units: v.Purged.Units} // sums below the next row
		s.Missed = Totals{}
		err := r.walk(ctx, product, v.first, v.end, func(c view) error {
			if !v.followed(c) {
				return errSetAgain
			}
			orders, err := r.decodeOrders(ctx, c.rows, product)
			if err != nil {
				return err
			}
			if gap := c.first - read.Orders; gap > 0 {
				s.Missed.Orders += gap
				s.Missed.Units += c.Purged.Units - read.Units
				read = Totals{Orders: c.first, Units: c.Purged.Units}
			}
			read.Orders += int64(len(orders))
			for _, o := range orders {
				read.Units += o.Quantity
			}
			return each(orders)
		})
		if errors.Is(err, errSetAgain) {
			err = fmt.Errorf("%w: product %d: %w", ErrUnavailable, product, err)
		}
		return err
	}
	return body(s)
}

// followed says whether a chunk can be of the same run as the snapshot: if it reaches the end, its last row must be the one that was there.
func (v view) followed(c view) bool {
	return c.first+int64(len(c.rows)) < v.end || c.rows[len(c.rows)-1] == v.last
}

// errSetAgain says that the orders of a snapshot are gone, and not because they were purged.
var errSetAgain = errors.New("the stock was set again while the orders were read")

// walk reads the orders with numbers from first to below end, in batches. It skips orders that are purged meanwhile.
func (r *Redis) walk(ctx context.Context, product, first, end int64, each func(view) error) error {
	purged := first
	for at := first; at < end; {
		c, err := r.chunk(ctx, product, at, min(end, at+batchRows), purged)
		if err != nil {
			return err
		}
		purged = c.Purged.Orders
		switch {
		case len(c.rows) > 0:
			if err := each(c); err != nil {
				return err
			}
		case c.first <= at:
			return errSetAgain
		}
		at = c.first + int64(len(c.rows))
	}
	return nil
}

// maxMoves is how many purges may interfere with the reading of one chunk.
const maxMoves = 20

// chunk reads the orders with numbers from from to below to. A number's index depends on how many orders were purged: if that is not
// as the caller assumed, chunk reads again. It skips purged orders, so first may be above from.
func (r *Redis) chunk(ctx context.Context, product, from, to, purged int64) (v view, err error) {
	for range maxMoves {
		at := max(from-purged, 0)
		s, err := r.rawView(ctx, product, 0, at, max(to-purged, at+1)-1)
		if err != nil {
			return v, err
		}
		if v.Purged, err = s.purged(product); err != nil {
			return v, err
		}
		if v.Purged.Orders == purged {
			v.first, v.rows = purged+at, s.rows
			if v.first >= to {
				v.rows = nil // all of them were purged
			}
			return v, nil
		}
		purged = v.Purged.Orders
	}
	return v, fmt.Errorf("%w: orders of product %d are purged faster than they are read", ErrUnavailable, product)
}

// view reads a product and its first n orders in one script, except for segments in other slots.
func (r *Redis) view(ctx context.Context, product int64, n int) (view, error) {
	for segments, try := 0, 0; ; try++ {
		v, split, err := r.tryView(ctx, product, segments, n)
		if err != nil || split == segments {
			return v, err
		}
		if segments = split; try == maxMoves {
			return v, fmt.Errorf("%w: the stock of product %d is being set again and again", ErrUnavailable, product)
		}
	}
}

// tryView is view, assuming a number of segments; split is the actual number.
func (r *Redis) tryView(ctx context.Context, product int64, segments, n int) (v view, split int, err error) {
	together := segments
	if r.spread.Load() {
		together = 0
	}
	s, err := r.rawView(ctx, product, together, 0, int64(n)-1)
	if redis.HasErrorPrefix(err, "CROSSSLOT") {
		r.spread.Store(true)
		return v, 0, nil // that is not the number of segments: it is tried again
	} else if err != nil {
		return v, 0, err
	}
	if s.stock == nil {
		if s.initial != nil || s.length > 0 {
			return v, 0, countLost("redis", product)
		}
		return v, 0, &ProductError{Err: ErrUnknownProduct, ProductID: product}
	}
	if v.Initial, err = number(s.initial); err != nil {
		return v, 0, fmt.Errorf("%w: product %d has a count but no initial count: %w", ErrUnavailable, product, err)
	}
	if v.Purged, err = s.purged(product); err != nil {
		return v, 0, err
	}
	v.first, v.end, v.rows, v.last = v.Purged.Orders, v.Purged.Orders+s.length, s.rows, s.last
	stock, _ := s.stock.(string)
	mark, isSplit := strings.CutPrefix(stock, segmentedMark)
	if !isSplit {
		v.Stock, err = parseCount(stock, product)
		return v, 0, err
	}
	if split, err = strconv.Atoi(mark); err != nil {
		return v, 0, fmt.Errorf("%w: product %d is marked %q", ErrUnavailable, product, stock)
	}
	if split != segments {
		return v, split, nil
	}
	if together == segments {
		v.Segments, err = s.segments(product)
	} else {
		v.Segments, err = r.readSegments(ctx, product, segments)
	}
	for _, n := range v.Segments {
		v.Stock += n
	}
	return v, split, err
}
