package localstack

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"lastitem/internal/api"
)

// maxBody is how much of a request's body the proxy takes: well above the shop's own limit, whose answer says more.
const maxBody = 1 << 20

// NewBalancer returns a small reverse proxy that sends requests to the targets (host:port) in turn. It stands in for nginx
// and keeps to the same rules: connections are reused, every request is sent at most once, a target that fails stays in,
// and its own errors are problems in the shape of the shop's.
func NewBalancer(targets []string) http.Handler {
	var turn atomic.Uint64
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			target := targets[(turn.Add(1)-1)%uint64(len(targets))]
			r.SetURL(&url.URL{Scheme: "http", Host: target})
			r.Out.Host = r.In.Host
			r.SetXForwarded()
		},
		Transport:    once{newTransport()},
		BufferPool:   &bufferPool{},
		ErrorLog:     log.New(io.Discard, "", 0), // the answer says it
		ErrorHandler: edgeError,
		ModifyResponse: func(res *http.Response) error {
			res.Header.Set("X-Upstream", res.Request.URL.Host)
			return nil
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if readBody(w, r) {
			proxy.ServeHTTP(w, r)
		}
	})
}

// newTransport keeps enough idle connections for a load test, and takes no proxy from the environment.
func newTransport() *http.Transport {
	return &http.Transport{
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		DisableCompression:    true,
		MaxIdleConnsPerHost:   512,
		IdleConnTimeout:       60 * time.Second, // below the replicas' own: we close first
		ResponseHeaderTimeout: 60 * time.Second,
	}
}

// readBody takes the whole body before a target sees any of it, as nginx does, so that a slow or broken client never leaves
// half a request at a replica. It answers itself and returns false when the body is too large or does not come.
func readBody(w http.ResponseWriter, r *http.Request) bool {
	if r.ProtoMajor == 1 && r.ProtoMinor == 0 && r.Method != http.MethodGet && r.Header["Content-Length"] == nil {
		// net/http drops the Transfer-Encoding of HTTP/1.0, and a chunked body with it: no target would know that there was one.
		writeEdge(w, http.StatusBadRequest, api.InvalidRequest, "HTTP/1.0 has no way to send a body without a Content-Length")
		return false
	}
	if r.Body == nil || r.Body == http.NoBody {
		return true
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		writeEdge(w, http.StatusRequestEntityTooLarge, api.BodyTooLarge, "answered by the balancer")
		return false
	case err != nil:
		writeEdge(w, http.StatusBadRequest, api.InvalidRequest, "the body broke off")
		return false
	}
	r.Header.Del("Expect") // the body is here
	r.ContentLength = int64(len(body))
	r.TransferEncoding = nil
	r.Body = io.NopCloser(bytes.NewReader(body))
	return true
}

// once keeps net/http from sending a request a second time. When a reused connection turns out to be dead, the transport
// repeats a request without a body (or with one that it can rewind) if the method is safe or the header has an
// Idempotency-Key, although the first copy may have been carried out. It recognizes the header by its canonical
// spelling and "no body" by nil; on the wire neither makes a difference.
type once struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (o once) RoundTrip(r *http.Request) (*http.Response, error) {
	for canonical, plain := range map[string]string{"Idempotency-Key": "idempotency-key", "X-Idempotency-Key": "x-idempotency-key"} {
		if values, ok := r.Header[canonical]; ok {
			delete(r.Header, canonical)
			r.Header[plain] = values
		}
	}
	switch r.Method { // the ones that net/http holds to be safe to repeat
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		if r.Body == nil {
			r.Body, r.ContentLength = io.NopCloser(eof{}), 0
		}
	}
	return o.next.RoundTrip(r)
}

// eof is an empty body that is not nil.
type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

// edgeError answers when a target did not. Only a failed dial proves that nothing was sent.
func edgeError(w http.ResponseWriter, r *http.Request, err error) {
	w.Header().Set("X-Upstream", r.URL.Host)
	var op *net.OpError
	var slow net.Error
	switch {
	case errors.As(err, &op) && op.Op == "dial":
		w.Header().Set("Retry-After", "1")
		writeEdge(w, http.StatusServiceUnavailable, api.BackendUnavailable, "no connection to the replica; nothing was sent")
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &slow) && slow.Timeout():
		writeEdge(w, http.StatusGatewayTimeout, api.OutcomeUnknown, "the replica did not answer in time")
	default:
		writeEdge(w, http.StatusBadGateway, api.OutcomeUnknown, "the replica did not answer")
	}
}

// writeEdge answers with a problem of the balancer's own.
func writeEdge(w http.ResponseWriter, status int, code api.Code, detail string) {
	body := edgeBody(status, code, detail)
	w.Header().Set("Content-Type", api.ProblemType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// bufferPool lends the proxy its copying buffers.
type bufferPool struct{ pool sync.Pool }

// Get implements httputil.BufferPool.
func (b *bufferPool) Get() []byte {
	if buf, ok := b.pool.Get().(*[]byte); ok {
		return *buf
	}
	return make([]byte, 32<<10)
}

// Put implements httputil.BufferPool.
func (b *bufferPool) Put(buf []byte) { b.pool.Put(&buf) }

// proxy is the built-in balancer as a process of its own.
func (s *Stack) proxy(targets []string) server {
	return server{
		name: "balancer",
		kind: "built-in round-robin proxy",
		addr: s.opts.Listen,
		url:  func(addr string) string { return "http://" + addr },
		setup: func(addr string) ([]string, error) {
			argv := []string{s.opts.Binary, "balance", "--listen", addr}
			for _, t := range targets {
				argv = append(argv, "--to", t)
			}
			return argv, nil
		},
		ready: func(ctx context.Context, addr string) error { return answers200(ctx, addr, "/readyz") },
		grace: grace,
	}
}
