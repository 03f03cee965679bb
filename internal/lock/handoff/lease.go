package handoff

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/lock/lease"
	"lastitem/internal/step"
)

// holding is one ownership of the lock by one caller. Its leases are that caller's, and the re-entries'.
type holding struct {
	once    lease.ReleaseOnce // the release
	e       *Engine
	l       *line
	token   string
	parent  context.Context
	making  sync.Mutex      // guards the next three; whoever has the engine's may take it, not the other way round
	ctx     context.Context // made when it is asked for
	cancel  context.CancelCauseFunc
	cause   error // why the hold has ended, unless its caller's context had before
	fence   uint64
	since   time.Duration
	ends    atomic.Int64  // until when the hold is valid, on the engine's clock; expired once its context has ended for that reason
	until   time.Duration // set when it ends
	first   engineLease
	entries int32
	lost    bool
	ended   bool
	unsure  bool // a release was sent whose answer was lost
	undone  bool // lost, and its attempt cancelled in case that a request for it may yet arrive
}

// carrier is the context between a caller's and its hold's: it carries the hold without an allocation of its own.
type carrier holding

func (c *carrier) Deadline() (time.Time, bool) { return c.parent.Deadline() }
func (c *carrier) Done() <-chan struct{}       { return c.parent.Done() }
func (c *carrier) Err() error                  { return c.parent.Err() }
func (c *carrier) Value(key any) any {
	if k, ok := key.(engineKey); ok && k.e == c.e && k.key == c.l.key {
		return (*holding)(c)
	}
	return c.parent.Value(key)
}

// newHolding prepares what a waiter will hold, so that whoever passes the lock on to it has nothing left to make.
func newHolding(ctx context.Context, e *Engine) *holding {
	h := &holding{e: e, parent: ctx, entries: 1}
	h.first.h = h
	return h
}

// context is that of the hold.
func (h *holding) context() context.Context {
	h.making.Lock()
	defer h.making.Unlock()
	if h.ctx == nil {
		parent := context.Context((*carrier)(h))
		if h.cause != nil {
			parent = context.WithoutCancel(parent) // whose end came later, or not at all
		}
		ended, cancel := context.WithCancelCause(parent)
		h.ctx, h.cancel = lease.Clocked(ended, h.look), cancel
		if h.cause != nil {
			cancel(h.cause)
		}
	}
	return h.ctx
}

// expired is the value of ends after the holder was told that its time is over.
const expired = 0

// look ends the hold's context if its time is over, even if the timer is late; the engine follows when the timer fires. look takes no
// mutex: Err of a context may be called while the engine's mutex is held, if that context belongs to another hold and descends from this
// one.
func (h *holding) look() {
	for {
		ends := h.ends.Load()
		if ends != expired && h.e.now() < time.Duration(ends) {
			return
		}
		if ends == expired || h.ends.CompareAndSwap(ends, expired) {
			h.cancel(lock.ErrLost) // without effect on a hold that has ended otherwise
			return
		}
	}
}

// over says whether the hold has ended, or its time has run out. The mutex is held.
func (h *holding) over() bool { return h.ended || int64(h.e.now()) >= h.ends.Load() }

// extend makes l's hold valid until then. It returns false if the holder was told a moment ago that its time was over. The mutex is held.
func (l *line) extend(until time.Duration) bool {
	l.until = until
	for {
		ends := l.hold.ends.Load()
		if ends == expired {
			return false
		}
		if l.hold.ends.CompareAndSwap(ends, int64(l.end())) {
			return true
		}
	}
}

// end is when the hold of l must no longer be believed in.
func (l *line) end() time.Duration {
	if most := l.e.o.MaxHold; most > 0 && l.hold != nil {
		return min(l.until, l.hold.since+most)
	}
	return l.until
}

// lose ends a hold that is no longer valid, and starts a new attempt for the other waiters of the line. The mutex is held.
func (e *Engine) lose(l *line) {
	h := l.hold
	h.lost = true
	h.finish(l.until, lock.ErrLost)
	add(e.m.Lost, 1)
	if h.undone = l.strays; h.undone {
		e.spawn(func() { e.sendCancel(l.key, h.token) })
	}
	e.forget(l)
	e.again(l)
}

