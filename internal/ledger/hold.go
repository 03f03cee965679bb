package ledger

import "strings"

// HoldState is where a reservation is on its way:
//
//	(none) ── hold ─> held ── confirm, before the deadline ─> confirmed
//	                  held ── cancel ─> cancelled
//	                  held ── deadline ─> expired ── late payment, late=rehold, units free ─> confirmed
//	                  held ── the product's stock was set anew ─> void
type HoldState string

// The states. Only held holds units.
const (
	Held      HoldState = "held"
	Confirmed HoldState = "confirmed"
	Cancelled HoldState = "cancelled"
	Expired   HoldState = "expired"
	Void      HoldState = "void"
)

// What a payment after the deadline gets, as the product says.
const (
	LateRefund = "refund" // the money back
	LateRehold = "rehold" // an order while units are free, else the money back
)

// Hold is a reservation: units of its items, held for a buyer until the deadline.
type Hold struct {
	ID            string
	Key           []byte // of the request that made it; nil = none
	Fingerprint   []byte // of the payload that came with the key
	Mode, Replica string
	Buyer         string // "" = not given
	State         HoldState
	Late          string
	// Times are microseconds since the epoch by the store's clock. ExtendedMicros is when the one extension was granted, 0 =
	// not yet.
	ExpiresMicros, ExtendedMicros, CreatedMicros, ChangedMicros int64
	Items                                                       []HoldItem
}

// IsHold says whether an id is a reservation's, and not an order's: it begins with the name of its store.
func IsHold(id string) bool { return strings.HasPrefix(id, "sql-") || strings.HasPrefix(id, "redis-") }

// HoldItem is what a reservation holds of one product.
type HoldItem struct {
	ProductID, Quantity int64
	Run                 int64  // the product's at the time of the hold
	OrderID             string // once it is confirmed
}

// HoldEvent is a change of a reservation's state.
type HoldEvent struct {
	HoldID         string
	Was, Now       HoldState // Was "" = made
	DeadlineMicros int64     // the deadline that was valid then
	Replica        string
	AtMicros       int64
	// CommittedMicros is by when a sweep's expiry was certain; 0 = nobody looked.
	CommittedMicros int64
}

// Payment is what a confirm came with, and its one end.
type Payment struct {
	ID       []byte
	HoldID   string
	OrderID  string // "" = refunded
	AtMicros int64
}
