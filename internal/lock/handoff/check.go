package handoff

import (
	"context"
	"errors"
	"fmt"

	"lastitem/internal/lock"
)

// Check tries what the engine needs of Redis, for the start of a program: else a right that its user lacks shows
// only when a lock is waited for. It takes and releases [Options.Probe], subscribes to the engine's channel,
// publishes to it, and reads maxmemory-policy if it may. The error says what does not work; it is [ErrRefused] if
// only an operator can change that, and [lock.ErrUnavailable] too if Redis does not answer. In a cluster it tries
// the master of one slot.
func (e *Engine) Check(ctx context.Context) error {
	err := e.within(ctx, func() error { return e.check(ctx) })
	if err != nil {
		return fmt.Errorf("lock: engine: check: %w", err)
	}
	return nil
}

func (e *Engine) check(ctx context.Context) error {
	probe := e.o.Probe + "{" + e.id + "}"
	held, err := e.Fair().Acquire(ctx, probe)
	if err != nil {
		return err
	}
	if err := held.Release(ctx); err != nil {
		return err
	}
	key := e.keyName(probe)
	defer func() { // it leaves nothing behind
		k := KeysOf(key)
		_ = e.server.c.Del(context.WithoutCancel(ctx), k.Fence, k.LastReleaser).Err()
	}()
	channel := e.subscriber.channel(key)
	if err := e.subscriber.awaitSubscribed(ctx, key); err != nil {
		return fmt.Errorf("subscribe to %s: %w", channel, unavailable(err))
	}
	r := newRequest(engineCheck, key).add(e.server.publish, channel)
	e.server.do(r)
	if r.err == nil && number(r.reply) == 0 {
		r.err = errors.New("nobody is subscribed")
	}
	if r.err != nil {
		return fmt.Errorf("publish to %s: %w", channel, unavailable(r.err))
	}
	return e.checkMemory(ctx, key)
}

// checkMemory returns an error if the server may evict locks. It returns nil if the server does not tell.
func (e *Engine) checkMemory(ctx context.Context, key string) error {
	node, err := e.server.node(ctx, key)
	if err != nil {
		return unavailable(err)
	}
	memory, err := node.ConfigGet(ctx, "maxmemory*").Result()
	policy := memory["maxmemory-policy"]
	if err == nil && policy != "" && policy != "noeviction" && memory["maxmemory"] != "0" {
		return fmt.Errorf("%w: maxmemory-policy is %s, which may evict a held lock; want noeviction", ErrRefused, policy)
	}
	return nil
}

func rightsMissing(err error) bool {
	return hasCode(err, "NOPERM", "NOAUTH", "WRONGPASS") || notInScript(err)
}

// notInScript says that a script may not send one of its commands, for which Redis has no code: it has one text up to
// 7.0, and another since. The script may have done its work before: the release that may not publish has passed the
// lock on.
func notInScript(err error) bool {
	return hasCode(err, "The user executing the script can't", "ACL failure in script")
}

// unavailable is the error of a caller whose request got this answer, or none.
func unavailable(err error) error {
	if refused(err) || notInScript(err) {
		return fmt.Errorf("%w: engine: %w: %w", lock.ErrUnavailable, ErrRefused, err)
	}
	return fmt.Errorf("%w: engine: %w", lock.ErrUnavailable, err)
}
