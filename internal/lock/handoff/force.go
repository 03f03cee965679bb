package handoff

import (
	"context"
	"fmt"
	"slices"

	"lastitem/internal/lock"
)

// Forced says what a [Engine.ForceRelease] has done.
type Forced struct {
	// Evicted are the holders that have lost the lock; none if nobody held it. A holder that another ForceRelease has
	// evicted since the call has begun is among them.
	Evicted []Holder
	// Fence is above every fencing token that the evicted may have, and below that of every later holder; 0 if nobody was
	// evicted.
	Fence uint64
}

// forceSize bounds the holders that one command evicts.
const forceSize = 100

// ForceRelease takes the lock of key from everybody who holds it now, and passes it on to the next waiter: for an
// operator whose holder hangs. It is a change of holders like an expiry, so the evicted may still be at work. Write
// [Forced.Fence] to the data that checks fences, and it refuses them from that moment, even if nobody acquires the lock
// again.
//
// The evicted get [lock.ErrLost]: at once if their process has a subscription, that is, if it has waited for a lock
// before, else with their next renewal, at most 0.4 of a TTL later ([lock.WithLease]: at the end of the lease time);
// and in any case from Release. A holder that comes after the call has begun is not evicted. Of more than 1000 readers
// it evicts a thousand: repeat it for the others. ForceRelease takes two commands. After [lock.ErrUnavailable] it is
// unknown whether somebody was evicted; the call may be repeated. If ctx ends, the call goes on in the background.
func (e *Engine) ForceRelease(ctx context.Context, key string) (Forced, error) {
	var all Forced
	err := e.within(ctx, func() (err error) {
		found, err := e.inspect(key)
		for some := range slices.Chunk(found.Holders, forceSize) {
			if err == nil {
				err = e.force(key, some, &all)
			}
		}
		return err
	})
	if err != nil {
		return Forced{}, fmt.Errorf("%w: engine: force release of %q: %w", lock.ErrUnavailable, key, err)
	}
	return all, nil
}

// force evicts those of holders that still hold the lock, and adds them to all.
func (e *Engine) force(key string, holders []Holder, all *Forced) error {
	tokens := make([]string, len(holders))
	for i, h := range holders {
		tokens[i] = h.token
	}
	r := e.server.newRequest(engineForce, writing, e.server.ttl, e.keyName(key), tokens...)
	e.server.do(r)
	v, _ := r.reply.([]any)
	switch {
	case r.err != nil:
		return r.err
	case len(v) != 3:
		return fmt.Errorf("unexpected answer %v", r.reply)
	}
	e.m.skipped(number(v[1]))
	evicted, _ := v[2].([]any)
	if len(evicted) > 0 {
		all.Fence = uint64(number(v[0]))
	}
	for _, token := range evicted {
		if i := slices.Index(tokens, fmt.Sprint(token)); i >= 0 {
			all.Evicted = append(all.Evicted, holders[i])
			e.onEvicted(tokens[i]) // if it is of this process, which may have no subscription
		}
	}
	return nil
}

// wasEvicted asks Redis whether the holder that had token was evicted. The tombstone says so for a minute.
func (s *server) wasEvicted(key, token string) (bool, error) {
	r := newRequest(engineEvicted, scriptKeys(key, token)[4])
	s.do(r)
	return number(r.reply) == 1, r.err
}

// onEvicted handles the news that the owner of token was evicted.
func (e *Engine) onEvicted(token string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.attempts[token]
	switch {
	case c == nil:
	case c.state == granted:
		c.leaseLost()
	default: // a reply that grants the lock may be on its way
		c.evicted = true
		if c.state != asking { // queued (it missed the grant's message) or draining
			c.reacquire(byMessage) // the reply says that the token has ended
		}
	}
}
