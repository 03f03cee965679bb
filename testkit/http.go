package testkit

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"
)

// Ask sends a request, with names and values of header fields by turns, over a connection of its own, and returns the
// answer with its body. It follows no redirect.
func Ask(t testing.TB, method, url string, body io.Reader, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	Must(t, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
	}
	req.Close = true
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	res, err := (&http.Client{Timeout: time.Minute, CheckRedirect: stay}).Do(req)
	Must(t, err)
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	Must(t, err)
	return res, string(text)
}

// events is the path of the console's stream.
const events = "/console/api/events"

// Console is the address of a stand-in for the console: it answers what it was asked, and streams two events.
func Console(t testing.TB) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != events {
			_, _ = io.WriteString(w, r.Method+" "+r.URL.RequestURI()+" of "+r.Host) //nolint:gosec // only tests read it
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
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// ConsoleEvents reads the events of [Console] behind the balancer at url, which must pass them on at once: the stream
// stays open.
func ConsoleEvents(t testing.TB, url string) io.Reader {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+events, nil)
	Must(t, err)
	res, err := (&http.Client{Timeout: 20 * time.Second}).Do(req)
	Must(t, err)
	t.Cleanup(func() { _ = res.Body.Close() })
	in := bufio.NewReader(res.Body)
	for _, want := range []string{"data: 1\n", "\n", "data: 2\n"} {
		if line, err := in.ReadString('\n'); err != nil || line != want {
			t.Fatalf("%s: %q, %v; want %q while the stream is open", url, line, err, want)
		}
	}
	return in
}

// Read returns the content of a file.
func Read(t testing.TB, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	Must(t, err)
	return content
}

// Listen listens on a free port of 127.0.0.1 until the test ends.
func Listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// Dial connects to an address until the test ends.
func Dial(t testing.TB, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	Must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Serve serves HTTP until the test ends.
func Serve(t testing.TB, h http.Handler) *httptest.Server {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}
