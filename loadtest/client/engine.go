package client

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"lastitem/internal/api"
)

// Engine is how one client speaks HTTP: one of them per worker, used by one goroutine at a time. An engine never sends a
// request twice: what was written and not answered may have happened.
type Engine interface {
	// Connect opens the connection ahead of the first request, so that a burst is not spread out by handshakes; a no-op
	// where the engine pools its connections or has one already.
	Connect() error
	// Do sends the call and reads the whole answer. It ends by the target's timeout and by nothing else: cancelling a
	// request would only turn its outcome into an unknown one.
	Do(call *Call) Answer
	// Close closes the engine's connections.
	Close()
}

// The engines.
const (
	EngineRaw     = "raw"     // one keep-alive connection per worker, own parser: the least the generator can cost
	EngineNetHTTP = "nethttp" // net/http's client
	EngineResty   = "resty"   // resty over net/http
)

// EngineNames lists the engines, the default first.
var EngineNames = []string{EngineRaw, EngineNetHTTP, EngineResty}

// Target is whom the engines of a run speak to.
type Target struct {
	// URL is http or https with a host; its path, if any, is put before every call's.
	URL *url.URL
	// Timeout bounds one call, connecting included.
	Timeout time.Duration
	// Workers is how many engines will share what may be shared: connection pools are made to hold that many.
	Workers int
	// Opaque leaves the bodies unread: those of a service that is not ours say nothing to us.
	Opaque bool
}

// Call is one request.
type Call struct {
	Method      string
	Path        string // with its query
	Body        []byte
	ContentType string // sent where there is a body
	Key         string // the Idempotency-Key; "" = none
}

// Answer is what came back, or why nothing did.
type Answer struct {
	// Status is 0 where there was no answer.
	Status int
	// Problem says that the body was application/problem+json; only then does Code mean anything.
	Problem bool
	Code    api.Code
	OrderID string
	// Remaining counts only where HasRemaining is set.
	Remaining    int64
	HasRemaining bool
	Replica      string
	Replayed     bool
	RetryAfter   time.Duration // 0 = not said
	// Err is why there is no usable answer: one of the Err constants, "" where there is one.
	Err string
	// Sent says that the service may have seen the request. It is false only where no connection could be had.
	Sent bool
}

// What the transport says, as it appears among [Result.Codes].
const (
	ErrTimeout   = "timeout"            // no answer within Plan.Timeout
	ErrReset     = "reset"              // the connection was reset
	ErrRefused   = "refused_connection" // no connection could be had, so nothing was sent
	ErrEOF       = "eof"                // the connection was closed before the answer was complete
	ErrBadAnswer = "bad_answer"         // bytes came back that are not the answer of such a service
	ErrNetwork   = "network"            // anything else below HTTP
)

// NewEngines returns t.Workers engines of the kind that name says.
func NewEngines(name string, t Target) ([]Engine, error) {
	if t.URL == nil || t.URL.Host == "" || (t.URL.Scheme != "http" && t.URL.Scheme != "https") {
		return nil, api.Text{En: "loadtest: the address must be a URL with http or https and a host, not %q", Zh: "loadtest: 地址应为带主机名的 http 或 https 地址，不能是 %q"}.Errorf(t.URL)
	}
	var build func() Engine
	switch name {
	case EngineRaw, "":
		build = func() Engine { return newRaw(t) }
	case EngineNetHTTP:
		shared := newNetHTTP(t)
		build = func() Engine { return shared.worker() }
	case EngineResty:
		shared := newResty(t)
		build = func() Engine { return shared.worker() }
	default:
		return nil, api.Text{En: "loadtest: no engine %q; there are %s", Zh: "loadtest: 没有引擎 %q；可选的有 %s"}.Errorf(name, strings.Join(EngineNames, ", "))
	}
	engines := make([]Engine, t.Workers)
	for i := range engines {
		engines[i] = build()
	}
	return engines, nil
}

// errClosedIdle is how net/http words the one error of a closed keep-alive connection that it does not export.
const errClosedIdle = "http: server closed idle connection"

// errBadAnswer marks what an engine's own parser could not accept.
var errBadAnswer = errors.New("bad answer")

// transportError names an error for the report.
func transportError(err error) string {
	var network net.Error
	var op *net.OpError
	switch {
	case errors.Is(err, errBadAnswer):
		return ErrBadAnswer
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return ErrTimeout
	case errors.Is(err, syscall.ECONNREFUSED):
		return ErrRefused
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return ErrReset
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), strings.HasSuffix(err.Error(), errClosedIdle):
		return ErrEOF
	case errors.As(err, &op):
		return ErrNetwork
	default:
		return ErrBadAnswer
	}
}

// dialFailed says that err came from making the connection: nothing was sent.
func dialFailed(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// badAnswer builds an error that reads as [ErrBadAnswer].
func badAnswer(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errBadAnswer, fmt.Sprintf(format, args...))
}

// retryAfter reads a Retry-After in seconds; 0 where it is absent or a date.
func retryAfter(value string) time.Duration {
	var seconds int
	for _, c := range []byte(value) {
		if c < '0' || c > '9' || seconds > 1<<20 {
			return 0
		}
		seconds = seconds*10 + int(c-'0')
	}
	return time.Duration(seconds) * time.Second
}
