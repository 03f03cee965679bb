package localstack

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// consoleBesides returns the URL of every kind of balancer that has a console beside the shop. The console tells who asked it, and its
// stream sends two events and then stays open.
func consoleBesides(t *testing.T) map[string]string {
	t.Helper()
	replica := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "the list") }))
	t.Cleanup(replica.Close)
	console := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/console/api/events" {
			_, _ = io.WriteString(w, "console "+r.URL.RequestURI()+" of "+r.Host)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, event := range []string{"data: 1\n\n", "data: 2\n\n"} { // the first one leaves with the header in any case
			_, _ = io.WriteString(w, event)
			_ = http.NewResponseController(w).Flush()
			time.Sleep(200 * time.Millisecond)
		}
		<-r.Context().Done()
	}))
	t.Cleanup(console.Close)
	targets, addr := []string{replica.Listener.Addr().String()}, console.Listener.Addr().String()
	return startEdges(t, Options{Only: []string{}, Console: addr}, NewBalancer(targets, WithConsole(addr)), targets)
}

// getFor is a GET that does not follow redirects.
func getFor(t *testing.T, url, accept string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	req.Host = "localhost:8080"
	client := &http.Client{Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

// A browser that opens the address of the balancer is sent to the console, curl is not; what begins with /console/ goes there as it is.
func TestConsoleBesideTheShop(t *testing.T) {
	t.Parallel()
	for kind, url := range consoleBesides(t) {
		for _, c := range []struct{ path, accept, location, body string }{
			{"/", "*/*", "", "the list"},
			{"/", "text/html,application/xhtml+xml", "/console/", ""},
			{"/", "application/json, Text/HTML;q=0.9", "/console/", ""},
			{"/modes", "text/html", "", "the list"},
			{"/console/", "text/html", "", "console /console/ of localhost:8080"},
			{"/console/api/search?q=a%20b", "*/*", "", "console /console/api/search?q=a%20b of localhost:8080"},
		} {
			res, body := getFor(t, url+c.path, c.accept)
			if res.Header.Get("Location") != c.location || c.location == "" && body != c.body {
				t.Errorf("%s: GET %s for %s = %s to %q %q, want %q %q", kind, c.path, c.accept, res.Status, res.Header.Get("Location"), body, c.location, c.body)
			}
		}
	}
}

// The console's events pass at once, while the stream stays open.
func TestConsoleEventsAreNotBuffered(t *testing.T) {
	t.Parallel()
	for kind, url := range consoleBesides(t) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/console/api/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := (&http.Client{Timeout: 20 * time.Second}).Do(req)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		in := bufio.NewReader(res.Body)
		for _, want := range []string{"data: 1\n", "\n", "data: 2\n"} {
			if line, err := in.ReadString('\n'); err != nil || line != want {
				t.Errorf("%s: %q, %v; want %q while the stream is open", kind, line, err, want)
				break
			}
		}
		_ = res.Body.Close()
	}
}

// Without a console a browser gets the list too, and there is no such path.
func TestNoConsole(t *testing.T) {
	t.Parallel()
	replica := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "shop "+r.URL.Path) }))
	t.Cleanup(replica.Close)
	for kind, url := range edges(t, replica.Listener.Addr().String()) {
		for _, path := range []string{"/", "/console/"} {
			if res, body := getFor(t, url+path, "text/html"); body != "shop "+path {
				t.Errorf("%s: GET %s = %s %q, want the shop's answer", kind, path, res.Status, body)
			}
		}
	}
}
