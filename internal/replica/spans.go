// Deductions are exported as OpenTelemetry traces, over OTLP/HTTP.
//
// The [Exporter] reads the stream of steps, as GET /events does. When a deduction has been answered,
// [Exporter.Answered] puts it into a bounded queue, and a goroutine later creates its spans from the times of its
// steps. No request waits for a collector; if the queue is full, the deduction is counted as lost. Start reading at
// [NewSpans]; build.go shows the shape of a trace.

package replica

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
	"lastitem/say/redact"
	"lastitem/say/text"
)

// queued is the length of the queue: how many deductions may wait until their spans are created.
const queued = 4096

// SpanOptions says where to send the spans, and which process they come from.
type SpanOptions struct {
	// Endpoint is the base URL of a collector that speaks OTLP/HTTP, as in OTEL_EXPORTER_OTLP_ENDPOINT:
	// "http://localhost:4318".
	Endpoint string
	// Headers are sent with every batch, as in OTEL_EXPORTER_OTLP_HEADERS: "name=value,name=value", the values
	// percent-encoded. "" = none.
	Headers string
	// Replica names this process, Version its program.
	Replica, Version string
	// System returns the db.system.name of a mode's store: "redis", "mysql"; "" = none. An empty store means the mode's
	// default store.
	System func(mode, store string) string
	// Sampled is told of each deduction whose trace goes to the collector, with the trace's id in hexadecimal; nil = not
	// called. It must not block.
	Sampled func(a step.Answered, traceID string)
	// Lost is called with the number of deductions or spans that did not reach the collector; nil = not called. It must
	// not block.
	Lost func(n int)
	// Log gets a line when the collector stops accepting spans, and one when it accepts them again.
	Log *slog.Logger
}

// Exporter turns deductions into spans and sends them. A nil Exporter does nothing. It is safe for concurrent use.
type Exporter struct {
	options  SpanOptions
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	unkeep   func()

	queue  chan step.Answered
	quit   chan struct{}
	ended  chan struct{}
	stop   func()
	closed atomic.Bool
}

// NewSpans starts an exporter that reads steps. The caller must close it. The variables that the OpenTelemetry SDK
// reads from the environment apply too: OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER, OTEL_BSP_*.
func NewSpans(steps *step.Stream, o SpanOptions) (*Exporter, error) {
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
	if o.Sampled == nil {
		o.Sampled = func(step.Answered, string) {}
	}
	if o.Lost == nil {
		o.Lost = func(int) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	who, err := resource.New(context.Background(),
		resource.WithAttributes(semconv.ServiceName("lastitem"), semconv.ServiceVersion(o.Version),
			semconv.ServiceInstanceID(o.Replica)),
		resource.WithFromEnv(), resource.WithTelemetrySDK()) // a later source overrides an earlier one
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("spans: %w", err)
	}
	e := &Exporter{options: o, queue: make(chan step.Answered, queued), quit: make(chan struct{}),
		ended: make(chan struct{})}
	// While the collector is slow, deductions are dropped only at the queue above: the SDK's own queue is full and blocks
	// our goroutine.
	e.provider = sdktrace.NewTracerProvider(sdktrace.WithResource(who),
		sdktrace.WithBatcher(newSender(target, headers, o), sdktrace.WithBlocking()))
	e.tracer = e.provider.Tracer("lastitem", trace.WithSchemaURL(semconv.SchemaURL))
	e.unkeep = steps.Keep()
	e.stop = sync.OnceFunc(func() { close(e.quit) })
	go e.run()
	return e, nil
}

// tracesURL returns the URL to which a collector's traces are posted.
func tracesURL(endpoint string) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Fragment != "" {
		return "", text.Of("spans: endpoint %q: want http://host:port or https://host:port").Errorf(redact.Address(endpoint))
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + "/v1/traces"
	return u.String(), nil
}

// readHeaders parses SpanOptions.Headers. Its error never quotes a value, which may be a password.
func readHeaders(list string) (http.Header, error) {
	headers := http.Header{}
	for pair := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		decoded, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || name == "" || err != nil {
			return nil, text.Of("spans: headers: want name=value, several comma-separated, the values percent-encoded").Errorf()
		}
		headers.Add(name, decoded)
	}
	return headers, nil
}

// Answered queues a deduction that has been answered. It never blocks.
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

// run creates spans until Close is called, and then those of the deductions that are left in the queue.
func (e *Exporter) run() {
	defer close(e.ended)
	for {
		select {
		case a := <-e.queue:
			e.build(a)
			continue
		case <-e.quit:
		}
		for { // drain the queue
			select {
			case a := <-e.queue:
				e.build(a)
			default:
				return
			}
		}
	}
}

// Close sends the spans that are still waiting, and returns when ctx ends at the latest. No deduction may be answered
// after it.
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

// Each send is bounded, so that a collector that hangs delays a batch, not the process.
const (
	sendWithin  = 10 * time.Second
	sendRetries = 3
	retryAfter  = time.Second
)

// attr is a short name for attribute.String.
func attr(key, value string) attribute.KeyValue { return attribute.String(key, value) }
