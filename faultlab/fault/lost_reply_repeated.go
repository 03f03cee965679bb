package fault

import (
	"context"

	"lastitem/faultlab/rig"
	"lastitem/internal/api"
	"lastitem/internal/audit"
)

// LostReplyRepeated is LostReply with a client that does not take "unknown" for an answer: it sends its request again, with its key or, where
// there is none, without.
var LostReplyRepeated = Fault{
	Name: "lost-reply-repeated",
	Title: api.Text{
		En: "the same, and the client, who is told \"outcome unknown\", sends the request again, with its idempotency key or without one",
		Zh: "同上，客户端得到“结果未知”后又把请求发了一遍，带着幂等键，或者没有幂等键",
	},
	Cuts: []rig.Cut{rig.Answer},
	Variants: func(m api.Mode) []string {
		if keyOptional(m) {
			return []string{"", noKey}
		}
		return []string{""}
	},
	Happens: always,
	Lane:    rig.Equipment{Expiry: true},
	Strike: func(ctx context.Context, p *Play) error {
		key := p.keyOf()
		a, held, err := p.victim(ctx, key)
		if err != nil {
			return err
		}
		p.Note(p.Lane.A, rig.Broken, "")
		held.Drop(true)
		if err := a.Wait(ctx); err != nil {
			return err
		}
		if a.Op().Outcome == audit.OK {
			return rig.ErrNothing // the client has nothing to repeat
		}
		if err := p.insist(ctx, key); err != nil {
			return err
		}
		p.Over(p.Outlive)
		if err := p.next(ctx); err != nil {
			return err
		}
		return p.countKeyless(ctx)
	},
}
