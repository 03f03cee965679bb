package fault

import (
	"context"

	"lastitem/faultlab/rig"
	"lastitem/internal/api"
	"lastitem/internal/text"
)

// Retry repeats a request with its key on another replica, because its client gave up waiting.
var Retry = Fault{
	Name:  api.Retry,
	Title: text.Of("the client gives up and repeats the request with the same key"),
	Cuts:  bothCuts,
	AtEnd: true,
	Strike: func(ctx context.Context, p *Play) error {
		key := p.NewKey()
		if p.A == nil {
			a := p.Ask(p.Lane.A, key)
			if err := a.Wait(ctx); err != nil {
				return err
			}
			p.GiveUp(a)
			p.Note(p.Lane.A, rig.Lost, "")
			b := p.Ask(p.Lane.B, key)
			return p.meet(ctx, b)
		}
		a, held, err := p.victim(ctx, key)
		if err != nil {
			return err
		}
		b := p.Ask(p.Lane.B, key)
		p.Settle(ctx, p.Lane.B, b)
		p.pass(p.Lane.A, held)
		if err := a.Wait(ctx); err != nil {
			return err
		}
		p.GiveUp(a)
		return p.meet(ctx, b)
	},
}
