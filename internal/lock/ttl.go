package lock

import (
	"context"
	"fmt"
	"time"
)

// TTL returns the TTL of a lock that an Acquire under ctx takes: the lease time of [lock.WithLease] in whole
// milliseconds, or usual if there is none. If the lease time is shorter than least, the error is [lock.ErrLeaseTime].
func TTL(ctx context.Context, kind string, usual, least time.Duration) (time.Duration, error) {
	d, set := LeaseTime(ctx)
	switch {
	case !set:
		return usual, nil
	case d < least:
		return 0, fmt.Errorf("%w: %s: %s is shorter than %s", ErrLeaseTime, kind, d, least)
	}
	return d.Truncate(time.Millisecond), nil
}
