package handler

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"lastitem/contract/api"
	"lastitem/internal/step"
	"lastitem/judge"
)

// Pool is one connection pool at one moment.
type Pool struct {
	Name        string // the metric label: "redis", "sql"
	Total, Idle int    // connections
	Waits       uint64 // how often somebody had to wait for a connection
	Waited      time.Duration
	Timeouts    uint64 // waits that ended without one
}

// buckets, in seconds, reach from a request that touches no store to the longest wait for a lock.
var buckets = []float64{
	.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30,
}

// metrics are the numbers of one handler. Labels are bounded: routes, the modes of the registry, and the problem codes.
// What a client can make up, an unknown mode or path, shares one label.
//
//	shop_http_requests_total{route,mode,outcome}             outcome: ok, or the code of the problem
//	shop_http_request_duration_seconds{route,mode,result}    result: ok, refused, declined, unknown
//	shop_lock_wait_seconds{mode}, shop_lock_hold_seconds{mode}
//	shop_idempotent_replays_total{mode}
//	shop_audits_total{verdict}                           of GET /products/{id}/audit
//	shop_events_left_out_total, shop_events_cut_off_total  of GET /events, where it is served
//	shop_http_requests_in_flight
//	shop_pool_connections{pool} and _idle, shop_pool_waits_total, shop_pool_wait_seconds_total, shop_pool_timeouts_total
type metrics struct {
	page     gin.HandlerFunc
	requests *prometheus.CounterVec   // route, mode, outcome
	duration *exemplars               // route, mode, result
	wait     *prometheus.HistogramVec // mode
	hold     *prometheus.HistogramVec // mode
	replays  *prometheus.CounterVec   // mode
	audits   *prometheus.CounterVec   // verdict
	leftOut  prometheus.Counter
	cutOff   prometheus.Counter
	inFlight prometheus.Gauge
}

// newMetrics registers everything, those of GET /events where it is served, and starts to read the steps. It fails
// where another handler is registered there already.
func newMetrics(r *prometheus.Registry, poolStats func() []Pool, events bool, steps *step.Stream) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "shop_http_requests_total",
			Help: "Requests answered, by outcome: ok, or the code of the problem.",
		}, []string{"route", "mode", "outcome"}),
		duration: &exemplars{HistogramVec: histogram("shop_http_request_duration_seconds",
			"Time to answer, kept apart by result: ok, refused (sold out), declined (nothing happened), unknown.",
			"route", "mode", "result")},
		wait: histogram("shop_lock_wait_seconds", "Time from asking for a lock to holding it.", "mode"),
		hold: histogram("shop_lock_hold_seconds", "Time from holding a lock to having released it.", "mode"),
		replays: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "shop_idempotent_replays_total",
			Help: "Answers that were an earlier request's, repeated for its key.",
		}, []string{"mode"}),
		audits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "shop_audits_total",
			Help: "Audits served, by verdict. A replica audits only when it is asked to.",
		}, []string{"verdict"}),
		leftOut: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "shop_events_left_out_total", Help: "Deductions that were not sent to a reader of /events because it was " +
				"slow.",
		}),
		cutOff: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "shop_events_cut_off_total", Help: "Readers of /events that were cut off because they did not read.",
		}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "shop_http_requests_in_flight", Help: "Requests being worked on.",
		}),
	}
	err := errors.Join(register(r, m.requests, m.duration, m.wait, m.hold, m.replays, m.audits, m.inFlight,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})))
	if poolStats != nil {
		err = errors.Join(err, r.Register(pools(poolStats)))
	}
	for _, v := range []judge.Verdict{judge.Exact, judge.Broken, judge.Inconclusive, judge.Vacuous} {
		m.audits.WithLabelValues(string(v)) // at 0: a rate needs a first value
	}
	m.page = gin.WrapH(promhttp.HandlerFor(r, promhttp.HandlerOpts{EnableOpenMetrics: true})) // for exemplars
	if events {
		err = errors.Join(err, register(r, m.leftOut, m.cutOff))
	}
	if steps != nil {
		steps.Subscribe(m.read)
	}
	return m, err
}

