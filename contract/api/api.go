// Package api holds what crosses the wire: the bodies of the HTTP contract and the stable codes of its errors.
//
// It is the only package that the service, the judge and the load generator share, so that the latter two can
// judge another implementation. Of ours it imports text only. Start with [Deduction], [Problem] and [Ledger].
package api

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"lastitem/say/text"
)

// Store names where the count lives.
type Store string

// The stores.
const (
	Redis Store = "redis"
	SQL   Store = "sql"
	Etcd  Store = "etcd"
)

// Stores lists them all.
var Stores = []Store{Redis, SQL, Etcd}

// Hazard names a rung or column of the claims table: "threads", "replicas", "slow", "late", "pause", "crash",
// "failover", "stale", "retry", "redelivery", "late-write", "expiry".
type Hazard string

// The hazards, in the order of the ladder.
const (
	Threads    Hazard = "threads"
	Replicas   Hazard = "replicas"
	Slow       Hazard = "slow"
	Late       Hazard = "late"
	Pause      Hazard = "pause"
	Crash      Hazard = "crash"
	Failover   Hazard = "failover"
	Stale      Hazard = "stale"
	Retry      Hazard = "retry"
	Redelivery Hazard = "redelivery"
	LateWrite  Hazard = "late-write"
	Expiry     Hazard = "expiry"
)

// Outcomes is what a mode does under a hazard: "." exact, "" broken at an earlier rung, "–" cannot happen, else
// the letters of what breaks: O oversold or lost update, L leaked, D double charge, X stuck, A acknowledged order lost,
// B a buyer has more than the limit, U undersold.
type Outcomes string

// Exact and NotApplicable are the two outcomes that name no breakage.
const (
	Exact         Outcomes = "."
	NotApplicable Outcomes = "–"
)

// Mode is one entry of the registry.
type Mode struct {
	Name  string    `json:"name"`
	Title text.Text `json:"title"`
	// Doc is the essay, Markdown; only GET /modes/{mode} carries it.
	Doc *text.Text `json:"doc,omitempty"`
	// Needs lists the backends: "redis", "sql", "mysql", "redlock", "zookeeper", "etcd", "consul", "kafka".
	Needs []string `json:"needs"`
	// Stores lists where the count may live, the default first; empty for the baseline.
	Stores []Store `json:"stores"`
	// Cart says that several products may be deducted at once.
	Cart bool `json:"cart"`
	// KeyRequired says that an Idempotency-Key must be sent.
	KeyRequired bool `json:"key_required"`
	// Holds lists the fields that a request with the admin token may set to experiment with the mode's lock: "lease_ms",
	// "depth", "hold_ms".
	Holds []string `json:"holds"`
	// Segments is into how many segments a run should split the product first; 0 = not segmented.
	Segments int `json:"segments"`
	// Reserves says that the mode holds units: POST /reserve_stock/{mode}.
	Reserves bool `json:"reserves,omitempty"`
	// Tickets says that the mode answers 202 with a [Ticket], and that the order is written later.
	Tickets bool `json:"tickets,omitempty"`
	// PerBuyer says that the mode sells products with a limit per buyer, and looks at it.
	PerBuyer bool `json:"per_buyer,omitempty"`
	// Adjusts says that the claims hold while the stock is adjusted.
	Adjusts bool `json:"adjusts,omitempty"`
	// Units says that a run should set the stock with a row per unit.
	Units bool `json:"units,omitempty"`
	// Baseline marks the mode that touches no store and claims nothing.
	Baseline bool `json:"baseline"`
	// Default marks the mode behind POST /deduct_stock.
	Default bool `json:"default"`
	// Claims holds, per store and hazard, the claimed outcomes.
	Claims map[Store]map[Hazard]Outcomes `json:"claims"`
	// Available is false where a need is unmet; Why then says which. Where it is true, Why says that the mode deducts
	// without its lock.
	Available bool   `json:"available"`
	Why       string `json:"why,omitempty"`
	// Down says that the mode is not available because a backend does not work now, and not because it lacks one.
	Down bool `json:"down,omitempty"`
}

// Modes is the body of GET /modes: the registry, in teaching order.
type Modes struct {
	Modes []Mode `json:"modes"`
}

// Setting is how a run should set the stock of a product for the mode.
func (m Mode) Setting(stock int64) SetStock {
	return SetStock{Stock: stock, Segments: m.Segments, Units: m.Units}
}

// Claim returns what the mode claims at a rung of the ladder for one store: a mode broken by threads is as broken over
// replicas, so a blank at Replicas falls back to Threads. "" where nothing is claimed.
func (m Mode) Claim(s Store, h Hazard) Outcomes {
	row := m.Claims[s]
	if o := row[h]; o != "" || h != Replicas {
		return o
	}
	return row[Threads]
}

