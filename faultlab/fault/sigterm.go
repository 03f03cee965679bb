package fault

import (
	"context"
	"time"

	"lastitem/faultlab/rig"
	"lastitem/say/text"
	"lastitem/stack/wire"
)

// SIGTERM asks the victim's process to shut down in the middle of a request, as every rolling deployment does. The
// replica must refuse new connections, finish the request, answer truthfully, and release its locks.
var SIGTERM = Fault{
	Name:  "sigterm",
	Title: text.Of("the process receives SIGTERM in the middle of a request and shuts down gracefully"),
	// To the process a command that has not arrived looks like one whose answer has not: one cut is enough.
	Cuts:    []rig.Cut{rig.Command},
	Happens: always,
	Strike: holding(func(ctx context.Context, p *Play, a *rig.Pending, held *wire.Hold) error {
		p.Note(p.Lane.A, rig.Terminated, "")
		if err := p.Lane.A.Terminate(ctx); err != nil {
			return err
		}
		p.pass(p.Lane.A, held)
		if err := a.Wait(ctx); err != nil {
			return err
		}
		if err := p.Lane.A.Ended(ctx); err != nil {
			return err
		}
		p.Note(p.Lane.A, rig.HasEnded, "")
		return p.freed(ctx)
	}),
}

// freeWithin bounds how long locks may stay held after their holder, alive, had the chance to release them.
const freeWithin = 5 * time.Second

// freed waits for the answers, and has C ask until it is served. It does not wait for a TTL: a living holder must have
// released its locks.
func (p *Play) freed(ctx context.Context, all ...*rig.Pending) error {
	if err := answers(ctx, all); err != nil {
		return err
	}
	p.Over(freeWithin)
	return p.AskAlone(ctx, p.Lane.C, freeWithin)
}
