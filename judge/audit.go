// Package judge is the judge: from what the clients saw (the history) and what the stores hold (the ledger) it says
// whether stock was deducted exactly.
//
// It never trusts "stock < 0": a lost update oversells with stock at 0 or above. It never computes the initial stock
// from the present. Missing data makes it INCONCLUSIVE, never green. It knows neither the modes nor the faults.
//
// Start with [Judge], which turns an [Input] of ledger and history ([Op]) into a [Report]; [Check] then holds the
// report against what a mode claims. [Foreign] judges a service of which only the clients' side can be seen.
//
// How the files divide the work: ledger.go and units.go need the ledger only, history.go matches answers with rows,
// resolve.go handles requests without an answer, linear.go checks the order in time, and weigh.go checks whether the
// data could have shown a failure at all. findings.go collects what they find, and draws the verdict.
package judge

import (
	"time"

	"lastitem/contract/api"
)

// Outcome is what a client knows after a request.
type Outcome string

// The outcomes. Whatever is not an answer of the service is Unknown, never failed: it may have happened.
const (
	OK       Outcome = "ok"       // 200: the units are ours
	Refused  Outcome = "refused"  // sold_out: a final no that the stock must justify
	Declined Outcome = "declined" // any other answer that says "nothing happened": busy, invalid, unavailable
	Unknown  Outcome = "unknown"  // no answer, an unreadable one, or one that says so itself
)

// Op is one request of one client, as the client saw it. A retry with the same key is an Op of its own.
type Op struct {
	Client int `json:"client"`
	// Call and Return are nanoseconds on one monotonic clock since the start of the run: just before the first byte was
	// sent, and just after the last was read. An Unknown has no return that means anything.
	Call   int64 `json:"call"`
	Return int64 `json:"return"`

	Outcome   Outcome  `json:"outcome"`
	Code      api.Code `json:"code,omitempty"`
	ProductID int64    `json:"product_id"`
	Quantity  int64    `json:"quantity"`
	OrderID   string   `json:"order_id,omitempty"`
	Key       string   `json:"key,omitempty"`
	Buyer     string   `json:"buyer,omitempty"`
	Remaining *int64   `json:"remaining,omitempty"`
	Replica   string   `json:"replica,omitempty"`
	// Replayed: the answer was marked as an earlier one's repetition.
	Replayed bool `json:"replayed,omitempty"`
}

// Input is everything the judge may look at.
type Input struct {
	Mode  string
	Store api.Store
	// Replicas is how many processes stood behind the address; 0 = not known, then no judgement on the spread.
	Replicas int
	// Ledger is what the service's stores hold after the run; nil = could not be read.
	Ledger *api.Ledger
	// History is what the clients saw, of this one product; nil = judged from the ledger alone, which is enough only where
	// no run of ours is judged, that is with Replicas 0 and WantSoldOut false.
	History []Op
	// Adjusts are the requests that adjusted the stock, as clients saw them: Quantity was to be added or, below 0, taken.
	Adjusts []Op
	// Cancels are the requests, by [Cancel] and [Ship], about orders of somebody else's service whose ledger lists only
	// orders that stand.
	Cancels []ReservationOp

	// Stock is the stock that the run set before its first request; nil = not known. If the ledger begins with another,
	// adjustments apart, somebody else set the stock meanwhile, which deleted orders: nothing is then the mode's doing.
	Stock *int64

	// PerBuyer is the most units that the run let a buyer have; 0 = no limit.
	PerBuyer int64

	// WantSoldOut says that the plan asked for more than there was: a run that refused nobody then proves too little.
	WantSoldOut bool
	// Partial says that History lacks requests (an interrupted run, other clients): orders that no answer accounts for
	// are then no violation, and count as sold before the first request.
	Partial bool
	// Stopped says that somebody stopped the run: what it did not come to might have broken.
	Stopped bool
	// Sequential says that the schedule is sequential on purpose, a retry for one: overlapping requests are not demanded.
	Sequential bool
	// Directed says that the history is one schedule, played on purpose: that nobody was served, or that few asked, is
	// then no reason to doubt it.
	Directed bool
	// Tickets are of a product that is sold by tickets; nil = it is not, or they were not read.
	Tickets *Tickets

	// MayHold says that requests which neither sold nor were refused may have held their units while they ran, as a shop
	// does that waits for a payment.
	MayHold bool
	// Kept is how many units the shop may keep back: it may refuse while so many are left.
	Kept   int64
	Unseen Unseen // counts that nobody has read: what rests on them is not judged, and nothing is called EXACT
	// Resumed is when the fault under test ended (the stopped process was woken, or the dead one replaced), in nanoseconds
	// on the history's clock; 0 = no fault. Bound is how long a lock may outlive its holder after that: the longest of
	// TTL, session and lock-delay. Only requests called after Resumed + Bound can show that the product is stuck; earlier
	// waits are in Report.Blocked.
	Resumed int64
	Bound   time.Duration
	// Lang is the language of the report's sentences: "zh", else English.
	Lang string
}

