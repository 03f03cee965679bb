package fault

import (
	"context"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/faultlab/rig/gear"
	"lastitem/judge"
	"lastitem/say/text"
)

// The variants of a redelivery: what becomes of A, which was given two tickets, while C takes them over.
const (
	consumerKilled = "killed"     // A is killed
	twoConsumers   = "two"        // A goes on when C is done
	lastTry        = "last-try"   // the same, and A tries one of the tickets for the last time, so that C gives it up
	refusedOrder   = "poisoned"   // and the database refuses its order
	reconciled     = "reconciled" // as two, and C compares Redis with SQL while A is held
)

var redelivered = map[string]rig.About{
	consumerKilled: {Kind: rig.TurnDue, Batch: true},
	twoConsumers:   {Kind: rig.TurnDue, Batch: true},
	reconciled:     {Kind: rig.TurnDue, Batch: true},
	lastTry:        {Kind: rig.TurnDue, Batch: true, LastTry: true},
	refusedOrder:   {Kind: rig.TurnDue, Batch: true, LastTry: true, Refused: true},
}

// Redelivery delivers tickets a second time, to C, while A, which was given them, is held at each command of its turn.
// Customers then buy what is left, so that a count that promises too much, or too little, is met.
var Redelivery = Fault{
	Name: api.Redelivery,
	Title: text.Of("a consumer is killed or slow at every point of its turn, and another one is given what it was " +
		"given"),
	Cuts: bothCuts,
	Variants: func(api.Mode) []string {
		return []string{consumerKilled, twoConsumers, lastTry, refusedOrder, reconciled}
	},
	Asks: func(variant string) rig.About { return redelivered[variant] },
	// To be killed before the next command is the same for everybody else.
	Skip: func(variant string, at rig.Position) bool { return variant == consumerKilled && at.Cut == rig.Answer },
	Lane: gear.Equipment{Consume: true},
	Strike: func(ctx context.Context, p *Play) error {
		held, err := p.Tickets.Hold(ctx, p.Lane.A, *p.A)
		if err == nil && p.Variant == consumerKilled {
			err = p.kill(ctx, held)
		}
		if err != nil {
			return err
		}
		if _, err := p.buys(ctx); err != nil { // by C, whose consumer it wakes
			return err
		}
		if p.Variant == reconciled {
			if err := p.Tickets.Compare(ctx); err != nil {
				return err
			}
		}
		p.Note(p.Lane.C, rig.Struck, "what A was given is overdue")
		if _, err := p.Tickets.TakeOver(ctx); err != nil {
			return err
		}
		if err := p.Tickets.Hear(ctx); err != nil {
			return err
		}
		if p.Variant != consumerKilled {
			p.pass(p.Lane.A, held)
			if err := p.Reservations.FollowSweep(ctx, p.Lane.A, nil, nil); err != nil {
				return err
			}
		}
		for range rig.Stock {
			if left, err := p.buys(ctx); err != nil || !left {
				return err
			}
		}
		return nil
	},
}

// buys has C ask, and says whether it was sold.
func (p *Play) buys(ctx context.Context) (sold bool, err error) {
	c := p.Ask(p.Lane.C, p.NewKey())
	err = c.Wait(ctx)
	return err == nil && c.Op().Outcome == judge.OK, err
}
