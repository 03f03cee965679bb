package stack

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
	"strings"
	"sync"
	"time"

	"lastitem/contract/api"
)

// maxBody is how much of a request's body the proxy takes: above the shop's own limit of 64 KiB, whose answer says
// more.
const maxBody = 80 << 10

// BalancerOption changes a balancer.
type BalancerOption func(*fleet)

// KeepFailing keeps a target that fails in the round, so that a fault under test is met and not avoided.
func KeepFailing(f *fleet) { f.keepFailing = true }

// WithConsole sends what begins with /console/ to the console at addr, and redirects a browser there that asks for /.
func WithConsole(addr string) BalancerOption { return func(f *fleet) { f.console = addr } }

// NewBalancer returns a small reverse proxy that sends requests to the targets (host:port) in turn. It stands in for
// nginx and keeps to the same rules: connections are reused; nothing is sent twice, and only a POST that found no
// connection goes to the next target; a target that fails is left out for two seconds; and its own errors are problems
// in the shape of the shop's.
func NewBalancer(targets []string, options ...BalancerOption) http.Handler {
	all := &fleet{next: once{newTransport()}}
	for _, addr := range targets {
		all.targets = append(all.targets, &target{addr: addr})
	}
	for _, set := range options {
		set(all)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: targets[0]}) // the fleet chooses another one
			// As it came: the proxy has dropped the parameters that do not parse, and a request without its product_id buys
			// the default product. The replica refuses such a query.
			r.Out.URL.RawQuery, r.Out.URL.ForceQuery = r.In.URL.RawQuery, r.In.URL.ForceQuery
			r.Out.Host = r.In.Host
			r.SetXForwarded()
		},
		Transport:    all,
		BufferPool:   &bufferPool{},
		ErrorLog:     log.New(io.Discard, "", 0), // the answer says it
		ErrorHandler: edgeError,
		ModifyResponse: func(res *http.Response) error {
			res.Header.Set("X-Upstream", upstreams(res.Request.Context()))
			return nil
		},
	}
	shops := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A header that Connection names would be dropped, as the idempotency key of a client that names it. nginx passes it
		// on.
		r.Header.Del("Connection")
		if body, ok := readBody(w, r); ok {
			proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), passageKey{}, &passage{body: body})))
		}
	})
	if all.console == "" {
		return shops
	}
	return besideConsole(all.console, shops)
}

// besideConsole serves the console at addr beside the shop.
func besideConsole(addr string, shops http.Handler) http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: addr})
			r.Out.Host = r.In.Host
			r.SetXForwarded()
		},
		Transport: once{newTransport()}, ErrorLog: log.New(io.Discard, "", 0), ErrorHandler: edgeError,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/console/"):
			// A stream of events is read for longer than a request may take to arrive.
			_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
			proxy.ServeHTTP(w, r)
		case browses(r):
			http.Redirect(w, r, "/console/", http.StatusFound)
		default:
			shops.ServeHTTP(w, r)
		}
	})
}

// browses says whether a browser opens the shop's address: curl takes anything, and gets the list.
func browses(r *http.Request) bool {
	return r.URL.Path == "/" && (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		strings.Contains(strings.ToLower(strings.Join(r.Header.Values("Accept"), ",")), "text/html")
}

// newTransport keeps enough idle connections for a load test, and takes no proxy from the environment.
func newTransport() *http.Transport {
	return &http.Transport{
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		DisableCompression:    true,
		MaxIdleConnsPerHost:   512,
		IdleConnTimeout:       4 * time.Second,  // below the replicas' drain: none is left when they stop
		ResponseHeaderTimeout: 75 * time.Second, // as nginx.conf.tmpl has it
	}
}

// readBody takes the whole body before a target sees any of it, as nginx does, so that a slow or broken client never
// leaves half a request at a replica. It answers itself and returns false when the body is too large or does not come.
func readBody(w http.ResponseWriter, r *http.Request) (body []byte, ok bool) {
	if r.ProtoMajor == 1 && r.ProtoMinor == 0 && r.Method != http.MethodGet && r.Header["Content-Length"] == nil {
		// net/http drops the Transfer-Encoding of HTTP/1.0, and a chunked body with it: no target would know that there was
		// one.
		writeEdge(w, http.StatusBadRequest, api.InvalidRequest, "HTTP/1.0 has no way to send a body without a Content-Length")
		return nil, false
	}
	if r.Body == nil || r.Body == http.NoBody {
		return nil, true
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		writeEdge(w, http.StatusRequestEntityTooLarge, api.BodyTooLarge, "answered by the balancer")
		return nil, false
	case err != nil:
		writeEdge(w, http.StatusBadRequest, api.InvalidRequest, "the body broke off")
		return nil, false
	}
	r.Header.Del("Expect") // the body is here
	r.ContentLength = int64(len(body))
	r.TransferEncoding = nil
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body, true
}

// once keeps net/http from sending a request a second time. When a reused connection turns out to be dead, the
// transport repeats a request without a body (or with one that it can rewind) if the method is safe or the header has
// an Idempotency-Key, although the first copy may have been carried out. It recognizes the header by its canonical
// spelling and "no body" by nil; on the wire neither makes a difference.
type once struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (o once) RoundTrip(r *http.Request) (*http.Response, error) {
	for canonical, plain := range map[string]string{"Idempotency-Key": "idempotency-key",
		"X-Idempotency-Key": "x-idempotency-key"} {
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
	w.Header().Set("X-Upstream", upstreams(r.Context()))
	var slow net.Error
	switch {
	case neverSent(err):
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
func proxyServer(o *Options, targets []string) server {
	return server{
		name: "balancer",
		kind: "built-in round-robin proxy",
		addr: o.Listen,
		url:  overHTTP,
		setup: func(at site) ([]string, error) {
			argv := []string{o.Binary, "balance", "--listen", at.addr}
			for _, t := range targets {
				argv = append(argv, "--to", t)
			}
			if o.KeepFailing {
				argv = append(argv, "--keep-failing")
			}
			if o.Console != "" {
				argv = append(argv, "--console", o.Console)
			}
			return argv, nil
		},
		ready: func(ctx context.Context, addr string) error { return answers200(ctx, addr, "/readyz") },
		grace: grace,
	}
}
