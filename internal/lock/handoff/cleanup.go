package handoff

import (
	"context"
	"slices"
	"sync"
	"time"
)

// cleanup is an ended attempt that may have left something in Redis, because its cancel was not answered. The cancel is sent again: this
// process is alive and subscribed, so Redis may still grant the lock to the attempt, and others would wait for that grant to end.
type cleanup struct {
	key, token string
	endedAt    time.Duration // the attempt, on the engine's clock
}

// How many cleanups are kept, how long they rest between two tries, and for how long at least a cleanup is retried after the end of its
// attempt. By then a lock that was granted to the attempt has expired. A token that is left in the queue costs others one message and its
// answer.
const (
	maxCleanups     = 1000
	cleanupInterval = time.Second
	minCleanupAge   = 2 * time.Minute
)

// cleanLater stores the token of an attempt that ended at the time ended, so that it is cancelled later. It stores nothing if err says that
// the server refuses the cancel for good. If too many are stored, the oldest is dropped: what it left behind expires first.
func (e *Engine) cleanLater(key, token string, ended time.Duration, err error) {
	if refused(err) {
		e.report(cleanupDropped, key, err)
		return
	}
	if err != nil {
		e.report(cleanupFailed, key, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.cleanups) >= maxCleanups {
		e.report(cleanupDropped, e.cleanups[0].key, nil)
		e.cleanups = slices.Delete(e.cleanups, 0, 1)
	}
	e.cleanups = append(e.cleanups, cleanup{key, token, ended})
	if e.cleanupAlarm.index == 0 && !e.cleaningUp {
		e.schedule(&e.cleanupAlarm, e.now()+cleanupInterval)
	}
}

// cleanAll sends the cleanups that are recent enough to matter. The first that a node does not answer ends those of the node: while it is out
// one is tried at a time, each time another.
func (e *Engine) cleanAll() {
	e.mu.Lock()
	all := e.cleanups
	e.cleanups, e.cleaningUp = nil, true
	e.mu.Unlock()
	byNode := map[string][]cleanup{}
	for _, c := range all {
		at, _, _ := e.subscriber.locate(context.Background(), c.key)
		byNode[at] = append(byNode[at], c)
	}
	var sending sync.WaitGroup
	for _, of := range byNode {
		sending.Go(func() { e.cleanNode(of) })
	}
	sending.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cleaningUp = false
	if len(e.cleanups) > 0 {
		e.schedule(&e.cleanupAlarm, e.now()+cleanupInterval)
	}
}

// cleanNode sends the cleanups of one node.
func (e *Engine) cleanNode(of []cleanup) {
	for i, c := range of {
		switch {
		case e.isClosed():
			return
		case e.now()-c.endedAt > max(e.o.TTL, minCleanupAge):
			e.report(cleanupDropped, c.key, nil)
		case !e.cancelSince(c.key, c.token, c.endedAt):
			e.mu.Lock()
			e.cleanups = append(slices.Clone(of[i+1:]), e.cleanups...)
			e.mu.Unlock()
			return
		}
	}
}
