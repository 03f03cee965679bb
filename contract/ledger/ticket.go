package ledger

// TicketState is where a ticket is on its way: a sale that was won in Redis, and whose order is to be written in SQL.
//
//	(none) ── won ─> queued ── COMMIT ─> sold
//	                 queued ── too little stock in SQL, or the buyer's limit ─> refused, and the unit goes back
//	                 queued ── five tries alone failed ─> failed, likewise
//	                 queued ── the order of its key is there already ─> same, likewise
type TicketState string

// The states. All but TicketQueued are ends, which SQL has.
const (
	TicketQueued  TicketState = "queued"
	TicketSold    TicketState = "sold"
	TicketRefused TicketState = "refused"
	TicketFailed  TicketState = "failed"
	TicketSame    TicketState = "same"
)

// TicketEnd is the end of a ticket, a row in SQL.
type TicketEnd struct {
	ID        string // of the ticket, and of its order if it was sold
	ProductID int64
	Run       int64
	Quantity  int64
	State     TicketState
	OrderID   string // of the order that there is; "" = none
	Reason    string // why there is none
	Key       []byte // the idempotency key of a ticket that was sold
	// Deliveries is how often a consumer was given the ticket until then.
	Deliveries int64
}
