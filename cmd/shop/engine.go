package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock/coord"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/textbook"
	"lastitem/internal/step"
	"lastitem/internal/stock"
)

// newEngine makes the lock engine of this process as c says, its metrics registered in r.
func newEngine(client redis.UniversalClient, c config, steps *step.Stream, r prometheus.Registerer, log *slog.Logger) (*handoff.Engine, error) {
	m, err := engineMetrics(r)
	if err != nil {
		return nil, err
	}
	return handoff.New(client, handoff.Options{TTL: c.LockTTL, Replicas: c.LockReplicas, Steps: steps, Metrics: m, Logger: log})
}

// engineBuckets, in seconds, reach from a lock that is passed on within the process to the longest wait for one.
var engineBuckets = []float64{
	.000001, .00001, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30,
}

// engineMetrics registers what the engine counts, for all locks together:
//
//	shop_lock_engine_waiting, shop_lock_engine_held
//	shop_lock_engine_wait_seconds, shop_lock_engine_hold_seconds, shop_lock_engine_handoff_seconds
//	shop_lock_engine_acquired_total and _contended_total, _timed_out_total, _lost_total, _renew_failed_total, _skipped_total,
//	_grant_late_total, _missed_total, _resubscribed_total, _cleanup_failed_total, _cleanup_dropped_total
func engineMetrics(r prometheus.Registerer) (handoff.Metrics, error) {
	const prefix = "shop_lock_engine_"
	var errs []error
	gauge := func(name, help string) handoff.Adder {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + name, Help: help})
		errs = append(errs, r.Register(g))
		return g
	}
	seconds := func(name, help string) handoff.Observer {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: prefix + name + "_seconds", Help: help, Buckets: engineBuckets})
		errs = append(errs, r.Register(h))
		return h
	}
	counter := func(name, help string) handoff.Adder {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + name + "_total", Help: help})
		errs = append(errs, r.Register(c))
		return c
	}
	m := handoff.Metrics{
		Waiting:     gauge("waiting", "Callers that are waiting for a lock."),
		Held:        gauge("held", "Locks held by this process."),
		Wait:        seconds("wait", "Time from asking for a lock to holding it, of those that got it."),
		Hold:        seconds("hold", "Time from holding a lock to giving it up."),
		Handoff:     seconds("handoff", "Time from the grant of a lock that was waited for to its new holder being told."),
		Acquired:    counter("acquired", "Locks acquired."),
		Contended:   counter("contended", "Locks acquired that had to be waited for."),
		TimedOut:    counter("timed_out", "Waits that ended without the lock, because it was busy."),
		Lost:        counter("lost", "Locks lost before their holder gave them up."),
		RenewFailed: counter("renew_failed", "Renewals without an answer."),
		Skipped:     counter("skipped", "Waiters passed over because their process was gone."),

		GrantLate:      counter("grant_late", "Grants that came so late that the lock had to be asked for again."),
		Missed:         counter("missed", "Messages that were lost, as a poll found."),
		Resubscribed:   counter("resubscribed", "Subscriptions that were lost and are back."),
		CleanupFailed:  counter("cleanup_failed", "Cancels of attempts without an answer; they are repeated."),
		CleanupDropped: counter("cleanup_dropped", "Cancels of attempts that were given up."),
	}
	return m, errors.Join(errs...)
}

// settleGrace bounds the closing of the modes. A write in progress is completed even if its request has been answered; package stock
// allows it ten seconds.
const settleGrace = 12 * time.Second

// engineGrace bounds the closing of the engine: what it cannot release by then expires.
const engineGrace = 3 * time.Second

func closeEngine(e *handoff.Engine) error {
	ctx, cancel := context.WithTimeout(context.Background(), engineGrace)
	defer cancel()
	return e.Close(ctx)
}

// serviceLocks makes the locks on what is configured besides Redis and SQL, and adds them to l.
func (r *replica) serviceLocks(c config, l *stock.Lockers, steps *step.Stream) {
	closing := func(what string, f func() error) { r.closing = append(r.closing, closer{what, f}) }
	if len(r.set.Redlock) > 0 {
		o := textbook.RedlockOptions{TTL: c.LockTTL, RestartGuard: c.RedlockGuard}
		for _, n := range r.set.Redlock {
			o.Nodes = append(o.Nodes, textbook.RedlockNode{Name: n.Name, Client: n.Client})
		}
		l.Redlock = textbook.NewRedlock(o, steps)
	}
	if r.set.ZooKeeper != nil {
		l.ZooKeeper = coord.NewZooKeeper(r.set.ZooKeeper, zooKeeperRoot, c.LockTTL, steps)
		closing("ZooKeeper locks", l.ZooKeeper.Close)
	}
	if r.set.Etcd != nil {
		l.Etcd = coord.NewEtcd(r.set.Etcd, c.LockTTL, steps)
		closing("etcd locks", l.Etcd.Close)
	}
	if r.set.Consul != nil {
		l.Consul = coord.NewConsul(r.set.Consul, coord.ConsulOptions{TTL: c.ConsulSession, LockDelay: c.ConsulDelay}, steps)
		closing("Consul locks", l.Consul.Close)
	}
}
