package handler

import (
	"net"
	"net/http"
	"slices"
	"strings"

	"lastitem/internal/handler/input"
)

// origins refuses requests that a browser sends for a page of another site (by Sec-Fetch-Site or Origin). Otherwise any
// open page could buy from a local stack, since browsers send form posts across origins without asking the server.
var origins = http.NewCrossOriginProtection()

// tokenRequired is the header with which a proxy restricts a path to the operator. The proxy decides, since it knows
// which requests come from outside.
const tokenRequired = "X-Token-Required"

// door lets requests in.
type door struct {
	hosts []string // see Options.Hosts
	admin *admin
}

// admit refuses requests before routing that no route may handle.
func (d *door) admit(r *http.Request) error {
	if !served(d.hosts, r.Host) {
		return errHost
	}
	if origins.Check(r) != nil {
		return errCrossOrigin
	}
	// HTTP/1.0 has no Transfer-Encoding, so net/http drops the header and the chunked body: the shop would deduct one
	// unit, whatever the body says. Therefore HTTP/1.0 must send a Content-Length.
	if r.ProtoMajor == 1 && r.ProtoMinor == 0 && r.Method != http.MethodGet && r.Header["Content-Length"] == nil {
		return input.Invalid("Content-Length", "is missing, and HTTP/1.0 has no other way to send a body")
	}
	return d.guard(r)
}

// guard requires the admin token if a proxy demands it for this path. A client that sends the header only restricts
// itself.
func (d *door) guard(r *http.Request) error {
	if len(r.Header[tokenRequired]) == 0 {
		return nil
	}
	return d.admin.authorize(r)
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

// canonical returns r as the routes expect it, without asking the client to come again: a redirect of a POST is
// followed as a GET by many clients, and loses the deduction. It is r itself, or a copy without trailing slashes and
// with GET for HEAD (the server knows from the original to send no body).
func canonical(r *http.Request) *http.Request {
	path, raw := withoutSlash(r)
	if path == r.URL.Path && r.Method != http.MethodHead {
		return r
	}
	c, u := r.WithContext(r.Context()), *r.URL
	u.Path, u.RawPath = path, raw
	c.URL = &u
	if c.Method == http.MethodHead {
		c.Method = http.MethodGet
	}
	return c
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
