package fault

import (
	"context"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/faultlab/rig/gear"
	"lastitem/say/text"
	"lastitem/stack/wire"
)

// Slow holds a living replica until its lock has expired, if it does, and a rival was served.
var Slow = Fault{
	Name:     api.Slow,
	Title:    text.Of("the section takes longer than the TTL, the process is alive"),
	Cuts:     bothCuts,
	Variants: enoughAndLast,
	Pairs:    true,
	Lane:     gear.Equipment{Expiry: true},
	Strike: holding(func(ctx context.Context, p *Play, a *rig.Pending, held *wire.Hold) error {
		return p.overtake(ctx, a, p.passing(held))
	}),
}

// Late holds a replica that has finished its work until its lock has expired, and lets it release while a rival is
// inside.
var Late = Fault{
	Name:     api.Late,
	Title:    text.Of("the holder has finished, its lease has expired, a rival holds the lock, and only then it releases"),
	Cuts:     bothCuts,
	Finished: true,
	Rival:    true,
	Lane:     gear.Equipment{Expiry: true},
	Strike: holding(func(ctx context.Context, p *Play, a *rig.Pending, held *wire.Hold) error {
		return p.rivalHeld(ctx, p.Lane.B, a, p.Outlive, p.passing(held))
	}),
}
