package handoff

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock/lease"
)

// doubt records that Redis may no longer be the server that granted the holds. A lost connection or a missing answer raises a doubt: the
// server may have restarted empty, or a replica that does not know a lock may have taken over. When the server answers again, all holds
// that were confirmed before the doubt are renewed at once. So a holder that has lost its lock learns it within a second, not only with its
// next regular renewal. Times are on the engine's clock.
type doubt struct {
	epoch   time.Time
	since   atomic.Int64  // when the last doubt was raised
	settled atomic.Int64  // the last doubt that was settled
	stale   atomic.Uint32 // how many connections the client's pool had discarded when it last dialed
}

// doubtRest is how long settle waits for further doubts before it renews the holds: a fault that breaks one connection breaks others.
const doubtRest = 200 * time.Millisecond

// raise records a doubt. The next answer has the holds renewed.
func (d *doubt) raise() { d.since.Store(int64(time.Since(d.epoch))) }

// heard handles the outcome of a call. In a cluster it does nothing, because the outcome says nothing about the other nodes. There the
// renewals themselves, which are repeated soon, and the subscribers notice.
func (e *Engine) heard(err error) {
	switch {
	case e.publish == "SPUBLISH":
	case doubtful(err):
		e.doubt.raise()
	case err == nil:
		e.settle()
	}
}

// doubtful says whether err leaves open which server has the locks: no answer came, or the server said that it is not the master, or not
// ready.
func doubtful(err error) bool {
	var said redis.Error
	switch {
	case err == nil || lasting(err):
		return false
	case !errors.As(err, &said):
		return true
	}
	return slices.ContainsFunc([]string{"READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN"}, func(prefix string) bool {
		return redis.HasErrorPrefix(err, prefix)
	})
}

// settle renews the holds if there is a doubt that no other answer has settled.
func (e *Engine) settle() {
	since, settled := e.doubt.since.Load(), e.doubt.settled.Load()
	if since <= settled || !e.doubt.settled.CompareAndSwap(settled, since) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.spawn(func() {
		_ = lease.Pause(context.Background(), doubtRest, nil)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.confirm(func(*line) bool { return true })
	})
}

// confirm renews the holds that concerns selects and that were confirmed before the last doubt. The mutex is held.
func (e *Engine) confirm(concerns func(*line) bool) {
	var due []*line
	since := time.Duration(e.doubt.since.Load())
	for _, l := range e.bids {
		switch {
		case l.asked >= since || !concerns(l):
		case l.phase == draining:
			e.askAgain(l)
		case l.phase == held && !l.renewing: // a renewal in flight is repeated after its answer, see sendRenewal
			l.renewing = true
			e.schedule(&l.alarm, l.end())
			due = append(due, l)
		}
	}
	e.renew(due)
}

// reconnected renews the holds of a node after a subscriber's connection to it was lost or replaced.
func (e *Engine) reconnected(at string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.doubt.raise()
	e.confirm(func(l *line) bool {
		node, _, err := e.posts.at(context.Background(), l.key)
		return err != nil || node == at
	})
}

// dialed is a hook for a client of one server. The client may replace a connection that the server has closed although no call has failed;
// that is a doubt too. The hook outlives the engine, as the client does, so it has no reference to the engine.
type dialed struct {
	doubt *doubt
	stats func() *redis.PoolStats
}

func watchDials(d *doubt, c *redis.Client) {
	d.stale.Store(c.PoolStats().StaleConns)
	c.AddHook(dialed{d, c.PoolStats})
}

// DialHook is called for every connection that is made.
func (d dialed) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err == nil {
			if stale := d.stats().StaleConns; d.doubt.stale.Swap(stale) != stale {
				d.doubt.raise()
			}
		}
		return conn, err
	}
}

// ProcessHook leaves commands as they are.
func (dialed) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook leaves pipelines as they are.
func (dialed) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
