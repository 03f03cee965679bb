package store

// This file reads the rows of a product, of which there may be millions: in pages, one request each ([Position]), or
// all of one snapshot in batches ([Snapshot]). Neither holds more than one page or batch in memory.

// Totals counts the order rows of a product, and their units.
type Totals struct{ Orders, Units int64 }

// Want limits the rows of a page, by kind.
type Want struct{ Orders, Keys int }

// Position is a reader's position in a product's rows in one store; the zero value is before the first row.
type Position struct {
	// Order is the last order that was read; Until is the last order of the reader's first snapshot. Both are numbers in
	// SQLite, which only appends, and ids elsewhere. In Redis they are the number of the next order, and the number after
	// the last one.
	Order string `json:"o,omitempty"`
	Until string `json:"u,omitempty"`
	// Key is the last idempotency key that was read.
	Key []byte `json:"k,omitempty"`
	// Revision is the revision of the first snapshot in etcd.
	Revision int64 `json:"r,omitempty"`
	// NoOrders and NoKeys say that none is left to read.
	NoOrders bool `json:"x,omitempty"`
	NoKeys   bool `json:"y,omitempty"`
}

// End says that nothing is left to read.
func (p Position) End() bool { return p.NoOrders && p.NoKeys }

// Snapshot is one consistent view of a product in one store. Its rows can be read any number of times while it is open.
type Snapshot struct {
	Facts // without rows, and without the totals' units
	// Orders calls each with batches of all order rows, roughly the oldest first. each must not keep a batch. An error of
	// each ends the reading and is returned.
	Orders func(each func([]Order) error) error
	// Keys does the same for the rows of the idempotency table; nil if the store has none.
	Keys func(each func([]KeyRow) error) error
}

// batchRows is how many rows one read fetches when all rows are read: some 250 kB, and well below a millisecond of
// Redis's time.
const batchRows = 1000
