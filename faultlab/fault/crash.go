package fault

import (
	"context"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/faultlab/rig/gear"
	"lastitem/say/text"
	"lastitem/stack/wire"
)

// Crash kills the holder by SIGKILL before each of its commands.
var Crash = Fault{
	Name:     api.Crash,
	Title:    text.Of("kill -9 of the holder before each of its commands"),
	Cuts:     []rig.Cut{rig.Command},
	Endings:  []string{cancelled},
	Asks:     asksRace,
	Forcible: true,
	Lane:     gear.Equipment{Expiry: true},
	Strike: holding(func(ctx context.Context, p *Play, a *rig.Pending, held *wire.Hold) error {
		if err := p.kill(ctx, held); err != nil {
			return err
		}
		if err := p.expire(ctx); err != nil {
			return err
		}
		p.Over(p.Outlive)
		return p.meet(ctx, a)
	}),
}
