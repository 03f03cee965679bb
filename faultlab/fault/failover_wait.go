package fault

import (
	"context"
	"slices"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/faultlab/rig/gear"
	"lastitem/say/text"
	"lastitem/stack"
)

// laggingReplica: one of two replicas has confirmed the lock, and the other one, which lags, is promoted.
const laggingReplica = "lagging-replica"

// FailoverWait is Failover with locks that are granted, and tickets that are told, only when one of two replicas has
// confirmed them (WAIT). The stock is in SQL, since WAIT covers the lock only.
var FailoverWait = Fault{
	Name: "failover-wait",
	Title: text.Of("a failover, where one of two replicas has confirmed every lock, and every ticket (WAIT 1); the " +
		"stock is in SQL"),
	Cuts:     bothCuts,
	Variants: func(api.Mode) []string { return []string{nothingReplicated, replicatedSoFar, laggingReplica} },
	// If replication is cut before the request, nobody gets a lock, and there is no later command to hold.
	Skip:  func(variant string, _ rig.Position) bool { return variant == nothingReplicated },
	AtEnd: true,
	Happens: func(m api.Mode, store api.Store) bool {
		return store == api.SQL && (slices.Contains(onEngine, m.Name) || m.Name == "redis-stream")
	},
	Lane: gear.Equipment{Pair: stack.Redis, Replicas: 2, Settings: "SHOP_LOCK_REPLICAS=1 SHOP_TICKET_REPLICAS=1"},
	Strike: func(ctx context.Context, p *Play) error {
		if err := p.cutReplication(ctx, map[string]int{nothingReplicated: 2, laggingReplica: 1}[p.Variant]); err != nil {
			return err
		}
		a, pass, err := p.begin(ctx)
		if err != nil {
			return err
		}
		p.Note(p.Lane.A, rig.FailedOver, p.Variant)
		if err := p.cutReplication(ctx, map[string]int{replicatedSoFar: 2}[p.Variant]); err != nil {
			return err
		}
		return p.replaceMaster(ctx, a, pass)
	},
}

// replaceMaster fails over and plays the schedule to its end. The promoted node gets replicas: without them it would
// grant no lock at all, whether or not it knows the lock.
func (p *Play) replaceMaster(ctx context.Context, a *rig.Pending, pass func()) error {
	if err := p.Lane.Pair.Failover(ctx); err != nil {
		return err
	}
	if err := p.Lane.Pair.Replicate(ctx); err != nil {
		return err
	}
	return p.afterFailover(ctx, a, pass)
}

// onEngine are the modes on the lock engine, which can wait for replicas to confirm a lock.
var onEngine = []string{"handoff", "fair", "rwlock", "global-lock", "multi-lock", "lease-seq", "idempotent"}