// Unseen says which counts of the stock are not known: before the first request, and after the last.
type Unseen struct {
	Before bool `json:"before,omitempty"`
	After  bool `json:"after,omitempty"`
}

// ReservationKind is what a request about a reservation asks for.
type ReservationKind string

// The kinds.
const (
	Reserve ReservationKind = "reserve"
	Confirm ReservationKind = "confirm"
	Cancel  ReservationKind = "cancel"
	Extend  ReservationKind = "extend"
	Return  ReservationKind = "return" // of the order that a confirm has made
	// Adjust adds units to the stock, or takes free ones: Quantity is below zero then. It is about no reservation.
	Adjust ReservationKind = "adjust"
	// Ship makes an order of somebody else's service one that cannot be cancelled any more.
	Ship ReservationKind = "ship"
)

// ReservationKinds lists those that are about a reservation.
var ReservationKinds = []ReservationKind{Reserve, Confirm, Cancel, Extend, Return}

// ReservationOp is one request about a reservation of the judged product, as its client saw it. Times are those of
// [Op]. A repetition with the same key is a ReservationOp of its own.
type ReservationOp struct {
	Kind   ReservationKind `json:"kind"`
	Call   int64           `json:"call"`
	Return int64           `json:"return"`
	Key    string          `json:"key,omitempty"` // of a reserve, an adjustment, an extension or a part; "" = none
	// Outcome of a reserve: OK, Refused (sold out, or with Limit the buyer's limit), Declined, Unknown. Of the others OK
	// says that the arrow was taken, or had been; Refused that it cannot be taken any more.
	Outcome       Outcome `json:"outcome"`
	Limit         bool    `json:"limit,omitempty"`
	ReservationID string  `json:"reservation_id,omitempty"`
	Buyer         string  `json:"buyer,omitempty"`
	Quantity      int64   `json:"quantity"`
	PaymentID     string  `json:"payment,omitempty"`  // of a confirm
	OrderID       string  `json:"order_id,omitempty"` // of a confirm that is OK, and of a return
	Refund        bool    `json:"refund,omitempty"`   // of a confirm: the money goes back
	Expired       bool    `json:"expired,omitempty"`  // a refused confirm or an OK cancel that says so
	Restock       bool    `json:"restock,omitempty"`  // of a return that is OK: the units went to the stock
	Part          int64   `json:"part,omitempty"`     // the units of a cancel or a return, told by Key; 0 = all
	Line          bool    `json:"line,omitempty"`     // of a cancel: only the units of this product
	// Expires is the deadline that an OK extension was answered, in microseconds by the store's clock; 0 = not told.
	Expires  int64 `json:"expires_us,omitempty"`
	Replayed bool  `json:"replayed,omitempty"`
}

// MayCancel says whether the order may be gone by this request: then it was written before.
func (op ReservationOp) MayCancel() bool {
	return op.Kind == Cancel && (op.Outcome == OK || op.Outcome == Unknown)
}

// TicketOp is what a client was told of a ticket, by GET /tickets/{id}. Call and Return are on the history's clock.
type TicketOp struct {
	ID           string // the uuid, which is the order's id
	State        string // as in [api.Ticket]; "" = 404, there is no such ticket
	Order        string // the order that was named; "" = none
	Call, Return int64
}

// Tickets is what the judge knows of a product that is sold by tickets, beside the ledger of SQL and the history, in
// which each 202 is an answer that means sold, with the ticket's uuid as its order:
//
//   - T1: in one look at both sides, the count in Redis and the units in flight are the stock in SQL. More are promises
//     that cannot be kept, A; less are units that nobody can buy, L, unless SQL has none left either;
//   - T2: by Redis alone, count, units in flight and units sold are what there was and what was corrected, and as much
//     was corrected as the journal says;
//   - T3: each 202 ends as an order, or as one with that of its key. A ticket that was refused or failed, or is not
//     there, is A, and one that still waits is X;
//   - T4: the ends that say sold and the orders are one to one, else A, or D for the order without an end;
//   - T5: what GET told stays true.
//
// Units that were given back count as taken where refusals are judged: that blames nobody wrongly, and misses a refusal
// that came after its unit was back.
type Tickets struct {
	Book   api.TicketBook // all pages, read when nothing fell any more
	Unread string         // why the two sides could not be compared; "" = they were
	Told   []TicketOp
	// Poisoned are tickets that the schedule has made fail.
	Poisoned map[string]bool
	// Redelivered is how many tickets must have been read twice or more; 0 = none need be.
	Redelivered int
}

