package redisdb

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/store"
)

//go:embed lua/view.lua
var viewSource string

var viewScript = redis.NewScript(viewSource)

// rawView is the reply of view.lua. A value that is not there is nil.
type rawView struct {
	stock, initial any
	length         int64
	rows           []string
	counts         []any // of the segments
	last           string
	held           heldView
}

// heldView is what a snapshot says of reservations and returns.
type heldView struct {
	held, overdue, writtenOff, restocked, now, run, perBuyer, changes int64
}

// rawView reads a product, its first n orders, and its segments, at one moment.
func (r *Store) rawView(ctx context.Context, product int64, segments, n int) (s rawView, err error) {
	keys := make([]string, 0, 7+segments)
	for _, family := range []string{"stock", "initial", "orders", "due", "holds", "returned", "rules"} {
		keys = append(keys, r.key(family, product))
	}
	for i := range segments {
		keys = append(keys, r.segmentKey(product, i))
	}
	v, err := viewScript.Run(ctx, r.c, keys, n).Slice()
	if err != nil {
		return s, readError(err, product)
	}
	if len(v) != 7 {
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
	sums, _ := v[6].([]any)
	h := &s.held
	to := []*int64{&h.held, &h.overdue, &h.writtenOff, &h.restocked, &h.now, &h.run, &h.perBuyer, &h.changes}
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
