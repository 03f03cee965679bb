package client

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/go-resty/resty/v2"

	"lastitem/internal/api"
)

// restyEngine is resty, tuned: one client for the whole run (a client per request would open a connection per request), the same
// transport as the net/http engine, no trace, no retries, and no parsing of bodies by resty.
type restyEngine struct {
	client  *resty.Client
	timeout time.Duration
	opaque  bool
}

// restyWorker is one worker's engine.
type restyWorker struct {
	shared *restyEngine
	reader reader
}

// newResty builds the client that the workers share.
func newResty(t Target) *restyEngine {
	client := resty.New().
		SetTransport(newTransport(t)).
		SetBaseURL(strings.TrimRight(t.URL.String(), "/")).
		SetDoNotParseResponse(true).
		SetAllowGetMethodPayload(true).
		SetRedirectPolicy(resty.RedirectPolicyFunc(func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse })).
		SetLogger(Silent{})
	return &restyEngine{client: client, timeout: t.Timeout, opaque: t.Opaque}
}

// worker returns the engine of one worker.
func (r *restyEngine) worker() Engine {
	return &restyWorker{shared: r, reader: reader{opaque: r.opaque}}
}

// Connect does nothing: the pool opens connections when they are needed.
func (w *restyWorker) Connect() error { return nil }

// Close closes the pool's idle connections, including those of other workers.
func (w *restyWorker) Close() { w.shared.client.GetClient().CloseIdleConnections() }

// Do sends the call.
func (w *restyWorker) Do(call *Call) Answer {
	ctx, cancel := context.WithTimeout(context.Background(), w.shared.timeout)
	defer cancel()
	req := w.shared.client.R().SetContext(ctx)
	if len(call.Body) > 0 {
		req.SetBody(call.Body).SetHeader("Content-Type", call.ContentType)
	}
	if call.Key != "" {
		req.SetHeader(api.HeaderKey, call.Key)
	}
	resp, err := req.Execute(call.Method, call.Path)
	if resp != nil && resp.RawResponse != nil {
		defer func() { _ = resp.RawResponse.Body.Close() }()
	}
	if err != nil {
		return Answer{Err: transportError(err), Sent: !dialFailed(err)}
	}
	return w.reader.answer(resp.StatusCode(), resp.Header(), resp.RawResponse.Body)
}

// Silent keeps resty's warnings away from the progress on stderr.
type Silent struct{}

// Errorf drops an error: Execute returns it.
func (Silent) Errorf(string, ...any) {}

// Warnf drops a warning.
func (Silent) Warnf(string, ...any) {}

// Debugf drops a debug line.
func (Silent) Debugf(string, ...any) {}
