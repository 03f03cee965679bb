package fault

import (
	"context"

	"lastitem/faultlab/rig"
	"lastitem/internal/api"
)

// LateLock delivers a command that its sender has given up, and the sender lives: late-write seen from the lock. What arrives then may take
// a lock that nobody knows of, and that is kept alive by the session of a process that has forgotten it.
var LateLock = Fault{
	Name:   "late-lock",
	Title:  api.Text{En: "a lock is taken by a command that its sender has given up, and the sender lives on", Zh: "发送者已放弃的加锁命令事后才到，锁被加上，而发送者还活着"},
	Cuts:   []rig.Cut{rig.Severed},
	Ignore: "OLDA", // late-write is about these
	// Its essays say what a lock costs that nobody gives back until it expires; what never expires is stuck.
	Lane:    rig.Equipment{Expiry: true},
	Happens: always,
	Strike: func(ctx context.Context, p *Play) error {
		a, held, err := p.victim(ctx, p.NewKey())
		if err != nil {
			return err
		}
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
	},
}
