package fault

import (
	"context"
	"slices"

	"lastitem/faultlab/rig"
	"lastitem/internal/api"
)

// FailoverWait is Failover with locks that are granted only when a replica has confirmed them (WAIT). The stock is in SQL, since WAIT covers
// the lock only.
var FailoverWait = Fault{
	Name:     "failover-wait",
	Title:    api.Text{En: "a failover, where a replica has confirmed every lock (WAIT); the stock is in SQL", Zh: "主从切换，但每次加锁都经从节点确认（WAIT）；库存在 SQL 里"},
	Cuts:     bothCuts,
	Variants: func(api.Mode) []string { return []string{nothingReplicated, replicatedSoFar} },
	// If replication is cut before the request, nobody gets a lock, and there is no later command to hold.
	Skip:    func(variant string, _ rig.Position) bool { return variant == nothingReplicated },
	AtEnd:   true,
	Happens: func(m api.Mode, store api.Store) bool { return store == api.SQL && slices.Contains(onEngine, m.Name) },
	Ignore:  Failover.Ignore,
	Lane:    rig.Equipment{Pair: true, Settings: "SHOP_LOCK_REPLICAS=1"},
	Strike: func(ctx context.Context, p *Play) error {
		if p.Variant == nothingReplicated {
			if err := p.cutReplication(ctx); err != nil {
				return err
			}
		}
		a, pass, err := p.begin(ctx)
		if err != nil {
			return err
		}
		p.Note(p.Lane.A, rig.FailedOver, p.Variant)
		if p.Variant == replicatedSoFar {
			if err := p.cutReplication(ctx); err != nil {
				return err
			}
		}
		if err := p.Lane.Failover(ctx); err != nil {
			return err
		}
		// The promoted node gets a replica. Without one it would grant no lock at all, whether or not it knows the lock.
		if err := p.Lane.Replicate(ctx); err != nil {
			return err
		}
		b := p.Ask(p.Lane.B, p.NewKey())
		p.Settle(ctx, p.Lane.B, b)
		pass()
		for _, one := range []*rig.Pending{a, b} {
			if err := one.Wait(ctx); err != nil {
				return err
			}
		}
		return p.Ask(p.Lane.C, p.NewKey()).Wait(ctx)
	},
}

// onEngine are the modes on the lock engine, which can wait for replicas to confirm a lock.
var onEngine = []string{"handoff", "fair", "rwlock", "global-lock", "multi-lock", "lease-seq", "idempotent"}
