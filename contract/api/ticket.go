package api

import "strings"

// Ticket is the body of a 202, and of GET /tickets/{id}: a unit was won, and its order is written later.
type Ticket struct {
	TicketID string `json:"ticket_id"`
	// State is "queued", and in the end "sold", "refused", "failed" or "same": the order of the same Idempotency-Key
	// stands.
	State     string `json:"state"`
	Mode      string `json:"mode,omitempty"`
	ProductID int64  `json:"product_id"`
	Quantity  int64  `json:"quantity,omitempty"`
	// Remaining is the count in Redis after the win; only in the 202.
	Remaining *int64 `json:"remaining,omitempty"`
	OrderID   string `json:"order_id,omitempty"`
	Reason    string `json:"reason,omitempty"` // of "refused" and "failed"
}

// TicketQueued is the state of a ticket whose order is still to be written.
const TicketQueued = "queued"

// OrderOf returns the id that the order of a ticket has.
func (t Ticket) OrderOf() string {
	_, order, _ := strings.Cut(t.TicketID, "-")
	return order
}
