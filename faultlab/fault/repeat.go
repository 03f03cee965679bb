package fault

import (
	"context"
	"strings"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/stack/wire"
)

// The suffixes of a variant in which a request about a reservation, its order or the stock is repeated with its key:
// while A is held or its command is on the way, or after A was killed.
const (
	twice = "-twice"
	dead  = "-crashed"
)

// repeated are the requests.
var repeated = []struct {
	name string
	rig.About
}{
	{cancelled, rig.About{Kind: rig.Cancel}},
	{"part-cancelled", rig.About{Kind: rig.Cancel, Part: 1}},
	{"cart-cancelled", rig.About{Kind: rig.Cancel, Cart: true}},
	{"line-cancelled", rig.About{Kind: rig.Cancel, Cart: true, Line: true}},
	{"limited-cancelled", rig.About{Kind: rig.Cancel, Limited: true}},
	{"cart-reserved", rig.About{Kind: rig.Reserve, Cart: true}},
	{"limited-reserved", rig.About{Kind: rig.Reserve, Limited: true}},
	{"extended", rig.About{Kind: rig.Extend}},
	{"extended-of-two", rig.About{Kind: rig.Extend, Extends: 2}},
	{"returned", rig.About{Kind: rig.Return}},
	{"part-returned", rig.About{Kind: rig.Return, Part: 1}},
	{"limited-returned", rig.About{Kind: rig.Return, Limited: true}},
	{"adjusted", rig.About{Kind: rig.Adjust}},
}

// withRepeated adds the variants with a suffix to those of a deduction, if the mode holds units.
func withRepeated(m api.Mode, suffix string, variants ...string) []string {
	for _, r := range repeated {
		if m.Reserves && (m.Cart || !r.Cart) {
			variants = append(variants, r.name+suffix)
		}
	}
	return variants
}

// asksRepeated is what the victim asks for in such a variant.
func asksRepeated(variant string) rig.About {
	name := strings.TrimSuffix(strings.TrimSuffix(variant, twice), dead)
	for _, r := range repeated {
		if r.name == name {
			return r.About
		}
	}
	return rig.About{}
}

// repeat holds the victim's request, or waits for its answer, does to A what strike does, has B sent the same request,
// lets A go on by pass, and has a last customer ask.
func (p *Play) repeat(ctx context.Context, strike, pass func(a *rig.Pending, held *wire.Hold) error) error {
	kind := p.About().Kind
	h, err := p.Reservations.First(ctx, rig.Long)
	if err != nil {
		return err
	}
	var a *rig.Pending
	var held *wire.Hold
	if p.A == nil {
		a = p.Reservations.Ask(p.Lane.A, kind, h, rig.Long)
		err = a.Wait(ctx)
	} else {
		a, held, err = p.Reservations.Hold(ctx, p.Lane.A, *p.A, kind, h, rig.Long)
	}
	if err == nil {
		err = strike(a, held)
	}
	if err != nil {
		return err
	}
	b := p.Reservations.Again(p.Lane.B, a)
	p.Settle(ctx, p.Lane.B, b)
	if err := pass(a, held); err != nil {
		return err
	}
	if err := answers(ctx, []*rig.Pending{a, b}); err != nil {
		return err
	}
	return p.buyLast(ctx, nil)
}

// unharmed is a strike, and a pass, that does nothing.
func unharmed(*rig.Pending, *wire.Hold) error { return nil }
