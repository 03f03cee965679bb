package fault

import (
	"context"
	"slices"
	"time"

	"lastitem/faultlab/rig"
	"lastitem/internal/api"
	"lastitem/internal/localstack"
)

// Partition parts the victim from its lock's server for longer than the TTL, in silence. It reaches its stock.
var Partition = Fault{
	Name:  "partition",
	Title: api.Text{En: "the holder is cut off from the lock's server for longer than the TTL, and reaches its stock", Zh: "持有者与锁服务断开，超过 TTL，却仍能访问库存"},
	Cuts:  bothCuts,
	// Consul ends a session 10 to 20 seconds after its last renewal and keeps the key for the lock-delay after that: longer than a schedule
	// waits, now and then.
	Happens: func(m api.Mode, store api.Store) bool {
		return lockApart(m, store) && !slices.Contains(m.Needs, localstack.Consul)
	},
	Lane: rig.Equipment{Expiry: true},
	Strike: func(ctx context.Context, p *Play) error {
		return p.partition(ctx, func(a *rig.Pending, pass func()) (*rig.Pending, error) {
			b, err := p.AskUntilServed(ctx, p.Lane.B, p.Outlive)
			pass()
			p.Settle(ctx, p.Lane.A, a)
			return b, err
		})
	},
}

// ShortPartition is over before the lock expires.
var ShortPartition = Fault{
	Name:    "partition-short",
	Title:   api.Text{En: "the same for less than the TTL", Zh: "同上，但短于 TTL"},
	Cuts:    bothCuts,
	Happens: lockApart,
	Lane:    rig.Equipment{Expiry: true},
	Strike: func(ctx context.Context, p *Play) error {
		return p.partition(ctx, func(a *rig.Pending, pass func()) (*rig.Pending, error) {
			b := p.Ask(p.Lane.B, p.NewKey())
			p.Settle(ctx, p.Lane.B, b)
			pass()
			select { // what it sends to the lock's server now is lost: it goes on as far as it comes without
			case <-a.Done():
			case <-time.After(p.Lane.TTL / 6):
			}
			return b, ctx.Err()
		})
	},
}

// partition holds the victim and parts it from its lock's servers while others act.
func (p *Play) partition(ctx context.Context, meanwhile func(a *rig.Pending, pass func()) (*rig.Pending, error)) error {
	a, held, err := p.victim(ctx, p.NewKey())
	if err != nil {
		return err
	}
	servers := lockServersOf(p.Mode)
	p.Lane.A.Part(true, servers...)
	p.Note(p.Lane.A, rig.Struck, "A is cut off from the lock's server")
	b, err := meanwhile(a, func() { p.pass(p.Lane.A, held) })
	p.Lane.A.Part(false, servers...)
	p.Note(p.Lane.A, rig.Struck, "A reaches it again")
	if err != nil {
		return err
	}
	p.Over(p.Outlive)
	return p.meet(ctx, a, b)
}

// lockServersOf are the servers of a mode's lock, each one name for all its nodes.
func lockServersOf(m api.Mode) []string {
	for _, service := range lockServices {
		if slices.Contains(m.Needs, service) {
			return []string{service}
		}
	}
	return []string{localstack.Redis}
}

// lockApart is for modes whose lock is elsewhere than their stock.
func lockApart(m api.Mode, store api.Store) bool {
	return lockInRedis(m) && store == api.SQL || store != api.Etcd && !slices.Equal(lockServersOf(m), []string{localstack.Redis})
}
