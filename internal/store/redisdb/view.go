package redisdb

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"lastitem/contract/ledger"
	"lastitem/internal/store"
)

// Facts reads the counts of a product, those of its segments after the others.
func (r *Store) Facts(ctx context.Context, product int64) (ledger.Facts, error) {
	v, err := r.c.MGet(ctx, r.key("stock", product), r.key("initial", product)).Result()
	if err != nil {
		return ledger.Facts{}, readError(err, product)
	}
	f, split, err := counts(product, v[0], v[1], false)
	if err != nil || split == 0 {
		return f, err
	}
	f.Segments, err = r.readSegments(ctx, product, split)
	f.Stock = sum(f.Segments)
	return f, err
}

// counts decodes what Redis keeps as the count of a product and as its initial one, nil = nothing; more says that it
// has something else of the product. split is the number of its segments, whose sum is the stock; 0 = it has none.
func counts(product int64, stock, initial any, more bool) (f ledger.Facts, split int, err error) {
	count, there := stock.(string)
	switch {
	case !there && (more || initial != nil):
		return f, 0, store.CountLost("redis", product)
	case !there:
		return f, 0, &ledger.ProductError{Err: store.ErrUnknownProduct, ProductID: product}
	}
	if f.Initial, err = number(initial); err != nil {
		return f, 0, fmt.Errorf("%w: product %d has a count but no initial count: %w", store.ErrUnavailable, product, err)
	}
	var rest string
	if f.Sold, rest = store.Marked(count); f.Sold != ledger.InSegments {
		f.Stock, err = store.Number(rest, product)
		return f, 0, err
	}
	split, err = splitInto(count, product)
	return f, split, err
}

func sum(segments []int64) (n int64) {
	for _, s := range segments {
		n += s
	}
	return n
}

var viewScript = script("view")

// rawView is the reply of view.lua. A value that is not there is nil.
type rawView struct {
	stock, initial any
	length         int64
	rows           []string
	counts         []any // of the segments
	last           string
	held           heldView
	adjusts        []ledger.Adjustment
}

// heldView is what a snapshot says of reservations and returns.
type heldView struct {
	held, overdue, writtenOff, restocked, now, run, perBuyer, changes, extends, passed, inFlight int64
}

// rawView reads a product, its first n orders, and its segments, at one moment.
func (r *Store) rawView(ctx context.Context, product int64, segments, n int) (s rawView, err error) {
	keys := make([]string, 0, 9+segments)
	for _, family := range []string{"stock", "initial", "orders", "due", "holds", "returned", "rules", "adjusts",
		"tickets"} {
		keys = append(keys, r.key(family, product))
	}
	for i := range segments {
		keys = append(keys, r.segmentKey(product, i))
	}
	v, err := viewScript.Run(ctx, r.c, keys, n, ledger.MostAdjustments).Slice()
	if err != nil {
		return s, readError(err, product)
	}
	if len(v) != 8 {
		return s, fmt.Errorf("%w: redis: product %d was read as %d values", store.ErrUnavailable, product, len(v))
	}
	s.stock, s.initial = v[0], v[1]
	s.length, _ = v[2].(int64)
	rows, _ := v[3].([]any)
	s.rows = make([]string, len(rows))
	for i, row := range rows {
		s.rows[i], _ = row.(string)
	}
	s.counts, _ = v[4].([]any)
	s.last, _ = v[5].(string)
	if s.adjusts, err = journal(product, v[7]); err != nil {
		return s, err
	}
	sums, _ := v[6].([]any)
	h := &s.held
	to := []*int64{&h.held, &h.overdue, &h.writtenOff, &h.restocked, &h.now, &h.run, &h.perBuyer, &h.changes, &h.extends,
		&h.passed, &h.inFlight}
	for i, to := range to {
		if i >= len(sums) {
			break
		}
		if *to, err = number(sums[i]); err != nil {
			return s, fmt.Errorf("%w: redis: product %d was read with %v", store.ErrUnavailable, product, sums)
		}
	}
	return s, nil
}

// segments returns the counts of the segments.
func (s rawView) segments(product int64) ([]int64, error) {
	counts := make([]int64, len(s.counts))
	for i, c := range s.counts {
		n, err := number(c)
		if err != nil {
			return nil, fmt.Errorf("%w: segment %d of product %d: %w", store.ErrUnavailable, i, product, err)
		}
		counts[i] = n
	}
	return counts, nil
}

// number parses a value of a rawView.
func number(v any) (int64, error) {
	text, ok := v.(string)
	if !ok {
		return 0, redis.Nil
	}
	return strconv.ParseInt(text, 10, 64)
}
