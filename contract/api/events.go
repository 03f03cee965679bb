package api

import "strconv"

// Events is the data of one server-sent event of GET /events: the deductions that one replica has finished since the
// event before. Times are in microseconds. Answers and Sections cover all deductions; Finished is a sample.
type Events struct {
	Replica string `json:"replica"`
	// Answers counts all deductions.
	Answers []Answers `json:"answers"`
	// Sections holds the critical sections of all deductions, in the order in which the deductions ended.
	Sections []Sections `json:"sections,omitempty"`
	// Finished has the first few deductions of the event, with their steps.
	Finished []Finished `json:"finished,omitempty"`
	// Batches are the tickets that the replica has ended.
	Batches []Batch `json:"batches,omitempty"`
	// LeftOut counts the answers, critical sections and tickets that are missing because the reader was too slow.
	LeftOut int64 `json:"left_out,omitempty"`
}

// Batch is tickets of one mode and product that the replica has read, written in SQL, and taken out of those in flight
// together; it has the moment of each since 1970, by the replica's clock.
type Batch struct {
	Mode      string `json:"mode"`
	ProductID int64  `json:"product_id"`
	Read      int64  `json:"read"`
	Committed int64  `json:"committed"`
	Ended     int64  `json:"ended"`
	// Count is how many have ended now, apart from those that another replica had ended. Age sums up for how long they
	// were in flight, by the clocks of the replicas that won them; Oldest is the longest of these times.
	Count  int64 `json:"count"`
	Age    int64 `json:"age"`
	Oldest int64 `json:"oldest"`
	// Tickets are the first few of them.
	Tickets []TicketLife `json:"tickets"`
}

// TicketLife says when and by which replica a ticket was won, and what became of it.
type TicketLife struct {
	ID         string `json:"id"` // the order's
	Won        int64  `json:"won"`
	Replica    string `json:"replica"`
	State      string `json:"state"`
	Deliveries int64  `json:"deliveries"` // how often it was read
}

// AnswersWithin is how long answers of one kind are counted together, in microseconds: a quarter of the finest bin of
// the console's curves.
const AnswersWithin = 5000

// Answers counts the deductions of one mode and product that got the same code within [AnswersWithin], or the holds
// that ended in the same way.
type Answers struct {
	Mode      string `json:"mode"`
	ProductID int64  `json:"product_id"`
	// Code is that of the problem that was answered; "" = the units were deducted.
	Code Code `json:"code,omitempty"`
	// At is when the first of them was answered, by the replica's clock, since 1970.
	At    int64 `json:"at"`
	Count int64 `json:"count"`
	// Held says that the units were held for a buyer. End says how such holds ended, by a request or a sweep: confirmed,
	// cancelled, expired or void; a confirmed one is a sale.
	Held bool   `json:"held,omitempty"`
	End  string `json:"end,omitempty"`
	// Remaining is the stock that the last of them left; absent where nobody knows it.
	Remaining *int64 `json:"remaining,omitempty"`
	// Locks is how many of them had a critical section under a lock. Wait and Hold sum up how long these waited for their
	// locks and held them; Longest is the longest wait.
	Locks   int64 `json:"locks,omitempty"`
	Wait    int64 `json:"wait,omitempty"`
	Hold    int64 `json:"hold,omitempty"`
	Longest int64 `json:"longest,omitempty"`
}

// Sections are critical sections of one mode, product and key.
type Sections struct {
	Mode      string `json:"mode"`
	ProductID int64  `json:"product_id"`
	Key       string `json:"key,omitempty"` // as in Section
	From      int64  `json:"from"`          // since 1970
	// Rows has three numbers for each section: the number of the deduction (see RequestName), the begin relative to From,
	// which may be negative, and the length. They have no names in JSON because there are thousands of them a second.
	Rows []int64 `json:"rows"`
}

// SectionRow is how many numbers a section has in Sections.Rows.
const SectionRow = 3

// RequestName returns the name of a deduction, which is unique in the stack: its replica, and its number there, in base
// 36.
func RequestName(replica string, number int64) string {
	return replica + "-" + strconv.FormatInt(number, 36)
}

// Finished is one deduction that has been answered, with the steps that it reported.
type Finished struct {
	Request   string `json:"request"` // its RequestName
	Mode      string `json:"mode"`
	ProductID int64  `json:"product_id"`
	// At is when it was answered, by the replica's clock, since 1970.
	At int64 `json:"at"`
	// Code is that of the problem that was answered; "" = the units were deducted.
	Code Code `json:"code,omitempty"`
	// Remaining is the stock that the deduction left; absent where nobody knows it.
	Remaining *int64 `json:"remaining,omitempty"`
	// Section is its critical section; absent where it has none in the process, as with a single conditional UPDATE.
	Section *Section `json:"section,omitempty"`
	// Steps are the points that it passed.
	Steps []StepAt `json:"steps,omitempty"`
}

// Section is the part of a deduction that must not overlap with another one of the same key. Begin and End are moments
// at which it was surely inside: the reported end lies before the release is sent, so that the sections of a lock that
// works never overlap.
type Section struct {
	// Key is the key of the lock. Without a lock it is "", and the section runs from the read to the write.
	Key   string `json:"key,omitempty"`
	Begin int64  `json:"begin"` // in microseconds since 1970
	End   int64  `json:"end"`
	// Wait and Hold are how long the lock was waited for and held, in microseconds.
	Wait int64 `json:"wait,omitempty"`
	Hold int64 `json:"hold,omitempty"`
}

// StepAt is a point of a deduction: "waiting", "locked", "read" and so on, in microseconds since 1970.
type StepAt struct {
	Point string `json:"point"`
	At    int64  `json:"at"`
}
