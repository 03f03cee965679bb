package fault

import (
	"context"
	"slices"

	"lastitem/faultlab/rig"
	"lastitem/internal/api"
)

// LostReply breaks the connection on which a server has just answered: the command was executed, and its sender never hears of it.
var LostReply = Fault{
	Name:    "lost-reply",
	Title:   api.Text{En: "a server has executed a command, and the connection breaks before its answer is back", Zh: "服务器已执行命令，答复还没回来连接就断了"},
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

// always is for hazards that can happen to every mode.
func always(api.Mode, api.Store) bool { return true }

// needs is for hazards of one server.
func needs(backend string) func(api.Mode, api.Store) bool {
	return func(m api.Mode, _ api.Store) bool { return slices.Contains(m.Needs, backend) }
}
