package handler

import (
	"sync"
	"time"
)

// Wrong tokens get 401 at this rate: tokenBurst at once, then one per tokenRefill.
const (
	tokenBurst  = 20
	tokenRefill = time.Second
)

// bucket is a token bucket of tokenBurst that gains one per tokenRefill. The zero value is full.
type bucket struct {
	mu    sync.Mutex
	empty time.Time // when the bucket was or would be empty
}

// take removes one token; false if the bucket is empty.
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
