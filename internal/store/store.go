// Package store keeps the count and the orders: in Redis (redis.go), SQL (sql.go) or etcd (etcd.go).
//
// It does not decide how stock is deducted: it reads, writes absolutely, writes conditionally and appends orders, and
// the modes of package stock combine these, correctly or not. But it reports whether a command happened: an error of a
// write is [ErrUnavailable] if nothing was changed, and [ErrUnknown] if that is not known.
package store

import (
	"errors"
	"fmt"
	"time"
)

// The errors of a store. Driver errors are classified only in redis.go, sql.go and etcd.go.
var (
	ErrUnknownProduct = errors.New("store: unknown product")      // always in a *ProductError
	ErrSegmented      = errors.New("store: product is segmented") // always in a *ProductError
	// ErrUnavailable: the store did not answer, or refused, and nothing was changed.
	ErrUnavailable = errors.New("store: unavailable")
	// ErrRefused: the server is reachable but refuses the command, because Redis's memory is full or the database is
	// read-only.
	ErrRefused = errors.New("store: refused")
	// ErrForbidden: the server refuses the command, and will until an operator changes that: rights, a missing table, a
	// setting.
	ErrForbidden = fmt.Errorf("%w until an operator changes that", ErrRefused)
	// ErrConflict: the database ended the transaction in favour of another one (deadlock, lock wait, snapshot). Nothing
	// was changed.
	ErrConflict = errors.New("store: transaction conflict")
	// ErrRowBusy: another transaction held the row for the caller's whole wait. Nothing was changed.
	ErrRowBusy = errors.New("store: row is locked")
	// ErrOrderExists: an order has been inserted before, by an earlier delivery of its request. Nothing was changed.
	ErrOrderExists = errors.New("store: order exists")
	// ErrPosition: a [Position] that this store has never returned.
	ErrPosition = errors.New("store: not a position of this store")
	// ErrUnknown: the write was sent and its answer lost. It may have happened.
	ErrUnknown = errors.New("store: outcome unknown")
)

// ProductError is [ErrUnknownProduct] or [ErrSegmented] with its product: for a cart, one of several.
type ProductError struct {
	Err       error
	ProductID int64
	// Store is the store that was searched: "redis", "sql" or "etcd"; "" = all of them, or not known.
	Store string
}

// Error names the product.
func (e *ProductError) Error() string { return fmt.Sprintf("%v: %d", e.Err, e.ProductID) }

// Unwrap returns which of the two it is.
func (e *ProductError) Unwrap() error { return e.Err }

// countLost is the error of a product whose count or initial count was deleted or evicted while the other, or its
// orders, are still there: an audit must not take it for a product that the store never had.
func countLost(store string, product int64) error {
	return fmt.Errorf("%w: %s: the counts or orders of product %d are there only in part", ErrUnavailable, store, product)
}

// Order is one order row.
type Order struct {
	ID        string `json:"id"`
	ProductID int64  `json:"product_id"`
	Quantity  int64  `json:"quantity"`
	// Remaining is the stock that the deduction left, as far as it knew; nil if unknown.
	Remaining *int64 `json:"remaining,omitempty"`
	Mode      string `json:"mode"`
	Replica   string `json:"replica"`
	Key       []byte `json:"key,omitempty"`
	Fence     uint64 `json:"fence,omitempty"`
	// CreatedMicros is in microseconds since the epoch, by the replica's clock.
	CreatedMicros int64 `json:"created_us"`
}

// CreatedAt is CreatedMicros as a time.
func (o Order) CreatedAt() time.Time { return time.UnixMicro(o.CreatedMicros) }

// KeyRow is one row of the idempotency table.
type KeyRow struct {
	Key           []byte
	Status        int
	CreatedMicros int64
	Mode          string // that answered; "" = in progress, or written by an early version
}

// Facts is all that one store holds on a product.
type Facts struct {
	Initial int64
	Stock   int64
	// Totals counts all order rows; Orders may hold only a page of them.
	Totals   Totals
	LeaseSeq uint64  // SQL only
	Segments []int64 // Redis only
	Orders   []Order
	Keys     []KeyRow // SQL only
}
