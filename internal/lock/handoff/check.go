package handoff

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"lastitem/internal/lock"
)

var (
	//go:embed lua/check.lua
	engineCheckSource string

	engineCheck = newScript(engineCheckSource)
)

// Check tries what the engine needs of Redis, for the start of a program: else a right that its user lacks shows only when
// a lock is waited for. It takes and releases [Options.Probe], subscribes to the engine's channel, publishes to it, and
// reads maxmemory-policy if it may. The error says what does not work; it is [ErrRefused] if only an operator can change
// that, and [lock.ErrUnavailable] too if Redis does not answer. In a cluster it tries the master of one slot.
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
	defer func() { // else its counter would stay for FenceTTL
		k := KeysOf(key)
		_ = e.c.Del(context.WithoutCancel(ctx), k.Fence, k.LastReleaser).Err()
	}()
	if err := e.subscriber.awaitSubscribed(ctx, key); err != nil {
		return fmt.Errorf("subscribe to %s: %w", e.subscriber.channel(key), unavailable(err))
	}
	r := newRequest(engineCheck, key).add(e.publish, e.subscriber.channel(key))
	e.do(r)
	switch {
	case r.err != nil:
		return fmt.Errorf("publish to %s: %w", e.subscriber.channel(key), unavailable(r.err))
	case number(r.reply) == 0:
		return fmt.Errorf("%w: the server does not count the subscriber of %s", lock.ErrUnavailable, e.subscriber.channel(key))
	}
	return e.checkMemory(ctx, key)
}

// checkMemory returns an error if the server may evict locks. It returns nil if the server does not tell.
func (e *Engine) checkMemory(ctx context.Context, key string) error {
	node, err := e.node(ctx, key)
	if err != nil {
		return unavailable(err)
	}
	memory, err := node.ConfigGet(ctx, "maxmemory*").Result()
	if policy := memory["maxmemory-policy"]; err == nil && policy != "noeviction" && memory["maxmemory"] != "0" {
		return fmt.Errorf("%w: maxmemory-policy is %s, which may evict a held lock; want noeviction", ErrRefused, policy)
	}
	return nil
}

// rightsMissing says that the user of the client lacks a right.
func rightsMissing(err error) bool {
	return hasCode(err, "NOPERM", "NOAUTH", "WRONGPASS") || notInScript(err)
}

// reportRights reports a right that is missing where the caller may not hear of it.
func (e *Engine) reportRights(err error) {
	if rightsMissing(err) {
		e.report(rightMissing, "", err)
	}
}

// notInScript says that a script was refused one of its commands. Redis 7.0 says so without a code. The script may have
// done its work before: the release that may not publish has passed the lock on.
func notInScript(err error) bool {
	return hasCode(err, "The user executing the script can't")
}

// unavailable is the error of a caller whose request got this answer, or none.
func unavailable(err error) error {
	if refused(err) || notInScript(err) {
		return fmt.Errorf("%w: engine: %w: %w", lock.ErrUnavailable, ErrRefused, err)
	}
	return fmt.Errorf("%w: engine: %w", lock.ErrUnavailable, err)
}

// releaseUnknown is the error of a release that got this answer, or none.
func releaseUnknown(err error) error {
	if refused(err) {
		err = errors.Join(ErrRefused, err)
	}
	return fmt.Errorf("lock: engine: release unknown: %w", err)
}
