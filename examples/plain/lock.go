package plain

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrLost says that the lock ended before the work did: others may have worked at the same time.
var ErrLost = errors.New("the lock was lost")

const ttl = 10 * time.Second

// lock is a lock in Redis that its holder renews. Its scripts have ARGV: owner, TTL in ms, channel.
type lock struct {
	acquire *redis.Script // 0, or how long it is worth to wait, in ms
	renew   *redis.Script // 1, or 0 if the lock is not the owner's
	release *redis.Script // the same
}

// hold is one hold of a lock, or the wait for it. listen is the channel whose messages end the wait.
type hold struct {
	lock
	c                      redis.UniversalClient
	keys                   []string
	owner, channel, listen string
}

func (h hold) run(ctx context.Context, s *redis.Script) (int64, error) {
	return s.Run(ctx, h.c, h.keys, h.owner, ttl.Milliseconds(), h.channel).Int64()
}

// do runs work under the lock. The context of work ends if the lock is lost.
func (h hold) do(ctx context.Context, work func(ctx context.Context) error) (err error) {
	began := false
	defer func() { // after an error too, since the lock may be ours without our knowledge
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
		defer cancel()
		// An unknown outcome is no loss: the lock ends by itself.
		if mine, e := h.run(end, h.release); began && e == nil && mine == 0 {
			err = errors.Join(err, ErrLost)
		}
	}()
	since, err := h.wait(ctx)
	if err != nil {
		return err
	}
	began = true
	held, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	go h.keep(held, lose, since)
	return work(held)
}

// wait returns the time at which it sent the command that took the lock. The TTL began no earlier.
func (h hold) wait(ctx context.Context) (since time.Time, err error) {
	since = time.Now()
	left, err := h.run(ctx, h.acquire)
	if err != nil || left == 0 {
		return since, err
	}
	sub := h.c.Subscribe(ctx, h.listen)
	defer func() { _ = sub.Close() }()
	if _, err := sub.ReceiveTimeout(ctx, 3*time.Second); err != nil {
		return since, err
	}
	for { // the first time at once: the message may have come before the subscription
		since = time.Now()
		if left, err = h.run(ctx, h.acquire); err != nil || left == 0 {
			return since, err
		}
		select {
		case <-sub.Channel():
		case <-time.After(time.Duration(left) * time.Millisecond):
		case <-ctx.Done():
			return since, ctx.Err()
		}
	}
}

// keep renews the lock. A process that is cut off hears nothing, so its own clock must tell it that the lock is lost.
func (h hold) keep(ctx context.Context, lose context.CancelCauseFunc, since time.Time) {
	clock := time.AfterFunc(time.Until(since.Add(ttl)), func() { lose(ErrLost) })
	defer clock.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(ttl / 3):
		}
		sent := time.Now()
		mine, err := h.run(ctx, h.renew)
		if err == nil && mine == 0 {
			lose(ErrLost)
		} else if err == nil {
			clock.Reset(time.Until(sent.Add(ttl)))
		}
	}
}