// BreaksLimit says that the mode claims to give a buyer more than the limit: a run should set one.
func (m Mode) BreaksLimit() bool {
	return slices.ContainsFunc(m.Stores, func(s Store) bool { return strings.Contains(string(m.Claim(s, Threads)), "B") })
}

// Line is one line of a cart.
type Line struct {
	ProductID int64 `json:"product_id"`
	Quantity  int64 `json:"quantity"`
}

// Deduction is the body of a 200 from POST /deduct_stock/{mode}.
type Deduction struct {
	Mode      string `json:"mode"`
	ProductID int64  `json:"product_id,omitempty"`
	Quantity  int64  `json:"quantity,omitempty"`
	// Items is set instead of ProductID and Quantity for a cart.
	Items []Line `json:"items,omitempty"`
	// Remaining is the stock left after this deduction; absent where nobody knows it.
	Remaining *int64 `json:"remaining,omitempty"`
	OrderID   string `json:"order_id"`
	// Fence is the fencing token under which the write was made; absent where the mode has none.
	Fence uint64 `json:"fence,omitempty"`
}

// SetStock is the body of PUT /products/{id}/stock.
type SetStock struct {
	Stock int64 `json:"stock"`
	// Segments splits the stock in Redis into that many segments; 0 = one counter.
	Segments int `json:"segments,omitempty"`
	// PerBuyer is the most units that a buyer may hold or have; 0 = no limit.
	PerBuyer int64 `json:"per_buyer,omitempty"`
	// Late says what a payment after the deadline gets: "refund", or "rehold" while units are free; "" = refund.
	Late string `json:"late,omitempty"`
	// Units makes a row per unit.
	Units bool `json:"units,omitempty"`
	// MaxHoldMS is the longest hold and the longest extension, in milliseconds; 0 = an hour. Extends is how often a
	// reservation may be extended; 0 = once.
	MaxHoldMS int64 `json:"max_hold_ms,omitempty"`
	Extends   int   `json:"extends,omitempty"`
}

// Adjust is the body of POST /products/{id}/adjust.
type Adjust struct {
	// Delta is how many units are added; below zero, so many free units are taken.
	Delta  int64  `json:"delta"`
	Reason string `json:"reason,omitempty"` // at most 200 bytes
	// Store is the only one to adjust; "" = each that has the product.
	Store Store `json:"store,omitempty"`
}

// Adjusted is the body of a 200 from POST /products/{id}/adjust. Initial is the initial stock with the adjustment, and
// Stock what was free after it, in each store that was adjusted.
type Adjusted struct {
	ProductID int64           `json:"product_id"`
	Delta     int64           `json:"delta"`
	Reason    string          `json:"reason,omitempty"`
	Initial   map[Store]int64 `json:"initial"`
	Stock     map[Store]int64 `json:"stock"`
}

// Adjustment is a change of a product's stock from outside. The first of a run is its setting, and has no key; the
// others added units, or took free ones, while the product was sold. The initial stock is the sum of all.
type Adjustment struct {
	Delta  int64  `json:"delta"`
	Reason string `json:"reason,omitempty"`
	Key    string `json:"key,omitempty"` // see [KeyText]
	// AtMicros is in microseconds since the epoch by the store's clock, in etcd by the replica's; 0 = not known.
	AtMicros int64 `json:"at_us,omitempty"`
	// Older is how many adjustments a setting includes that are too many to be told.
	Older int64 `json:"older,omitempty"`
}

// Product is the body of GET /products/{id}.
type Product struct {
	ProductID int64           `json:"product_id"`
	Stock     map[Store]int64 `json:"stock"`
	LeaseSeq  uint64          `json:"lease_seq"`
	Segments  []int64         `json:"segments,omitempty"`
	// InFlight is how many tickets wait for their orders; absent = none of the product do.
	InFlight int64 `json:"in_flight,omitempty"`
}

// Order is one order row.
type Order struct {
	OrderID   string `json:"order_id"`
	ProductID int64  `json:"product_id"`
	Quantity  int64  `json:"quantity"`
	// Remaining is the stock that the deduction left, as far as it knew; absent if unknown.
	Remaining *int64 `json:"remaining,omitempty"`
	Mode      string `json:"mode"`
	Store     Store  `json:"store"`
	// Replica names the process that took the order.
	Replica string `json:"replica"`
	// Key is the idempotency key, see [KeyText]; "" for none. With ReservationID, the reservation that the order was
	// made of, it is the payment's id.
	Key           string `json:"key,omitempty"`
	ReservationID string `json:"reservation_id,omitempty"`
	Fence         uint64 `json:"fence,omitempty"`
	// CreatedAt is by the replica's clock, to the microsecond.
	CreatedAt time.Time `json:"created_at"`
}

