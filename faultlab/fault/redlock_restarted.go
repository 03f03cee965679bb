package fault

import (
	"context"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/faultlab/rig/gear"
	"lastitem/say/text"
	"lastitem/stack"
)

// The variants: which nodes the victim reaches, and how one forgets.
const (
	allGranted   = "all-granted"   // the victim reaches all five nodes
	bareMajority = "bare-majority" // it reaches three, of which one restarts
	// replaced: the victim reaches three, and one of them is replaced by an empty node.
	replaced = "replaced"
)

// forgetful is the node that forgets. The victim reaches it in every variant.
const forgetful = "redlock 3"

// lockServers are the servers that a lane needs for itself to play faults of a lock server.
const lockServers = stack.Redis + ",redlock 1,redlock 2," + forgetful

// RedlockRestarted kills one of five nodes and restarts it without its data, or replaces it by an empty one.
var RedlockRestarted = Fault{
	Name:     "redlock-restarted-empty",
	Title:    text.Of("one of the five nodes of a Redlock restarts empty, or is replaced by an empty one"),
	Cuts:     bothCuts,
	Variants: func(api.Mode) []string { return []string{allGranted, bareMajority, replaced} },
	Skip:     skipUnreachable,
	AtEnd:    true,
	Happens:  needs(stack.Redlock),
	Lane:     gear.Equipment{Own: lockServers},
	Strike:   restartNode,
}

// RedlockGuarded is RedlockRestarted with nodes that grant no lock for one TTL after a restart.
var RedlockGuarded = Fault{
	Name:     "redlock-restart-guarded",
	Title:    text.Of("the same with the restart guard: a restarted node grants no lock for one TTL"),
	Cuts:     bothCuts,
	Variants: RedlockRestarted.Variants,
	Skip:     skipUnreachable,
	AtEnd:    true,
	Happens:  needs(stack.Redlock),
	Lane:     gear.Equipment{Expiry: true, Own: lockServers, Settings: "SHOP_REDLOCK_GUARD={{ttl}}"},
	Strike: func(ctx context.Context, p *Play) error {
		if err := p.Lane.Own.OutOfGuard(ctx, forgetful); err != nil {
			return err
		}
		return restartNode(ctx, p)
	},
}

// skipUnreachable says whether a position is on a node that the victim cannot reach in this variant.
func skipUnreachable(variant string, at rig.Position) bool {
	return variant != allGranted && (at.Server == unreachable[0] || at.Server == unreachable[1])
}

func restartNode(ctx context.Context, p *Play) error {
	if p.Variant != allGranted {
		p.Lane.A.Lose(unreachable...)
	}
	if p.Variant == replaced {
		return p.upset(ctx, forgetful+" is replaced by an empty one", func(ctx context.Context) error {
			return p.Lane.Forget(ctx, forgetful)
		})
	}
	return p.upset(ctx, forgetful+" is killed, and starts again empty", func(ctx context.Context) error {
		return p.Lane.Own.Restart(ctx, forgetful)
	})
}
