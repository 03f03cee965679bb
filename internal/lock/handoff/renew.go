package handoff

import (
	"container/heap"
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
)

// keeper keeps the holds of an engine alive, all of them with one timer. It also suspects that Redis is no longer the
// server that granted them, because of a lost connection or a missing reply: the server may have restarted empty, or a
// replica that does not know a lock may have taken over. When the server answers again, all holds that were confirmed
// before that are renewed at once. So a holder that has lost its lock learns it within a second, not only with its next
// regular renewal. Times are on the engine's clock.
type keeper struct {
	e           *Engine
	suspectedAt atomic.Int64  // when a failover was last suspected
	confirmedAt atomic.Int64  // the last suspectedAt after which the holds were confirmed
	staleConns  atomic.Uint32 // how many connections the client's pool had discarded at the last reply
	stale       func() uint32 // how many it has; nil in a cluster
}

// confirmDelay is how long confirmIfSuspected waits before it renews the holds: a fault that breaks one connection
// breaks others.
const confirmDelay = 200 * time.Millisecond

// suspect records that there may have been a failover. After the next reply the holds are renewed.
func (k *keeper) suspect() { k.suspectedAt.Store(int64(k.e.now())) }

// noteReply handles the outcome of a request. In a cluster it does nothing, because the outcome says nothing about the
// other nodes. There the renewals themselves, which are repeated soon, and the subscribers notice.
func (k *keeper) noteReply(err error) {
	k.e.log.reportRights(err)
	switch {
	case k.e.server.cluster():
	case mayBeFailover(err):
		k.suspect()
	case err == nil:
		// The client may have replaced a connection that the server has closed, although no call has failed.
		if stale := k.stale(); k.staleConns.Swap(stale) != stale {
			k.suspect()
		}
		k.confirmIfSuspected()
	}
}

// mayBeFailover says whether err leaves open which server has the locks: no reply came, or the server said that it is
// not the master, or not ready.
func mayBeFailover(err error) bool {
	var said redis.Error
	switch {
	case err == nil || permanent(err):
		return false
	case !errors.As(err, &said):
		return true
	}
	return beginsWith(err, "READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN")
}

// confirmIfSuspected renews the holds if a failover is suspected and no other reply has had them renewed.
func (k *keeper) confirmIfSuspected() {
	since, settled := k.suspectedAt.Load(), k.confirmedAt.Load()
	if since <= settled || !k.confirmedAt.CompareAndSwap(settled, since) {
		return
	}
	e := k.e
	e.mu.Lock()
	defer e.mu.Unlock()
	e.spawn(func() {
		_ = lock.Pause(context.Background(), confirmDelay, nil)
		e.mu.Lock()
		defer e.mu.Unlock()
		k.confirmHolds(func(*contender) bool { return true })
	})
}

// confirmHolds renews the holds that concerns selects and that were confirmed before the last suspicion. The mutex is
// held.
func (k *keeper) confirmHolds(concerns func(*contender) bool) {
	var due []*contender
	since := time.Duration(k.suspectedAt.Load())
	for _, c := range k.e.attempts {
		switch {
		case c.confirmedAt >= since || !concerns(c):
		case c.state == draining:
			c.reacquire(byTimer)
		case c.state == granted && !c.renewing: // a renewal in flight is repeated after its reply, see send
			c.renewing = true
			k.e.agenda.schedule(&c.alarm, c.leaseEnd())
			due = append(due, c)
		}
	}
	k.renew(due)
}

// reconnected renews the holds of a node after a subscriber's connection to it was lost or replaced.
func (k *keeper) reconnected(at string) {
	e := k.e
	e.mu.Lock()
	defer e.mu.Unlock()
	k.suspect()
	k.confirmHolds(func(c *contender) bool {
		node, _, err := e.subscriber.locate(context.Background(), c.key)
		return err != nil || node == at
	})
}

// renewDue makes the renewals that are due, and those that are due soon, so that many locks share a command. The mutex
// is held.
func (k *keeper) renewDue(now time.Duration) {
	var due, later []*contender
	g := &k.e.agenda
	for len(g.renewals) > 0 && g.renewals[0].at <= now+k.e.o.TTL/10 {
		a, _ := heap.Pop(&g.renewals).(*alarm)
		switch c := a.contender; {
		case c.renewing && c.leaseEnd() > now: // it was passed on within this process since the alarm was set
			a.at = c.leaseEnd()
			later = append(later, c)
		case a.at-now > (c.validUntil-a.at)/6 && c.leaseEnd() > now:
			later = append(later, c)
		case c.leaseEnd() <= now:
			c.leaseLost()
		default:
			c.renewing, a.at = true, c.leaseEnd()
			due, later = append(due, c), append(later, c)
		}
	}
	for _, c := range later {
		g.schedule(&c.alarm, c.alarm.at)
	}
	k.renew(due)
}

// renewRest is the longest pause before a renewal that was not answered is sent again.
const renewRest = 500 * time.Millisecond

// renewSize is how many locks one renewal command keeps alive; a hundred occupy the server for about 0.13 ms.
const renewSize = 100

// group names the command that a renewal shares: in a cluster there is one for each hash tag, and readers have their
// own. A lock with a lease time has a command to itself.
func (k *keeper) group(c *contender) (name string) {
	if k.e.server.cluster() {
		name = hashed(c.key)
	}
	if c.lease > 0 {
		name += " " + c.token
	}
	if c.mode == reading {
		return "r" + name
	}
	return "w" + name
}

// renew sends the renewals.
func (k *keeper) renew(due []*contender) {
	e := k.e
	slices.SortFunc(due, func(a, b *contender) int { return strings.Compare(k.group(a), k.group(b)) })
	for len(due) > 0 {
		n := 1
		for n < min(len(due), renewSize) && k.group(due[0]) == k.group(due[n]) {
			n++
		}
		batch, tokens, notes := slices.Clone(due[:n]), make([]string, n), []string(nil)
		limit := min(e.o.TTL/3, e.o.CallTimeout)
		for i, c := range batch {
			tokens[i] = c.token
			if c.grantNoted {
				notes = append(notes, KeysOf(c.key).Fence)
			}
			// after a grant by message: another try must be in time; MaxHold needs no hurry
			if left := c.validUntil - e.now(); left < limit {
				limit = left / 2
			}
		}
		due = due[n:]
		e.spawn(func() { k.send(batch, tokens, notes, limit) })
	}
}

func (k *keeper) send(batch []*contender, tokens, notes []string, limit time.Duration) {
	e, r := k.e, newRequest(batch[0].mode.scripts().renew)
	for _, c := range batch {
		r.key(c.mode.heldKey(c.key))
	}
	r.key(notes...).add(batch[0].renewal()).add(tokens...)
	r.limit = limit
	e.server.do(r)
	v, _ := r.reply.([]any)
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, c := range batch {
		switch {
		case c.token != tokens[i] || c.state != granted: // released meanwhile
			continue
		case r.err != nil || i >= len(v):
			e.log.report(renewalFailed, c.key, r.err)
			e.agenda.schedule(&c.alarm, min(e.now()+min(e.o.TTL/10, renewRest), c.leaseEnd()))
		case number(v[i]) == 0 || !c.extend(c.renewed(r.sent)):
			c.leaseLost()
			continue
		default:
			c.confirmedAt, c.grantNoted = r.sent, false
			next := c.renewAt(r.sent, c.ttl())
			if r.sent < time.Duration(k.suspectedAt.Load()) { // a connection was lost after it was sent
				next = e.now()
			}
			e.agenda.schedule(&c.alarm, next)
		}
		c.renewing = false
	}
}
