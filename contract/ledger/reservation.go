package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// ReservationState is where a reservation is on its way:
//
//	(none) ── hold ─> held ── confirm, before the deadline ─> confirmed
//	                  held ── cancel ─> cancelled
//	                  held ── deadline ─> expired ── late payment, late=rehold, units free ─> confirmed
//	                  held ── the product's stock was set anew ─> void
type ReservationState string

// The states. Only held holds units.
const (
	Held      ReservationState = "held"
	Confirmed ReservationState = "confirmed"
	Cancelled ReservationState = "cancelled"
	Expired   ReservationState = "expired"
	Void      ReservationState = "void"
)

// What a payment after the deadline gets, as the product says.
const (
	LateRefund = "refund" // the money back
	LateRehold = "rehold" // an order while units are free, else the money back
)

// Reservation is a reservation: units of its items, held for a buyer until the deadline.
type Reservation struct {
	ID            string
	Key           []byte // of the request that made it; nil = none
	Fingerprint   []byte // of the payload that came with the key
	Mode, Replica string
	Buyer         string // "" = not given
	State         ReservationState
	Late          string
	// Times are microseconds since the epoch by the store's clock. ExtendedMicros is when the last extension was granted,
	// 0 = none was.
	ExpiresMicros, ExtendedMicros, CreatedMicros, ChangedMicros int64
	Items                                                       []ReservationItem
}

// ReservationItem is what a reservation holds of one product.
type ReservationItem struct {
	ProductID, Quantity int64
	Run                 int64  // the product's at the time of the hold
	OrderID             string // once it is confirmed
}

// ReservationEvent is a change of a reservation's state, or of its deadline.
type ReservationEvent struct {
	ReservationID  string
	Was, Now       ReservationState // Was "" = made
	DeadlineMicros int64            // the deadline that was valid then
	Replica        string
	AtMicros       int64
	// CommittedMicros is by when a sweep's expiry was certain; 0 = nobody looked.
	CommittedMicros int64
	// Request is the [Digest] of the key of an extension or of a cancelled part; "" = it had none.
	Request string
	// Quantity is how many units a cancel by quantity gave back. If others stay, both states are Held.
	Quantity int64
}

// Part is what a cancel or a return is about; the zero value = all that there is.
type Part struct {
	ProductID int64  // of a cart that is cancelled: the line; 0 = the only one
	Quantity  int64  // 0 = all that is left of it
	Key       []byte // tells a repetition from another part
}

// Request is the [Digest] of the key of a part that is told by its quantity: all that is left is given back once, with
// or without a key.
func (p Part) Request() string {
	if p.Quantity == 0 {
		return ""
	}
	return Digest(p.Key)
}

// MostChanges is how many times a reservation may be extended or cancelled in part before the rest must be cancelled as
// a whole.
const MostChanges = 2 * MostExtends

// Digest stands for an idempotency key where it is only compared: 32 characters, whatever the key; "" = no key.
func Digest(key []byte) string {
	if len(key) == 0 {
		return ""
	}
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:16])
}

// Payment is what a confirm came with, and its one end.
type Payment struct {
	ID            []byte
	ReservationID string
	OrderID       string // "" = refunded
	Outcome       string // "order" or "refund", as the row says; "" in Redis, whose payments do not say it again
	AtMicros      int64
}

// Reservations is what one store holds on a product at one moment, for a judge: the counts and rows of its present run.
// The times are by the store's clock.
type Reservations struct {
	AsOfMicros int64
	Initial    int64
	Stock      int64
	Held       int64 // by reservations that are held, overdue ones too
	Ordered    int64 // by orders that were not returned
	WrittenOff int64 // returned, and not put back
	Overdue    int64 // of the held units, those past their deadline
	PerBuyer   int64 // 0 = no limit
	Extends    int   // how often a reservation may be extended
	Run        int64
	BuyerUnits map[string]int64
	// Adjustments say how Initial came about, see [Journal].
	Adjustments []Adjustment
	Rows        []ReservationRow // by id
	Sweep       time.Duration    // mean time between two sweeps of the process that read them; 0 = it does not sweep
}

// ReservationRow is a reservation with all that became of it.
type ReservationRow struct {
	Reservation
	Events   []ReservationEvent // the oldest first
	Payments []Payment
	Orders   []ReservationOrder // of the product: one, or none
}

// ReservationOrder is an order row of a reservation.
type ReservationOrder struct {
	ID, Payment, Buyer string
	Quantity           int64
	Returns            []Returned
}

// Returned is what came back of an order at once.
type Returned struct {
	Request   string // the [Digest] of the key of a part, "" = all that was left
	Quantity  int64
	Restocked bool // it went to the stock; else it was written off
}

// ReservationsPage is the most reservations that one call of Reservations returns.
const ReservationsPage = 500

// Ended is what came of a confirm, a cancel or an extension.
type Ended struct {
	Reservation Reservation
	OrderID     string // of a payment that became an order
	Refund      bool   // of a payment that did not
	Replay      bool   // of a payment that was answered before
}

// MaxUnits is the most units of a product that has a row per unit.
const MaxUnits = 100_000

// ShortError is the refusal of a hold or a sale, with the product that it is about. Where a limit is reached, Available
// is that.
type ShortError struct {
	Err                             error
	ProductID, Requested, Available int64
}

// Error describes the refusal.
func (e *ShortError) Error() string {
	return fmt.Sprintf("%v: product %d has %d", e.Err, e.ProductID, e.Available)
}

// Unwrap returns why: too little stock, or the buyer's limit.
func (e *ShortError) Unwrap() error { return e.Err }
