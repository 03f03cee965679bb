package store

import (
	"context"
	"math"
	"time"
)

// A purge removes what is older than a [Retention], in batches, and adds each batch to the product's [Purged] in the transaction, or
// the script, that removes it. So any number of replicas may purge at the same time, and die while they do: what is gone is counted
// once, and what is counted is gone.

// Retention is how long orders, and answers under idempotency keys, are kept. 0 = forever.
type Retention struct{ Orders, Keys time.Duration }

// purgeBatch bounds the orders and the keys of one transaction or script, purgeRest from below the pause between two: as long as the
// last one took, so that a purge has a store for half of the time at most.
const (
	purgeBatch = 200
	purgeRest  = 5 * time.Millisecond
)

// add adds up what several batches removed.
func (p *Purged) add(more Purged) {
	p.Orders, p.Units, p.Keys = p.Orders+more.Orders, p.Units+more.Units, p.Keys+more.Keys
}

// cutoff is the time in microseconds before which something kept for so long is old; no time is before that of what is kept forever.
func cutoff(keep time.Duration) int64 {
	if keep == 0 {
		return math.MinInt64
	}
	return time.Now().Add(-keep).UnixMicro()
}

// batches calls one until it finds nothing more, or fails, or ctx ends, and adds up what it removed.
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
