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

// TicketBook is the body of GET /products/{id}/tickets: one look at both sides of a product that is sold by tickets,
// and a page of its tickets. Units are those of one moment at which no order of the product could be committed.
type TicketBook struct {
	ProductID int64 `json:"product_id"`
	Run       int64 `json:"run"`
	Initial   int64 `json:"initial"`
	Front     int64 `json:"front"`     // the count in Redis, which decides who wins
	InFlight  int64 `json:"in_flight"` // of the tickets that Redis holds
	Settled   int64 `json:"settled"`   // of these, units whose end is in SQL as "sold" already
	Book      int64 `json:"book"`      // the stock in SQL
	Passed    int64 `json:"passed"`    // whose end "sold" Redis has been told
	// Corrected is what reconciliations have taken from the front, below zero, for orders that Redis did not know of; what
	// had leaked and came back is not in it. So Front + InFlight + Passed = Initial + Corrected while nothing leaks.
	Corrected int64 `json:"corrected"`
	Journal   int64 `json:"journal"` // the same, by the journal in SQL: the sum of what was applied
	// Generation counts the corrections; OldestMS is the age of the ticket that waits for the longest time.
	Generation int64 `json:"generation"`
	OldestMS   int64 `json:"oldest_ms"`
	// Tickets are those in flight, as "queued", and then the ends that are in SQL, by end and id. Next is the query after
	// of the next page; "" = this is the last.
	Tickets []TicketEnd `json:"tickets"`
	Next    string      `json:"next,omitempty"`
}

// Drift is how many units nobody can buy or, below zero, how many were promised that the book does not have.
func (b TicketBook) Drift() int64 { return b.Book - b.Front - (b.InFlight - b.Settled) }

// TicketEnd is a ticket as the stores know it.
type TicketEnd struct {
	ID         string `json:"id"`    // the uuid, which is the order's id
	State      string `json:"state"` // as in Ticket
	Quantity   int64  `json:"quantity"`
	OrderID    string `json:"order_id,omitempty"` // of "same": another's
	Key        string `json:"idempotency_key,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Deliveries int64  `json:"deliveries,omitempty"` // how often it was read before its end
}

// Reconciliation is the body of POST /products/{id}/reconcile.
type Reconciliation struct {
	ProductID  int64 `json:"product_id"`
	Drift      int64 `json:"drift"`     // see TicketBook.Drift
	Leaked     int64 `json:"leaked"`    // drift + forgotten
	Forgotten  int64 `json:"forgotten"` // sold by the book, and not known to Redis: a failover, or another mode
	Front      int64 `json:"front"`
	InFlight   int64 `json:"in_flight"`
	Book       int64 `json:"book"`
	OldestMS   int64 `json:"oldest_ms"`
	Stuck      int64 `json:"stuck,omitempty"` // tickets without an entry in the stream; below 0, entries without a ticket
	Repaired   int64 `json:"repaired"`        // units by which the front was changed
	Generation int64 `json:"generation"`
}
