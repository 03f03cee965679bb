package faultlab

import (
	"context"
	"sync"
	"time"
)

// stalls notices when the machine gives this process no processor time. A lock whose watchdog gets no processor time expires, and that says
// nothing about the mode.
type stalls struct {
	mu   sync.Mutex
	seen []stall
}

type stall struct {
	end  time.Time
	took time.Duration
}

// stallTick is the time between two checks; stallKept is how many stalls are remembered.
const (
	stallTick = 5 * time.Millisecond
	stallKept = 1024
)

// watch checks for stalls until ctx ends.
func (s *stalls) watch(ctx context.Context) {
	ticker := time.NewTicker(stallTick)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := time.Now()
		if late := now.Sub(last) - stallTick; late > 4*stallTick {
			s.mu.Lock()
			s.seen = append(s.seen, stall{now, late})
			if len(s.seen) > stallKept {
				s.seen = s.seen[stallKept/2:]
			}
			s.mu.Unlock()
		}
		last = now
	}
}

// longest returns the longest stall that ended after a given time.
func (s *stalls) longest(since time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	var longest time.Duration
	for _, x := range s.seen {
		if x.end.After(since) {
			longest = max(longest, x.took)
		}
	}
	return longest
}
