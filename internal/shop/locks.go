package shop

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/step"
	"lastitem/internal/stock"
)

// locks are the [stock.Locks] of one mode.
type locks struct {
	mode   string
	prefix string
	log    *slog.Logger
	quiet  *step.Throttle
}

// Key names the mode's lock of a product.
func (l locks) Key(product int64) string { return l.KeyOf(l.mode, product) }

// KeyOf names the lock of a product by another mode.
func (l locks) KeyOf(mode string, product int64) string {
	return fmt.Sprintf("%slock:%s:{%d}", l.prefix, mode, product)
}

// SegmentKey names the lock of a segment. The hash tag contains the number, so that a cluster spreads the segments over
// its nodes.
func (l locks) SegmentKey(product int64, segment int) string {
	return fmt.Sprintf("%slock:segmented:{%d#%d}", l.prefix, product, segment)
}

// Release gives a lease up, and logs a failure, one a second: when a server dies, all leases in flight fail at once.
func (l locks) Release(ctx context.Context, lease lock.Lease) {
	err := lease.Release(ctx)
	if err == nil || l.log == nil {
		return
	}
	if skipped, ok := l.quiet.Allow(l.mode, time.Now()); ok {
		l.log.WarnContext(ctx, "release", "mode", l.mode, "err", err, "not_logged", skipped)
	}
}

// locks names the locks of a mode.
func (s *Shop) locks(mode string) locks {
	return locks{mode: mode, prefix: s.backends.Lockers.Prefix, log: s.options.Log, quiet: &s.releases}
}

// lockKeys lists the lock keys that may exist for a product with so many segments, for a reset to delete.
func (s *Shop) lockKeys(product int64, segments int) []string {
	var keys []string
	for _, m := range stock.Modes() {
		keys = append(keys, keysOfLock(s.locks(m.Name).Key(product))...)
	}
	for i := range max(segments, 1) { // an unsegmented product is one segment
		keys = append(keys, keysOfLock(s.locks("").SegmentKey(product, i))...)
	}
	return keys
}

// keysOfLock lists a lock's key, and what the engine keeps beside it. The fencing counter stays: it must never go back.
func keysOfLock(key string) []string {
	k := handoff.KeysOf(key)
	return []string{k.Lock, k.Queue, k.LastReleaser, k.Readers}
}
