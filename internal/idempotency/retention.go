package idempotency

import (
	"math"
	"time"
)

// Retention is the minimum time for which a key is kept, counted from the execution of its first request; 0 = forever.
// A key that is repeated later has its effect again.
type Retention time.Duration

// DefaultRetention is how long keys are kept unless something else is configured.
const DefaultRetention = 24 * time.Hour

// Oldest is the earliest time, in Unix microseconds, at which a request from a log can have been made that may be
// executed now. Its key is kept from its execution on, so if the request is younger than half of the retention its key
// still exists, even if the clocks of replicas differ.
func (r Retention) Oldest(now time.Time) int64 {
	if r == 0 {
		return math.MinInt64
	}
	return now.Add(-time.Duration(r) / 2).UnixMicro()
}
