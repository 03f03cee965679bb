package client

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/go-resty/resty/v2"

	"lastitem/contract/api"
	"lastitem/target"
)

// restyEngine is resty, tuned: one client for the whole run (a client per request would open a connection per request),
// no trace, no retries, no redirects, and no parsing of bodies by resty.
type restyEngine struct {
	client  *resty.Client
	timeout time.Duration
	headers bool // see Target.Headers
}

// restyWorker is one worker's engine.
type restyWorker struct {
	goroutines
	shared *restyEngine
	reader reader
}

// newResty builds the client that the workers share.
func newResty(t Target) *restyEngine {
	client := resty.New().
		SetTransport(newTransport(t)).
		SetBaseURL(strings.TrimRight(t.URL.String(), "/")).
		SetDoNotParseResponse(true).
		SetRedirectPolicy(resty.RedirectPolicyFunc(func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		})).
		SetLogger(Silent{})
	return &restyEngine{client: client, timeout: t.Timeout, headers: t.Headers}
}

// worker returns the engine of one worker.
func (r *restyEngine) worker() Engine {
	return &restyWorker{shared: r}
}

// Connect does nothing: the pool opens connections when they are needed.
func (w *restyWorker) Connect() error { return nil }

// Close closes the pool's idle connections, including those of other workers.
func (w *restyWorker) Close() { w.shared.client.GetClient().CloseIdleConnections() }

// Do sends the call. It uses a context's deadline, because the client's Timeout costs several times as much.
func (w *restyWorker) Do(call target.Call) Answer {
	ctx, cancel := context.WithTimeout(context.Background(), w.shared.timeout)
	defer cancel()
	own, err := call.Request(ctx, w.shared.client.BaseURL)
	if err != nil {
		return Answer{Err: ErrBadAnswer}
	}
	req := w.shared.client.R().SetContext(context.WithValue(ctx, ownRequest{}, own))
	resp, err := req.Execute(call.Method, call.Path)
	if resp != nil && resp.RawResponse != nil {
		defer func() { _ = resp.RawResponse.Body.Close() }()
	}
	if err != nil {
		return Answer{Err: transportError(err), Sent: !dialFailed(err)}
	}
	a := w.reader.answer(resp.StatusCode(), resp.Header(), resp.RawResponse.Body)
	if w.shared.headers {
		a.Header = resp.Header()
	}
	return a
}

// newTransport returns net/http's transport, tuned: a pool with a connection for every worker (the default keeps two,
// and opens and closes the others all the time), no compression, no HTTP/2.
func newTransport(t Target) http.RoundTripper {
	tuned := once{&http.Transport{
		// Dialling gives up before the request does, so that its error says that nothing was sent.
		DialContext:         (&net.Dialer{Timeout: t.Timeout * 9 / 10}).DialContext,
		MaxIdleConnsPerHost: max(t.Workers, 1),
		MaxIdleConns:        0, // no limit
		DisableCompression:  true,
		ForceAttemptHTTP2:   false,
		TLSHandshakeTimeout: t.Timeout,
	}}
	if t.Insecure {
		tuned.TLSClientConfig = target.AnyCertificate()
	}
	return tuned
}

// once is a transport that sends each request once. After a broken connection, [http.Transport] sends a request again
// if it considers it repeatable: every GET, and a POST with an Idempotency-Key, if it can produce the body again. A
// body without GetBody prevents that.
type once struct{ *http.Transport }

// ownRequest is the key under which a context has the request that is sent: what resty adds to a call, such as the
// header Accept, the other engine does not send.
type ownRequest struct{}

// RoundTrip sends the own request of req with a body that can be read only once.
func (o once) RoundTrip(req *http.Request) (*http.Response, error) {
	own, is := req.Context().Value(ownRequest{}).(*http.Request)
	if !is {
		own = req
	}
	single := *own // a transport must not change the request
	single.GetBody = nil
	if single.Body == nil || single.Body == http.NoBody {
		switch single.Method {
		case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
			single.Body = io.NopCloser(strings.NewReader(""))
		default: // such a body would be sent in chunks; the key counts as repeatable by its canonical name only
			single.Header = single.Header.Clone()
			for _, name := range []string{api.HeaderKey, "X-" + api.HeaderKey} {
				if v, keyed := single.Header[name]; keyed {
					delete(single.Header, name)
					single.Header[strings.ToLower(name)] = v
				}
			}
		}
	}
	return o.Transport.RoundTrip(&single)
}

// reader turns net/http's responses into answers, reusing its buffer.
type reader struct{ buf bytes.Buffer }

// answer reads the body to its end, so that the connection can be used again.
func (r *reader) answer(status int, header http.Header, body io.Reader) Answer {
	a := Answer{Reply: target.ReplyOf(status, header), Sent: true}
	r.buf.Reset()
	n, err := r.buf.ReadFrom(io.LimitReader(body, maxBody+1))
	if err == nil && n > maxBody {
		err = badAnswer("more than %d bytes", maxBody)
	}
	if a.Body = r.buf.Bytes(); err != nil {
		a.Err = transportError(err)
	}
	return a
}

// Silent keeps resty's warnings away from the progress on stderr.
type Silent struct{}

// Errorf drops an error: Execute returns it.
func (Silent) Errorf(string, ...any) {}

// Warnf drops a warning.
func (Silent) Warnf(string, ...any) {}

// Debugf drops a debug line.
func (Silent) Debugf(string, ...any) {}
