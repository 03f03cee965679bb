package client

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"lastitem/internal/api"
)

// netHTTP is net/http's client, tuned: a pool with a connection for every worker (the default keeps two, and opens and closes the others
// all the time), no compression, no HTTP/2, no redirects. The workers share its pool.
type netHTTP struct {
	client  *http.Client
	base    string
	timeout time.Duration
	opaque  bool
}

// netHTTPWorker is one worker's engine.
type netHTTPWorker struct {
	shared *netHTTP
	reader reader
}

// newNetHTTP builds the client that the workers share.
func newNetHTTP(t Target) *netHTTP {
	return &netHTTP{
		client: &http.Client{
			Transport:     newTransport(t),
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		base:    strings.TrimRight(t.URL.String(), "/"),
		timeout: t.Timeout,
		opaque:  t.Opaque,
	}
}

// worker returns the engine of one worker.
func (n *netHTTP) worker() Engine {
	return &netHTTPWorker{shared: n, reader: reader{opaque: n.opaque}}
}

// Connect does nothing: the pool opens connections when they are needed.
func (w *netHTTPWorker) Connect() error { return nil }

// Close closes the pool's idle connections, including those of other workers.
func (w *netHTTPWorker) Close() { w.shared.client.CloseIdleConnections() }

// Do sends the call. It uses a context's deadline, because the client's Timeout costs several times as much.
func (w *netHTTPWorker) Do(call *Call) Answer {
	ctx, cancel := context.WithTimeout(context.Background(), w.shared.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, call.Method, w.shared.base+call.Path, bytes.NewReader(call.Body))
	if err != nil {
		return Answer{Err: ErrBadAnswer} // the user's template makes a URL that cannot be sent
	}
	if len(call.Body) > 0 {
		req.Header.Set("Content-Type", call.ContentType)
	}
	if call.Key != "" {
		req.Header.Set(api.HeaderKey, call.Key)
	}
	resp, err := w.shared.client.Do(req)
	if err != nil {
		return Answer{Err: transportError(err), Sent: !dialFailed(err)}
	}
	defer func() { _ = resp.Body.Close() }()
	return w.reader.answer(resp.StatusCode, resp.Header, resp.Body)
}

// newTransport returns the tuned transport that net/http and resty use.
func newTransport(t Target) http.RoundTripper {
	return once{&http.Transport{
		// Dialling gives up before the request does, so that its error says that nothing was sent.
		DialContext:         (&net.Dialer{Timeout: t.Timeout * 9 / 10}).DialContext,
		MaxIdleConnsPerHost: max(t.Workers, 1),
		MaxIdleConns:        0, // no limit
		DisableCompression:  true,
		ForceAttemptHTTP2:   false,
		TLSHandshakeTimeout: t.Timeout,
	}}
}

// once is a transport that sends each request once. After a broken connection, [http.Transport] sends a request again if it considers it
// repeatable: every GET, and a POST with an Idempotency-Key, if it can produce the body again. A body without GetBody prevents that.
type once struct{ *http.Transport }

// RoundTrip sends req with a body that can be read only once.
func (o once) RoundTrip(req *http.Request) (*http.Response, error) {
	single := *req // a transport must not change the request
	single.GetBody = nil
	if (single.Body == nil || single.Body == http.NoBody) && (single.Method != http.MethodPost || single.Header.Get(api.HeaderKey) != "") {
		single.Body = io.NopCloser(strings.NewReader(""))
	}
	return o.Transport.RoundTrip(&single)
}

// reader turns net/http's responses into answers, reusing its buffer.
type reader struct {
	opaque bool
	buf    bytes.Buffer
}

// answer reads the body to its end, so that the connection can be used again, and takes the wanted fields.
func (r *reader) answer(status int, header http.Header, body io.Reader) Answer {
	a := Answer{
		Status:     status,
		Sent:       true,
		Problem:    IsProblem([]byte(header.Get("Content-Type"))),
		Replica:    header.Get(api.HeaderReplica),
		Replayed:   strings.EqualFold(header.Get(api.HeaderReplayed), "true"),
		RetryAfter: retryAfter(header.Get("Retry-After")),
	}
	r.buf.Reset()
	n, err := r.buf.ReadFrom(io.LimitReader(body, maxBody+1))
	if err == nil && n > maxBody {
		err = badAnswer("more than %d bytes", maxBody)
	}
	if err == nil && !r.opaque {
		err = readFields(r.buf.Bytes(), &a)
	}
	if err != nil {
		a.Err = transportError(err)
	}
	return a
}
