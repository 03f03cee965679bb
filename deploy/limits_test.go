package deploy_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"lastitem/contract/api"
	"lastitem/internal/handler"
	"lastitem/testkit"
)

// What the shop's table of rights closes wants a token at this edge, and the shop is asked to check it; the rest is
// open.
func TestNginxClosesPaths(t *testing.T) {
	t.Parallel()
	e := startEdge(t, 1)
	closed := []string{"GET /metrics/", "GET /products/101/ledger/", "GET /products/101/ledge%72",
		"GET /products//101/ledger"}
	var open []string
	for route, right := range handler.Rights {
		route = strings.NewReplacer("{id}", "101", "{order_id}", "0").Replace(route)
		if right == handler.Reader {
			open = append(open, route)
		} else {
			closed = append(closed, route)
		}
	}
	for _, route := range closed {
		method, path, _ := strings.Cut(route, " ")
		before := e.hits.Load()
		resp, body := e.send(t, method, path, nil)
		wantProblem(t, resp, body, http.StatusUnauthorized, api.Unauthorized)
		if e.hits.Load() != before || resp.Header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("GET %s: %d requests passed, WWW-Authenticate %q", path, e.hits.Load()-before,
				resp.Header.Get("WWW-Authenticate"))
		}
		for {
			resp, body := e.send(t, method, path, nil, "Authorization", "Bearer x")
			if resp.StatusCode == http.StatusServiceUnavailable { // the one that is down
				continue
			}
			if resp.StatusCode != http.StatusOK || resp.Header.Get("X-Saw-Required") != "yes" {
				t.Errorf("GET %s with a token = %d %s, the shop was told %q", path, resp.StatusCode, body,
					resp.Header.Get("X-Saw-Required"))
			}
			break
		}
	}
	for _, route := range append(open, "GET /products/101", "POST /deduct_stock", "POST /reservations/x/cancel") {
		method, path, _ := strings.Cut(route, " ")
		resp, _ := e.send(t, method, path, nil, "X-Token-Required", "yes")
		if resp.StatusCode == http.StatusUnauthorized || resp.Header.Get("X-Saw-Required") != "" {
			t.Errorf("%s = %d, the shop was told %q; want it open", path, resp.StatusCode, resp.Header.Get("X-Saw-Required"))
		}
	}
}

// Too many requests, of any kind or of those that set stock, are 429 rate_limited and not passed on.
func TestNginxLimits(t *testing.T) {
	t.Parallel()
	e := startEdge(t, 1, "rate=100000r/s", "rate=1r/m", "burst=100000", "burst=3", adminRate, "rate=1r/m", adminBurst,
		"burst=1 nodelay")
	limited := func(method, path string) (n int) {
		for range 6 {
			resp, body := e.send(t, method, path, nil, "Authorization", "Bearer x")
			if resp.StatusCode == http.StatusTooManyRequests {
				wantProblem(t, resp, body, http.StatusTooManyRequests, api.RateLimited)
				if resp.Header.Get("Retry-After") == "" || resp.Header.Get("X-Upstream") != "" {
					t.Errorf("429 with Retry-After %q, X-Upstream %q", resp.Header.Get("Retry-After"), resp.Header.Get("X-Upstream"))
				}
				n++
			}
		}
		return n
	}
	if n := limited("PUT", "/products/101/stock"); n != 4 {
		t.Errorf("%d of 6 PUTs were limited, want 4", n)
	}
	if n := limited("POST", "/deduct_stock"); n == 0 {
		t.Error("no POST was limited")
	}
}

// How nginx.conf limits the requests with a token.
const (
	adminRate  = "rate=200r/s"
	adminBurst = "burst=1000 delay=800"
)

