package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	res "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	wire "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// sender posts batches as protobuf. The SDK's own exporter is not used: from v1.43.0 on its module raises the version
// of gRPC, on which etcd's client depends, and an older one reads an answer of any length into memory.
type sender struct {
	url     string
	headers http.Header
	client  *http.Client
	options SpanOptions

	mu   sync.Mutex
	down bool // the last batch was not accepted
}

func newSender(url string, headers http.Header, o SpanOptions) *sender {
	return &sender{url: url, headers: headers, options: o, client: &http.Client{Timeout: sendWithin,
		Transport: &http.Transport{MaxIdleConns: 2, IdleConnTimeout: time.Minute}}}
}

// ExportSpans implements sdktrace.SpanExporter. It counts the spans of a batch that fails, and logs the first failure
// in a row.
func (s *sender) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	body, err := proto.Marshal(request(spans))
	if err == nil {
		err = s.post(ctx, body)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		s.options.Lost(len(spans))
		if !s.down {
			s.options.Log.Warn("the collector takes no spans; they are lost until it does", "endpoint", s.url, "err", err)
		}
	case s.down:
		s.options.Log.Info("the collector takes spans again", "endpoint", s.url)
	}
	s.down = err != nil
	return nil // the SDK would only print an error
}

// Shutdown implements sdktrace.SpanExporter.
func (s *sender) Shutdown(context.Context) error {
	s.client.CloseIdleConnections()
	return nil
}

// post sends a batch, and sends it again after a failure that may pass.
func (s *sender) post(ctx context.Context, body []byte) error {
	for attempt := 1; ; attempt++ {
		again, err := s.try(ctx, body)
		if err == nil || !again || attempt == sendRetries {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(retryAfter):
		}
	}
}

// try sends a batch once; again reports whether a retry may succeed.
func (s *sender) try(ctx context.Context, body []byte) (again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	req.Header = s.headers.Clone()
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("User-Agent", "lastitem/"+s.options.Version)
	answer, err := s.client.Do(req)
	if err != nil {
		return true, err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)) // so that the connection can be reused
	_ = answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		return false, nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		// the retryable codes of the protocol
		return true, fmt.Errorf("spans: the collector answered %s", answer.Status)
	}
	return false, fmt.Errorf("spans: the collector answered %s", answer.Status)
}

// request encodes a batch as the protocol requires. All spans have the same resource and scope.
func request(spans []sdktrace.ReadOnlySpan) *collector.ExportTraceServiceRequest {
	if len(spans) == 0 {
		return &collector.ExportTraceServiceRequest{}
	}
	scope := spans[0].InstrumentationScope()
	all := &wire.ScopeSpans{Scope: &common.InstrumentationScope{Name: scope.Name, Version: scope.Version},
		SchemaUrl: scope.SchemaURL}
	for _, s := range spans {
		all.Spans = append(all.Spans, span(s))
	}
	return &collector.ExportTraceServiceRequest{ResourceSpans: []*wire.ResourceSpans{{
		Resource:   &res.Resource{Attributes: attributes(spans[0].Resource().Attributes())},
		ScopeSpans: []*wire.ScopeSpans{all},
	}}}
}

func span(s sdktrace.ReadOnlySpan) *wire.Span {
	id, parent := s.SpanContext(), s.Parent()
	trace, self := id.TraceID(), id.SpanID()
	w := &wire.Span{
		TraceId: trace[:], SpanId: self[:], Flags: uint32(id.TraceFlags()), TraceState: id.TraceState().String(),
		Name: s.Name(), Kind: wire.Span_SpanKind(s.SpanKind()), // the numbers are the same
		StartTimeUnixNano: nanos(s.StartTime()), EndTimeUnixNano: nanos(s.EndTime()), Attributes: attributes(s.Attributes()),
		Status: &wire.Status{},
	}
	if s.Status().Code.String() == "Error" {
		w.Status = &wire.Status{Code: wire.Status_STATUS_CODE_ERROR, Message: s.Status().Description}
	}
	if parent.SpanID().IsValid() {
		above := parent.SpanID()
		w.ParentSpanId = above[:]
	}
	for _, e := range s.Events() {
		w.Events = append(w.Events, &wire.Span_Event{Name: e.Name, TimeUnixNano: nanos(e.Time)})
	}
	return w
}

func nanos(t time.Time) uint64 { return uint64(max(0, t.UnixNano())) }

// attributes encodes attributes as the protocol requires. All attributes of this package and of the SDK are strings or
// integers.
func attributes(all []attribute.KeyValue) []*common.KeyValue {
	list := make([]*common.KeyValue, len(all))
	for i, a := range all {
		value := &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: a.Value.String()}}
		if a.Value.Type() == attribute.INT64 {
			value = &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: a.Value.AsInt64()}}
		}
		list[i] = &common.KeyValue{Key: string(a.Key), Value: value}
	}
	return list
}
