package redisdb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/store"
)

// The segments of a product: counts of their own, on a cluster in slots of their own.

// Segments returns the count of each segment; an unsegmented product is one segment, and split is false. They are read
// at once; on a cluster one after the other, where they only fall, so that their sum is an upper bound of what is there
// when the last one was read.
func (r *Store) Segments(ctx context.Context, product int64) (counts []int64, split bool, err error) {
	v, err := r.c.Get(ctx, r.key("stock", product)).Result()
	if err != nil {
		return nil, false, readError(err, product)
	}
	n, err := splitInto(v, product)
	if err == nil && n == 0 {
		one, err := store.ParseCount(v, product)
		return []int64{one}, false, err
	}
	if err == nil {
		counts, err = r.readSegments(ctx, product, n)
	}
	return counts, true, err
}

// splitInto reads the number of segments from a count; 0 = it is not segmented.
func splitInto(count string, product int64) (n int, err error) {
	mark, segmented := strings.CutPrefix(count, store.SegmentedMark)
	if !segmented {
		return 0, nil
	}
	if n, err = strconv.Atoi(mark); err != nil {
		err = fmt.Errorf("%w: product %d is marked %q", store.ErrUnavailable, product, count)
	}
	return n, err
}

func (r *Store) readSegments(ctx context.Context, product int64, count int) ([]int64, error) {
	pipe := r.c.TxPipeline()
	if r.spread.Load() {
		pipe = r.c.Pipeline()
	}
	cmds := make([]*redis.StringCmd, count)
	for i := range cmds {
		cmds[i] = pipe.Get(ctx, r.segmentKey(product, i))
	}
	_, err := pipe.Exec(ctx)
	if redis.HasErrorPrefix(err, "CROSSSLOT") {
		r.spread.Store(true)
		return r.readSegments(ctx, product, count)
	}
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, readError(err, product)
	}
	counts := make([]int64, count)
	for i, c := range cmds {
		n, err := c.Int64()
		if err != nil {
			return nil, fmt.Errorf("%w: segment %d of product %d: %w", store.ErrUnavailable, i, product, err)
		}
		counts[i] = n
	}
	return counts, nil
}

// ReadSegment returns the count of segment i; of an unsegmented product (split false) the count itself.
func (r *Store) ReadSegment(ctx context.Context, product int64, i int, split bool) (int64, error) {
	if !split {
		return r.Read(ctx, product)
	}
	n, err := r.c.Get(ctx, r.segmentKey(product, i)).Int64()
	if err != nil {
		return 0, readError(err, product)
	}
	return n, nil
}

// SetSegments writes the counts of several segments absolutely. On a cluster, where segments lie in different slots, a
// failure may leave some written: then the outcome is unknown.
func (r *Store) SetSegments(ctx context.Context, product int64, counts map[int]int64, split bool) error {
	if len(counts) == 1 {
		for i, c := range counts {
			return writeError(r.c.Set(ctx, r.segmentName(product, i, split), c, 0).Err())
		}
	}
	keys := make([]string, 0, len(counts))
	values := make([]int64, 0, len(counts))
	for i, c := range counts {
		keys, values = append(keys, r.segmentName(product, i, split)), append(values, c)
	}
	set := func(pipe redis.Pipeliner) ([]redis.Cmder, error) {
		for j, key := range keys {
			pipe.Set(ctx, key, values[j], 0)
		}
		return pipe.Exec(ctx)
	}
	if !r.spread.Load() {
		_, err := set(r.c.TxPipeline())
		if !redis.HasErrorPrefix(err, "CROSSSLOT") {
			return writeError(err)
		}
		r.spread.Store(true)
	}
	done, err := set(r.c.Pipeline())
	// a node whose memory is full refuses its counts; see FinishSet
	if err != nil && slices.ContainsFunc(done, succeeded) {
		err = nil
		for j, c := range done {
			if redis.HasErrorPrefix(c.Err(), "OOM") {
				c.SetErr(r.finishSet(ctx, keys[j], values[j]))
			}
			err = errors.Join(err, c.Err())
		}
	}
	switch {
	case err == nil:
		return nil
	case !slices.ContainsFunc(done, applied): // every node refused, as one does that is not ready
		return writeError(err)
	}
	return fmt.Errorf("%w: redis: %w", store.ErrUnknown, err)
}
