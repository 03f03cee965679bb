package fault

import (
	"context"
	"slices"

	"lastitem/faultlab/rig"
	"lastitem/internal/api"
)

// LostReply breaks the connection after a server has executed a command and before its answer arrives.
var LostReply = Fault{
	Name:    "lost-reply",
	Title:   api.Text{En: "a server executes a command, and the connection breaks before the answer arrives", Zh: "服务器已执行命令，答复还没回来连接就断了"},
	Cuts:    []rig.Cut{rig.Answer},
	Happens: always,
	Lane:    rig.Equipment{Expiry: true},
	Strike: func(ctx context.Context, p *Play) error {
		a, held, err := p.victim(ctx, p.NewKey())
		if err != nil {
			return err
		}
		p.Note(p.Lane.A, rig.Broken, "")
		held.Drop(true)
		if err := a.Wait(ctx); err != nil {
			return err
		}
		p.Over(p.Outlive)
		return p.meet(ctx, a)
	},
}

// always is Happens of the hazards that can happen to every mode.
func always(api.Mode, api.Store) bool { return true }

// needs returns Happens of a hazard of one server: it can happen to the modes that need that server.
func needs(backend string) func(api.Mode, api.Store) bool {
	return func(m api.Mode, _ api.Store) bool { return slices.Contains(m.Needs, backend) }
}
