package fault

import (
	"context"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/faultlab/rig/gear"
	"lastitem/say/text"
	"lastitem/stack"
)

// The variants of a failover of a master that refuses writes when it has too few replicas: when the link to the replica
// falls silent.
const (
	// inTheWindow: the link falls silent before the request begins, less than min-replicas-max-lag ago, so the master
	// still accepts writes.
	inTheWindow = "in-the-window"
	// afterTheLag: the link falls silent when the request is held, and the request goes on once the master refuses writes.
	afterTheLag = "after-the-lag"
)

// FailoverMinReplicas is Failover with a master that refuses writes if it has heard from no replica for
// min-replicas-max-lag. The stock is in SQL.
var FailoverMinReplicas = Fault{
	Name: "failover-min-replicas",
	Title: text.Of("a failover of a master with min-replicas-to-write 1: the link to its replica falls silent, the " +
		"master refuses writes after the lag, the replica is promoted; the stock is in SQL"),
	Cuts:     bothCuts,
	Variants: func(api.Mode) []string { return []string{inTheWindow, afterTheLag} },
	AtEnd:    true,
	Happens:  func(m api.Mode, store api.Store) bool { return store == api.SQL && lockInRedis(m) },
	Lane:     gear.Equipment{Pair: stack.Redis, Conf: "min-replicas-to-write 1;min-replicas-max-lag 10"},
	Strike: func(ctx context.Context, p *Play) error {
		if p.Variant == inTheWindow {
			return failoverInWindow(ctx, p)
		}
		a, pass, err := p.begin(ctx)
		if err != nil {
			return err
		}
		if err := silence(ctx, p); err != nil {
			return err
		}
		if err := p.Lane.Pair.AwaitRefusal(ctx); err != nil {
			return err
		}
		p.Note(p.Lane.A, rig.Struck, "the master refuses writes (NOREPLICAS)")
		pass()
		if err := a.Wait(ctx); err != nil {
			return err
		}
		if err := p.Ask(p.Lane.A, p.NewKey()).Wait(ctx); err != nil { // the old master grants no lock now
			return err
		}
		p.Note(p.Lane.A, rig.FailedOver, p.Variant)
		return p.replaceMaster(ctx, a, func() {})
	},
}

// failoverInWindow lets the victim take its lock while the link is silent and the master does not refuse writes yet.
func failoverInWindow(ctx context.Context, p *Play) error {
	if err := silence(ctx, p); err != nil {
		return err
	}
	a, pass, err := p.begin(ctx)
	if err != nil {
		return err
	}
	p.Note(p.Lane.A, rig.FailedOver, p.Variant)
	return p.replaceMaster(ctx, a, pass)
}

// silence waits until the replica has everything that the master has, and then makes the link between them drop
// everything.
func silence(ctx context.Context, p *Play) error {
	if err := p.Lane.Pair.Replicated(ctx); err != nil {
		return err
	}
	p.Lane.Pair.Silence()
	p.Note(p.Lane.A, rig.Struck, "the link to the replica falls silent")
	return nil
}
