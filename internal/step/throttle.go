package step

import (
	"sync"
	"time"
)

// Throttle lets one log line a second and key through and counts the others. The zero value is ready for use.
type Throttle struct {
	mu   sync.Mutex
	keys map[string]*quiet
}

type quiet struct {
	until   time.Time
	skipped int
}

// Allow reports whether to log now, and how many were held back since the last time.
func (t *Throttle) Allow(key string, now time.Time) (skipped int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.keys == nil {
		t.keys = map[string]*quiet{}
	}
	q := t.keys[key]
	if q == nil {
		q = &quiet{}
		t.keys[key] = q
	}
	if now.Before(q.until) {
		q.skipped++
		return 0, false
	}
	skipped, q.skipped, q.until = q.skipped, 0, now.Add(time.Second)
	return skipped, true
}
