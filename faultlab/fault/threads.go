package fault

import (
	"context"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/judge"
	"lastitem/say/text"
)

// Threads lets a second request run on the same replica while the first one is held.
var Threads = Fault{
	Name:  api.Threads,
	Title: text.Of("a second request on the same replica, at every point of the first"),
	Cuts:  bothCuts, Variants: enoughAndLast, Pairs: true,
	Strike: func(ctx context.Context, p *Play) error { return interleave(ctx, p, p.Lane.A) },
}

// Replicas lets a request run on another replica.
var Replicas = Fault{
	Name:  api.Replicas,
	Title: text.Of("a request on another replica, at every point of the first"),
	Cuts:  bothCuts, Variants: enoughAndLast, Pairs: true,
	Strike: func(ctx context.Context, p *Play) error { return interleave(ctx, p, p.Lane.B) },
}

// interleave holds A, lets the rival run as far as it can, and lets A go on. A rival that was turned away may have
// broken something for the next one: a second rival asks after it.
func interleave(ctx context.Context, p *Play, rival *rig.Actor) error {
	a, held, err := p.victim(ctx, p.NewKey())
	if err != nil {
		return err
	}
	if p.B != nil {
		return p.rivalHeld(ctx, rival, a, 0, p.passing(held))
	}
	b := p.Ask(rival, p.NewKey())
	asked := []*rig.Pending{a, b}
	if !p.Settle(ctx, rival, b) && b.Op().Outcome == judge.Declined {
		again := p.Ask(rival, p.NewKey())
		p.Settle(ctx, rival, again)
		asked = append(asked, again)
	}
	p.pass(p.Lane.A, held)
	return p.meet(ctx, asked...)
}
