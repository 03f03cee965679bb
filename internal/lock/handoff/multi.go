package handoff

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/lock/lease"
	"lastitem/internal/step"
)

var (
	//go:embed lua/acquire_all.lua
	engineAcquireAllSource string
	//go:embed lua/release_all.lua
	engineReleaseAllSource string

	engineAcquireAll = newScript(engineAcquireAllSource)
	engineReleaseAll = engineScript(engineReleaseAllSource)
)

// togetherSize bounds the keys of one command.
const togetherSize = 100

// AcquireAll acquires the locks of all keys, or none of them, like [lock.AcquireAll] over [Engine.Handoff]; they are the same locks. If all
// are free, one command acquires them, and one releases them. Else they are acquired one after the other, in sorted order, and released in the reverse
// order.
//
// In a cluster one command is enough only for keys with the same hash tag. It never is with [Options.Replicas], for more than a hundred
// keys, and for a re-entry.
func (e *Engine) AcquireAll(ctx context.Context, keys ...string) (*lock.Multi, error) {
	sorted := slices.Compact(slices.Sorted(slices.Values(keys)))
	names := make([]string, len(sorted))
	for i, key := range sorted {
		names[i] = e.keyName(key)
	}
	if e.together(ctx, names) {
		holds, err := e.acquireTogether(ctx, names)
		if err != nil {
			return nil, fmt.Errorf("lock: %d keys at once: %w", len(keys), err)
		}
		if holds != nil {
			leases := make([]lock.Lease, len(holds))
			for i, h := range holds {
				leases[i] = &h.first
			}
			var mu sync.Mutex // a second release, which would release each key by itself, waits for the first
			return lock.NewMulti(ctx, sorted, leases, func(ctx context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				return e.releaseTogether(ctx, sorted, holds)
			}), nil
		}
	}
	return lock.AcquireAll(ctx, e.Handoff(), keys...)
}

// together says whether one command may be enough for the locks of names.
func (e *Engine) together(ctx context.Context, names []string) bool {
	if len(names) < 2 || len(names) > togetherSize || e.o.Replicas > 0 || ctx.Err() != nil {
		return false
	}
	return !slices.ContainsFunc(names, func(name string) bool {
		_, reenters := ctx.Value(engineKey{e, name}).(*hold)
		return reenters || e.publish == "SPUBLISH" && hashed(name) != hashed(names[0])
	})
}

// acquireTogether makes one attempt at all locks. It returns no holds if one of the locks is not free.
func (e *Engine) acquireTogether(ctx context.Context, names []string) ([]*hold, error) {
	d, err := lease.TTL(ctx, "engine", 0, minTTL)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		e.o.Steps.At(ctx, step.Waiting, name)
	}
	began := time.Now()
	b := &bundle{e: e, done: make(chan struct{})}
	err = b.begin(ctx, names, d)
	if err != nil {
		return nil, err
	}
	limited, stop := ctx, func() {}
	if until, bounded := lock.WaitUntil(ctx); bounded {
		if until.Before(began) {
			until = began
		}
		limited, stop = context.WithDeadline(ctx, until.Add(e.attemptLimit()))
	}
	defer stop()
	select {
	case <-b.done:
	case <-limited.Done():
		b.abandon()
	}
	switch {
	case b.err == nil && ctx.Err() != nil && b.holds == nil:
		return nil, lock.GaveUp(ctx)
	case b.err == nil:
		for i := range b.holds {
			e.o.Steps.At(ctx, step.Locked, names[i])
		}
		return b.holds, nil
	case lease.Ended(ctx):
		return nil, lock.GaveUp(ctx)
	}
	return nil, b.err
}

// bundle is an attempt at several locks in one command. The engine's mutex guards its fields until done is closed, or the bundle is
// abandoned.
type bundle struct {
	e          *Engine
	contenders []*contender
	tokens     []string
	done       chan struct{}
	holds      []*hold // nil unless the attempt was successful
	err        error
	over       bool
}

// begin sends the command.
func (b *bundle) begin(ctx context.Context, names []string, d time.Duration) error {
	e := b.e
	r := newRequest(engineAcquireAll)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return ErrClosed
	}
	for _, name := range names {
		w := &waiter{ctx: ctx, ready: make(chan struct{}), began: e.now()}
		w.place.member = w
		c := &contender{e: e, key: name, mode: exclusive, lease: d}
		c.alarm.contender, c.place.member = c, c
		c.waiters.push(&w.place)
		e.newAttempt(c)
		b.contenders, b.tokens = append(b.contenders, c), append(b.tokens, c.token)
		keys := scriptKeys(name, c.token)
		r.key(keys[:]...)
	}
	r.add(decimal(b.contenders[0].ttl().Milliseconds())).add(b.tokens...).add(e.fenceTTL)
	e.spawn(func() {
		e.do(r)
		b.end(r)
	})
	return nil
}

