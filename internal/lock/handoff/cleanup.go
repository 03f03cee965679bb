package handoff

import (
	"slices"
	"sync"
	"time"
)

// cleanup is an attempt that ended and may have left something in Redis: its cancel was not answered. It is sent again, because this process
// lives: what is granted to the attempt, others would wait for.
type cleanup struct {
	key, token string
	ended      time.Duration // the attempt, on the engine's clock
}

// How many cleanups are remembered, how long they rest, how many are in flight, and how long after the end of an attempt its cleanup is tried
// at least. By then what the attempt was granted has expired, and a place that is left in the queue costs others a message and its answer.
const (
	maxCleanups   = 1000
	cleanupRest   = time.Second
	cleanupsAhead = 16
	minCleanupAge = 2 * time.Minute
)

// cleanLater remembers that the attempt of token, which ended at the time ended, is to be cancelled, unless err says that this cannot succeed. If there are
// too many, the oldest is dropped: it is the one that will expire first.
func (e *Engine) cleanLater(key, token string, ended time.Duration, err error) {
	if refused(err) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.cleanups) == maxCleanups {
		e.cleanups = slices.Delete(e.cleanups, 0, 1)
	}
	e.cleanups = append(e.cleanups, cleanup{key, token, ended})
	if e.cleaning.index == 0 && !e.cleansNow {
		e.schedule(&e.cleaning, e.now()+cleanupRest)
	}
}

// cleanAll sends the cleanups that are not too old to matter, several at a time: each may take as long as the server is silent.
func (e *Engine) cleanAll() {
	e.mu.Lock()
	all := e.cleanups
	e.cleanups, e.cleansNow = nil, true
	e.mu.Unlock()
	var sending sync.WaitGroup
	ahead := make(chan struct{}, cleanupsAhead)
	for _, c := range all {
		ahead <- struct{}{}
		if e.isClosed() {
			break
		}
		if e.now()-c.ended > max(e.o.TTL, minCleanupAge) {
			<-ahead
			continue
		}
		sending.Go(func() {
			e.cancelSince(c.key, c.token, c.ended)
			<-ahead
		})
	}
	sending.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cleansNow = false; len(e.cleanups) > 0 {
		e.schedule(&e.cleaning, e.now()+cleanupRest)
	}
}
