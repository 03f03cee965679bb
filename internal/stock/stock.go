// Package stock is the lesson: every way of deducting stock, one file per mode.
//
// A mode is a value ([Mode]); modes.go lists them in teaching order, broken first, then repaired. Three nouns carry all of
// them: a Store is where the count lives, a Locker is who may touch it, a [Deductor] is how units are taken. Start with
// modes.go, then read the modes in its order.
package stock

import (
	"context"
	"time"

	"lastitem/internal/idempotency"
	"lastitem/internal/lock"
)

// Item is one line of a request: how many units of which product.
type Item struct {
	ProductID int64
	Quantity  int64 // at least 1
}

// Request asks for units of one product, or of several (a cart).
type Request struct {
	// Items may name a product twice; a mode gets them merged, in the order of the products.
	Items []Item
	// Store is where the count lives; "" means the mode's default.
	Store Store
	// Wait bounds the waiting for locks; 0 = fail at once.
	Wait time.Duration
	// Key is the idempotency key, at most 255 bytes; empty = none. Modes without idempotency only record it on the order.
	Key []byte
	// Answer renders an outcome as the response that goes to the client. Modes that store the first answer under its key call
	// it inside their transaction, and what they stored is what is sent.
	Answer func(Receipt, error) idempotency.Answer
}

// Receipt says what was taken.
type Receipt struct {
	OrderID string
	// Items is what was taken, each product once and in their order; nil = as requested.
	Items []Item
	// Remaining is the stock left; nil where nobody knows it, and for a cart.
	Remaining *int64
	// Fence is the fencing token of the lock; 0 = none.
	Fence uint64
	// Stored is the answer kept under the idempotency key, set by modes that keep one, on the first execution (when a
	// refusal is stored the error is returned as well) and on each replay.
	Stored *idempotency.Answer
	// Replayed says that Stored is an earlier execution's: nothing happened this time.
	Replayed bool
}

// A Deductor takes units. Each error wraps one sentinel of errors.go, and by that says whether the deduction happened.
type Deductor interface {
	Deduct(ctx context.Context, req Request) (Receipt, error)
}

// Store names where the count lives.
type Store string

// The stores.
const (
	Redis Store = "redis"
	SQL   Store = "sql"
	Etcd  Store = "etcd"
)

// backend is the one that keeps a store; "" for none.
func (s Store) backend() Backend {
	switch s {
	case Redis:
		return NeedRedis
	case SQL:
		return NeedSQL
	case Etcd:
		return NeedEtcd
	}
	return ""
}

// stores lists them, in the order in which they are written, read and reported.
var stores = []Store{Redis, SQL, Etcd}

// Backend names what a mode needs to run.
type Backend string

// The backends. NeedMySQL is NeedSQL on a server with InnoDB: SQLite will not do. NeedRedlock is several independent Redis masters.
const (
	NeedRedis     Backend = "redis"
	NeedSQL       Backend = "sql"
	NeedMySQL     Backend = "mysql"
	NeedRedlock   Backend = "redlock"
	NeedZooKeeper Backend = "zookeeper"
	NeedEtcd      Backend = "etcd"
	NeedConsul    Backend = "consul"
	NeedKafka     Backend = "kafka"
)

// Text is one text in both languages.
type Text struct{ En, Zh string }

// Mode is one way of deducting stock. Everything that lists modes reads this value.
//
// A mode reports its steps ([lastitem/internal/step]) in their order, each once for a deduction that succeeds:
//
//   - Written and Ordered, always; Committed where the count is in SQL or etcd, not where it is in Redis;
//   - Read, where it reads the count before it writes;
//   - Waiting, Locked, Releasing and Released, where it takes a lock, which the lockers report themselves;
//   - Waiting alone, where it is Queued.
//
// The conformance suite checks that.
type Mode struct {
	Name  string // kebab-case, the word in the URL
	Title Text   // one line; the essay is embedded from doc/<name>.en.md and .zh.md
	Needs []Backend
	// Stores is where the count may live, the default first; empty only for the baseline.
	Stores []Store
	// Cart says that several products may be deducted at once.
	Cart bool
	// Queued says that a deduction waits for its turn, though not for a lock.
	Queued bool
	// KeyRequired says that the request must carry an idempotency key.
	KeyRequired bool
	// Segments is into how many segments a run should split the product; 0 = modes on one counter.
	Segments int
	// Claims holds, per store, what the mode does under each hazard; nil for the baseline.
	Claims map[Store]Claims
	// New builds the mode. It is called once, with the Deps of that mode: orders and locks made with them carry its name.
	New func(Deps) (Deductor, error)
	// Readers is the lock under which a product is read by the mode, see [Shop.ReadLocked]; nil = it has none.
	Readers func(Deps) (lock.Locker, error)
}

// Claims is one row of the design's table. "." exact, "" broken at an earlier rung, "–" cannot happen, else letters:
// O oversold or lost update, L leaked, D double charge, X stuck, A acknowledged order lost.
type Claims struct {
	Threads, Replicas, Slow, Late, Pause, Crash, Failover, Retry, LateWrite string
}
