// Package stock is the lesson: every way of deducting stock, one file per mode.
//
// A mode is a value ([Mode]); modes.go lists them in teaching order, broken first, then repaired. Three types describe
// all of them: a Store keeps the count, a Locker decides which request may touch it, a [Deductor] takes the units.
// Start with modes.go, then read the modes in its order.
package stock

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lastitem/contract/ledger"
	"lastitem/internal/idempotency"
	"lastitem/internal/lock"
	"lastitem/internal/store/sqldb"
	"lastitem/say/text"
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
	// Cart says that the items were sent as a list, even a list of one: then an error names the item's place in the list.
	Cart bool
	// Store is where the count lives; "" means the mode's default.
	Store Store
	// Buyer is who the units are for, at most [MaxBuyer] bytes; "" = not known. It is written down by the modes that keep
	// to a product's limit per buyer; the others refuse a product that has one.
	Buyer string
	// Wait is the longest wait for locks; 0 = fail at once.
	Wait time.Duration
	// Hold is an experiment with the lock; the zero value is the mode's own way.
	Hold Hold
	// Key is the idempotency key, at most 255 bytes; empty = none. Modes without idempotency only record it on the order.
	Key []byte
	// Answer renders an outcome as the response for the client. Modes that store the first answer under its key call it
	// inside their transaction, and the stored answer is sent.
	Answer func(Receipt, error) idempotency.Answer
}

// The limits of a request, besides that of its key, [idempotency.MaxKey].
const (
	MaxQuantity = 1_000_000 // of one item; at least 1
	MaxItems    = 100       // at least 1
)

// Check returns an *InvalidError for a request that no mode takes. It names the field as the HTTP API does. This is the
// only place where the limits are checked: decoders pass every quantity on, and shop.Deduct calls Check before it calls
// a mode. Modes do not limit the wait.
func (r Request) Check() error {
	switch {
	case len(r.Items) == 0:
		return &InvalidError{"items", "must hold at least one line"}
	case len(r.Items) > MaxItems:
		return &InvalidError{"items", fmt.Sprintf("must hold at most %d lines", MaxItems)}
	case len(r.Key) > idempotency.MaxKey: // INSERT IGNORE would truncate it, so that it might equal another key
		return &InvalidError{"Idempotency-Key", fmt.Sprintf("is longer than %d bytes", idempotency.MaxKey)}
	}
	for i, item := range r.Items {
		if item.Quantity >= 1 && item.Quantity <= MaxQuantity {
			continue
		}
		field := "quantity"
		if r.Cart || len(r.Items) > 1 {
			field = fmt.Sprintf("items[%d].quantity", i)
		}
		return &InvalidError{field, fmt.Sprintf("must be between 1 and %d", MaxQuantity)}
	}
	return r.Hold.check()
}

// Receipt says what was taken.
type Receipt struct {
	OrderID string
	// Queued says that the order is still to be written: the client is given a ticket for it.
	Queued bool
	// Items are the units taken, each product once, sorted by product; nil = as requested.
	Items []Item
	// Remaining is the stock left; nil if it is not known, and for a cart.
	Remaining *int64
	// Fence is the fencing token of the lock; 0 = none.
	Fence uint64
	// Stored is the answer kept under the idempotency key, set by modes that keep one, on the first execution (when a
	// refusal is stored the error is returned as well) and on each replay.
	Stored *idempotency.Answer
	// Replayed says that Stored is an earlier execution's: nothing happened this time.
	Replayed bool
}

