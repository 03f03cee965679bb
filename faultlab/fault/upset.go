package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/judge"
	"lastitem/stack"
)

// upset holds the victim, harms a server, makes a rival ask, and lets the victim go on when the rival is answered or
// blocked. ErrNotReached: all this took longer than the TTL, so the lock that the rival got may simply have expired.
func (p *Play) upset(ctx context.Context, note string, harm func(context.Context) error) error {
	began := time.Now()
	a, pass, err := p.begin(ctx)
	if err != nil {
		return err
	}
	p.Note(p.Lane.A, rig.Struck, note)
	if err := harm(ctx); err != nil {
		pass()
		return errors.Join(err, a.Wait(ctx))
	}
	p.Over(p.Outlive)
	b, err := p.rivalAfter(ctx)
	if err != nil {
		return err
	}
	took := time.Since(began)
	pass()
	if p.A != nil && took >= p.Lane.TTL {
		return errors.Join(fmt.Errorf("%w: the rival was answered %v after the victim asked, and the victim's lock may "+
			"have expired by then", rig.ErrNotReached, took),
			a.Wait(ctx), b.Wait(ctx))
	}
	return p.meet(ctx, a, b)
}

// recovery is how long a replica may take to reconnect to a server that has restarted.
const recovery = 5 * time.Second

// rivalAfter has B ask, and ask again while its replica answers backend_unavailable because it has not reconnected yet.
func (p *Play) rivalAfter(ctx context.Context) (*rig.Pending, error) {
	for end := time.Now().Add(recovery); ; {
		b := p.Ask(p.Lane.B, p.NewKey())
		if p.Settle(ctx, p.Lane.B, b) {
			return b, ctx.Err()
		}
		if op := b.Op(); op.Outcome != judge.Declined || op.Code != api.BackendUnavailable || time.Now().After(end) {
			return b, ctx.Err()
		}
	}
}

// lockInRedis says whether a mode has its lock in Redis and in no other service.
func lockInRedis(m api.Mode) bool {
	return slices.Contains(m.Needs, stack.Redis) && !slices.ContainsFunc(lockServices, func(s string) bool {
		return slices.Contains(m.Needs, s)
	})
}

// leased says whether a mode has a lease that may end before the work does.
func leased(m api.Mode, s api.Store) bool { return m.Claims[s][api.Slow] != api.NotApplicable }

// lockServices are the services other than Redis that may hold a lock.
var lockServices = []string{stack.Redlock, stack.ZooKeeper, stack.Etcd, stack.Consul}
