package handler

import (
	"encoding/binary"
	"encoding/hex"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"regexp"

	"lastitem/contract/api"
	"lastitem/internal/step"
)

// maxRequestID is the length of the longest X-Request-Id that is accepted from a client, in bytes.
const maxRequestID = 128

// requestID returns the value of X-Request-Id for the answer to r: the one in the request if it is a single word of
// harmless characters, otherwise 128 new random bits. It is meant for logs, and proves nothing: clients may repeat it.
func requestID(r *http.Request) []string {
	if given := r.Header[api.HeaderRequestID]; len(given) == 1 && isRequestID(given[0]) {
		return given
	}
	var raw [16]byte
	binary.NativeEndian.PutUint64(raw[:8], rand.Uint64())
	binary.NativeEndian.PutUint64(raw[8:], rand.Uint64())
	return []string{hex.EncodeToString(raw[:])}
}

// isRequestID accepts the unreserved characters of RFC 3986 and those of base64, which need no escaping in logs and
// JSON.
func isRequestID(s string) bool {
	if s == "" || len(s) > maxRequestID {
		return false
	}
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '-', c == '_', c == '.', c == '~', c == ':', c == '+', c == '/', c == '=':
		default:
			return false
		}
	}
	return true
}

// traceParents is the form of a traceparent of W3C Trace Context, version 00; later versions begin the same way.
var traceParents = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?$`)

// traceParent returns the traceparent of a request, "" if it has no valid one. It is passed on
// unchanged, as the W3C recommendation demands of services that do not participate in tracing: the spans of package
// spans are made when the request is over, and the header is their parent.
func traceParent(r *http.Request) string {
	given := r.Header["Traceparent"]
	if len(given) != 1 || len(given[0]) > maxRequestID || !traceParents.MatchString(given[0]) || given[0][:2] == "ff" {
		return ""
	}
	return given[0]
}

// identify adds the request's names, as in the log, to a problem.
func identify(p *api.Problem, w http.ResponseWriter, r *http.Request) {
	p.RequestID, p.TraceParent = answeredID(w), traceParent(r)
}

// answeredID is the X-Request-Id that ServeHTTP has set on an answer.
func answeredID(w http.ResponseWriter) string {
	if id := w.Header()[api.HeaderRequestID]; len(id) == 1 {
		return id[0]
	}
	return ""
}

// names are the attributes that name the request in a log line.
func names(w http.ResponseWriter, r *http.Request) []slog.Attr {
	return step.LogAttrs(answeredID(w), traceParent(r))
}
