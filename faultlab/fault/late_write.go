package fault

import (
	"context"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/faultlab/rig/gear"
	"lastitem/say/text"
	"lastitem/stack/wire"
)

// The variants of a late write.
const (
	noRival   = "no-rival"
	twoRivals = "two-rivals"
)

var rivals = map[string]int{noRival: 0, twoRivals: 2}

// LateWrite delivers a command after its sender has died, or has given it up because its connection broke, and after a
// rival was served: the network had it all the time.
var LateWrite = Fault{
	Name:  api.LateWrite,
	Title: text.Of("the sender gave up or is dead, and its write or COMMIT arrives after a rival was served"),
	Cuts:  []rig.Cut{rig.Command, rig.Severed},
	// With no rival in between it leaks, with one it may write what the rival has written, with two it takes back a sale.
	// A request about a reservation is repeated in between, and then the first one's write arrives.
	Variants: func(m api.Mode) []string { return withRepeated(m, twice, noRival, twoRivals) },
	Endings:  []string{cancelled + twice},
	Asks:     asksRepeated,
	// The lock of a dead holder is what crash is about.
	Ignore: "X",
	Lane:   gear.Equipment{Expiry: true},
	Strike: func(ctx context.Context, p *Play) error {
		if p.About().Kind != "" {
			return p.repeat(ctx, func(a *rig.Pending, held *wire.Hold) error {
				p.desert(ctx, a, held)
				return nil
			}, func(_ *rig.Pending, held *wire.Hold) error { return p.arrive(ctx, held) })
		}
		a, held, err := p.victim(ctx, p.NewKey())
		if err != nil {
			return err
		}
		p.desert(ctx, a, held)
		asked := []*rig.Pending{a}
		for range rivals[p.Variant] {
			b, err := p.rivalServed(ctx)
			if err != nil {
				return err
			}
			asked = append(asked, b)
		}
		if err := p.arrive(ctx, held); err != nil {
			return err
		}
		return p.meet(ctx, asked...)
	},
}

// desert takes the sender of a held command away: its connection breaks, or it is killed.
func (p *Play) desert(ctx context.Context, a *rig.Pending, held *wire.Hold) {
	if p.A.Cut == rig.Severed {
		p.Note(p.Lane.A, rig.Broken, "")
		held.Abandon()
		p.Settle(ctx, p.Lane.A, a)
		return
	}
	p.Note(p.Lane.A, rig.Killed, "")
	p.Lane.A.Kill()
}

// arrive lets the held command reach its server, and the victim's locks end.
func (p *Play) arrive(ctx context.Context, held *wire.Hold) error {
	p.pass(p.Lane.A, held)
	if err := p.Lane.Quiesce(ctx); err != nil {
		return err
	}
	if err := p.Lane.A.Discard(ctx); err != nil {
		return err
	}
	p.Over(p.Outlive)
	return nil
}
