package fault

import (
	"context"
	"slices"
	"strings"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/faultlab/rig/gear"
	"lastitem/say/text"
	"lastitem/stack/wire"
)

// SecondWrite is the timeline t0 to t6 of the write-ups on fencing tokens. A has written once with its token; its
// process stops; its lock expires; B gets the lock with a higher token; and A writes a second time with its old token,
// before or after B. No mode writes twice, so the lab makes the first write in A's name, with A's token, when A reaches
// its own write.
var SecondWrite = Fault{
	Name: "second-write",
	Title: text.Of("a holder that has already written once with its fencing token stops past the TTL (SIGSTOP) and " +
		"writes again with the same token, after a rival has got a higher one"),
	Cuts:  []rig.Cut{rig.Command},
	Rival: true,
	Skip: func(_ string, at rig.Position) bool {
		return !strings.HasPrefix(at.Pattern, "UPDATE product_stock SET stock = ")
	},
	Happens: func(m api.Mode, store api.Store) bool { return store == api.SQL && slices.Contains(fenced, m.Name) },
	Lane:    gear.Equipment{Expiry: true},
	Strike: holding(func(ctx context.Context, p *Play, a *rig.Pending, held *wire.Hold) error {
		if err := p.Lane.WriteFence(ctx); err != nil {
			return p.spare(ctx, a, held, err)
		}
		p.Note(p.Lane.A, rig.Struck, "the row has seen A's token: A has written once")
		if err := p.Lane.A.Pause(ctx); err != nil {
			return err
		}
		p.Note(p.Lane.A, rig.Paused, "")
		return p.rivalHeld(ctx, p.Lane.B, a, p.Outlive, func() error {
			p.Note(p.Lane.A, rig.Resumed, "")
			p.pass(p.Lane.A, held)
			return p.Lane.A.Resume()
		})
	}),
}

// fenced are the modes in which the row checks the token.
var fenced = []string{"fencing", "fencing-read", "fencing-strict"}