// end takes the reply.
func (b *bundle) end(r *request) {
	e := b.e
	e.mu.Lock()
	defer e.mu.Unlock()
	fences, _ := r.reply.([]any)
	c := b.contenders[0]
	closed := slices.ContainsFunc(b.contenders, func(c *contender) bool { return c.token == "" })
	granted := r.err == nil && len(fences) == len(b.contenders)
	late := validUntil(r.sent, c.ttl())-e.now() < c.grantTimeout()/4
	evicted := slices.ContainsFunc(b.contenders, func(c *contender) bool { return c.evicted })
	switch {
	case b.over:
		return
	case closed:
		b.err = ErrClosed
	case r.err != nil:
		b.err = fmt.Errorf("%w: engine: %w", lock.ErrUnavailable, r.err)
	case granted && !late && !evicted:
		for i, c := range b.contenders {
			c.mayArriveLate = r.tries > 1
			e.grant(c, byReply, uint64(number(fences[i])), r.sent, c.ttl())
			b.holds = append(b.holds, c.hold)
		}
	}
	if b.holds == nil {
		b.cancel(r.err != nil || granted || r.tries > 1)
	}
	b.over = true
	close(b.done)
}

// abandon ends an attempt whose caller leaves. The reply finds nobody any more.
func (b *bundle) abandon() {
	b.e.mu.Lock()
	defer b.e.mu.Unlock()
	if b.over {
		return
	}
	b.over, b.err = true, fmt.Errorf("%w: engine: no answer within %s", lock.ErrUnavailable, b.e.attemptLimit())
	b.cancel(true)
}

// cancel ends the attempts; if undo is true, also in Redis. The mutex is held.
func (b *bundle) cancel(undo bool) {
	for _, c := range b.contenders {
		if c.token != "" {
			c.waiters.pop() // which nobody awaits
			b.e.failWaiters(c, nil, undo)
		}
	}
}

// releaseTogether releases what [Engine.AcquireAll] has acquired in one command. A hold that was lost, or re-entered, has its own release.
func (e *Engine) releaseTogether(ctx context.Context, keys []string, holds []*hold) error {
	ctx = context.WithoutCancel(ctx)
	r, at := e.sendReleaseAll(ctx, holds)
	reply, _ := r.reply.([]any)
	var failed []error
	for i, h := range holds {
		release := h.first.Release
		if n := slices.Index(at, i); n >= 0 {
			a, released := answer{err: r.err, retried: e.clientRetries || r.tries > 1}, int64(0)
			if r.err == nil {
				released = number(reply[n])
			}
			release = func(ctx context.Context) error {
				return h.once.Do(func() error { return h.released(ctx, released, a) })
			}
		}
		err := release(ctx)
		if err != nil {
			failed = append(failed, fmt.Errorf("lock: release %q: %w", keys[i], err))
		}
	}
	return errors.Join(failed...)
}

// sendReleaseAll releases in one command those of holds that may share it. at are their places in holds, in the order of the reply.
func (e *Engine) sendReleaseAll(ctx context.Context, holds []*hold) (r *request, at []int) {
	r = newRequest(engineReleaseAll).add(e.ttl, e.route)
	e.mu.Lock()
	for i, h := range holds {
		if c := h.c; c.hold == h && h.entries == 1 && !h.first.released && !c.mayArriveLate {
			h.first.released, h.entries = true, 0
			h.end(holdEnded, c.validUntil, context.Canceled)
			e.endAttempt(c, byRelease)
			k := scriptKeys(c.key, h.token)
			r.key(k[:4]...).add(h.token)
			at = append(at, i)
		}
	}
	e.mu.Unlock()
	if len(at) == 0 {
		return r, nil
	}
	for _, i := range at {
		e.o.Steps.At(ctx, step.Releasing, holds[i].c.key)
	}
	e.do(r.add(e.fenceTTL))
	reply, _ := r.reply.([]any)
	switch {
	case r.err != nil:
	case len(reply) != len(at)+1:
		r.err = fmt.Errorf("lock: engine: unexpected answer %v", r.reply)
	default:
		e.m.skipped(number(reply[len(at)]))
	}
	return r, at
}
