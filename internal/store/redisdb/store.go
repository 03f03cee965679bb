// Package redisdb keeps the count and the orders in Redis.
//
// [New] makes a [Store], and [Reservations] are what its buyers hold. What must happen together is a script, a file in
// lua/. See package store for what a store is, and for its errors.
package redisdb

import (
	"embed"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
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
//	initial:{101}    what Reset set, and adjustments have changed since
//	adjusts:{101}    what initial is the sum of, JSON: the setting, then the adjustments
//	adjust-keys:{101} by key: the adjustment
//	orders:{101}     the orders, JSON, the oldest first
//	answers:{101}    by idempotency key: fingerprint, status and body of the first answer; see answers.go
//	holds:{101}      the reservations; for them and what goes with them see arrow.go
//	tickets:{101}    the tickets in flight; for them and what goes with them see tickets.go
type Store struct {
	names
	c        redis.UniversalClient
	scripts  *redisbatch.Batcher
	refusing atomic.Bool // the last sale was refused
	keep     time.Duration
	spread   atomic.Bool // Redis is a cluster: no script reaches all keys
	rooms    rooms
	avoid    func(keys ...string) error
}

// New returns the store on c. Every key starts with prefix. The client must not retry commands by itself
// (MaxRetries -1): a deduction whose answer was lost would be sent twice.
func New(c redis.UniversalClient, prefix string) *Store {
	r := &Store{names: names{prefix}, c: c, scripts: redisbatch.New(c, 0), keep: idempotency.DefaultRetention}
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

//go:embed lua
var sources embed.FS

// source returns the text of a file of lua/.
func source(name string) string {
	text, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // the program was built without it
	}
	return string(text)
}

// script returns the script that files of lua/ make together.
func script(names ...string) *redis.Script {
	text := ""
	for _, name := range names {
		text += source(name)
	}
	return redis.NewScript(text)
}

var finishScript = script("finish")

func succeeded(c redis.Cmder) bool { return c.Err() == nil }

// applied says that a write has happened, or may have.
func applied(c redis.Cmder) bool { return !errors.Is(writeError(c.Err()), store.ErrUnavailable) }

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

func sellError(err error) error {
	if redis.HasErrorPrefix(err, "CROSSSLOT") {
		return fmt.Errorf("%w: %w", store.ErrCrossSlot, err)
	}
	return writeError(err)
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

// names are the keys of products, after a prefix; see [Store].
type names struct{ prefix string }

// CountKey is the key of a product's count. In a cluster all that belongs to the product is in its slot.
func (n names) CountKey(product int64) string { return n.key("stock", product) }

func (n names) key(family string, product int64) string {
	b := make([]byte, 0, 64) // on the stack: a sale has up to seven keys
	b = append(append(append(b, n.prefix...), family...), ":{"...)
	return string(append(strconv.AppendInt(b, product, 10), '}'))
}

func (n names) segmentKey(product int64, segment int) string {
	return fmt.Sprintf("%sstock:{%d#%d}", n.prefix, product, segment)
}

func (n names) claimKey(key []byte) string { return n.prefix + "key:" + string(key) }

// answerKeys returns the names of a product's hashes, in the order of the script's KEYS.
func (n names) answerKeys(product int64) []string {
	return []string{
		n.key("answers", product), n.key("answers-old", product), n.key("refusals", product), n.key("refusals-old", product),
	}
}

func (n names) segmentName(product int64, i int, split bool) string {
	if !split {
		return n.key("stock", product)
	}
	return n.segmentKey(product, i)
}