// again starts a new attempt for the waiters of l, or drops l if it has none.
func (e *Engine) again(l *line) {
	if l.waiters.size == 0 {
		e.drop(l)
		return
	}
	e.bid(l)
	e.ask(l)
}

// finish ends the hold's context, once. The mutex is held.
func (h *holding) finish(until time.Duration, cause error) {
	if h.ended {
		return
	}
	h.ended, h.until = true, until
	h.making.Lock()
	if h.parent.Err() == nil {
		h.cause = cause
	}
	cancel := h.cancel
	h.making.Unlock()
	if cancel != nil {
		cancel(cause)
	}
	add(h.e.m.Held, -1)
	observe(h.e.m.Hold, h.e.now()-h.since)
}

// free gives the lock up: to the next waiter here, or with a command to whoever is next in Redis.
func (h *holding) free(ctx context.Context) error {
	e, l := h.e, h.l
	ctx = context.WithoutCancel(ctx)
	e.o.Steps.At(ctx, step.Releasing, l.key)
	e.mu.Lock()
	next, passed, strays := "", false, false
	if l.hold == h { // else it was lost, or this is a repetition
		now := e.now()
		if passed = l.mayPass(now); passed {
			e.serve(l, now) // first of all: what else there is to do has time
		}
		h.finish(l.until, context.Canceled)
		if !passed {
			// From here on no renewal includes it: first disarm, then release.
			strays = l.strays && l.mode != reading // a read's release remembers by itself
			e.forget(l)
			switch {
			case l.waiters.size == 0:
				e.drop(l)
			case e.posts.listening(l.key):
				e.bid(l)
				next = l.token
			default: // a process without a subscriber would be skipped
				e.again(l)
			}
		}
	}
	e.mu.Unlock()
	if passed {
		runtime.Gosched() // the next holder has work to do now; what is left to do here has time
		e.o.Steps.At(ctx, step.Released, l.key)
		return nil
	}
	err := h.release(ctx, next)
	if strays { // the last releaser is remembered, and that is soon another
		e.sendCancel(l.key, h.token)
	}
	return err
}

// mayPass bounds the cohort, and leaves the next holder some time to be trusted.
func (l *line) mayPass(now time.Duration) bool {
	return l.waiters.size > 0 && l.fence <= l.last && now-l.granted < l.e.o.CohortTime && l.until-now > l.e.claim/4
}

// release sends the release, with which the line bids again under the token next where that is not "".
func (h *holding) release(ctx context.Context, next string) error {
	e, l := h.e, h.l
	released, a := e.sendRelease(l, h.token, next)
	if next != "" {
		e.mu.Lock()
		switch {
		case l.token != next || l.phase != asking: // granted by a message that was faster, or given up
		case a.err != nil || a.verdict < 0 || a.verdict > 0 && e.o.Replicas > 0:
			l.anew = true // the release may have queued already
			e.ask(l)
		default:
			e.answered(l, a, true)
		}
		e.mu.Unlock()
	}
	switch {
	case a.err != nil:
		h.unsure = true
		e.cleanLater(l.key, h.token, e.now(), a.err) // else the lock would stay for the rest of its TTL
		return fmt.Errorf("lock: engine: release unknown: %w", a.err)
	case h.undone: // the cancel is remembered as a release, and came when others could be let in
		return lock.ErrLost
	case released == 1:
		e.o.Steps.At(ctx, step.Released, l.key)
		return nil
	case (h.unsure || a.resent) && !h.lost && e.now() < h.until: // nobody else can have ended it
		return nil
	case h.unsure || a.resent && !h.lost:
		return errors.New("lock: engine: release unknown: it was sent, and the lease has run out since")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !h.lost { // nobody has noticed before
		h.lost = true
		add(e.m.Lost, 1)
	}
	return lock.ErrLost
}
