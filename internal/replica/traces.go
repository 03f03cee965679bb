package replica

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"lastitem/internal/step"
	"lastitem/internal/stock"
	"lastitem/say/text"
)

// newSpans starts the export of traces; nil where no collector was named.
func newSpans(c Config, o Options, steps *step.Stream, registry prometheus.Registerer,
	sampled func(a step.Answered, traceID string)) (*Exporter, error) {
	if c.OTLP == "" {
		return nil, nil //nolint:nilnil // there is none, and that is no error
	}
	lost := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "shop_spans_lost_total", Help: "Deductions and spans that did not reach the OpenTelemetry collector.",
	})
	if err := registry.Register(lost); err != nil {
		return nil, err
	}
	e, err := NewSpans(steps, SpanOptions{
		Endpoint: c.OTLP, Headers: c.OTLPHeaders, Replica: c.Replica, Version: o.Version, System: dbSystem(c.SQL), Log: o.Log,
		Sampled: sampled, Lost: func(n int) { lost.Add(float64(n)) },
	})
	if err != nil {
		return nil, &SettingsError{text.Of("%s: %w").Errorf(c.name("OTEL_EXPORTER_OTLP_ENDPOINT"), err)}
	}
	return e, nil
}

// dbSystem returns the db.system.name of a mode's store, as OpenTelemetry's conventions write it; dsn is the address of
// the SQL database.
func dbSystem(dsn string) func(mode, store string) string {
	sql := "mysql"
	if strings.HasPrefix(dsn, "sqlite:") {
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
