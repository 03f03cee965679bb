// Package spans exports deductions as OpenTelemetry traces, over OTLP/HTTP.
//
// The [Exporter] reads the stream of steps, as GET /events does. When a deduction has been answered, [Exporter.Answered] puts it into a
// bounded queue, and a goroutine makes its spans afterwards, with the times of its steps: no request waits for a collector, and one that
// finds the queue full is counted as lost. Start with [New], then build.go for what a trace looks like.
package spans

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"lastitem/internal/step"
)

// queued is how many deductions may wait for their spans.
const queued = 4096

// Options says where the spans go, and whose they are.
type Options struct {
	// Endpoint is the base URL of a collector that speaks OTLP/HTTP, as in OTEL_EXPORTER_OTLP_ENDPOINT: "http://localhost:4318".
	Endpoint string
	// Headers go with every batch, as in OTEL_EXPORTER_OTLP_HEADERS: "name=value,name=value", the values percent-encoded. "" = none.
	Headers string
	// Replica names this process, Version its program.
	Replica, Version string
	// System returns the db.system.name of a mode's store: "redis", "mysql"; "" = none. store is "" for the mode's default.
	System func(mode, store string) string
	// Lost is told how many deductions or spans did not reach the collector; nil = nobody. It must not block.
	Lost func(n int)
	// Log is told when the collector stops to take spans, and when it does again.
	Log *slog.Logger
}

// Exporter makes spans of deductions and sends them. A nil one does nothing. It is safe for concurrent use.
type Exporter struct {
	options  Options
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	unkeep   func()

	queue  chan step.Answered
	quit   chan struct{}
	ended  chan struct{}
	stop   func()
	closed atomic.Bool
}

// New starts an exporter that reads steps. What the OpenTelemetry SDK reads from the environment holds too: OTEL_SERVICE_NAME,
// OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER, OTEL_BSP_*. Close it.
func New(steps *step.Stream, o Options) (*Exporter, error) {
	target, err := tracesURL(o.Endpoint)
	if err != nil {
		return nil, err
	}
	headers, err := readHeaders(o.Headers)
	if err != nil {
		return nil, err
	}
	if o.System == nil {
		o.System = func(string, string) string { return "" }
	}
	if o.Lost == nil {
		o.Lost = func(int) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	who, err := resource.New(context.Background(),
		resource.WithAttributes(semconv.ServiceName("lastitem"), semconv.ServiceVersion(o.Version), semconv.ServiceInstanceID(o.Replica)),
		resource.WithFromEnv(), resource.WithTelemetrySDK()) // later ones win
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("spans: %w", err)
	}
	e := &Exporter{options: o, queue: make(chan step.Answered, queued), quit: make(chan struct{}), ended: make(chan struct{})}
	// The queue above is the one place where spans are lost while the collector is slow: the SDK's own queue blocks this package's goroutine.
	e.provider = sdktrace.NewTracerProvider(sdktrace.WithResource(who), sdktrace.WithBatcher(newSender(target, headers, o), sdktrace.WithBlocking()))
	e.tracer = e.provider.Tracer("lastitem", trace.WithSchemaURL(semconv.SchemaURL))
	e.unkeep = steps.Keep()
	e.stop = sync.OnceFunc(func() { close(e.quit) })
	go e.run()
	return e, nil
}

// tracesURL is where the traces of a collector go.
func tracesURL(endpoint string) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("spans: endpoint %q: want http://host:port or https://host:port", endpoint)
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + "/v1/traces"
	return u.String(), nil
}

// readHeaders reads Options.Headers. The error has no value in it: it may be a password.
func readHeaders(list string) (http.Header, error) {
	headers := http.Header{}
	for pair := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		decoded, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !ok || name == "" || err != nil {
			return nil, errors.New("spans: headers: want name=value, several comma-separated, the values percent-encoded")
		}
		headers.Add(name, decoded)
	}
	return headers, nil
}

// Answered takes in a deduction. It never blocks.
func (e *Exporter) Answered(a step.Answered) {
	if e == nil {
		return
	}
	select {
	case e.queue <- a:
	default:
		e.options.Lost(1)
	}
}

// run makes the spans until Close.
func (e *Exporter) run() {
	defer close(e.ended)
	for {
		select {
		case a := <-e.queue:
			e.build(a)
			continue
		case <-e.quit:
		}
		for { // what is left
			select {
			case a := <-e.queue:
				e.build(a)
			default:
				return
			}
		}
	}
}

// Close sends what waits, until ctx ends at the latest. No deduction may be answered after it.
func (e *Exporter) Close(ctx context.Context) error {
	if e == nil || e.closed.Swap(true) {
		return nil
	}
	e.unkeep()
	e.stop()
	select {
	case <-e.ended:
	case <-ctx.Done():
	}
	if err := e.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("spans: %w", err)
	}
	return nil
}

// sends are bounded, so that a collector that hangs holds up a batch and not the process.
const (
	sendWithin  = 10 * time.Second
	sendRetries = 3
	retryAfter  = time.Second
)

// attr shortens what follows.
func attr(key, value string) attribute.KeyValue { return attribute.String(key, value) }