// Whatever takes a token takes few guesses at it, on whichever path they come; the same requests without one are not
// counted.
func TestNginxLimitsTokens(t *testing.T) {
	t.Parallel()
	for _, request := range []string{
		"PUT /products/101/stock", "GET /products/101/ledger", "GET /products/101/orders", "GET /metrics", "GET /events",
		"POST /deduct_stock/lua-lock?lease_ms=1", "POST /console/api/session",
	} {
		t.Run(request, func(t *testing.T) {
			t.Parallel()
			e := startEdge(t, 1, adminRate, "rate=1r/m", adminBurst, "burst=1 nodelay", "console:8090", testkit.Console(t))
			method, path, _ := strings.Cut(request, " ")
			for guess := range 6 {
				resp, body := e.send(t, method, path, nil, "Authorization", fmt.Sprint("Bearer ", guess))
				if limited := resp.StatusCode == http.StatusTooManyRequests; limited != (guess >= 2) {
					t.Errorf("guess %d is answered %d %s", guess, resp.StatusCode, body)
				}
			}
			if resp, body := e.send(t, "POST", "/deduct_stock", nil); resp.StatusCode != http.StatusOK {
				t.Errorf("POST without a token = %d %s", resp.StatusCode, body)
			}
		})
	}
}

// A client that has the token and waits for each answer is slowed down, and not refused.
func TestNginxSlowsTokens(t *testing.T) {
	t.Parallel()
	e := startEdge(t, 1, adminRate, "rate=100r/s", adminBurst, "burst=10 delay=5")
	start := time.Now()
	const requests = 50
	for range requests {
		if resp, body := e.send(t, "GET", "/products/101/ledger", nil, "Authorization",
			"Bearer x"); resp.StatusCode == http.StatusTooManyRequests {
			t.Fatalf("a request that waited for its turn is answered %d %s", resp.StatusCode, body)
		}
	}
	if took, least := time.Since(start), (requests-10)*10*time.Millisecond; took < least {
		t.Errorf("%d requests took %v, want %v or more", requests, took, least)
	}
}

// One client has so many requests under way, and no more: the next is 429 rate_limited and not passed on, until one has
// ended.
func TestNginxLimitsConnections(t *testing.T) {
	t.Parallel()
	e := startEdge(t, 1, "limit_conn clients 4096", "limit_conn clients 2", "proxy_read_timeout 20s",
		"proxy_read_timeout 60s")
	hanging, leave := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	t.Cleanup(func() { leave(); clients.Wait() })
	for range 2 {
		clients.Go(func() {
			req, err := http.NewRequestWithContext(hanging, http.MethodPost, e.url+"/hangs", nil)
			if err != nil {
				t.Error(err)
				return
			}
			if resp, err := http.DefaultClient.Do(req); err == nil {
				_ = resp.Body.Close()
				t.Errorf("a request that hangs was answered %d", resp.StatusCode)
			}
		})
	}
	testkit.Until(t, "the requests that hang have reached a replica", func() bool { return e.hits.Load() == 2 })
	resp, body := e.send(t, "POST", "/", nil)
	wantProblem(t, resp, body, http.StatusTooManyRequests, api.RateLimited)
	if resp.Header.Get("Retry-After") == "" || resp.Header.Get("X-Upstream") != "" || e.hits.Load() != 2 {
		t.Errorf("429 with Retry-After %q, X-Upstream %q, after %d requests passed on", resp.Header.Get("Retry-After"),
			resp.Header.Get("X-Upstream"), e.hits.Load())
	}
	leave()
	testkit.Until(t, "200, since the others have left", func() bool {
		resp, _ := e.send(t, "POST", "/", nil)
		return resp.StatusCode == http.StatusOK
	})
}

// A client that sends its header or its body too slowly is cut off.
func TestNginxCutsSlowClients(t *testing.T) {
	t.Parallel()
	e := startEdge(t, 1, "client_header_timeout 10s", "client_header_timeout 1s", "client_body_timeout 10s",
		"client_body_timeout 1s")
	for _, begun := range []string{"POST / HTTP/1.1\r\nHost: x\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc"} {
		conn := testkit.Dial(t, strings.TrimPrefix(e.url, "http://"))
		_, err := io.WriteString(conn, begun)
		testkit.Must(t, err)
		_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
		if _, err := io.ReadAll(conn); err != nil {
			t.Errorf("%q: %v, want the connection closed", begun, err)
		}
	}
	if n := e.hits.Load(); n != 0 {
		t.Errorf("%d half requests were passed on", n)
	}
}
