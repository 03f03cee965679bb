package handoff

import (
	"context"
	"slices"
	"sync"
	"time"
)

// cleanup is an ended attempt that may have left something in Redis, because its cancel was not answered. The cancel is
// sent again: this process is alive and subscribed, so Redis may still grant the lock to the attempt, and others would
// wait for that grant to end.
type cleanup struct {
	key, token string
	endedAt    time.Duration // the attempt, on the engine's clock
}

// How many cleanups are kept, how long they rest between two tries, and for how long at least a cleanup is retried
// after the end of its attempt. By then a lock that was granted to the attempt has expired. A token that is left in the
// queue costs others one message and its answer.
const (
	maxCleanups     = 1000
	cleanupInterval = time.Second
	minCleanupAge   = 2 * time.Minute
)

// cleaner cancels attempts; those whose cancel was not answered again later. The engine's mutex guards it.
type cleaner struct {
	e        *Engine
	waiting  []cleanup
	alarm    alarm // when they are sent again
	cleaning bool  // they are being sent
}

// later stores the token of an attempt that ended at the time ended, so that it is cancelled later. It stores nothing
// if err says that the server refuses the cancel for good. If too many are stored, the oldest is dropped: what it left
// behind expires first.
func (cl *cleaner) later(key, token string, ended time.Duration, err error) {
	if refused(err) {
		cl.e.log.report(cleanupDropped, key, err)
		return
	}
	if err != nil {
		cl.e.log.report(cleanupFailed, key, err)
	}
	cl.e.mu.Lock()
	defer cl.e.mu.Unlock()
	if len(cl.waiting) >= maxCleanups {
		cl.e.log.report(cleanupDropped, cl.waiting[0].key, nil)
		cl.waiting = slices.Delete(cl.waiting, 0, 1)
	}
	cl.waiting = append(cl.waiting, cleanup{key, token, ended})
	if cl.alarm.index == 0 && !cl.cleaning {
		cl.e.agenda.schedule(&cl.alarm, cl.e.now()+cleanupInterval)
	}
}

// cleanAll sends the cleanups that are recent enough to matter. The first that a node does not answer ends those of the
// node: while it is out one is tried at a time, each time another.
func (cl *cleaner) cleanAll() {
	cl.e.mu.Lock()
	all := cl.waiting
	cl.waiting, cl.cleaning = nil, true
	cl.e.mu.Unlock()
	byNode := map[string][]cleanup{}
	for _, c := range all {
		at, _, _ := cl.e.subscriber.locate(context.Background(), c.key)
		byNode[at] = append(byNode[at], c)
	}
	var sending sync.WaitGroup
	for _, of := range byNode {
		sending.Go(func() { cl.cleanNode(of) })
	}
	sending.Wait()
	cl.e.mu.Lock()
	defer cl.e.mu.Unlock()
	cl.cleaning = false
	if len(cl.waiting) > 0 {
		cl.e.agenda.schedule(&cl.alarm, cl.e.now()+cleanupInterval)
	}
}

// cleanNode sends the cleanups of one node.
func (cl *cleaner) cleanNode(of []cleanup) {
	for i, c := range of {
		switch {
		case cl.e.isClosed():
			return
		case cl.e.now()-c.endedAt > max(cl.e.o.TTL, minCleanupAge):
			cl.e.log.report(cleanupDropped, c.key, nil)
		case !cl.cancelSince(c.key, c.token, c.endedAt):
			cl.e.mu.Lock()
			cl.waiting = append(slices.Clone(of[i+1:]), cl.waiting...)
			cl.e.mu.Unlock()
			return
		}
	}
}

// cancel cancels an attempt; if that fails, again later.
func (cl *cleaner) cancel(key, token string) { cl.cancelSince(key, token, cl.e.now()) }

// cancelSince cancels an attempt that ended at the time ended. It returns false if that was not answered.
func (cl *cleaner) cancelSince(key, token string, ended time.Duration) (answered bool) {
	m := modeOf(token)
	r := cl.e.server.newRequest(m.scripts().cancel, m, cl.e.server.ttl, key, token).add(cancelTombstone)
	cl.e.server.do(r)
	if r.err != nil {
		cl.later(key, token, ended, r.err)
	}
	if v, _ := r.reply.([]any); len(v) == 2 {
		cl.e.m.skipped(number(v[1]))
	}
	return r.err == nil || refused(r.err)
}

// How long (ms) a tombstone lasts: of a cancelled attempt, and of a released read whose acquire may arrive once more.
const cancelTombstone, readTombstone = "60000", "10000"
