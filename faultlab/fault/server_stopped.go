package fault

import (
	"context"
	"slices"
	"strings"
	"time"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/faultlab/rig/gear"
	"lastitem/say/text"
	"lastitem/stack"
	"lastitem/stack/wire"
)

// The variants of a lock server that stops.
const (
	holderWaits  = "holder-waits"   // the holder is held as well, and goes on after a rival was served
	holderGoesOn = "holder-goes-on" // the holder goes on meanwhile, as far as it can
	oneOfFive    = "one-of-five"    // this many nodes of a Redlock stop; the holder goes on
	threeOfFive  = "three-of-five"
)

// ServerStopped stops the lock server by SIGSTOP for longer than the TTL and then lets it go on.
var ServerStopped = Fault{
	Name:  "lock-server-stopped",
	Title: text.Of("the lock server is stopped (SIGSTOP) for longer than the TTL and then goes on"),
	Cuts:  bothCuts,
	Variants: func(m api.Mode) []string {
		if slices.Contains(m.Needs, stack.Redlock) {
			return []string{oneOfFive, threeOfFive}
		}
		return []string{holderWaits, holderGoesOn}
	},
	Happens: func(m api.Mode, _ api.Store) bool {
		return lockInRedis(m) || slices.Contains(m.Needs, stack.Redlock)
	},
	Lane: gear.Equipment{Expiry: true, Own: lockServers},
	Strike: holding(func(ctx context.Context, p *Play, a *rig.Pending, held *wire.Hold) error {
		stopped := strings.Split(stoppedServers[p.Variant], ",")
		for _, server := range stopped {
			if err := p.Lane.Own.Freeze(server); err != nil {
				return err
			}
		}
		p.Note(p.Lane.A, rig.Struck, strings.Join(stopped, ", ")+" stopped (SIGSTOP)")
		goOn := time.After(p.Outlive)
		asked := []*rig.Pending{a}
		if p.Variant != holderWaits {
			asked = append(asked, p.Ask(p.Lane.B, p.NewKey()))
			p.pass(p.Lane.A, held)
		}
		select { // the lock expires only by time
		case <-goOn:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		for _, server := range stopped {
			if err := p.Lane.Own.Thaw(server); err != nil {
				return err
			}
		}
		p.Note(p.Lane.A, rig.Struck, strings.Join(stopped, ", ")+" goes on (SIGCONT)")
		p.Over(p.Outlive)
		if p.Variant == holderWaits {
			return p.overtake(ctx, a, p.passing(held))
		}
		return p.meet(ctx, asked...)
	}),
}

// stoppedServers are the servers that stop, by variant.
var stoppedServers = map[string]string{
	holderWaits: stack.Redis, holderGoesOn: stack.Redis,
	oneOfFive: forgetful, threeOfFive: "redlock 1,redlock 2," + forgetful,
}
