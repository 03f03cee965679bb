package fault

import (
	"context"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/judge"
	"lastitem/say/text"
	"lastitem/stack/wire"
)

// cancelledTwice is the variant in which what is repeated is the cancel of a reservation.
const cancelledTwice = "cancelled-twice"

// Retry repeats a request with its key on another replica, because its client gave up waiting.
var Retry = Fault{
	Name:     api.Retry,
	Title:    text.Of("the client gives up and repeats the request with the same key"),
	Cuts:     bothCuts,
	AtEnd:    true,
	Variants: func(m api.Mode) []string { return withCancel(m, "") },
	Asks:     asksCancel,
	Strike: func(ctx context.Context, p *Play) error {
		if p.Variant == cancelledTwice {
			return cancelTwice(ctx, p)
		}
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

// withCancel adds the variant of a repeated cancel to those of a deduction, if the mode holds units.
func withCancel(m api.Mode, variants ...string) []string {
	if m.Reserves {
		variants = append(variants, cancelledTwice)
	}
	return variants
}

// asksCancel has the victim cancel a reservation in that variant.
func asksCancel(variant string) (about rig.About) {
	if variant == cancelledTwice {
		about.Kind = judge.Cancel
	}
	return about
}

// cancelTwice cancels a reservation on two replicas.
func cancelTwice(ctx context.Context, p *Play) error {
	h, err := p.Reservations.Reserve(ctx, p.Lane.B, rig.Long)
	if err != nil {
		return err
	}
	var a *rig.Pending
	pass := func() {}
	if p.A == nil {
		a = p.Reservations.Ask(p.Lane.A, judge.Cancel, h, 0)
		err = a.Wait(ctx)
	} else {
		var held *wire.Hold
		a, held, err = p.Reservations.Hold(ctx, p.Lane.A, *p.A, judge.Cancel, h)
		pass = func() { p.pass(p.Lane.A, held) }
	}
	if err != nil {
		return err
	}
	b := p.Reservations.Ask(p.Lane.B, judge.Cancel, h, 0)
	p.Settle(ctx, p.Lane.B, b)
	pass()
	if err := answers(ctx, []*rig.Pending{a, b}); err != nil {
		return err
	}
	return p.buyLast(ctx, nil)
}
