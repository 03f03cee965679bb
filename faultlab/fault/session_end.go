package fault

import (
	"context"
	"slices"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/faultlab/rig/gear"
	"lastitem/say/text"
	"lastitem/stack"
	"lastitem/stack/wire"
)

// SessionEnd ends the lock session of a holder that is alive, as the servers do when renewals come too late. A rival
// gets the lock at once; the holder learns of it at its next command.
var SessionEnd = Fault{
	Name:  "session-end",
	Title: text.Of("the holder's lease or session in etcd, ZooKeeper or Consul is ended; the process stays alive"),
	Cuts:  bothCuts,
	// The variants are the services.
	Variants: services,
	Happens:  func(m api.Mode, _ api.Store) bool { return len(services(m)) > 0 },
	Lane:     gear.Equipment{Expiry: true},
	Strike: holding(func(ctx context.Context, p *Play, a *rig.Pending, held *wire.Hold) error {
		if err := p.Lane.EndSession(ctx, p.Lane.A.Wires, p.Variant); err != nil {
			return p.spare(ctx, a, held, err)
		}
		p.Note(p.Lane.A, rig.SessionEnded, p.Variant)
		p.Over(p.Outlive)
		return p.overtake(ctx, a, p.passing(held))
	}),
}

// services are the lock services that a mode needs, by the names of stack.
func services(m api.Mode) []string {
	return slices.DeleteFunc(slices.Clone(m.Needs), func(s string) bool {
		return !slices.Contains([]string{stack.Etcd, stack.ZooKeeper, stack.Consul}, s)
	})
}

// spare ends a schedule in which the hazard could not strike, and returns why.
func (p *Play) spare(ctx context.Context, a *rig.Pending, held *wire.Hold, why error) error {
	p.pass(p.Lane.A, held)
	if err := a.Wait(ctx); err != nil {
		return err
	}
	return why
}
