package fault

import (
	"context"
	"strings"

	"lastitem/contract/api"
	"lastitem/faultlab/rig/gear"
	"lastitem/say/text"
	"lastitem/stack"
)

// RedisRestarted kills the Redis that holds the lock and restarts it without its data.
var RedisRestarted = Fault{
	Name:     "redis-restarted-empty",
	Title:    text.Of("Redis is killed and restarts empty: the lock is lost; the stock is in SQL"),
	Cuts:     bothCuts,
	AtEnd:    true,
	Variants: counters,
	// With the stock in Redis nothing could be judged: initial stock, orders and remaining stock are lost together. So
	// are tickets.
	Happens: func(m api.Mode, store api.Store) bool { return lockInRedis(m) && store == api.SQL && !m.Tickets },
	Lane:    gear.Equipment{Own: lockServers},
	Strike: func(ctx context.Context, p *Play) error {
		if err := setCounter(ctx, p); err != nil {
			return err
		}
		p.Outlive = recovery // no lock is left to wait for
		return p.upset(ctx, "redis is killed, and starts again empty", func(ctx context.Context) error {
			return p.Lane.Own.Restart(ctx, stack.Redis)
		})
	},
}

// The variants of a fencing counter that is lost with the lock: how high it was. A counter that begins again gives out
// the same tokens once more. If the row has seen high tokens, every holder is refused until the counter has passed
// them.
const (
	firstToken  = "first-token"
	highCounter = "high-counter"
)

// highest is the last token that was given out before the loss, in the variant highCounter.
const highest = 1_000_000

// counters are the variants of a mode whose tokens come from a counter beside the lock.
func counters(m api.Mode) []string {
	if strings.HasPrefix(m.Name, "fencing") {
		return []string{firstToken, highCounter}
	}
	return []string{""}
}

// setCounter sets the fencing counter, and the highest token that the row has seen, as the variant says.
func setCounter(ctx context.Context, p *Play) error {
	switch p.Variant {
	case firstToken:
		return p.Lane.SetFence(ctx, 0)
	case highCounter:
		return p.Lane.SetFence(ctx, highest)
	}
	return nil
}
