package main

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"lastitem/internal/backend"
	"lastitem/internal/handler"
	"lastitem/internal/lock/coord"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/textbook"
	"lastitem/internal/spans"
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

// poolStats passes the statistics of the connection pools to the metrics.
func poolStats(set *backend.Set) func() []handler.Pool {
	return func() []handler.Pool {
		var all []handler.Pool
		for _, p := range set.Pools() {
			all = append(all, handler.Pool(p))
		}
		return all
	}
}

// backendsUp is the metric shop_backend_up of each configured backend, from [backend.Set.Check].
type backendsUp struct{ set *backend.Set }

var backendUp = prometheus.NewDesc("shop_backend_up", "1 if the last health check found the backend usable, else 0.", []string{"backend"}, nil)

// Describe names the metric.
func (backendsUp) Describe(ch chan<- *prometheus.Desc) { ch <- backendUp }

// Collect reports the results of the last health checks.
func (b backendsUp) Collect(ch chan<- prometheus.Metric) {
	for _, name := range b.set.Backends() {
		up := 1.0
		if b.set.Check(name) != nil {
			up = 0
		}
		ch <- prometheus.MustNewConstMetric(backendUp, prometheus.GaugeValue, up, name)
	}
}

// buildInfo is the metric shop_build_info, always 1, with the running version as a label: a half-finished deploy shows two versions.
func buildInfo(c config) prometheus.Collector {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "shop_build_info", Help: "What is running: version of the shop (its commit), of Go, and the name of the replica. Always 1.",
		ConstLabels: prometheus.Labels{"version": version(), "go": runtime.Version(), "replica": c.Replica},
	})
	info.Set(1)
	return info
}

// gauges returns a function that registers gauges of the modes. If a name is registered twice, the first gauge stays.
func gauges(registry *prometheus.Registry) func(name, help string, read func() float64) {
	return func(name, help string, read func() float64) {
		_ = registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read))
	}
}

// spansGrace is how long the end of a replica waits for the collector to take the last traces.
const spansGrace = 3 * time.Second

// newSpans starts the export of traces; nil where no collector was named.
func newSpans(c config, steps *step.Stream, registry prometheus.Registerer, log *slog.Logger) (*spans.Exporter, error) {
	if c.OTLP == "" {
		return nil, nil //nolint:nilnil // there is none, and that is no error
	}
	lost := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "shop_spans_lost_total", Help: "Deductions and spans that did not reach the OpenTelemetry collector.",
	})
	if err := registry.Register(lost); err != nil {
		return nil, err
	}
	e, err := spans.New(steps, spans.Options{
		Endpoint: c.OTLP, Headers: c.OTLPHeaders, Replica: c.Replica, Version: version(), System: dbSystem(c), Log: log,
		Lost: func(n int) { lost.Add(float64(n)) },
	})
	if err != nil {
		return nil, usage(both("%s: %w", "%s：%w"), c.name("OTEL_EXPORTER_OTLP_ENDPOINT"), err)
	}
	return e, nil
}

// dbSystem returns the db.system.name of a mode's store, as OpenTelemetry's conventions write it.
func dbSystem(c config) func(mode, store string) string {
	sql := "mysql"
	if strings.HasPrefix(c.SQL, "sqlite:") {
		sql = "sqlite"
	}
	usual := map[string]string{}
	for _, m := range stock.Modes() {
		if len(m.Stores) > 0 {
			usual[m.Name] = string(m.Stores[0])
		}
	}
	systems := map[string]string{string(stock.Redis): "redis", string(stock.SQL): sql, string(stock.Etcd): "etcd"}
	return func(mode, store string) string {
		if store == "" {
			store = usual[mode]
		}
		return systems[store]
	}
}
