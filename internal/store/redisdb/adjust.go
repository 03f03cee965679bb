package redisdb

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"lastitem/contract/ledger"
	"lastitem/internal/idempotency"
	"lastitem/internal/store"
)

// Adjust is like that of sqldb, in one script. Of a product in segments it changes some, if it can, else all: lock must
// lock so many, the first, and return what unlocks them. On a cluster, where no script reaches them all, it is refused.
// A mode that writes the count that it has read before the product's first order still overwrites an adjustment.
func (r *Reservations) Adjust(ctx context.Context, product int64, a ledger.Adjustment, look bool,
	lock func(segments int) (unlock func(), err error)) (done ledger.Adjustment, earlier bool, err error) {
	head := quote([]byte(fmt.Sprintf(`{"delta":%d,"reason":`, a.Delta)), a.Reason)
	head = append(base64.StdEncoding.AppendEncode(append(head, `,"key":"`...), a.Key), '"')
	only := map[bool]int{true: 1}[look]
	keys := append(r.holdKeys(product), r.s.key("initial", product), r.s.key("adjusts", product),
		r.s.key("adjust-keys", product))
	args := []any{string(a.Key), a.Delta, string(head), only}
	list, err := r.arrow(ctx, adjustScript, keys, append(args, 0)...)
	for tries := 0; err == nil && list[0] == "segmented" && tries < maxMoves; tries++ {
		n, _ := list[1].(int64)
		locked := int(n)
		if tries == 0 {
			locked = min(locked, someSegments)
		}
		if look {
			locked = 0
		}
		list, err = r.adjustSegments(ctx, product, int(n), keys, append(args, locked), lock)
	}
	refused := &ledger.ProductError{Err: store.ErrAdjustUnsupported, ProductID: product}
	switch {
	case errors.Is(err, store.ErrCrossSlot):
		return a, false, refused
	case err != nil:
		return a, false, err
	case list[0] == "absolute":
		return a, false, refused
	case list[0] == "unknown":
		return a, false, &ledger.ProductError{Err: store.ErrUnknownProduct, ProductID: product}
	case list[0] == "segmented":
		return a, false, setAgain(product)
	case list[0] == "short":
		short := &ledger.ShortError{Err: store.ErrShort, ProductID: product, Requested: -a.Delta}
		short.Available, err = strconv.ParseInt(textAt(list, 1), 10, 64)
		return a, false, errors.Join(err, short)
	}
	if err := json.Unmarshal([]byte(textAt(list, 1)), &done); err != nil {
		return a, false, fmt.Errorf("%w: redis: an adjustment of product %d: %w", store.ErrUnavailable, product, err)
	}
	if done.Delta != a.Delta || done.Reason != a.Reason {
		return a, false, idempotency.ErrKeyReused
	}
	return done, list[0] == "earlier", nil
}

// someSegments is how many segments an adjustment locks at first: a product may have a thousand.
const someSegments = 16

func (r *Reservations) adjustSegments(ctx context.Context, product int64, n int, keys []string, args []any,
	lock func(int) (func(), error)) ([]any, error) {
	keys = keys[:len(keys):len(keys)]
	for i := range n {
		keys = append(keys, r.s.segmentKey(product, i))
	}
	locked, _ := args[len(args)-1].(int)
	unlock, err := lock(min(locked, n))
	if err != nil {
		return nil, err
	}
	defer unlock()
	return r.arrow(ctx, adjustScript, keys, args...)
}

// journal decodes what view.lua says of a product's adjustments: the newest rows, how many there are, and the sum.
func journal(product int64, v any) ([]ledger.Adjustment, error) {
	said, _ := v.([]any)
	var count, sum int64
	if err := errors.Join(integer(said, 0, &count), integer(said, 1, &sum)); err != nil || len(said) < 3 {
		return nil, fmt.Errorf("%w: redis: the adjustments of product %d: %v", store.ErrUnavailable, product, v)
	}
	rows, _ := said[2].([]any)
	newest := make([]ledger.Adjustment, len(rows))
	for i := range rows {
		if err := json.Unmarshal([]byte(textAt(rows, i)), &newest[i]); err != nil {
			return nil, fmt.Errorf("%w: redis: an adjustment of product %d: %w", store.ErrUnavailable, product, err)
		}
	}
	return ledger.Journal(newest, count, sum), nil
}
