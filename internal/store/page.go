package store

// This file is about reading the rows of a product, of which there may be millions: in pages, by a reader that comes again for each
// ([Position]), or all at once from one snapshot, in batches ([Snapshot]). Nothing here holds more than one page or batch.

// Totals counts the order rows of a product, and their units.
type Totals struct{ Orders, Units int64 }

// Want says how many rows a page may hold at most, of each kind.
type Want struct{ Orders, Keys int }

// Position is where a reader of a product's rows has got to in one store; the zero value is before the first row. A purge, which
// removes the oldest rows, moves no position: a row that is removed before it was read is passed over, and counted as purged.
type Position struct {
	// Order is the last order that was read, and Until the last one of the snapshot that the reader began with: by number in Redis
	// and SQLite, which only append, by id elsewhere.
	Order string `json:"o,omitempty"`
	Until string `json:"u,omitempty"`
	// Key is the last idempotency key that was read.
	Key []byte `json:"k,omitempty"`
	// Revision is that of the snapshot in etcd, which still reads it.
	Revision int64 `json:"r,omitempty"`
	// Purged is how many orders had been removed when Redis was read last.
	Purged int64 `json:"p,omitempty"`
	// NoOrders and NoKeys say that none is left to be read.
	NoOrders bool `json:"x,omitempty"`
	NoKeys   bool `json:"y,omitempty"`
}

// End says that nothing is left to be read.
func (p Position) End() bool { return p.NoOrders && p.NoKeys }

// Snapshot is one consistent view of a product in one store. Its rows are read while it is open, as often as wanted.
type Snapshot struct {
	Facts // without rows, and without the units of the totals
	// Orders reads all order rows in batches, about the oldest first. A batch must not be kept. An error of each ends the reading, and
	// is returned.
	Orders func(each func([]Order) error) error
	// Missed is what of the snapshot was purged before Orders came to it, the last time that it was read.
	Missed Totals
	// Keys reads all rows of the idempotency table in batches; nil where there is no table.
	Keys func(each func([]KeyRow) error) error
}

// batchRows is how many rows are read from a server at once where all of them are wanted: some 250 kB, and well below a
// millisecond of Redis's time.
const batchRows = 1000
