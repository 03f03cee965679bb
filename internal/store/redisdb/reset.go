package redisdb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"lastitem/contract/ledger"
	"lastitem/internal/store"
)

// Reset sets the stock of a product. It deletes the product's orders and answers, and the keys that also returns for
// the number of segments that the product may have had. The deletes are separate commands and come first, because Redis
// executes them even if its memory is full. After an error, repeat it. The reservations that are held become void at
// the moment in which the count is set.
func (r *Store) Reset(ctx context.Context, product, stock int64, rules ledger.Rules,
	also func(segments int) []string) error {
	v, err := r.c.Get(ctx, r.key("stock", product)).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return readError(err, product)
	}
	old, _ := splitInto(v, product) // a reset repairs a damaged one
	gone := append(also(max(old, rules.Segments)), r.key("orders", product), r.key("answers-moved", product))
	gone = append(gone, r.answerKeys(product)...)
	for i := range old {
		gone = append(gone, r.segmentKey(product, i))
	}
	pipe := r.c.Pipeline()
	for _, keys := range bySlot(gone) {
		pipe.Unlink(ctx, keys...) // frees a long list in the background
	}
	done, err := pipe.Exec(ctx)
	if err = writeError(err); err == nil {
		err = r.setCount(ctx, product, stock, rules)
	}
	if errors.Is(err, store.ErrUnavailable) && slices.ContainsFunc(done, applied) { // "nothing happened" would be false
		err = fmt.Errorf("%w: orders deleted: %w", store.ErrUnknown, err)
	}
	return err
}

// setCount writes the count of a product, or those of its segments, in one script; on a cluster in one script per slot,
// the product itself last, where the new run begins. A MULTI would not do: if memory is full, Redis refuses all of it.
func (r *Store) setCount(ctx context.Context, product, stock int64, rules ledger.Rules) error {
	segments := rules.Segments
	keys, counts := make([]string, segments, segments+2), make([]any, segments, segments+2)
	for i := range segments {
		share := stock / int64(segments)
		if int64(i) < stock%int64(segments) {
			share++
		}
		keys[i], counts[i] = r.segmentKey(product, i), share
	}
	own, count := []string{r.key("initial", product), r.key("stock", product)}, []any{stock, stock}
	switch {
	case segments > 0:
		count[1] = store.SegmentedMark + strconv.Itoa(segments)
	case rules.PerBuyer > 0:
		count[1] = store.Limited(strconv.FormatInt(stock, 10), rules.PerBuyer)
	}
	set := func(keys []string, counts []any) error {
		longest, extends := rules.Longest()
		args := append(append([]any{len(keys)}, counts...), rules.PerBuyer, cmp.Or(rules.Late, ledger.LateRefund), longest,
			extends, rules.Book)
		for _, family := range runFamilies {
			keys = append(keys, r.key(family, product))
		}
		return setScript.Run(ctx, r.c, keys, args...).Err()
	}
	if !r.spread.Load() {
		err := set(append(keys, own...), append(counts, count...))
		if !redis.HasErrorPrefix(err, "CROSSSLOT") {
			return writeError(err)
		}
		r.spread.Store(true)
	}
	pipe := r.c.Pipeline()
	for i, key := range keys {
		setScript.Eval(ctx, pipe, []string{key}, 1, counts[i])
	}
	if segments > 0 {
		if _, err := pipe.Exec(ctx); err != nil {
			return writeError(err)
		}
	}
	return writeError(set(own, count))
}

var setScript = script("set")

// bySlot groups keys by their hash tags: the keys of one group are in one slot of a cluster, and fit one command.
func bySlot(keys []string) map[string][]string {
	groups := map[string][]string{}
	for _, k := range keys {
		tag := k
		if _, rest, ok := strings.Cut(k, "{"); ok {
			if inside, _, closed := strings.Cut(rest, "}"); closed {
				tag = inside
			}
		}
		groups[tag] = append(groups[tag], k)
	}
	return groups
}
