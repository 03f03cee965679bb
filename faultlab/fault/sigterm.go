package fault

import (
	"context"
	"time"

	"lastitem/faultlab/rig"
	"lastitem/internal/api"
)

// SIGTERM tells the victim to end, as every rolling deployment does, while a request is in the middle of its work. The replica must turn new
// clients away, finish the request, answer the truth, and leave nothing locked behind.
var SIGTERM = Fault{
	Name:  "sigterm",
	Title: api.Text{En: "the process is told to end (SIGTERM) in the middle of a request, and does, in its own time", Zh: "请求办到一半时进程收到 SIGTERM，善后之后自行退出"},
	// The process cannot tell a command that has not arrived from one whose answer has not: one cut is enough.
	Cuts:    []rig.Cut{rig.Command},
	Happens: always,
	Strike: func(ctx context.Context, p *Play) error {
		a, held, err := p.victim(ctx, p.NewKey())
		if err != nil {
			return err
		}
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
	},
}

// freeWithin is how soon all must be free that a process held which lived to let it go.
const freeWithin = 5 * time.Second

// freed waits for answers, and has C ask until it is served. No TTL is waited for: whoever was alive has released what it held.
func (p *Play) freed(ctx context.Context, all ...*rig.Pending) error {
	for _, one := range all {
		if err := one.Wait(ctx); err != nil {
			return err
		}
	}
	p.Over(freeWithin)
	return p.AskAlone(ctx, p.Lane.C, freeWithin)
}