// Totals counts the order rows of one store, and their units.
type Totals struct {
	Orders int64 `json:"orders"`
	Units  int64 `json:"units"`
}

// Orders is the body of GET /products/{id}/orders: a page of the order rows. As in [Ledger], only the first page has
// the other fields.
type Orders struct {
	ProductID  int64            `json:"product_id"`
	Initial    map[Store]int64  `json:"initial,omitzero"`
	Stock      map[Store]int64  `json:"stock,omitzero"`
	Totals     map[Store]Totals `json:"totals,omitzero"`
	AsOf       time.Time        `json:"as_of,omitzero"`
	Orders     []Order          `json:"orders"`
	NextCursor string           `json:"next_cursor,omitempty"`
}

// KeyRow is one row of the idempotency table: a first answer that wins.
type KeyRow struct {
	Key       string    `json:"key"`
	Status    int       `json:"status"` // of the answer; 0 = in progress
	CreatedAt time.Time `json:"created_at"`
	// Mode is the mode that answered; absent if the request is in progress, or an early version has written the row. The
	// orders of other modes have nothing to do with the answer.
	Mode string `json:"mode,omitempty"`
}

// Ledger is the body of GET /products/{id}/ledger: the raw facts that a judge needs, in pages. Initial is the count
// that PUT .../stock set and later adjustments changed; it is never computed from the current count. A store that could
// not be read is missing from the maps and named in Unavailable.
//
// The first page carries everything besides the rows, read from one snapshot per store: if the mode writes stock and
// order in one step, Initial = Stock + Totals.Units holds even while sales go on. Later pages carry rows only. Within a
// page the oldest orders come first; the pages go through the stores one after the other.
type Ledger struct {
	ProductID int64           `json:"product_id"`
	Initial   map[Store]int64 `json:"initial,omitzero"`
	Stock     map[Store]int64 `json:"stock,omitzero"`
	Segments  []int64         `json:"segments,omitempty"`
	// Totals counts all order rows of the snapshot, on all pages.
	Totals map[Store]Totals `json:"totals,omitzero"`
	// Held units are those of reservations; Restocked ones were returned and put back, so their orders count no more.
	Held      map[Store]int64 `json:"held,omitzero"`
	Restocked map[Store]int64 `json:"restocked,omitzero"`
	// Passed units left the count in Redis as tickets: their orders are in SQL, or will be.
	Passed map[Store]int64 `json:"passed,omitzero"`
	// InFlight counts the tickets whose orders are still to be written.
	InFlight int64 `json:"in_flight,omitempty"`
	// Adjustments say how the initial stock came about, the oldest first; a store may not tell.
	Adjustments map[Store][]Adjustment `json:"adjustments,omitzero"`
	// Released says that units may have come back to the stock: there were reservations, or returned orders.
	Released map[Store]bool `json:"released,omitzero"`
	// KeepKeysMS is for how long an idempotency key is kept, in milliseconds; 0 = forever. An order that repeats a key
	// later is a new one.
	KeepKeysMS int64 `json:"keep_keys_ms,omitempty"`
	// AsOf is when the first snapshot began, by the replica's clock: they contain everything that was answered before.
	AsOf   time.Time `json:"as_of,omitzero"`
	Orders []Order   `json:"orders"`
	Keys   []KeyRow  `json:"keys"`
	// NextCursor is the cursor of the next page; "" on the last one.
	NextCursor  string           `json:"next_cursor,omitempty"`
	Unavailable map[Store]string `json:"unavailable,omitempty"`
	// Moved says that the product was sold while a client read the pages: the orders are of the first page's moment, but
	// the keys of later pages are not.
	Moved bool `json:"-"`
}

// KeyText writes an idempotency key, which is bytes, as text: as it is where it is UTF-8, and each other byte as \xe9.
// A backslash before an x is written as \x5c, so no two keys read alike.
func KeyText(key []byte) string {
	if utf8.Valid(key) && !bytes.Contains(key, []byte(`\x`)) {
		return string(key)
	}
	var b strings.Builder
	for len(key) > 0 {
		r, n := utf8.DecodeRune(key)
		if r == utf8.RuneError && n == 1 || r == '\\' && len(key) > 1 && key[1] == 'x' {
			fmt.Fprintf(&b, `\x%02x`, key[0])
		} else {
			b.Write(key[:n])
		}
		key = key[n:]
	}
	return b.String()
}
