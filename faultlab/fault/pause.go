package fault

import (
	"context"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/faultlab/rig/gear"
	"lastitem/say/text"
	"lastitem/stack/wire"
)

// Pause stops the holder's process past its TTL, as a long garbage collection or a migrated machine does.
var Pause = Fault{
	Name:     api.Pause,
	Title:    text.Of("the holder's process stands still past the TTL (SIGSTOP), its watchdog too"),
	Cuts:     bothCuts,
	Variants: enoughAndLast,
	Pairs:    true,
	Forcible: true,
	Lane:     gear.Equipment{Expiry: true},
	Strike: holding(func(ctx context.Context, p *Play, a *rig.Pending, held *wire.Hold) error {
		if err := p.Lane.A.Pause(ctx); err != nil {
			return err
		}
		p.Note(p.Lane.A, rig.Paused, "")
		if err := p.expire(ctx); err != nil {
			return err
		}
		pass := func() error {
			p.Note(p.Lane.A, rig.Resumed, "")
			p.pass(p.Lane.A, held)
			return p.Lane.A.Resume()
		}
		return p.overtake(ctx, a, pass)
	}),
}
