package fault

import (
	"cmp"
	"context"
	"errors"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/judge"
	"lastitem/say/text"
)

// Threads lets a second request run on the same replica while the first one is held.
var Threads = Fault{
	Name:  api.Threads,
	Title: text.Of("a second request on the same replica, at every point of the first"),
	Cuts:  bothCuts, Variants: enoughAndLast, Endings: endings, Asks: asksRace, Pairs: true,
	Strike: func(ctx context.Context, p *Play) error { return interleave(ctx, p, p.Lane.A) },
}

// Replicas lets a request run on another replica.
var Replicas = Fault{
	Name:  api.Replicas,
	Title: text.Of("a request on another replica, at every point of the first"),
	Cuts:  bothCuts, Endings: endings, Asks: asksRace, Pairs: true,
	Variants: func(m api.Mode) []string {
		if m.Adjusts {
			return append(enoughAndLast(m), added, taken)
		}
		return enoughAndLast(m)
	},
	Strike: func(ctx context.Context, p *Play) error { return interleave(ctx, p, p.Lane.B) },
}

// The variants in which C adjusts the stock of one unit, while the first request is held.
const (
	added = "added"
	taken = "taken"
)

var adjusting = map[string]int64{added: 1, taken: -1}

// The variants in which an order of somebody's service is ended twice at once.
const (
	cancelled        = "cancelled"         // the rival cancels it too
	cancelledShipped = "cancelled-shipped" // the rival ships it
	shippedCancelled = "shipped-cancelled" // A ships it, and the rival cancels it
)

var endings = []string{cancelled, cancelledShipped, shippedCancelled}

// races are the variants in which both requests reserve, or end an order.
var races = map[string]rig.About{
	"cart":    {Kind: rig.Reserve, Cart: true},
	"limited": {Kind: rig.Reserve, Limited: true}, // both for one buyer

	cancelled:        {Kind: rig.Cancel},
	cancelledShipped: {Kind: rig.Cancel},
	shippedCancelled: {Kind: rig.Ship},
}

// rivalAsks is what the rival asks for, where it is not what A asks for.
var rivalAsks = map[string]rig.Kind{cancelledShipped: rig.Ship, shippedCancelled: rig.Cancel}

func asksRace(variant string) rig.About { return races[variant] }

// enoughAndLast are the variants of a fault that is about the stock's amount.
func enoughAndLast(m api.Mode) []string {
	variants := []string{"", lastItem}
	if m.Reserves {
		variants = append(variants, "limited")
	}
	if m.Reserves && m.Cart {
		variants = append(variants, "cart")
	}
	return variants
}

// interleave holds A, lets the rival run as far as it can, and lets A go on. A rival that was turned away may have
// broken something for the next one: a second rival asks after it.
func interleave(ctx context.Context, p *Play, rival *rig.Actor) (err error) {
	if p.About().Kind != "" {
		return race(ctx, p, rival)
	}
	a, held, err := p.victim(ctx, p.NewKey())
	if err != nil {
		return err
	}
	if units := adjusting[p.Variant]; units != 0 {
		c := p.Reservations.Adjust(p.Lane.C, units)
		p.Settle(ctx, p.Lane.C, c)
		defer func() { err = errors.Join(err, c.Wait(ctx)) }()
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

// race holds A while it reserves, or ends an order, and has the rival do so.
func race(ctx context.Context, p *Play, rival *rig.Actor) error {
	h, err := p.Reservations.First(ctx, rig.Long)
	if err != nil {
		return err
	}
	kind := p.About().Kind
	a, held, err := p.Reservations.Hold(ctx, p.Lane.A, *p.A, kind, h, rig.Long)
	if err != nil {
		return err
	}
	b := p.Reservations.Ask(rival, cmp.Or(rivalAsks[p.Variant], kind), h, rig.Long)
	p.Settle(ctx, rival, b)
	p.pass(p.Lane.A, held)
	if err := answers(ctx, []*rig.Pending{a, b}); err != nil {
		return err
	}
	return p.buyLast(ctx, nil)
}
