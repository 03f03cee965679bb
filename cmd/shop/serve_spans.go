package main

import (
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lastitem/internal/spans"
	"lastitem/internal/step"
	"lastitem/internal/stock"
)

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
