package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrLeaseTime is the refusal of a lease time ([WithLease]) by a lock that has none, or that cannot keep this one.
// Nothing is held.
var ErrLeaseTime = errors.New("lock: lease time refused")

type leaseKey struct{}

// WithLease gives every Acquire under ctx a lease time of d: the lock is not renewed and ends d after its grant,
// whether or not the work is done. The lease's context then ends with [ErrLost], and a rival may enter. It is the lease
// of Redisson's tryLock(wait, lease).
//
// A lock that cannot end a lease after d refuses: its Acquire returns [ErrLeaseTime]. The contexts of leases pass the
// lease time on, so it also counts for an Acquire of another key within the hold. A re-entry shares the hold that it
// enters, and the end of that hold; a re-entry into a hold that is renewed is refused.
func WithLease(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, leaseKey{}, d)
}

// LeaseTime returns the lease time that [WithLease] has set for every Acquire under ctx; false means that it has set
// none.
func LeaseTime(ctx context.Context) (d time.Duration, set bool) {
	d, set = ctx.Value(leaseKey{}).(time.Duration)
	return d, set
}

// RefuseLease serves locks without a lease time. It returns [ErrLeaseTime] if one is set in ctx; kind is the name of
// the lock.
func RefuseLease(ctx context.Context, kind string) error {
	if d, set := LeaseTime(ctx); set {
		return fmt.Errorf("%w: %s cannot end a lease after %s", ErrLeaseTime, kind, d)
	}
	return nil
}
