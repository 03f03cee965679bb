package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"lastitem/loadtest/plan"
	"lastitem/say/text"
	"lastitem/target"
)

// Engine is the HTTP client of one worker, and the place where the worker's code runs: one function at a time. An
// engine never sends a request twice, because a request without an answer may have been executed.
type Engine interface {
	// Go runs f, which may use the engine, beside its caller. In f nothing may block for long but the engine's own
	// methods: other workers may share its thread.
	Go(f func())
	// Rest waits for d within f; false means that ctx ended first.
	Rest(ctx context.Context, d time.Duration) bool
	// Connect opens the connection before the first request, so that handshakes do not spread out a burst; it does nothing
	// if the engine pools its connections or has one already.
	Connect() error
	// Do sends the call and reads the whole answer. Only the target's timeout ends it early: cancelling a request would
	// only make its outcome unknown.
	Do(call target.Call) Answer
	// Close closes the engine's connections.
	Close()
}

// Target is the service that the engines of a run send to.
type Target struct {
	// URL is http or https with a host; its path, if any, is put before every call's.
	URL *url.URL
	// Timeout bounds one call, connecting included.
	Timeout time.Duration
	// Insecure takes every certificate.
	Insecure bool
	// Headers says that the answers keep their headers; the raw engine never does.
	Headers bool
	// Workers is how many engines share the connection pool, which is made for that many connections.
	Workers int
}

// Answer is the reply to a call, or why there is none. The body is valid until the engine's next call.
type Answer struct {
	target.Reply
	// Err is why there is no usable reply: one of the Err constants, "" if there is one.
	Err string
	// Sent says that the service may have seen the request. It is false only where no connection could be had.
	Sent bool
}

// The transport errors, as they appear among the Codes of a loadtest.Result.
const (
	ErrTimeout   = "timeout"                    // no answer within Plan.Timeout
	ErrReset     = "reset"                      // the connection was reset
	ErrRefused   = "refused_connection"         // no connection could be had, so nothing was sent
	ErrEOF       = "eof"                        // the connection was closed before the answer was complete
	ErrBadAnswer = string(target.CodeBadAnswer) // the bytes are not a valid answer
	ErrNetwork   = "network"                    // anything else below HTTP
)

// NewEngines returns t.Workers engines of the kind name.
func NewEngines(name string, t Target) ([]Engine, error) {
	if t.URL == nil || t.URL.Host == "" || (t.URL.Scheme != "http" && t.URL.Scheme != "https") {
		return nil, text.Of("loadtest: the address must be a URL with http or https and a host, not %q").Errorf(t.URL)
	}
	engines := make([]Engine, t.Workers)
	switch name {
	case plan.EngineRaw, "":
		all := make([]*raw, t.Workers)
		for i := range all {
			all[i] = newRaw(t)
			engines[i] = all[i]
		}
		if t.URL.Scheme == "http" {
			spread(all)
		}
	case plan.EngineResty:
		shared := newResty(t)
		for i := range engines {
			engines[i] = shared.worker()
		}
	default:
		return nil, text.Of("loadtest: no engine %q; there are %s").Errorf(name, strings.Join(plan.EngineNames, ", "))
	}
	return engines, nil
}

// errClosedIdle is the text of net/http's only unexported error for a closed keep-alive connection.
const errClosedIdle = "http: server closed idle connection"

// errBadAnswer marks an answer that an engine's own parser refuses.
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

// dialFailed reports whether err came from making the connection: then nothing was sent.
func dialFailed(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// badAnswer builds an error that is reported as [ErrBadAnswer].
func badAnswer(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errBadAnswer, fmt.Sprintf(format, args...))
}
