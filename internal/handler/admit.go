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

// origins refuses requests that a browser sends for a page of another site (by Sec-Fetch-Site or Origin). Otherwise any
// open page could buy from a local stack, since browsers send form posts across origins without asking the server.
var origins = http.NewCrossOriginProtection()

// admit refuses requests before routing that no route may handle.
func (h *Handler) admit(r *http.Request) error {
	if !served(h.Hosts, r.Host) {
		return errHost
	}
	if origins.Check(r) != nil {
		return errCrossOrigin
	}
	// HTTP/1.0 has no Transfer-Encoding, so net/http drops the header and the chunked body: the shop would deduct one
	// unit, whatever the body says. Therefore HTTP/1.0 must send a Content-Length.
	if r.ProtoMajor == 1 && r.ProtoMinor == 0 && r.Method != http.MethodGet && r.Header["Content-Length"] == nil {
		return invalid("Content-Length", "is missing, and HTTP/1.0 has no other way to send a body")
	}
	return h.guard(r)
}

// served says whether requests may use a host name; without a list any is allowed. IP addresses, localhost and
// names without a dot are always allowed: an attacker cannot make them resolve to this machine, as a page can do with
// its own name after it was loaded (DNS rebinding).
func served(hosts []string, host string) bool {
	if len(hosts) == 0 {
		return true
	}
	name := host
	if n, _, err := net.SplitHostPort(host); err == nil {
		name = n
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	return !strings.Contains(name, ".") || net.ParseIP(name) != nil || strings.HasSuffix(name, ".localhost") ||
		slices.Contains(hosts, name)
}

// knownCoding says whether a body is not encoded: there is no Content-Encoding, or only identity.
func knownCoding(header http.Header) bool {
	return !slices.ContainsFunc(header["Content-Encoding"], func(coding string) bool {
		return coding != "" && !strings.EqualFold(coding, "identity")
	})
}

// withoutSlash returns the path of a request without trailing slashes. A slash written as %2F belongs to a name, and
// stays.
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
