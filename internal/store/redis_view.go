package store

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/view.lua
var viewSource string

var viewScript = redis.NewScript(viewSource)

// rawView is the reply of view.lua. A value that is not there is nil.
type rawView struct {
	stock, initial any
	length         int64
	sums           []any // run, orders, units, keys of the purge; nil if they are of an earlier run, or there are none
	rows           []string
	counts         []any // of the segments
	last           string
}

// rawView reads a product, its orders with the indexes from from to to, and its segments, at one moment. If to is negative, it reads no orders.
func (r *Redis) rawView(ctx context.Context, product int64, segments int, from, to int64) (s rawView, err error) {
	keys := make([]string, 5, 5+segments)
	for i, family := range []string{"stock", "initial", "orders", "answers", "purged"} {
		keys[i] = r.key(family, product)
	}
	for i := range segments {
		keys = append(keys, r.segmentKey(product, i))
	}
	v, err := viewScript.Run(ctx, r.c, keys, from, to).Slice()
	if err != nil {
		return s, readError(err, product)
	}
	if len(v) != 8 {
		return s, fmt.Errorf("%w: redis: product %d was read as %d values", ErrUnavailable, product, len(v))
	}
	s.stock, s.initial = v[0], v[1]
	s.length, _ = v[2].(int64)
	s.sums, _ = v[4].([]any)
	if len(s.sums) == 0 || s.sums[0] == nil || s.sums[0] != v[3] {
		s.sums = nil
	}
	rows, _ := v[5].([]any)
	s.rows = make([]string, len(rows))
	for i, row := range rows {
		s.rows[i], _ = row.(string)
	}
	s.counts, _ = v[6].([]any)
	s.last, _ = v[7].(string)
	return s, nil
}

// purged returns the sums of purged rows. When a replica of an earlier version resets a product it deletes the run's name but not the
// sums, which are then ignored.
func (s rawView) purged(product int64) (p Purged, err error) {
	for i, dest := range []*int64{&p.Orders, &p.Units, &p.Keys} {
		if len(s.sums) <= i+1 || s.sums[i+1] == nil {
			continue
		}
		if *dest, err = number(s.sums[i+1]); err != nil {
			return p, fmt.Errorf("%w: the purge sums of product %d: %w", ErrUnavailable, product, err)
		}
	}
	return p, nil
}

// segments returns the counts of the segments.
func (s rawView) segments(product int64) ([]int64, error) {
	counts := make([]int64, len(s.counts))
	for i, c := range s.counts {
		n, err := number(c)
		if err != nil {
			return nil, fmt.Errorf("%w: segment %d of product %d: %w", ErrUnavailable, i, product, err)
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
