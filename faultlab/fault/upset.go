package fault

import (
	"context"
	"slices"
	"time"

	"lastitem/faultlab/rig"
	"lastitem/internal/api"
	"lastitem/internal/audit"
	"lastitem/internal/localstack"
)

// upset holds the victim, does something to a server, has a rival served as far as it comes, and lets the victim go on.
func (p *Play) upset(ctx context.Context, note string, harm func(context.Context) error) error {
	a, pass, err := p.begin(ctx)
	if err != nil {
		return err
	}
	p.Note(p.Lane.A, rig.Struck, note)
	if err := harm(ctx); err != nil {
		return err
	}
	p.Over(p.Outlive)
	b, err := p.rivalAfter(ctx)
	if err != nil {
		return err
	}
	pass()
	return p.meet(ctx, a, b)
}

// recovery is how long a replica may be without a server that is there again: until its connections are made anew.
const recovery = 5 * time.Second

// rivalAfter has B ask. A request that is declined because the connections of its replica were lost is repeated.
func (p *Play) rivalAfter(ctx context.Context) (*rig.Pending, error) {
	for end := time.Now().Add(recovery); ; {
		b := p.Ask(p.Lane.B, p.NewKey())
		if p.Settle(ctx, p.Lane.B, b) {
			return b, ctx.Err()
		}
		if op := b.Op(); op.Outcome != audit.Declined || op.Code != api.BackendUnavailable || time.Now().After(end) {
			return b, ctx.Err()
		}
	}
}

// lockInRedis is for modes whose lock is in Redis, and nowhere else.
func lockInRedis(m api.Mode) bool {
	return slices.Contains(m.Needs, localstack.Redis) && !slices.ContainsFunc(lockServices, func(s string) bool { return slices.Contains(m.Needs, s) })
}

// lockServices are where a lock may be other than in Redis.
var lockServices = []string{localstack.Redlock, localstack.ZooKeeper, localstack.Etcd, localstack.Consul}
