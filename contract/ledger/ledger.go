// Package ledger has the rows that a store keeps of a product: those that package store reads and writes, shop hands
// on, and handler shows. The judge is given what handler shows, api.Ledger. It imports nothing of ours.
package ledger

import (
	"fmt"
	"time"
)

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
	// Buyer is on the orders of redis-lua and of reservations in Redis, and on new ones of modes in SQL that keep to a
	// limit; "" elsewhere.
	Buyer string `json:"buyer,omitempty"`
	// Run is the run that the units were taken in, on new orders of modes in SQL that do not lock the product's row; 0
	// elsewhere.
	Run int64 `json:"-"`
	// ReservationID is the reservation that the order was made of, "" = none; in Redis only. Key is then the payment's id.
	ReservationID string `json:"reservation_id,omitempty"`
	// Way is Absolutely if the mode has written the count that it had computed; in Redis only: hold.lua looks for it.
	Way Sold `json:"way,omitempty"`
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
	Totals Totals
	// Held units are those of reservations; WrittenOff were returned and not put back, Restocked were put back.
	Held, WrittenOff, Restocked int64
	// Passed units left the count as tickets: their orders are in SQL, or will be; Redis only.
	Passed int64
	// InFlight counts the tickets whose orders are still to be written; Redis only.
	InFlight int64
	// Released says that units may have come back: there were reservations, or returned orders.
	Released bool
	LeaseSeq uint64 // SQL only
	Run      int64  // SQL only: it names the time since the stock was set
	Sold     Sold   // SQL, and Redis; there Absolutely is only on the orders

	// Adjustments say how Initial came about, see [Journal]; only in a snapshot.
	Adjustments []Adjustment
	Segments    []int64 // Redis only
	Orders      []Order
	Keys        []KeyRow // SQL only
}

// Totals counts the order rows of a product, and their units.
type Totals struct{ Orders, Units int64 }

// Want limits the rows of a page, by kind.
type Want struct{ Orders, Keys int }

// Position is a reader's position in a product's rows in one store; the zero value is before the first row.
type Position struct {
	// Order is the last order that was read; Until is the last order of the reader's first snapshot. Both are numbers in
	// SQLite, which only appends, and ids elsewhere. In Redis they are the number of the next order, and the number after
	// the last one.
	Order string `json:"o,omitempty"`
	Until string `json:"u,omitempty"`
	// Key is the last idempotency key that was read.
	Key []byte `json:"k,omitempty"`
	// Revision is the revision of the first snapshot in etcd.
	Revision int64 `json:"r,omitempty"`
	// NoOrders and NoKeys say that none is left to read.
	NoOrders bool `json:"x,omitempty"`
	NoKeys   bool `json:"y,omitempty"`
}

// End says that nothing is left to read.
func (p Position) End() bool { return p.NoOrders && p.NoKeys }

// Snapshot is one consistent view of a product in one store. Its rows can be read any number of times while it is open.
type Snapshot struct {
	Facts // without rows, and without the totals' units
	// Orders calls each with batches of all order rows, roughly the oldest first. each must not keep a batch. An error of
	// each ends the reading and is returned.
	Orders func(each func([]Order) error) error
	// Keys does the same for the rows of the idempotency table; nil if the store has none.
	Keys func(each func([]KeyRow) error) error
}

// ProductError is about a product that a store does not have, or sells in another way: for a cart, one of several.
type ProductError struct {
	Err       error
	ProductID int64
	// Store is the store that was searched: "redis", "sql" or "etcd"; "" = all of them, or not known.
	Store string
}

// Error names the product.
func (e *ProductError) Error() string { return fmt.Sprintf("%v: %d", e.Err, e.ProductID) }

// Unwrap returns what it is.
func (e *ProductError) Unwrap() error { return e.Err }
