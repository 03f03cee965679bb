package fault

import (
	"context"

	"lastitem/contract/api"
	"lastitem/faultlab/rig/gear"
	"lastitem/say/text"
	"lastitem/stack"
)

// RedlockPromoted kills one of the five masters of a Redlock and promotes the replica of that master.
var RedlockPromoted = Fault{
	Name: "redlock-promoted",
	Title: text.Of("one of the five masters of a Redlock dies, and its replica is promoted, which has the lock or has " +
		"not"),
	Cuts: bothCuts,
	// If all five granted the lock, four still know it. After a bare majority, one promoted replica that lacks the lock is
	// enough to lose it.
	Variants: func(api.Mode) []string { return []string{allGranted, bareMajority, bareReplicated} },
	Skip:     skipUnreachable,
	AtEnd:    true,
	Happens:  needs(stack.Redlock),
	Lane:     gear.Equipment{Pair: forgetful},
	Strike: func(ctx context.Context, p *Play) error {
		if p.Variant != allGranted {
			p.Lane.A.Lose(unreachable...)
		}
		if p.Variant != bareReplicated {
			if err := p.cutReplication(ctx, 1); err != nil {
				return err
			}
		}
		return p.upset(ctx, forgetful+" dies, and its replica is promoted", func(ctx context.Context) error {
			if p.Variant == bareReplicated {
				if err := p.cutReplication(ctx, 1); err != nil {
					return err
				}
			}
			return p.Lane.Pair.Failover(ctx)
		})
	},
}

// bareReplicated is the control: bareMajority with a replica that has everything its master had when the victim was
// held.
const bareReplicated = "bare-majority-replicated"
