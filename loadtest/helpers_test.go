package loadtest

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"
)

// patience is how long a test waits for an event that must happen.
const patience = 20 * time.Second

// serve starts a standard HTTP server.
func serve(t *testing.T, h http.HandlerFunc) *url.URL {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
