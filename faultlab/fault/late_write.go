package fault

import (
	"context"

	"lastitem/faultlab/rig"
	"lastitem/internal/api"
	"lastitem/internal/text"
	"lastitem/internal/wire"
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
	Variants: func(api.Mode) []string { return []string{noRival, twoRivals} },
	// The lock of a dead holder is what crash is about.
	Ignore: "X",
	Lane:   rig.Equipment{Expiry: true},
	Strike: holding(func(ctx context.Context, p *Play, a *rig.Pending, held *wire.Hold) error {
		if p.A.Cut == rig.Severed {
			p.Note(p.Lane.A, rig.Broken, "")
			held.Abandon()
			p.Settle(ctx, p.Lane.A, a)
		} else {
			p.Note(p.Lane.A, rig.Killed, "")
			p.Lane.A.Kill()
		}
		asked := []*rig.Pending{a}
		for range rivals[p.Variant] {
			b, err := p.AskUntilServed(ctx, p.Lane.B, p.Outlive)
			if err != nil {
				return err
			}
			asked = append(asked, b)
		}
		p.pass(p.Lane.A, held)
		if err := p.Lane.Quiesce(ctx); err != nil {
			return err
		}
		if err := p.Lane.A.Discard(ctx); err != nil {
			return err
		}
		p.Over(p.Outlive)
		return p.meet(ctx, asked...)
	}),
}
