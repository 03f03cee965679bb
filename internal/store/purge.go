package store

import (
	"context"
	"math"
	"time"
)

// A purge removes rows that are older than a [Retention], in batches. The transaction or script that removes a batch also adds it to the
// product's [Purged]. So any number of replicas may purge at the same time, and die while they do: every removed row is counted exactly
// once.

// Retention is how long orders, and the answers to idempotency keys, are kept. 0 = forever.
type Retention struct{ Orders, Keys time.Duration }

// purgeBatch is the maximum number of orders, and of keys, in one transaction or script. The pause between two batches is as long as the
// last batch took, so that a purge uses a store for at most half of the time; purgeRest is the shortest pause.
const (
	purgeBatch = 200
	purgeRest  = 5 * time.Millisecond
)

// add sums the removals of several batches.
func (p *Purged) add(more Purged) {
	p.Orders, p.Units, p.Keys = p.Orders+more.Orders, p.Units+more.Units, p.Keys+more.Keys
}

// cutoff is the time in microseconds before which a row with this retention is old; for rows kept forever no time is.
func cutoff(keep time.Duration) int64 {
	if keep == 0 {
		return math.MinInt64
	}
	return time.Now().Add(-keep).UnixMicro()
}

// batches calls one until it finds nothing more, or fails, or ctx ends, and sums the removals.
func batches(ctx context.Context, one func() (gone Purged, more bool, err error)) (sum Purged, err error) {
	for more := true; more && ctx.Err() == nil; {
		var gone Purged
		begun := time.Now()
		gone, more, err = one()
		sum.add(gone)
		if err != nil {
			return sum, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(max(purgeRest, time.Since(begun))):
		}
	}
	return sum, ctx.Err()
}
