package api

// Events is the data of one server-sent event of GET /events: the deductions that one replica has finished since the event before,
// in the order in which they ended.
type Events struct {
	Replica string `json:"replica"`
	// Finished holds them all, unless there were more than the buffer takes: LeftOut counts the others.
	Finished []Finished `json:"finished"`
	LeftOut  int64      `json:"left_out,omitempty"`
}

// Finished is one deduction that has been answered, with the steps that it reported. Times are in microseconds.
type Finished struct {
	Request   string `json:"request"` // unlike any other of this replica
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
	// Steps are the points that it passed; above a rate only a sample of the deductions has them.
	Steps []StepAt `json:"steps,omitempty"`
}

// Section is the part of a deduction that must not overlap with another one of the same key. Begin and End are moments at which it was
// surely inside: the reported end lies before the release is sent, so that the sections of a lock that works never overlap.
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
