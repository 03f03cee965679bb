package handler

import (
	"sync"
	"time"
)

// Wrong tokens that are answered 401: so many at once, and then one per refill.
const (
	tokenBurst  = 20
	tokenRefill = time.Second
)

// bucket is a token bucket of tokenBurst that gains one per tokenRefill. The zero value is full.
type bucket struct {
	mu    sync.Mutex
	empty time.Time // when the bucket was, or will be, empty if nothing were taken since
}

// take takes one out of the bucket, and reports false where there is none.
func (b *bucket) take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if full := now.Add(-tokenBurst * tokenRefill); b.empty.Before(full) {
		b.empty = full
	}
	if next := b.empty.Add(tokenRefill); !next.After(now) {
		b.empty = next
		return true
	}
	return false
}
