package fault

import (
	"context"

	"lastitem/faultlab/rig"
	"lastitem/internal/api"
	"lastitem/internal/localstack"
)

// The variants of a node that restarts: what the victim has of the others.
const (
	allGranted   = "all-granted"   // the victim reaches all five nodes
	bareMajority = "bare-majority" // it reaches three, of which one restarts
	// replaced: it reaches three, and one of them is replaced by a node that never heard of the lock.
	replaced = "replaced"
)

// forgetful is the node that forgets. The victim reaches it in every variant.
const forgetful = "redlock 3"

// lockServers are the servers of the lane's own that faults of a lock server need.
const lockServers = localstack.Redis + ",redlock 1,redlock 2," + forgetful

// RedlockRestarted kills one of five nodes and starts it again without its data.
var RedlockRestarted = Fault{
	Name:     "redlock-restarted-empty",
	Title:    api.Text{En: "one of the five nodes of a Redlock starts again empty, or is replaced by an empty one", Zh: "红锁五个节点之一空着重启，或被换成一个空节点"},
	Cuts:     bothCuts,
	Variants: func(api.Mode) []string { return []string{allGranted, bareMajority, replaced} },
	Skip:     skipUnreachable,
	AtEnd:    true,
	Happens:  needs(localstack.Redlock),
	Lane:     rig.Equipment{Own: lockServers},
	Strike:   restartNode,
}

// RedlockGuarded is the same with nodes that grant nothing for a while after a restart.
var RedlockGuarded = Fault{
	Name:     "redlock-restart-guarded",
	Title:    api.Text{En: "the same with the restart guard: a node that was restarted grants nothing for one TTL", Zh: "同上，但有重启保护：重启过的节点在一个 TTL 内不给任何人加锁"},
	Cuts:     bothCuts,
	Variants: RedlockRestarted.Variants,
	Skip:     skipUnreachable,
	AtEnd:    true,
	Happens:  needs(localstack.Redlock),
	Lane:     rig.Equipment{Expiry: true, Own: lockServers, Settings: "SHOP_REDLOCK_GUARD={{ttl}}"},
	Strike: func(ctx context.Context, p *Play) error {
		if err := p.Lane.OutOfGuard(ctx, forgetful); err != nil {
			return err
		}
		return restartNode(ctx, p)
	},
}

// skipUnreachable says that the victim sends nothing to nodes that it does not reach.
func skipUnreachable(variant string, at rig.Position) bool {
	return variant != allGranted && (at.Server == unreachable[0] || at.Server == unreachable[1])
}

func restartNode(ctx context.Context, p *Play) error {
	if p.Variant != allGranted {
		p.Lane.A.Lose(unreachable...)
	}
	if p.Variant == replaced {
		return p.upset(ctx, forgetful+" is replaced by an empty one", func(ctx context.Context) error { return p.Lane.Forget(ctx, forgetful) })
	}
	return p.upset(ctx, forgetful+" is killed, and starts again empty", func(ctx context.Context) error { return p.Lane.Restart(ctx, forgetful) })
}
