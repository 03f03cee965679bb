package replica

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
	"lastitem/stack"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// serveRaw serves h as 'shop serve' and 'shop balance' do, and returns a function that sends bytes and reads one
// answer.
func serveRaw(t *testing.T, h http.Handler, replica string) (addr string,
	send func(t *testing.T, request string) (*http.Response, string)) {
	t.Helper()
	l := testkit.Listen(t)
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 20 * time.Second}
	go func() { _ = srv.Serve(Problems(l, replica)) }()
	t.Cleanup(func() { _ = srv.Close() })
	return l.Addr().String(), func(t *testing.T, request string) (*http.Response, string) {
		t.Helper()
		c := testkit.Dial(t, l.Addr().String())
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		_, err := io.WriteString(c, request)
		testkit.Must(t, err)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("%q was answered with %v", request, err)
		}
		body, err := io.ReadAll(resp.Body)
		testkit.Mustf(t, err, "%q: body", request)
		return resp, string(body)
	}
}

// Whatever arrives, every refusal is a problem that says that nothing happened, and nothing is sold; directly and
// behind the balancer.
func TestBrokenRequestsAreProblems(t *testing.T) {
	t.Parallel()
	c := Config{Replica: "1", Redis: testenv.Miniredis(t).URL, DefaultMode: "lua-lock", LockTTL: time.Second, Conns: 4}
	r, err := New(c, quiet)
	testkit.Must(t, err)
	t.Cleanup(r.Close)
	testkit.Must(t, r.Shop.SetStock(t.Context(), 101, 100, ledger.Rules{}))
	addr, direct := serveRaw(t, r, "1")
	_, balanced := serveRaw(t, stack.NewBalancer([]string{addr}), "")
	const line, host = "POST /deduct_stock/lua-lock?product_id=101 HTTP/1.1\r\n", "Host: localhost\r\n"
	for _, tt := range []struct {
		name, request string
		status        int
	}{
		{"no Host", line + "\r\n", 400},
		{"Host twice", line + host + host + "\r\n", 400},
		{"a Host that is none", line + "Host: a b\r\n\r\n", 400},
		{"a control byte in the key", line + host + "Idempotency-Key: a\x01b\r\n\r\n", 400},
		{"a header without a colon", line + host + "nonsense\r\n\r\n", 400},
		{"no request line", "\x00\x01\x02\r\n\r\n", 400},
		{"an Expect that nobody knows", line + host + "Expect: 200-maybe\r\nContent-Length: 0\r\n\r\n", 417},
		{"headers that are too long", line + host + "X-Long: " + strings.Repeat("a", 2<<20) + "\r\n\r\n", 431},
		{"a transfer encoding that nobody knows", line + host + "Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
		{"a version that nobody knows", "POST /deduct_stock/lua-lock HTTP/3.0\r\n" + host + "\r\n", 505},
		{"two lengths", line + host + "Content-Length: 0\r\nContent-Length: 5\r\n\r\nabcde", 400},
		{"HTTP/1.0 with a chunked body", "POST /deduct_stock/lua-lock HTTP/1.0\r\n" + host +
			"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" +
			"d\r\n{\"quantity\":3}\r\n0\r\n\r\n", 400},
		{"two encodings", line + host + "Content-Type: application/json\r\nContent-Encoding: identity\r\nContent-Encoding: " +
			"gzip\r\nContent-Length: 2\r\n\r\n{}", 415},
		{"a query with a semicolon", "POST /deduct_stock/lua-lock?product_id=101;quantity=5 HTTP/1.1\r\n" + host +
			"Content-Length: 0\r\n\r\n", 400},
		{"a query that ends in an escape", "POST /deduct_stock/lua-lock?product_id=101&quantity=5% HTTP/1.1\r\n" + host +
			"Content-Length: 0\r\n\r\n", 400},
		{"a query with no escape", "POST /deduct_stock/lua-lock?%zz=1&product_id=101 HTTP/1.1\r\n" + host +
			"Content-Length: 0\r\n\r\n", 400},
		{"a product twice", "POST /deduct_stock/lua-lock?product_id=101&product_id=102 HTTP/1.1\r\n" + host +
			"Content-Length: 0\r\n\r\n", 400},
		{"minus zero", "POST /deduct_stock/lua-lock?wait_ms=-0 HTTP/1.1\r\n" + host + "Content-Length: 0\r\n\r\n", 400},
		{"a slash in the name of the mode", "POST /deduct_stock/lua-lock%2f HTTP/1.1\r\n" + host +
			"Content-Length: 0\r\n\r\n", 404},
		{"a form of another site's page", line + host + "Origin: https://evil.example\r\nContent-Length: 0\r\n\r\n", 403},
		{"the same, as the browser says", line + host + "Sec-Fetch-Site: cross-site\r\nContent-Length: 0\r\n\r\n", 403},
	} {
		for edge, send := range map[string]func(*testing.T, string) (*http.Response, string){"direct": direct,
			"balanced": balanced} {
			t.Run(tt.name+"/"+edge, func(t *testing.T) {
				resp, body := send(t, tt.request)
				var p api.Problem
				testkit.Mustf(t, json.Unmarshal([]byte(body), &p), "%s %q", resp.Status, body)
				if resp.StatusCode != tt.status || p.Status != tt.status || p.Happened != api.No ||
					resp.Header.Get("Content-Type") != api.ProblemType {
					t.Errorf("%s %s %q, want a problem with status %d, happened no", resp.Status, resp.Header.Get("Content-Type"),
						body, tt.status)
				}
			})
		}
	}
	if p, err := r.Shop.Product(t.Context(), 101); err != nil || p.Stock["redis"] != 100 {
		t.Errorf("stock %v, %v, want 100 left in redis", p.Stock, err)
	}
}

// A page that points its own name at this machine (DNS rebinding) is refused where the shop listens on loopback,
// whatever it asks.
func TestHostNames(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		listen, hosts string
		pass, refuse  []string
	}{
		{"127.0.0.1:8080", "", []string{"localhost:8080", "127.0.0.1:8080", "[::1]:8080", "shop-1", "a.localhost",
			"LOCALHOST."}, []string{"evil.example", "evil.example:8080", "localhost.evil.example"}},
		{"localhost:0", "", []string{"localhost"}, []string{"evil.example"}},
		{"127.0.0.1:8080", "shop.example, other.example", []string{"Shop.Example:80", "other.example", "localhost"},
			[]string{"evil.example"}},
		{"0.0.0.0:8080", "", []string{"evil.example"}, nil},
		{"0.0.0.0:8080", "localhost", []string{"10.1.2.3", "nginx"}, []string{"evil.example"}},
		{"127.0.0.1:8080", "*", []string{"evil.example"}, nil},
	} {
		c := Config{Replica: "1", Redis: testenv.Miniredis(t).URL, DefaultMode: "noop", LockTTL: time.Second, Conns: 1,
			Listen: tt.listen}
		if tt.hosts != "" {
			testkit.Must(t, c.Hosts.UnmarshalText([]byte(tt.hosts)))
		}
		r, err := New(c, quiet)
		testkit.Must(t, err)
		t.Cleanup(r.Close)
		status := func(host string) int {
			req := httptest.NewRequest(http.MethodPost, "/deduct_stock/noop", nil)
			req.Host = host
			w := httptest.NewRecorder()
			r.ServeHTTP(w, req)
			return w.Code
		}
		for _, host := range tt.pass {
			testkit.Is(t, status(host), 200,
				"listening on %s with SHOP_HOSTS=%q, Host %s was answered", tt.listen, tt.hosts, host)
		}
		for _, host := range tt.refuse {
			testkit.Is(t, status(host), 403,
				"listening on %s with SHOP_HOSTS=%q, Host %s was answered", tt.listen, tt.hosts, host)
		}
	}
}
