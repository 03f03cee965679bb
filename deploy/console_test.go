package deploy_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"lastitem/contract/api"
	"lastitem/testkit"
)

// A browser that opens the address is sent to the console, by a path alone: nginx does not know the published port.
// Everybody else gets the shop. The console sees the host name that the browser used, which it checks.
func TestNginxLeadsBrowsersToTheConsole(t *testing.T) {
	t.Parallel()
	e := startEdge(t, 1, "console:8090", testkit.Console(t))
	for _, c := range []struct {
		method, path, accept, location, body string
	}{
		{"GET", "/", "*/*", "", ""},
		{"GET", "/", "text/html,*/*;q=0.8", "/console/", ""},
		{"HEAD", "/", "text/html", "/console/", ""},
		{"GET", "/console", "text/html", "/console/", ""},
		{"GET", "/console/", "*/*", "", "GET /console/ of " + strings.TrimPrefix(e.url, "http://")},
		{"DELETE", "/console/api/runs", "*/*", "", "DELETE /console/api/runs of " + strings.TrimPrefix(e.url, "http://")},
		{"POST", "/", "text/html", "", ""},
		{"GET", "/modes", "text/html", "", ""},
	} {
		res, body := e.send(t, c.method, c.path, nil, "Accept", c.accept)
		if got := res.Header.Get("Location"); got != c.location || c.body != "" && body != c.body {
			t.Errorf("%s %s for %s = %s to %q %q, want %q %q", c.method, c.path, c.accept, res.Status, got, body, c.location,
				c.body)
		}
		if (c.location == "" && c.body == "") != (res.Header.Get(api.HeaderReplica) != "" ||
			res.StatusCode == http.StatusServiceUnavailable) {
			t.Errorf("%s %s for %s: %s came from replica %q", c.method, c.path, c.accept, res.Status,
				res.Header.Get(api.HeaderReplica))
		}
	}
}

// The console's events pass at once, and a stream may be silent for longer than an answer.
func TestNginxPassesTheConsolesEvents(t *testing.T) {
	t.Parallel()
	e := startEdge(t, 1, "console:8090", testkit.Console(t), "proxy_read_timeout 20s", "proxy_read_timeout 1s")
	in := testkit.ConsoleEvents(t, e.url)
	ended := make(chan error, 1)
	go func() { _, err := io.ReadAll(in); ended <- err }()
	select {
	case err := <-ended:
		t.Errorf("the silent stream ended within proxy_read_timeout of the shop: %v", err)
	case <-time.After(2 * time.Second):
	}
}

// Where the console is down its paths say so, and the shop sells.
func TestNginxWithoutItsConsole(t *testing.T) {
	t.Parallel()
	e := startEdge(t, 1, "console:8090", testkit.FreePort(t))
	res, body := e.send(t, "GET", "/console/", nil)
	wantProblem(t, res, body, http.StatusServiceUnavailable, api.BackendUnavailable)
	if res.Header.Get("Retry-After") != "1" || !strings.Contains(body, "the console does not answer") {
		t.Errorf("Retry-After %q, %s", res.Header.Get("Retry-After"), body)
	}
	if res, body := e.send(t, "POST", "/", nil); res.StatusCode != http.StatusOK {
		t.Errorf("POST / = %s %s", res.Status, body)
	}
	large, body := e.send(t, "POST", "/console/api/runs", strings.NewReader(strings.Repeat("a", 80<<10+1)))
	wantProblem(t, large, body, http.StatusRequestEntityTooLarge, api.BodyTooLarge)
}
