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

// doubt is what an engine knows about whether its Redis is still the one that granted its holds. It has its doubts when a connection was lost
// or an answer is missing: the server may have restarted empty, or a replica that never heard of a hold may have taken its place. When the
// server answers again, all holds that were confirmed before are renewed at once. A holder that has lost its lock so learns it within a
// second, and not with its next regular renewal. Times are on the engine's clock.
type doubt struct {
	epoch   time.Time
	since   atomic.Int64  // when it was raised last
	settled atomic.Int64  // the last one that was settled
	stale   atomic.Uint32 // connections that the client had closed, when it last made one
}

// doubtRest is for how long doubts are gathered before the holds are renewed: what breaks one connection breaks others.
const doubtRest = 200 * time.Millisecond

// raise has the holds renewed with the next answer.
func (d *doubt) raise() { d.since.Store(int64(time.Since(d.epoch))) }

// heard takes the outcome of a call. In a cluster it says nothing about the other nodes: there the renewals themselves, which are repeated
// soon, and the subscribers find out.
func (e *Engine) heard(err error) {
	switch {
	case e.publish == "SPUBLISH":
	case doubtful(err):
		e.doubt.raise()
	case err == nil:
		e.settle()
	}
}

// doubtful says whether err leaves open which server has the locks: it did not answer, or it says that it is not, or not yet, their master.
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

// settle renews the holds if there is a doubt.
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

// confirm renews the holds that were confirmed before the last doubt. The mutex is held.
func (e *Engine) confirm(concerns func(*line) bool) {
	var due []*line
	since := time.Duration(e.doubt.since.Load())
	for _, l := range e.bids {
		switch {
		case l.asked >= since || !concerns(l):
		case l.phase == draining:
			e.askAgain(l)
		case l.phase == held && !l.renewing: // what is under way is renewed again after it, see sendRenewal
			l.renewing = true
			e.schedule(&l.alarm, l.end())
			due = append(due, l)
		}
	}
	e.renew(due)
}

// reconnected renews the holds of a node, because a connection that listened there was lost, or has been replaced.
func (e *Engine) reconnected(at string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.doubt.raise()
	e.confirm(func(l *line) bool {
		node, _, err := e.posts.at(context.Background(), l.key)
		return err != nil || node == at
	})
}

// dialed is a hook for a client of one server. The client replaces a connection that the server has closed without an error of any call: then
// there is a doubt as well. It outlives its engine, as the client does, so it holds no engine.
type dialed struct {
	doubt *doubt
	stats func() *redis.PoolStats
}

func watchDials(d *doubt, c *redis.Client) {
	d.stale.Store(c.PoolStats().StaleConns)
	c.AddHook(dialed{d, c.PoolStats})
}

// DialHook sees every connection that is made.
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
