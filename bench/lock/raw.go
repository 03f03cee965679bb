package main

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

const rawPoll = time.Millisecond

// compareAndDelete is the textbook release.
var compareAndDelete = redis.NewScript(`
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`)

// openRaw is the simplest lock in Redis: no fence, no renewal, no answer to a repeated release.
func openRaw(e *environment) (*opened, error) {
	c := e.client()
	return &opened{close: func() { _ = c.Close() }, acquire: func(ctx context.Context, key string) (held, error) {
		owner := rand.Text()
		for {
			err := c.SetArgs(ctx, key, owner, redis.SetArgs{Mode: "NX", TTL: leaseTTL}).Err()
			if err == nil {
				break
			}
			if !errors.Is(err, redis.Nil) {
				return nil, err
			}
			if err := pause(ctx, rawPoll); err != nil {
				return nil, err
			}
		}
		return &rawHeld{c, key, owner}, nil
	}}, nil
}

type rawHeld struct {
	c          redis.UniversalClient
	key, owner string
}

func (h *rawHeld) Release(ctx context.Context) error {
	n, err := compareAndDelete.Run(ctx, h.c, []string{h.key}, h.owner).Int()
	if err == nil && n == 0 {
		err = errors.New("raw: was not held")
	}
	return err
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
