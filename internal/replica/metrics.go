package replica

import (
	"errors"
	"math"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"

	"lastitem/internal/backend"
	"lastitem/internal/handler"
	"lastitem/internal/lock/handoff"
)

// engineBuckets, in seconds, reach from a lock that is passed on within the process to the longest wait for one.
var engineBuckets = []float64{
	.000001, .00001, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30,
}

// engineMetrics registers what the engine counts, for all locks together:
//
//	shop_lock_engine_waiting, shop_lock_engine_held
//	shop_lock_engine_wait_seconds, shop_lock_engine_hold_seconds, shop_lock_engine_handoff_seconds
//	shop_lock_engine_acquired_total and _contended_total, _timed_out_total, _lost_total, _renew_failed_total,
//	_skipped_total, _grant_late_total, _missed_total, _resubscribed_total, _cleanup_failed_total, _cleanup_dropped_total
func engineMetrics(r prometheus.Registerer) (handoff.Metrics, error) {
	const prefix = "shop_lock_engine_"
	var errs []error
	gauge := func(name, help string) handoff.Adder {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + name, Help: help})
		errs = append(errs, r.Register(g))
		return g
	}
	seconds := func(name, help string) handoff.Observer {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: prefix + name + "_seconds", Help: help,
			Buckets: engineBuckets})
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
		RightMissing:   counter("right_missing", "Requests that Redis refused to the user of the client."),
	}
	return m, errors.Join(errs...)
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

// backendsUp is the metric shop_backend_up of each configured backend, from [backend.Set.Out].
type backendsUp struct{ set *backend.Set }

var backendUp = prometheus.NewDesc("shop_backend_up", "1 if the last health check found the backend usable, else 0: "+
	"also while one master of a Redis Cluster is out.", []string{"backend"}, nil)

// Describe names the metric.
func (backendsUp) Describe(ch chan<- *prometheus.Desc) { ch <- backendUp }

// Collect reports the results of the last health checks.
func (b backendsUp) Collect(ch chan<- prometheus.Metric) {
	for _, name := range b.set.Backends() {
		up := 1.0
		if b.set.Out(name) != nil {
			up = 0
		}
		ch <- prometheus.MustNewConstMetric(backendUp, prometheus.GaugeValue, up, name)
	}
}

// buildInfo is the metric shop_build_info, always 1, with the running version as a label: a half-finished deploy shows
// two versions.
func buildInfo(replica, version string) prometheus.Collector {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "shop_build_info", Help: "What is running: version of the shop and its commit, version of Go, and the name " +
			"of the replica. Always 1.",
		ConstLabels: prometheus.Labels{"version": version, "go": runtime.Version(), "replica": replica},
	})
	info.Set(1)
	return info
}

// gauge is a metric that is absent while its value cannot be read: a 0 would say that all is well.
type gauge struct {
	desc *prometheus.Desc
	read func() float64 // NaN = it cannot be read
}

// Describe names the metric.
func (g gauge) Describe(ch chan<- *prometheus.Desc) { ch <- g.desc }

// Collect reads it.
func (g gauge) Collect(ch chan<- prometheus.Metric) {
	if value := g.read(); !math.IsNaN(value) {
		ch <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, value)
	}
}

// gauges returns a function that registers gauges of the modes. If one is registered twice, the first stays.
func gauges(registry *prometheus.Registry) func(name, help string, labels map[string]string, read func() float64) {
	return func(name, help string, labels map[string]string, read func() float64) {
		_ = registry.Register(gauge{prometheus.NewDesc(name, help, nil, labels), read})
	}
}

// repeats returns a function that counts the transactions which are tried again, by mode.
func repeats(registry *prometheus.Registry) func(mode string) {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "shop_conflicts_repeated_total",
		Help: "Deductions that were tried again, because the store had decided for another; nothing had happened.",
	}, []string{"mode"})
	_ = registry.Register(c) // a name that is taken leaves it uncounted
	return func(mode string) { c.WithLabelValues(mode).Inc() }
}

// ticketEnds returns a function that counts the tickets which have ended, by how.
func ticketEnds(registry *prometheus.Registry) func(state string, n int64) {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "shop_ticket_ends_total",
		Help: "Tickets that this replica has ended: sold, refused, failed or same.",
	}, []string{"end"})
	_ = registry.Register(c) // a name that is taken leaves it uncounted
	return func(state string, n int64) { c.WithLabelValues(state).Add(float64(n)) }
}
