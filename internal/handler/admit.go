package handler

import (
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
)

var (
	errHost        = errors.New("handler: the shop is not served under this host name")
	errCrossOrigin = errors.New("handler: sent by a page of another origin")
)

// origins refuses what a browser sends on behalf of a page of another site, by Sec-Fetch-Site or Origin. A page that the user of a
// local stack happens to have open could otherwise buy: a form post needs no leave of the server that it goes to.
var origins = http.NewCrossOriginProtection()

// admit refuses requests that no route should see, whatever they ask for.
func (h *Handler) admit(r *http.Request) error {
	if !h.served(r.Host) {
		return errHost
	}
	if origins.Check(r) != nil {
		return errCrossOrigin
	}
	// net/http drops the Transfer-Encoding of HTTP/1.0, which has none, and with it a chunked body: the deduction would be of one
	// unit, whatever the body says. HTTP/1.0 wants a Content-Length with every body.
	if r.ProtoMajor == 1 && r.ProtoMinor == 0 && r.Method != http.MethodGet && r.Header["Content-Length"] == nil {
		return invalid("Content-Length", "is missing, and HTTP/1.0 has no other way to send a body")
	}
	return h.guard(r)
}

// served says whether the shop may be asked under a host name. Options.Hosts empty = under any. Addresses, localhost and names without
// a dot always pass: nobody can point them at this machine from outside, as a page can point its own name here after it was loaded (DNS
// rebinding).
func (h *Handler) served(host string) bool {
	if len(h.Hosts) == 0 {
		return true
	}
	name := host
	if n, _, err := net.SplitHostPort(host); err == nil {
		name = n
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	return !strings.Contains(name, ".") || net.ParseIP(name) != nil || strings.HasSuffix(name, ".localhost") || slices.Contains(h.Hosts, name)
}

// knownCoding says whether a body is sent as it is: each Content-Encoding is identity, or there is none.
func knownCoding(header http.Header) bool {
	return !slices.ContainsFunc(header["Content-Encoding"], func(coding string) bool {
		return coding != "" && !strings.EqualFold(coding, "identity")
	})
}

// withoutSlash returns the path of a request without the slashes that end it. A slash that is written %2F belongs to a name, and stays.
func withoutSlash(r *http.Request) (path, raw string) {
	path, raw = r.URL.Path, r.URL.RawPath
	if raw == "" {
		path = strings.TrimRight(path, "/")
	} else {
		trimmed := strings.TrimRight(raw, "/")
		path, raw = path[:len(path)-(len(raw)-len(trimmed))], trimmed
	}
	if path == "" {
		path = "/"
	}
	return path, raw
}
