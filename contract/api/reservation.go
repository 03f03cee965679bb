package api

import (
	"encoding/json"
	"fmt"
	"time"
)

// Refund answers whether a payment must go back to its buyer. In JSON it is true, false or "unknown".
type Refund string

// The answers. After "unknown" nobody refunds before the same confirm has been repeated and answered.
const (
	RefundYes     Refund = "true"
	RefundNo      Refund = "false"
	RefundUnknown Refund = "unknown"
)

// MarshalJSON writes true, false or "unknown".
func (r Refund) MarshalJSON() ([]byte, error) {
	if r == RefundUnknown {
		return []byte(`"unknown"`), nil
	}
	return []byte(r), nil
}

// UnmarshalJSON reads true, false or "unknown".
func (r *Refund) UnmarshalJSON(b []byte) error {
	switch s := string(b); s {
	case "true", "false":
		*r = Refund(s)
		return nil
	}
	var word string
	if err := json.Unmarshal(b, &word); err != nil || word != string(RefundUnknown) {
		return fmt.Errorf("api: refund %s is none of true, false and unknown", b)
	}
	*r = RefundUnknown
	return nil
}

// Reservation is the body of every good answer about a reservation: units held for a buyer until a deadline.
type Reservation struct {
	ReservationID string `json:"reservation_id"`
	// State is "held", "confirmed", "cancelled", "expired" or "void".
	State     string    `json:"state"`
	ExpiresAt time.Time `json:"expires_at"` // by the store's clock
	Mode      string    `json:"mode"`
	Buyer     string    `json:"buyer,omitempty"`
	Items     []Line    `json:"items"`
	// Remaining is the stock that the hold left; only in the answer to a hold of one product, where it is known.
	Remaining *int64 `json:"remaining,omitempty"`
	// OrderID is the order that a confirm has made of it.
	OrderID string `json:"order_id,omitempty"`
	// Refund is in the answer to a confirm: false.
	Refund Refund `json:"refund,omitempty"`
}

// Returned is the body of a 200 from POST /products/{id}/orders/{order_id}/return.
type Returned struct {
	OrderID   string `json:"order_id"`
	ProductID int64  `json:"product_id"`
	Quantity  int64  `json:"quantity"`
	// Restock says whether the units went back to the stock, or are written off: the first answer stands.
	Restock bool `json:"restock"`
}

// Reservations is the body of GET /products/{id}/reservations: what one store holds on a product, for a judge. All
// times in microseconds are by the store's clock. The first page has the counts, from the snapshot of its rows; the
// pages go by id.
type Reservations struct {
	ProductID  int64            `json:"product_id"`
	Store      Store            `json:"store"`
	AsOfMicros int64            `json:"as_of_us"`
	Initial    int64            `json:"initial"`
	Stock      int64            `json:"stock"`
	Held       int64            `json:"held"`        // by reservations that are held, overdue ones too
	Ordered    int64            `json:"ordered"`     // by orders that were not returned
	WrittenOff int64            `json:"written_off"` // returned, and not put back
	Overdue    int64            `json:"overdue"`     // of the held units, those past their deadline
	PerBuyer   int64            `json:"per_buyer,omitempty"`
	Extends    int              `json:"extends,omitempty"` // how often a reservation may be extended; 0 = once
	Run        int64            `json:"run"`
	BuyerUnits map[string]int64 `json:"buyer_units,omitempty"`
	// SweepMS is the mean time between two sweeps of the replica that answers; 0 = it does not sweep. The next sweep comes
	// within one and a half of it.
	SweepMS int64 `json:"sweep_ms"`
	// Adjustments say how the initial stock came about, the oldest first; only on the first page.
	Adjustments []Adjustment     `json:"adjustments,omitempty"`
	Rows        []ReservationRow `json:"reservations"`
	NextCursor  string           `json:"next_cursor,omitempty"`
}

// Count returns the units that the rows hold, that their orders have, and that were returned and written off.
func (r *Reservations) Count() (held, ordered, writtenOff int64) {
	for _, row := range r.Rows {
		if row.State == "held" {
			held += row.Quantity
		}
		for _, o := range row.Orders {
			back, gone := o.Back()
			ordered, writtenOff = ordered+o.Quantity-back-gone, writtenOff+gone
		}
	}
	return held, ordered, writtenOff
}

// ReservationRow is one reservation of the product's present run, with all that became of it.
type ReservationRow struct {
	ReservationID  string             `json:"reservation_id"`
	Key            string             `json:"key,omitempty"`
	Mode           string             `json:"mode"`
	Replica        string             `json:"replica"`
	Buyer          string             `json:"buyer,omitempty"`
	State          string             `json:"state"`
	Late           string             `json:"late"` // "refund" or "rehold"
	Quantity       int64              `json:"quantity"`
	ExpiresMicros  int64              `json:"expires_us"`
	ExtendedMicros int64              `json:"extended_us,omitempty"`
	CreatedMicros  int64              `json:"created_us"`
	ChangedMicros  int64              `json:"changed_us"`
	Orders         []ReservationOrder `json:"orders,omitempty"`
	Events         []ReservationEvent `json:"events"`
	Payments       []ReservationPaid  `json:"payments,omitempty"`
}

// ReservationOrder is an order row of a reservation.
type ReservationOrder struct {
	OrderID  string         `json:"order_id"`
	Payment  string         `json:"payment"`
	Buyer    string         `json:"buyer,omitempty"`
	Quantity int64          `json:"quantity"`
	Returns  []ReturnedPart `json:"returns,omitempty"`
}

// ReturnedPart is what came back of an order at once: a part, or all that was left.
type ReturnedPart struct {
	Request   string `json:"request,omitempty"` // stands for the Idempotency-Key of a part: the same key, the same text
	Quantity  int64  `json:"quantity"`
	Restocked bool   `json:"restocked,omitempty"` // it went to the stock; else it was written off
}

// Back returns the units of the order that went to the stock, and those that were written off.
func (o ReservationOrder) Back() (restocked, writtenOff int64) {
	for _, r := range o.Returns {
		if r.Restocked {
			restocked += r.Quantity
		} else {
			writtenOff += r.Quantity
		}
	}
	return restocked, writtenOff
}

// ReservationEvent is a change of state, of the deadline, or of how many units are held.
type ReservationEvent struct {
	Was            string `json:"was"` // "" = made
	Now            string `json:"now"`
	DeadlineMicros int64  `json:"deadline_us"` // that was valid then
	Replica        string `json:"replica"`
	AtMicros       int64  `json:"at_us"`
	// CommittedMicros is by when a sweep's expiry was certain; absent if nobody looked.
	CommittedMicros int64 `json:"committed_us,omitempty"`
	// Request stands for the Idempotency-Key of an extension or of a cancelled part: the same key, the same text.
	Request string `json:"request,omitempty"`
	// Quantity is how many units a cancel by quantity gave back. If others stay, Was and Now are "held".
	Quantity int64 `json:"quantity,omitempty"`
}

// ReservationPaid is a payment with its one end.
type ReservationPaid struct {
	Payment  string `json:"payment"`
	OrderID  string `json:"order_id,omitempty"` // absent = refunded
	Outcome  string `json:"outcome,omitempty"`  // "order" or "refund", where the store writes it down
	AtMicros int64  `json:"at_us"`
}
