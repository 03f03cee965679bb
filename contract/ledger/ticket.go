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

// TicketLook is both sides of a product that is sold by tickets, at one moment at which SQL committed none of its
// orders. Numbers are units unless they say otherwise.
type TicketLook struct {
	Run, Initial, Book int64 // in SQL: Book is the stock
	Front, InFlight    int64 // in Redis: the count, and the tickets that it holds
	Settled            int64 // of these, those that are sold in SQL already
	Passed             int64 // sold, as Redis has been told
	// Corrected is what reconciliations have taken from the count, below zero, for orders that Redis did not know of, as
	// Redis says, and Journal as SQL says. A unit that came back because it had leaked is in neither, so
	// Front + InFlight + Passed is the initial stock + Corrected while nothing leaks.
	Corrected, Journal int64
	Generation         int64 // the number of the last correction
	OldestMS           int64 // for how long the oldest ticket has waited
	// Stuck is how many tickets have no entry in the stream, so that nobody writes their orders; below zero, entries
	// without a ticket. Only somebody else's hand does that.
	Stuck int64
}

// Drift is how many units nobody can buy or, below zero, how many were promised that SQL does not have. Sales, ends,
// and units that are given back do not change it.
func (l TicketLook) Drift() int64 { return l.Book - l.Front - (l.InFlight - l.Settled) }

// Forgotten is how many units are sold in SQL, or held there, and Redis does not know of it: a failover of Redis has
// lost their tickets or the ends, or another mode has sold them.
func (l TicketLook) Forgotten() int64 { return l.Initial - l.Book - l.Settled - l.Passed + l.Corrected }

// Leaked is the rest of the drift: units that are missing in Redis' count, or below zero, in it too much.
func (l TicketLook) Leaked() int64 { return l.Drift() + l.Forgotten() }

// Correction is a row of the journal of reconciliations, which is written before Redis' count is changed by
// Leaked - Forgotten.
type Correction struct {
	Product, Run, Base, Generation int64
	Leaked, Forgotten              int64
}

// Reconciled is a look, and by how many units the count in Redis was changed after it.
type Reconciled struct {
	TicketLook

	Repaired int64
}

// TicketBatch is tickets that a replica has ended together. Times are in microseconds since the epoch by its clock.
type TicketBatch struct {
	Read, Committed, Ended int64 // when it had them, when SQL had their ends, and when Redis had been told
	Tickets                []TicketLife
	Again                  int64 // how many of them another replica had ended before
}

// TicketLife is a ticket that has ended. The order says when and by which replica it was won, also if there is none.
type TicketLife struct {
	Order      *Order
	State      TicketState
	Deliveries int64 // as in TicketEnd
}