// Verdict is what the judge found, whatever the mode claims.
type Verdict string

// The verdicts.
const (
	Exact        Verdict = "EXACT"        // every check that applies passed, on data that could have failed it
	Broken       Verdict = "BROKEN"       // at least one outcome of Report.Found was seen
	Inconclusive Verdict = "INCONCLUSIVE" // data is missing
	// the data could not have shown a failure: nothing was sold, one replica served all, somebody stopped the run, ...
	Vacuous Verdict = "VACUOUS"
)

// Report is the verdict on one product after one run. Units are units of stock unless said otherwise.
type Report struct {
	Mode      string    `json:"mode,omitempty"`
	ProductID int64     `json:"product_id,omitempty"`
	Product   string    `json:"product,omitempty"` // its name; "" = its number
	Store     api.Store `json:"store,omitempty"`
	Verdict   Verdict   `json:"verdict"`
	// Found holds those of Letters whose outcomes were seen, in that order; "" when exact.
	Found string `json:"found"`
	// Violations are what makes it broken beyond the letters (an unjustified refusal, duplicate ids, ...), one sentence
	// each.
	Violations []string `json:"violations,omitempty"`
	// Consequences are rules broken only because a letter in Found says so already: a refusal that the leaked units
	// explain, a negative stock after overselling. A claim of the letter covers them.
	Consequences []string `json:"consequences,omitempty"`
	// Missing says why the verdict is INCONCLUSIVE or VACUOUS, one sentence each.
	Missing []string `json:"missing,omitempty"`
	// Unchecked says which checks had no data to work on, one sentence each; they do not change the verdict.
	Unchecked []string `json:"unchecked,omitempty"`

	Initial int64  `json:"initial"`
	Final   int64  `json:"final"`
	Unseen  Unseen `json:"unseen,omitzero"` // of the two, these are zeros that nobody has counted
	Orders  int    `json:"orders"`          // rows
	Sold    int64  `json:"sold"`            // units of all order rows
	// Held and WrittenOff are units that reservations hold, and of returned orders that were not put back; 0 also where
	// nobody read the reservations.
	Held       int64 `json:"held,omitempty"`
	WrittenOff int64 `json:"written_off,omitempty"`
	// Passed units left the count in Redis as tickets: their orders are in SQL, or will be.
	Passed int64 `json:"passed,omitempty"`

	Oversold    int64 `json:"oversold"`
	LostUpdates int64 `json:"lost_updates"`
	Leaked      int64 `json:"leaked"`
	// Overdrawn is how far the counter is below zero beyond what was ordered: no unit is missing, but a restock of as
	// many is swallowed.
	Overdrawn int64 `json:"overdrawn,omitempty"`
	// Doubles counts orders beyond the first for one key; AckLost counts ok answers without their order.
	Doubles int `json:"doubles"`
	AckLost int `json:"ack_lost"`
	// BadRefusals counts sold_out answers that no possible order of events justifies.
	BadRefusals int `json:"bad_refusals"`
	// Blocked is the longest time in which requests were in flight or refused as busy, and none finished: how long a
	// stopped or dead holder kept the others out, stuck or not. 0 without a history.
	Blocked time.Duration `json:"blocked_ns,omitempty"`

	// Counts of the history's answers by outcome, and of the orders by replica.
	Answers  map[Outcome]int `json:"answers,omitempty"`
	Replicas map[string]int  `json:"replicas,omitempty"`

	// BusyKeys counts the refusals by a service that is not ours that count as busy: another request with their key was
	// unanswered.
	BusyKeys int `json:"busy_keys,omitempty"`

	// Evidence names units sold more than once, with their orders, the worst first.
	Evidence []Evidence `json:"evidence,omitempty"`
	// Said has, of a run of reservations, the sentences that go with each letter: the counts above do not tell it.
	Said map[rune][]string `json:"-"`
	// Lang is the language of the sentences.
	Lang string `json:"lang,omitempty"`
}

// Evidence is one unit that several orders carry, or that never was in stock. Unit u is the u-th that left the shelf:
// an order that left r of s units and took q holds the units s-r-q+1 to s-r.
type Evidence struct {
	Unit int64 `json:"unit"`
	// Of is how many units there were; Unit is beyond it where the last unit was not the end.
	Of int64 `json:"of"`
	// Times is how many orders carry the unit; Orders holds the first few of them, by time.
	Times  int         `json:"times"`
	Orders []api.Order `json:"orders"`
}

// Finding is a report held against a claim.
type Finding string

// The findings. Only Confirmed is good: a broken mode that did not break was not tested.
const (
	Confirmed    Finding = "confirmed"
	Contradicted Finding = "contradicted"
	Undecided    Finding = "inconclusive" // also for vacuous runs
	Unclaimed    Finding = "unclaimed"    // the baseline: nothing to hold it against
)
