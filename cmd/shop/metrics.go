package main

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"

	"lastitem/internal/backend"
	"lastitem/internal/handler"
)

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
