package handoff

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
)

// failoverWatch records that Redis may no longer be the server that granted the holds. A lost connection or a missing reply makes it suspect
// that: the server may have restarted empty, or a replica that does not know a lock may have taken over. When the server answers again, all
// holds that were confirmed before that are renewed at once. So a holder that has lost its lock learns it within a second, not only with its
// next regular renewal. Times are on the engine's clock.
type failoverWatch struct {
	epoch       time.Time
	suspectedAt atomic.Int64  // when a failover was last suspected
	confirmedAt atomic.Int64  // the last suspectedAt after which the holds were confirmed
	staleConns  atomic.Uint32 // how many connections the client's pool had discarded at the last reply
	stale       func() uint32 // how many it has; nil in a cluster
}

// confirmDelay is how long confirmIfSuspected waits before it renews the holds: a fault that breaks one connection breaks others.
const confirmDelay = 200 * time.Millisecond

// suspect records that there may have been a failover. After the next reply the holds are renewed.
func (d *failoverWatch) suspect() { d.suspectedAt.Store(int64(time.Since(d.epoch))) }

// noteReply handles the outcome of a request. In a cluster it does nothing, because the outcome says nothing about the other nodes. There the
// renewals themselves, which are repeated soon, and the subscribers notice.
func (e *Engine) noteReply(err error) {
	e.reportRights(err)
	switch {
	case e.publish == "SPUBLISH":
	case mayBeFailover(err):
		e.failover.suspect()
	case err == nil:
		// The client may have replaced a connection that the server has closed, although no call has failed.
		if stale := e.failover.stale(); e.failover.staleConns.Swap(stale) != stale {
			e.failover.suspect()
		}
		e.confirmIfSuspected()
	}
}

// mayBeFailover says whether err leaves open which server has the locks: no reply came, or the server said that it is not the master, or not
// ready.
func mayBeFailover(err error) bool {
	var said redis.Error
	switch {
	case err == nil || permanent(err):
		return false
	case !errors.As(err, &said):
		return true
	}
	return slices.ContainsFunc([]string{"READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN"}, func(prefix string) bool {
		return redis.HasErrorPrefix(err, prefix)
	})
}

// confirmIfSuspected renews the holds if a failover is suspected and no other reply has had them renewed.
func (e *Engine) confirmIfSuspected() {
	since, settled := e.failover.suspectedAt.Load(), e.failover.confirmedAt.Load()
	if since <= settled || !e.failover.confirmedAt.CompareAndSwap(settled, since) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.spawn(func() {
		_ = lock.Pause(context.Background(), confirmDelay, nil)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.confirmHolds(func(*contender) bool { return true })
	})
}

// confirmHolds renews the holds that concerns selects and that were confirmed before the last suspicion. The mutex is held.
func (e *Engine) confirmHolds(concerns func(*contender) bool) {
	var due []*contender
	since := time.Duration(e.failover.suspectedAt.Load())
	for _, c := range e.attempts {
		switch {
		case c.confirmedAt >= since || !concerns(c):
		case c.state == draining:
			e.reacquire(c, byTimer)
		case c.state == granted && !c.renewing: // a renewal in flight is repeated after its reply, see sendRenewal
			c.renewing = true
			e.schedule(&c.alarm, c.leaseEnd())
			due = append(due, c)
		}
	}
	e.renew(due)
}

// reconnected renews the holds of a node after a subscriber's connection to it was lost or replaced.
func (e *Engine) reconnected(at string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.failover.suspect()
	e.confirmHolds(func(c *contender) bool {
		node, _, err := e.subscriber.locate(context.Background(), c.key)
		return err != nil || node == at
	})
}
