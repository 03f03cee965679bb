package wire_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"lastitem/internal/testenv/wait"
	"lastitem/internal/wire"
)

// Answers of every shape pass, a held one waits, and Consul's blocking query is a poll.
func TestHTTPAnswers(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/chunks":
			for range 3 {
				_, _ = io.WriteString(w, strings.Repeat("c", 1000))
				w.(http.Flusher).Flush()
			}
		case "/sized":
			_, _ = io.WriteString(w, strings.Repeat("s", 3000))
		case "/close":
			w.Header().Set("Connection", "close")
			w.Header().Set("Transfer-Encoding", "identity")
			_, _ = io.WriteString(w, strings.Repeat("e", 3000))
		case "/none":
			w.WriteHeader(http.StatusNoContent)
		default:
			http.Error(w, "no", http.StatusConflict)
		}
	}))
	t.Cleanup(server.Close)
	p := newProxy(t, server.Listener.Addr().String(), wire.HTTP)
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	do := func(method, path string) (int, int) {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+p.Addr+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, len(body)
	}
	held := p.Add(wire.Rule{Answer: true, Match: is("GET /sized")})
	go func() { reached(t, held); held.Pass() }()
	for _, c := range []struct {
		method, path string
		status, size int
	}{
		{"GET", "/chunks", 200, 3000}, {"GET", "/sized", 200, 3000}, {"HEAD", "/sized", 200, 0}, {"GET", "/none", 204, 0},
		{"POST", "/no?index=7", 409, 3}, {"GET", "/no?index=7", 409, 3}, {"GET", "/close", 200, 3000}, {"GET", "/none", 204, 0},
	} {
		if status, size := do(c.method, c.path); status != c.status || size != c.size {
			t.Errorf("%s %s: %d with %d bytes, want %d with %d", c.method, c.path, status, size, c.status, c.size)
		}
	}
	wait.Until(t, "all is answered", func() bool { return len(p.Unanswered()) == 0 })
	for _, c := range p.Since(0) {
		if c.Answered.IsZero() || (c.Failed == "409") != strings.HasPrefix(c.Pattern[4:], "/no?") && c.Pattern[:4] == "GET " || c.Poll != (c.Text == "GET /no?index=7") {
			t.Errorf("%+v", c)
		}
	}
	if p.Err() != nil {
		t.Error(p.Err())
	}
}
