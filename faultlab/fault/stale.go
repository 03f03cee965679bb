package fault

import (
	"context"
	"errors"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/say/text"
)

// restocked is the variant in which A was refused before, and a unit is added that the copy lacks.
const restocked = "restocked"

// Stale has a rival sell, and the victim's reads outside transactions answered by a copy of the database that lacks the
// rival's commit, up to each of them in turn, and all of them: a lag has no bound.
var Stale = Fault{
	Name: api.Stale,
	Title: text.Of("reads outside a transaction are answered by a replica that lacks what the rival has committed, up " +
		"to each of them"),
	Cuts:  []rig.Cut{rig.Copied},
	AtEnd: true,
	Variants: func(m api.Mode) []string {
		if m.Adjusts {
			return []string{"", lastItem, restocked}
		}
		return []string{"", lastItem}
	},
	// A request after a refusal reads something else than the traced one.
	Skip: func(variant string, at rig.Position) bool { return !at.Plain || variant == restocked },
	Strike: func(ctx context.Context, p *Play) error {
		if err := known(ctx, p); err != nil {
			return err
		}
		copied, err := p.Lane.SQL.Copy(ctx)
		if err != nil {
			return err
		}
		defer copied.Close()
		p.Note(p.Lane.A, rig.Struck, "a copy of the database is made")
		if err := commit(ctx, p); err != nil {
			return err
		}
		end, err := rig.ReadCopy(p.Scene, copied, p.A)
		if err != nil {
			return err
		}
		a := p.Ask(p.Lane.A, p.NewKey())
		if err := errors.Join(a.Wait(ctx), end()); err != nil {
			return err
		}
		return p.next(ctx)
	},
}

// known has A's replica know the product as sold out or, in the other variants, as not: it has refused or sold last.
func known(ctx context.Context, p *Play) error {
	if p.Variant == restocked {
		if err := p.Ask(p.Lane.B, p.NewKey()).Wait(ctx); err != nil {
			return err
		}
	}
	return p.Ask(p.Lane.A, p.NewKey()).Wait(ctx)
}

// commit has B commit what the copy lacks: a sale or, if the product is sold out, one more unit.
func commit(ctx context.Context, p *Play) error {
	if p.Variant == restocked {
		return p.Reservations.Adjust(p.Lane.B, 1).Wait(ctx)
	}
	return p.Ask(p.Lane.B, p.NewKey()).Wait(ctx)
}
