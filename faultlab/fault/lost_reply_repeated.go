package fault

import (
	"context"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/faultlab/rig/gear"
	"lastitem/judge"
	"lastitem/say/text"
	"lastitem/stack/wire"
)

// LostReplyRepeated is LostReply with a client that is told "outcome unknown" and sends its request again: with its
// idempotency key or, in one variant, without a key.
var LostReplyRepeated = Fault{
	Name: "lost-reply-repeated",
	Title: text.Of("the same; the client is told \"outcome unknown\" and sends the request again, with its idempotency " +
		"key or without one"),
	Cuts: []rig.Cut{rig.Answer},
	Variants: func(m api.Mode) []string {
		if keyOptional(m) {
			return withRepeated(m, twice, "", noKey)
		}
		return withRepeated(m, twice, "")
	},
	Asks: asksRepeated,
	// A request without a key sends other commands than the traced one; only the last, COMMIT, is the same.
	Skip:    func(variant string, at rig.Position) bool { return variant == noKey && at.Pattern != "COMMIT" },
	AtEnd:   true, // the answer to the client is lost
	Happens: always,
	Lane:    gear.Equipment{Expiry: true},
	Strike: func(ctx context.Context, p *Play) error {
		if p.About().Kind != "" {
			return p.repeat(ctx, func(a *rig.Pending, held *wire.Hold) error {
				if held != nil {
					p.Note(p.Lane.A, rig.Broken, "")
					held.Drop(true)
				}
				return a.Wait(ctx)
			}, unharmed)
		}
		key := p.keyOf()
		a, err := p.unanswered(ctx, key)
		if err != nil {
			return err
		}
		if a.Op().Outcome == judge.OK {
			return gear.ErrNothing // the client has nothing to repeat
		}
		if err := p.insist(ctx, key); err != nil {
			return err
		}
		p.Over(p.Outlive)
		if err := p.next(ctx); err != nil {
			return err
		}
		return p.countKeyless(ctx)
	},
}

// unanswered sends the victim's request, drops the server's answer at the position or the answer to the client, and
// returns when the client has given up.
func (p *Play) unanswered(ctx context.Context, key string) (*rig.Pending, error) {
	if p.A == nil {
		a := p.Ask(p.Lane.A, key)
		if err := a.Wait(ctx); err != nil {
			return nil, err
		}
		p.GiveUp(a)
		p.Note(p.Lane.A, rig.Lost, "")
		return a, nil
	}
	a, held, err := p.victim(ctx, key)
	if err != nil {
		return nil, err
	}
	p.Note(p.Lane.A, rig.Broken, "")
	held.Drop(true)
	err = a.Wait(ctx)
	return a, err
}
