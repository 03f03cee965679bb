// Package redisdb keeps the count and the orders in Redis.
//
// [New] makes a [Store]; what must happen together is a script, a file in lua/. See package store for what a store is,
// and for its errors.
package redisdb

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/contract/ledger"
	"lastitem/internal/idempotency"
	"lastitem/internal/redisbatch"
	"lastitem/internal/store"
)

// Store keeps the count in a string and the orders in a list beside it.
//
// Keys, after the prefix; the hash tag keeps what belongs together in one cluster slot, and lets segments spread:
//
//	stock:{101}      the count, or "segmented:10" when it is split, or "limited:2:100" when a buyer may have 2 of the
//	                 100, or "limited:0:100" when there is no limit, and units were held
//	stock:{101#3}    the count of segment 3
//	initial:{101}    what Reset set
//	orders:{101}     the orders, JSON, the oldest first
//	answers:{101}    by idempotency key: fingerprint, status and body of the first answer; see answers.go
//	holds:{101}      the reservations; for them and what goes with them see reserve.go
type Store struct {
	names
	c        redis.UniversalClient
	scripts  *redisbatch.Batcher
	refusing atomic.Bool // the last sale was refused
	keep     time.Duration
	spread   atomic.Bool // Redis is a cluster: no script reaches all keys
	rooms    rooms
	avoid    func(keys ...string) error
	holding  sync.Map      // products whose reservations this process makes -> when it last said so
	scanned  atomic.Int64  // when the last search for products with reservations began, in microseconds
	closed   time.Duration // see KeepReservations
	pages    sync.Map      // by product: *orderPages
	store.Ends
}

// New returns the store on c. Every key starts with prefix. The client must not retry commands by itself
// (MaxRetries -1): a deduction whose answer was lost would be sent twice.
func New(c redis.UniversalClient, prefix string) *Store {
	r := &Store{names: names{prefix}, c: c, scripts: redisbatch.New(c, 0), keep: idempotency.DefaultRetention,
		closed: week}
	_, cluster := c.(*redis.ClusterClient)
	r.spread.Store(cluster)
	return r
}

// Avoid has the store ask before it claims an idempotency key on a cluster whether the claim's master is known to be
// out. Call it before the first sale.
func (r *Store) Avoid(down func(keys ...string) error) { r.avoid = down }

// eval runs a script and returns its reply. It does not end with the caller's context, because a script that was sent
// may run; the client's time-outs bound it.
func (r *Store) eval(script *redis.Script, keys []string, args []any) (any, error) {
	c := redisbatch.Call{Script: script, Keys: keys, Args: args}
	r.scripts.Do(&c)
	return c.Reply, c.Err
}

// Read returns the count of a product that is not segmented.
func (r *Store) Read(ctx context.Context, product int64) (int64, error) {
	v, err := r.c.Get(ctx, r.key("stock", product)).Result()
	if err != nil {
		return 0, readError(err, product)
	}
	return store.ParseCount(v, product)
}

// Set writes the count absolutely, whatever it is now.
func (r *Store) Set(ctx context.Context, product, stock int64) error {
	return writeError(r.c.Set(ctx, r.key("stock", product), stock, 0).Err())
}

// FinishSet is Set for a deduction that has already written the count of another product: it works even if Redis is out
// of memory, because otherwise the units of the other product would be lost.
func (r *Store) FinishSet(ctx context.Context, product, stock int64) error {
	return r.finishSet(ctx, r.key("stock", product), stock)
}

func (r *Store) finishSet(ctx context.Context, key string, stock int64) error {
	err := r.c.Set(ctx, key, stock, 0).Err()
	if redis.HasErrorPrefix(err, "OOM") {
		err = finishScript.Run(ctx, r.c, []string{key}, "SET", stock).Err()
	}
	return writeError(err)
}

// Add adds delta, which may be negative, to the count, whatever it is now, and returns what it is then. A product that
// is not there begins at 0.
func (r *Store) Add(ctx context.Context, product, delta int64) (int64, error) {
	key := []string{r.key("stock", product)}
	n, err := r.c.IncrBy(ctx, key[0], delta).Result()
	if delta > 0 && redis.HasErrorPrefix(err, "OOM") { // the units must go back even if Redis has no memory for new data
		n, err = finishScript.Run(ctx, r.c, key, "INCRBY", delta).Int64()
	}
	return n, writeError(err)
}

