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

// The variants of a failover.
const (
	nothingReplicated = "nothing-replicated" // the link was cut before the request began
	replicatedSoFar   = "replicated-so-far"  // the link was cut when the request was held
	// nodeForgets: three of five nodes of a Redlock, all that the victim could reach, have granted it, and one of these
	// three fails over to a replica that never heard of it.
	nodeForgets = "node-forgets"
)

// unreachable are the nodes that the victim does not reach when one forgets, so that it has a bare majority.
var unreachable = []string{"redlock 4", "redlock 5"}

// Failover kills the Redis master at every point of a request, and promotes a replica that has not heard of it all.
var Failover = Fault{
	Name:  api.Failover,
	Title: text.Of("the Redis master dies before it has replicated, and the replica is promoted"),
	Cuts:  bothCuts,
	Variants: func(m api.Mode) []string {
		all := []string{nothingReplicated, replicatedSoFar}
		if slices.Contains(m.Needs, stack.Redlock) {
			all = append(all, nodeForgets)
		}
		return all
	},
	Skip: func(variant string, at rig.Position) bool {
		return variant == nodeForgets && slices.Contains(unreachable, at.Server)
	},
	AtEnd: true,
	Lane:  gear.Equipment{Pair: stack.Redis},
	Strike: func(ctx context.Context, p *Play) error {
		if err := prepareFailover(ctx, p); err != nil {
			return err
		}
		a, pass, err := p.begin(ctx)
		if err != nil {
			return err
		}
		p.Note(p.Lane.A, rig.FailedOver, p.Variant)
		if err := failover(ctx, p); err != nil {
			return err
		}
		return p.afterFailover(ctx, a, pass)
	},
}

// afterFailover makes B ask the promoted node while A is held, then lets A go on, and makes C ask when A and B have
// their answers: a lock that was replicated, and that nobody could release, is free when its TTL ends.
func (p *Play) afterFailover(ctx context.Context, a *rig.Pending, pass func()) error {
	b := p.Ask(p.Lane.B, p.NewKey())
	p.Settle(ctx, p.Lane.B, b)
	p.Over(p.Outlive)
	pass()
	return p.meet(ctx, a, b)
}

// prepareFailover does what must be done before the request begins.
func prepareFailover(ctx context.Context, p *Play) error {
	switch p.Variant {
	case nothingReplicated:
		return p.cutReplication(ctx, 1)
	case nodeForgets:
		p.Lane.A.Lose(unreachable...)
	}
	return nil
}

// failover strikes.
func failover(ctx context.Context, p *Play) error {
	switch p.Variant {
	case nodeForgets:
		return p.Lane.Forget(ctx, "redlock 3")
	case replicatedSoFar:
		if err := p.cutReplication(ctx, 1); err != nil {
			return err
		}
	}
	return p.Lane.Pair.Failover(ctx)
}

// cutReplication cuts n replicas off when all that happened is on them.
func (p *Play) cutReplication(ctx context.Context, n int) error {
	if n == 0 {
		return nil
	}
	if err := p.Lane.Pair.Replicated(ctx); err != nil {
		return err
	}
	return p.Lane.Pair.Cut(ctx, n)
}

// begin sends the victim's request and holds it, or waits for its answer where it is not to be held.
func (p *Play) begin(ctx context.Context) (a *rig.Pending, pass func(), err error) {
	if p.A == nil {
		a = p.Ask(p.Lane.A, p.NewKey())
		err = a.Wait(ctx)
		return a, func() {}, err
	}
	a, held, err := p.victim(ctx, p.NewKey())
	return a, func() { p.pass(p.Lane.A, held) }, err
}
