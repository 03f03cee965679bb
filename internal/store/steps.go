package store

import (
	"context"
	"time"
)

// The rows of a product, of which there may be millions, are read in pages, one request each ([ledger.Position]), or as
// all of one snapshot in batches ([ledger.Snapshot]). Neither holds more than one page or batch in memory.

// BatchRows is how many rows one read fetches when all rows are read: some 250 kB, and well below a millisecond of
// Redis's time.
const BatchRows = 1000

// rest is the shortest pause between two steps.
const rest = 5 * time.Millisecond

// InSteps calls step until it finds nothing more, or fails, or ctx ends, and sums the removals. The pause between two
// steps is as long as the last step took, so that a purge uses a store for at most half of the time.
func InSteps(ctx context.Context, step func() (gone int64, more bool, err error)) (sum int64, err error) {
	for more := true; more && ctx.Err() == nil; {
		var gone int64
		begun := time.Now()
		gone, more, err = step()
		sum += gone
		if err != nil {
			return sum, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(max(rest, time.Since(begun))):
		}
	}
	return sum, ctx.Err()
}
