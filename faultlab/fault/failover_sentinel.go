package fault

import (
	"context"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/faultlab/rig/gear"
	"lastitem/say/text"
	"lastitem/stack"
)

// splitBrain: the master is alive, and so is the victim's connection to it, but Sentinel, the replica and the other
// clients cannot reach it.
const splitBrain = "split-brain"

// FailoverSentinel is a failover that a real redis-sentinel makes: it detects that the master is down, elects itself,
// promotes the replica and publishes +switch-master. The lab's proxies follow that message, as a TCP proxy in front of
// Redis would: a client that asked Sentinel for the address would bypass the lab's proxies. The stock is in SQL.
var FailoverSentinel = Fault{
	Name: "failover-sentinel",
	Title: text.Of("a failover by a real redis-sentinel: the master dies, or is cut off from Sentinel and alive; the " +
		"stock is in SQL"),
	Cuts:     bothCuts,
	Variants: func(api.Mode) []string { return []string{nothingReplicated, replicatedSoFar, splitBrain} },
	AtEnd:    true,
	Happens:  func(m api.Mode, store api.Store) bool { return store == api.SQL && lockInRedis(m) },
	Lane:     gear.Equipment{Pair: stack.Redis, Sentinel: true},
	Strike: func(ctx context.Context, p *Play) error {
		await, err := p.Lane.Pair.AwaitSwitch(ctx)
		if err != nil {
			return err
		}
		if err := prepareSwitch(ctx, p); err != nil {
			return err
		}
		a, pass, err := p.begin(ctx)
		if err != nil {
			return err
		}
		followers := []*gear.Wires{p.Lane.B.Wires, p.Lane.C.Wires}
		if p.Variant != splitBrain {
			followers = append(followers, p.Lane.A.Wires)
			if err := killMaster(ctx, p); err != nil {
				return err
			}
		}
		if err := await.Done(ctx, followers...); err != nil {
			return err
		}
		p.Note(p.Lane.B, rig.FailedOver, "Sentinel has promoted the replica")
		return p.afterFailover(ctx, a, pass)
	},
}

// prepareSwitch does what must be done before the request begins.
func prepareSwitch(ctx context.Context, p *Play) error {
	if err := p.Lane.Pair.Replicated(ctx); err != nil {
		return err
	}
	switch p.Variant {
	case nothingReplicated:
		return p.Lane.Pair.Refuse(ctx)
	case splitBrain:
		p.Lane.Pair.Silence()
		p.Note(p.Lane.A, rig.Struck, "Sentinel and the replica cannot reach the master; A can")
	}
	return nil
}

// killMaster kills the master. If the variant says so, it first waits until the replica has everything.
func killMaster(ctx context.Context, p *Play) error {
	if p.Variant == replicatedSoFar {
		if err := p.Lane.Pair.Replicated(ctx); err != nil {
			return err
		}
	}
	p.Note(p.Lane.A, rig.Struck, "the master is killed")
	p.Lane.Pair.KillMaster()
	return nil
}