//go:embed lua/finish.lua
var finishSource string

var finishScript = redis.NewScript(finishSource)

// Append adds an order. It is a command of its own: a crash between the write of the count and this one leaks the
// units.
func (r *Store) Append(ctx context.Context, o ledger.Order) error {
	row, err := json.Marshal(o)
	if err != nil {
		return err
	}
	key := []string{r.key("orders", o.ProductID)}
	err = r.c.RPush(ctx, key[0], row).Err()
	if redis.HasErrorPrefix(err, "OOM") { // the count is already written: without the order the units would be lost
		err = finishScript.Run(ctx, r.c, key, "RPUSH", row).Err()
	}
	return writeError(err)
}

// Reset sets the stock of a product. It deletes the product's orders and answers, and the keys that also returns for
// the number of segments that the product may have had. The deletes are separate commands and come first, because Redis
// executes them even if its memory is full. After an error, repeat it. The reservations that are held become void at
// the moment in which the count is set.
func (r *Store) Reset(ctx context.Context, product, stock int64, rules ledger.Rules,
	also func(segments int) []string) error {
	old, err := r.splitInto(ctx, product)
	if err != nil {
		return err
	}
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

func succeeded(c redis.Cmder) bool { return c.Err() == nil }

// applied says that a write has happened, or may have.
func applied(c redis.Cmder) bool { return !errors.Is(writeError(c.Err()), store.ErrUnavailable) }

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
		args := append(append([]any{len(keys)}, counts...), rules.PerBuyer, cmp.Or(rules.Late, ledger.LateRefund))
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

//go:embed lua/set.lua
var setSource string

var setScript = redis.NewScript(setSource)

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

// splitInto returns the number of a product's segments; 0 = not segmented, not there, or damaged.
func (r *Store) splitInto(ctx context.Context, product int64) (int, error) {
	v, err := r.c.Get(ctx, r.key("stock", product)).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, readError(err, product)
	}
	n, err := strconv.Atoi(strings.TrimPrefix(v, store.SegmentedMark))
	if err != nil || !strings.HasPrefix(v, store.SegmentedMark) {
		return 0, nil //nolint:nilerr // a reset repairs it
	}
	return n, nil
}

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
	if split, err = strconv.Atoi(rest); err != nil {
		err = fmt.Errorf("%w: product %d is marked %q", store.ErrUnavailable, product, count)
	}
	return f, split, err
}

func sum(segments []int64) (n int64) {
	for _, s := range segments {
		n += s
	}
	return n
}

// readError maps an error of a read: nothing was changed.
func readError(err error, product int64) error {
	if errors.Is(err, redis.Nil) {
		return &ledger.ProductError{Err: store.ErrUnknownProduct, ProductID: product}
	}
	return fmt.Errorf("%w: redis: %w", store.ErrUnavailable, err)
}

// writeError maps an error of a write. After an error answer of the server, or without a connection, nothing was
// changed; after any other error the command may have been applied.
func writeError(err error) error {
	if err == nil {
		return nil
	}
	var op *net.OpError
	if Answered(err) || errors.Is(err, redis.ErrPoolTimeout) || (errors.As(err, &op) && op.Op == "dial") {
		return fmt.Errorf("%w: redis: %w", store.ErrUnavailable, err)
	}
	return fmt.Errorf("%w: redis: %w", store.ErrUnknown, err)
}

// Answered says that err is an answer of the server, which therefore is reachable and refuses.
func Answered(err error) bool {
	var answered redis.Error
	return errors.As(err, &answered)
}

// Refusal is [store.ErrForbidden] or [store.ErrRefused] if err is the answer of a server that refuses, else nil.
func Refusal(err error) error {
	switch {
	case slices.ContainsFunc(forbidden, func(code string) bool { return redis.HasErrorPrefix(err, code) }):
		return store.ErrForbidden
	case Answered(err):
		return store.ErrRefused
	}
	return nil
}

// forbidden are the refusals for want of rights; the last two within a script, of Redis 7.0 and newer.
var forbidden = []string{
	"NOPERM", "NOAUTH", "WRONGPASS", "The user executing the script can't", "ACL failure in script",
}
