package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/faultlab/rig/gear"
	"lastitem/say/text"
	"lastitem/stack"
)

// Partition silently drops everything between the victim and its lock server for longer than the TTL. The victim can
// still reach the stock.
var Partition = Fault{
	Name:    "partition",
	Title:   text.Of("the holder is cut off from the lock server for longer than the TTL, and can still reach the stock"),
	Cuts:    bothCuts,
	Happens: lockApart,
	Lane:    gear.Equipment{Expiry: true},
	Strike: func(ctx context.Context, p *Play) error {
		return partition(ctx, p, func(a *rig.Pending, pass func()) (*rig.Pending, error) {
			b, err := p.AskUntilServed(ctx, p.Lane.B, p.Outlive)
			pass()
			p.Settle(ctx, p.Lane.A, a)
			return b, err
		})
	},
}

// ShortPartition is Partition that ends before the lock expires.
var ShortPartition = Fault{
	Name:    "partition-short",
	Title:   text.Of("the holder is cut off from the lock server for less than the TTL, and can still reach the stock"),
	Cuts:    bothCuts,
	Happens: lockApart,
	Lane:    gear.Equipment{Expiry: true},
	Strike: func(ctx context.Context, p *Play) error {
		return partition(ctx, p, func(a *rig.Pending, pass func()) (*rig.Pending, error) {
			cut := time.Now()
			b := p.Ask(p.Lane.B, p.NewKey())
			p.Settle(ctx, p.Lane.B, b)
			pass()
			select { // its messages to the lock server are lost now: let it go on as far as it can without them
			case <-a.Done():
			case <-time.After(p.Lane.TTL / 6):
			}
			if took := time.Since(cut); took >= p.Lane.TTL {
				return b, errors.Join(fmt.Errorf("%w: A was cut off for %v, no less than the TTL", rig.ErrNotReached, took),
					ctx.Err())
			}
			return b, ctx.Err()
		})
	},
}

// partition holds the victim and cuts it off from its lock servers while meanwhile runs.
func partition(ctx context.Context, p *Play, meanwhile func(a *rig.Pending, pass func()) (*rig.Pending, error)) error {
	a, held, err := p.victim(ctx, p.NewKey())
	if err != nil {
		return err
	}
	servers := LockServers(p.Mode)
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

// LockServers returns the names of the servers of a mode's lock; one name stands for all nodes of a service.
func LockServers(m api.Mode) []string {
	for _, service := range lockServices {
		if slices.Contains(m.Needs, service) {
			return []string{service}
		}
	}
	return []string{stack.Redis}
}

// lockApart says whether the lock of a mode is on another server than its stock.
func lockApart(m api.Mode, store api.Store) bool {
	return lockInRedis(m) && store == api.SQL || store != api.Etcd &&
		!slices.Equal(LockServers(m), []string{stack.Redis})
}
