package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// The orders of Redis are a list that grows at its end, and that a purge shortens at its start. An order's number, counted from the
// setting of the stock, is its index plus what was purged: it stays, and the orders below a number stay what they are.

// view is what one MULTI reads of a product: a snapshot, and the rows from one number on. On a cluster the segments lie elsewhere,
// and are read in transactions of their own.
type view struct {
	Facts
	first int64 // the number of the first row
	end   int64 // the number that the next order will have
	rows  []string
}

// Snapshot reads a product in one transaction: its facts and totals, and its first orders. The position is that after them.
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
		if f.Orders, err = decodeOrders(v.rows, product); err != nil {
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
	return Facts{}, Position{}, fmt.Errorf("%w: orders of product %d are removed faster than they are added up", ErrUnavailable, product)
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
	for more := true; more; more = len(c.rows) == 0 && from < c.first && c.first < end { // all of the page was purged: the next one then
		from = max(from, c.first)
		if c, err = r.chunk(ctx, product, from, min(end, from+int64(want.Orders)), c.Purged.Orders); err != nil {
			return f, p, err
		}
	}
	if f.Orders, err = decodeOrders(c.rows, product); err != nil {
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

// passed notes that all orders below a number have been read.
func (p *Position) passed(number, end int64) {
	p.Order, p.NoOrders = strconv.FormatInt(number, 10), number >= end
}

// Scan reads a product in one transaction and gives body the snapshot: later orders are not in it. An order that a purge removes
// while the rows are read is in Missed then.
func (r *Redis) Scan(ctx context.Context, product int64, body func(*Snapshot) error) error {
	v, err := r.view(ctx, product, 0)
	if err != nil {
		return err
	}
	s := &Snapshot{Facts: v.Facts}
	s.Totals.Orders = v.end - v.first
	s.Orders = func(each func([]Order) error) error {
		read := Totals{Orders: v.Purged.Orders, Units: v.Purged.Units} // below the row that comes next
		s.Missed = Totals{}
		return r.walk(ctx, product, v.first, v.end, func(c view) error {
			orders, err := decodeOrders(c.rows, product)
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
	}
	return body(s)
}

// walk reads the orders with numbers from first to below end, in batches. What is purged on the way is passed over.
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
			return nil // the product was set again
		}
		at = c.first + int64(len(c.rows))
	}
	return nil
}

// maxMoves is how often a purge may come between two reads of a chunk.
const maxMoves = 20

// chunk reads the orders with numbers from from to below to. The index of a number depends on what was purged: where that is not
// what the caller thinks, it reads again. Orders that were purged are passed over, so first may be above from.
func (r *Redis) chunk(ctx context.Context, product, from, to, purged int64) (v view, err error) {
	for range maxMoves {
		at := max(from-purged, 0)
		pipe := r.c.TxPipeline()
		sums := r.askPurged(ctx, pipe, product)
		rows := pipe.LRange(ctx, r.key("orders", product), at, max(to-purged, at+1)-1)
		if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
			return v, readError(err, product)
		}
		if v.Purged, err = sums(); err != nil {
			return v, err
		}
		if v.Purged.Orders == purged {
			v.first, v.rows = purged+at, rows.Val()
			if v.first >= to {
				v.rows = nil // all of them were purged
			}
			return v, nil
		}
		purged = v.Purged.Orders
	}
	return v, fmt.Errorf("%w: orders of product %d are purged faster than they are read", ErrUnavailable, product)
}

// view reads a product and its first n orders in one transaction.
func (r *Redis) view(ctx context.Context, product int64, n int) (view, error) {
	for segments, try := 0, 0; ; try++ {
		v, split, err := r.tryView(ctx, product, segments, n)
		if err != nil || split == segments {
			return v, err
		}
		if segments = split; try == maxMoves {
			return v, fmt.Errorf("%w: product %d is set again all the time", ErrUnavailable, product)
		}
	}
}

// tryView is view with as many segments as the caller thinks there are; split is how many there are.
func (r *Redis) tryView(ctx context.Context, product int64, segments, n int) (v view, split int, err error) {
	pipe := r.c.TxPipeline()
	stock, initial := pipe.Get(ctx, r.key("stock", product)), pipe.Get(ctx, r.key("initial", product))
	length, sums := pipe.LLen(ctx, r.key("orders", product)), r.askPurged(ctx, pipe, product)
	var rows *redis.StringSliceCmd
	if n > 0 {
		rows = pipe.LRange(ctx, r.key("orders", product), 0, int64(n)-1)
	}
	counts := make([]*redis.StringCmd, segments)
	for i := range counts {
		counts[i] = pipe.Get(ctx, r.segmentKey(product, i))
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return v, 0, readError(err, product)
	}
	if err := stock.Err(); err != nil {
		return v, 0, readError(err, product)
	}
	if v.Initial, err = initial.Int64(); err != nil {
		return v, 0, fmt.Errorf("%w: product %d has a count, and no initial one: %w", ErrUnavailable, product, err)
	}
	if v.Purged, err = sums(); err != nil {
		return v, 0, err
	}
	v.first, v.end = v.Purged.Orders, v.Purged.Orders+length.Val()
	if rows != nil {
		v.rows = rows.Val()
	}
	mark, isSplit := strings.CutPrefix(stock.Val(), segmentedMark)
	if !isSplit {
		v.Stock, err = parseCount(stock.Val(), product)
		return v, 0, err
	}
	if split, err = strconv.Atoi(mark); err != nil {
		return v, 0, fmt.Errorf("%w: product %d is marked %q", ErrUnavailable, product, stock.Val())
	}
	if split != segments {
		return v, split, nil
	}
	v.Segments = make([]int64, segments)
	for i, c := range counts {
		if v.Segments[i], err = c.Int64(); err != nil {
			return v, 0, fmt.Errorf("%w: segment %d of product %d: %w", ErrUnavailable, i, product, err)
		}
		v.Stock += v.Segments[i]
	}
	return v, split, nil
}

func decodeOrders(rows []string, product int64) ([]Order, error) {
	all := make([]Order, len(rows))
	for i, row := range rows {
		if err := json.Unmarshal([]byte(row), &all[i]); err != nil {
			return nil, fmt.Errorf("%w: an order of product %d: %w", ErrUnavailable, product, err)
		}
	}
	return all, nil
}