// receiptOf returns the receipt for an order. For a cart it leaves Remaining out: there is no single number.
func receiptOf(orders []ledger.Order) Receipt {
	r := Receipt{OrderID: orders[0].ID, Fence: orders[0].Fence, Items: make([]Item, len(orders))}
	for i, o := range orders {
		r.Items[i] = Item{ProductID: o.ProductID, Quantity: o.Quantity}
	}
	if len(orders) == 1 {
		r.Remaining = orders[0].Remaining
	}
	return r
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

// Stores lists them, in the order in which they are written, read and reported.
func Stores() []Store { return []Store{Redis, SQL, Etcd} }

// Backend returns the backend that keeps the store; "" = none.
func (s Store) Backend() Backend {
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

// Backend names what a mode needs to run.
type Backend string

// The backends. NeedMySQL is NeedSQL on a server with InnoDB: SQLite will not do. NeedRedlock is several independent
// Redis masters.
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

// Mode is one way of deducting stock. Every list of modes is made from these values.
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
	Name  string    // kebab-case, the word in the URL
	Title text.Text // one line; the essay is docs/modes/<name>.md and .zh.md
	Needs []Backend
	// Optional lists those of Needs without which the mode works too: its lock only saves work. See [Deps].Optional.
	Optional []Backend
	// Stores is where the count may live, the default first; empty only for the baseline.
	Stores []Store
	// Cart says that several products may be deducted at once.
	Cart bool
	// Queued says that a deduction waits in a queue, and not for a lock.
	Queued bool
	// Tickets says that a deduction is won in Redis and answered with a ticket; a consumer writes the order in SQL later.
	// The mode itself reports Written only, and the consumer Ordered and Committed.
	Tickets bool
	// NoInbox says that the consumer of a mode with Tickets makes a new order of each ticket that it is given, also of one
	// that has an order.
	NoInbox bool
	// KeyRequired says that the request must carry an idempotency key.
	KeyRequired bool
	// RefusedByRead says that a read of the count in SQL that shows too little is a refusal, whatever the mode would do
	// next. Package shop then asks it first, while the product is sold out.
	RefusedByRead bool
	// Holds lists the fields of a request's [Hold] that the lock of the mode can do; nil = the mode takes no lock on the
	// product.
	Holds []HoldField
	// Counter says that the lock of a product leaves its fencing counter in Redis for good. Package shop looks the product
	// up before it calls such a mode: otherwise requests for products that do not exist would fill Redis.
	Counter bool
	// Segments is the number of segments that a run should split the product into; 0 = none.
	Segments int
	// Reserves says that the mode holds units for a buyer before it sells them: its [Deductor] is a [Reserver] too. In SQL
	// Way is how it does that.
	Reserves bool
	Way      *sqldb.Way
	// PerBuyer says that the mode sells products with a limit per buyer, and looks at it; every mode that Reserves does.
	PerBuyer bool
	// Adjusts says that the claims hold while the stock of a product is adjusted: the mode takes relatively, or notices
	// that the count was written since it was read.
	Adjusts bool
	// Claims holds, per store, the outcome that the mode claims under each hazard; nil for the baseline.
	Claims map[Store]Claims
	// New builds the mode. It is called once, with the Deps of that mode: orders and locks made with them carry its name.
	New func(Deps) (Deductor, error)
	// Readers is the lock for reading a product, so that no deduction is half done meanwhile; nil = the mode has none.
	Readers func(Deps) (lock.Locker, error)
}

// Required lists the backends without which the mode does not work.
func (m Mode) Required() []Backend {
	return slices.DeleteFunc(slices.Clone(m.Needs), func(b Backend) bool { return slices.Contains(m.Optional, b) })
}

// Units says that the mode sells rows of units, which a run must make.
func (m Mode) Units() bool { return m.Way != nil && m.Way.Act == ledger.ReserveUnits }

// Claims is one row of the design's table. "." exact, "" broken by threads or replicas already, "–" cannot happen, else
// letters: O oversold or lost update, L leaked, D double charge, X stuck, A acknowledged order lost, B a buyer has more
// than the limit, U undersold. Modes that hold nothing leave Expiry out, those without a queue Redelivery, and those
// that read nothing in SQL outside a transaction Stale: it cannot happen to them.
type Claims struct {
	Threads, Replicas, Slow, Late, Pause, Crash, Failover, Stale, Retry, Redelivery, LateWrite, Expiry string
}