func histogram(name, help string, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

func register(r *prometheus.Registry, all ...prometheus.Collector) error {
	for _, c := range all {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}

// read is the reader of the step stream: it fills the traces, and counts each lock as it is acquired and released. It
// runs on the deduction's own goroutine. A lock that was not acquired has no wait here; lock_busy is counted among the
// requests.
func (m *metrics) read(_ context.Context, e step.Event) {
	span, ok := step.Record(e)
	switch {
	case !ok:
	case e.Point == step.Locked:
		m.wait.WithLabelValues(e.Trace.Mode).Observe(span.Wait().Seconds())
	case e.Point == step.Released:
		m.hold.WithLabelValues(e.Trace.Mode).Observe(span.Hold().Seconds())
	}
}

// observe counts one request that has been answered.
func (m *metrics) observe(path string, out outcome, took time.Duration) {
	name := string(out.code)
	if name == "" {
		name = "ok"
	}
	m.requests.WithLabelValues(path, out.mode, name).Inc()
	m.duration.WithLabelValues(path, out.mode, string(result(out.code))).Observe(took.Seconds())
}

// traced adds the trace of a deduction to the bucket of its time.
func (m *metrics) traced(a step.Answered, traceID string) {
	m.duration.add(m.duration.WithLabelValues(a.Route, a.Trace.Mode, string(result(api.Code(a.Code)))),
		prometheus.Exemplar{Value: a.Ended.Sub(a.Begun).Seconds(), Labels: prometheus.Labels{"trace_id": traceID},
			Timestamp: a.Ended})
}

// exemplars is a histogram whose buckets each carry the newest exemplar that fell into them. An exemplar is known later
// than the value, because traces are built when the request is over, so the histogram cannot take both at once.
type exemplars struct {
	*prometheus.HistogramVec
	mu     sync.Mutex
	newest map[prometheus.Metric]map[int]prometheus.Exemplar // by histogram and bucket
}

// add keeps an exemplar for the histogram of one set of labels.
func (e *exemplars) add(of prometheus.Observer, newest prometheus.Exemplar) {
	one, ok := of.(prometheus.Metric)
	if !ok {
		return
	}
	bucket := sort.SearchFloat64s(buckets, newest.Value)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.newest == nil {
		e.newest = map[prometheus.Metric]map[int]prometheus.Exemplar{}
	}
	if e.newest[one] == nil {
		e.newest[one] = map[int]prometheus.Exemplar{}
	}
	e.newest[one][bucket] = newest
}

// Collect reports the histograms with their exemplars.
func (e *exemplars) Collect(ch chan<- prometheus.Metric) {
	plain := make(chan prometheus.Metric)
	go func() {
		e.HistogramVec.Collect(plain)
		close(plain)
	}()
	for one := range plain {
		e.mu.Lock()
		newest := slices.Collect(maps.Values(e.newest[one]))
		e.mu.Unlock()
		if with, err := prometheus.NewMetricWithExemplars(one, newest...); err == nil && len(newest) > 0 {
			one = with
		}
		ch <- one
	}
}

// result folds the codes into what a client knows after the answer; times of different results are never averaged.
func result(code api.Code) judge.Outcome {
	switch {
	case code == "":
		return judge.OK
	case code == api.SoldOut:
		return judge.Refused
	case api.Codes[code].Happened == api.Unknown:
		return judge.Unknown
	}
	return judge.Declined
}

// pools collects the connection pools when a scraper asks, not while they are in use.
type pools func() []Pool

var (
	poolTotal    = poolDesc("shop_pool_connections", "Connections open.")
	poolIdle     = poolDesc("shop_pool_connections_idle", "Connections open and unused.")
	poolWaits    = poolDesc("shop_pool_waits_total", "Times that somebody had to wait for a connection.")
	poolWaited   = poolDesc("shop_pool_wait_seconds_total", "Time spent waiting for a connection.")
	poolTimeouts = poolDesc("shop_pool_timeouts_total", "Waits for a connection that ended without one.")
)

func poolDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{"pool"}, nil)
}

// Describe names the metrics.
func (p pools) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{poolTotal, poolIdle, poolWaits, poolWaited, poolTimeouts} {
		ch <- d
	}
}

// Collect reads the pools.
func (p pools) Collect(ch chan<- prometheus.Metric) {
	for _, s := range p() {
		gauge, counter := prometheus.GaugeValue, prometheus.CounterValue
		ch <- prometheus.MustNewConstMetric(poolTotal, gauge, float64(s.Total), s.Name)
		ch <- prometheus.MustNewConstMetric(poolIdle, gauge, float64(s.Idle), s.Name)
		ch <- prometheus.MustNewConstMetric(poolWaits, counter, float64(s.Waits), s.Name)
		ch <- prometheus.MustNewConstMetric(poolWaited, counter, s.Waited.Seconds(), s.Name)
		ch <- prometheus.MustNewConstMetric(poolTimeouts, counter, float64(s.Timeouts), s.Name)
	}
}
