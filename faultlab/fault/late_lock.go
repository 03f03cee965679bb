package fault

import (
	"context"

	"lastitem/faultlab/rig"
	"lastitem/faultlab/rig/gear"
	"lastitem/say/text"
	"lastitem/stack/wire"
)

// LateLock delivers a command after its sender has given it up; the sender stays alive. It is late-write for lock
// commands: the late command may take a lock that no request knows of, and that the session of the sender's process
// keeps alive.
var LateLock = Fault{
	Name:   "late-lock",
	Title:  text.Of("a lock command arrives after its sender has given it up and takes the lock; the sender stays alive"),
	Cuts:   []rig.Cut{rig.Severed},
	Ignore: "OLDA", // late-write covers these
	// A lock that expires frees the product after its TTL, which the modes' pages describe; a lock that never expires is
	// stuck.
	Lane:    gear.Equipment{Expiry: true},
	Happens: always,
	Strike: holding(func(ctx context.Context, p *Play, a *rig.Pending, held *wire.Hold) error {
		p.Note(p.Lane.A, rig.Broken, "")
		held.Abandon()
		p.Settle(ctx, p.Lane.A, a)
		p.pass(p.Lane.A, held)
		if err := p.Lane.Quiesce(ctx); err != nil {
			return err
		}
		if err := a.Wait(ctx); err != nil {
			return err
		}
		p.Over(p.Outlive)
		return p.next(ctx)
	}),
}
