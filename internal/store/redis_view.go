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
	rows           []string
	counts         []any // of the segments
	last           string
}

// rawView reads a product, its first n orders, and its segments, at one moment.
func (r *Redis) rawView(ctx context.Context, product int64, segments, n int) (s rawView, err error) {
	keys := make([]string, 3, 3+segments)
	for i, family := range []string{"stock", "initial", "orders"} {
		keys[i] = r.key(family, product)
	}
	for i := range segments {
		keys = append(keys, r.segmentKey(product, i))
	}
	v, err := viewScript.Run(ctx, r.c, keys, n).Slice()
	if err != nil {
		return s, readError(err, product)
	}
	if len(v) != 6 {
		return s, fmt.Errorf("%w: redis: product %d was read as %d values", ErrUnavailable, product, len(v))
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
	return s, nil
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
