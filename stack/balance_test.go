package stack

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lastitem/contract/api"
	"lastitem/testkit"
)

// deadOnSecond is a server whose connections answer one request, take a second, and close without a word: to an HTTP
// client, a reused connection that has died. It counts the requests that it was sent.
func deadOnSecond(t *testing.T) (addr string, got *atomic.Int64) {
	t.Helper()
	l := testkit.Listen(t)
	got = new(atomic.Int64)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				in := bufio.NewReader(conn)
				for first := true; ; first = false {
					req, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, req.Body)
					got.Add(1)
					if !first {
						return
					}
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				}
			}()
		}
	}()
	return l.Addr().String(), got
}

// edges returns the URL of every kind of balancer, in front of the targets.
func edges(t *testing.T, targets ...string) map[string]string {
	t.Helper()
	return startEdges(t, Options{Only: []string{}}, NewBalancer(targets), targets)
}

// keepingEdges are those that keep a failing replica in the round.
func keepingEdges(t *testing.T, targets ...string) map[string]string {
	t.Helper()
	return startEdges(t, Options{Only: []string{}, KeepFailing: true}, NewBalancer(targets, KeepFailing), targets)
}

func startEdges(t *testing.T, o Options, balancer http.Handler, targets []string) map[string]string {
	t.Helper()
	builtin := testkit.Serve(t, balancer)
	urls := map[string]string{"built-in": builtin.URL}
	if path := nginxPath(t); path != "" {
		s := startStack(t, o)
		sv := nginxServer(path, targets, &o)
		sv.ready = func(ctx context.Context, addr string) error {
			return answers(ctx, addr, "GET\r\n\r\n", func([]byte) bool { return true })
		}
		nginx, err := s.procs.launch(t.Context(), sv)
		testkit.Must(t, err)
		urls["nginx"] = nginx.URL
	}
	return urls
}

// nginxPath finds nginx; "" in the first tier, and where it is neither installed nor required.
func nginxPath(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		return ""
	}
	path, err := Find(Nginx)
	if err != nil {
		testkit.Without(t, Nginx, err)
	}
	return path
}

func send(t *testing.T, method, url, key, body string) (*http.Response, api.Problem) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	testkit.Must(t, err)
	if key != "" {
		req.Header.Set(api.HeaderKey, key)
	}
	// A connection each: this client must not repeat anything either.
	res, err := probes.Do(req)
	testkit.Must(t, err)
	defer func() { _ = res.Body.Close() }()
	var p api.Problem
	if res.StatusCode != http.StatusOK {
		testkit.Is(t, json.NewDecoder(res.Body).Decode(&p), nil, "%s %s: %s: body is no problem", method, url, res.Status)
		testkit.Is(t, res.Header.Get("Content-Type"), api.ProblemType, "%s %s: Content-Type", method, url)
	}
	return res, p
}

// TestNeverSentTwice: net/http, and so a proxy made from it, repeats these on a dead reused connection by default.
func TestNeverSentTwice(t *testing.T) {
	t.Parallel()
	addr, got := deadOnSecond(t)
	for edge, url := range edges(t, addr) {
		for _, c := range []struct{ name, method, key, body string }{
			{"POST with key, no body", http.MethodPost, "k", ""},
			{"POST with key and body", http.MethodPost, "k", `{"product_id":101}`},
			{"POST", http.MethodPost, "", ""},
			{"PUT", http.MethodPut, "k", `{"stock":1}`},
			{"GET", http.MethodGet, "", ""},
		} {
			t.Run(edge+"/"+c.name, func(t *testing.T) {
				got.Store(0)
				if res, _ := send(t, http.MethodGet, url, "", ""); res.StatusCode != http.StatusOK {
					t.Fatalf("first request = %s, want 200", res.Status)
				}
				res, p := send(t, c.method, url, c.key, c.body)
				if res.StatusCode != http.StatusBadGateway || p.Code != api.OutcomeUnknown || p.Happened != api.Unknown ||
					p.Status != 502 {
					t.Errorf("second request = %s, %+v, want 502 outcome_unknown", res.Status, p)
				}
				if n := got.Load(); n != 2 {
					t.Errorf("the server got %d requests, want 2", n)
				}
			})
		}
	}
}

// A request arrives as it came, also where its query does not parse: the replica must refuse it, and could not tell a
// query that lost its product from one that never named any.
func TestRequestArrivesUnchanged(t *testing.T) {
	t.Parallel()
	replica := testkit.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, r.Header.Get(api.HeaderKey)+"|"+string(body)+"|"+r.Host+"|"+r.URL.Path+"?"+r.URL.RawQuery)
	}))
	for edge, url := range edges(t, replica.Listener.Addr().String()) {
		for _, query := range []string{
			"product_id=1", "product_id=102;quantity=5", "product_id=102&quantity=5%", "product_id=10%2", "%zz=1&product_id=102",
			"quantity=5&product_id=%", "product_id=102;", "a=%2", "product_id=1&product_id=2", "&&", "=", "q=%00",
		} {
			for method, body := range map[string]string{http.MethodPost: "b", http.MethodGet: ""} {
				req, err := http.NewRequestWithContext(t.Context(), method, url+"/deduct_stock/x", strings.NewReader(body))
				testkit.Must(t, err)
				req.URL.RawQuery, req.Host = query, "shop.example:81"
				req.Header.Set(api.HeaderKey, "Kä \xff~")
				req.Header.Set("Connection", "keep-alive, "+api.HeaderKey) // a key that is dropped on the way deducts twice
				res, err := probes.Do(req)
				testkit.Must(t, err)
				got, _ := io.ReadAll(res.Body)
				_ = res.Body.Close()
				if want := "Kä \xff~|" + body + "|shop.example:81|/deduct_stock/x?" + query; string(got) != want {
					t.Errorf("%s: the replica saw %s %q, want %q", edge, method, got, want)
				}
			}
		}
	}
}

// counting is a replica that counts what it is sent, and does with it what the path says.
func counting(t *testing.T) (addr string, got *atomic.Int64) {
	t.Helper()
	got = new(atomic.Int64)
	s := testkit.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got.Add(1)
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/dies" {
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write(body)
	}))
	return s.Listener.Addr().String(), got
}

// TestOnlyUnsentMovesOn: a POST that is refused a connection goes to the next replica with its body; a PUT, a GET and
// whatever was sent do not.
func TestOnlyUnsentMovesOn(t *testing.T) {
	t.Parallel()
	one, gotOne := counting(t)
	two, gotTwo := counting(t)
	down := testkit.FreePort(t)
	for edge, url := range keepingEdges(t, one, down, two) {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodGet} {
			for _, path := range []string{"/", "/dies"} {
				for range 6 {
					before := gotOne.Load() + gotTwo.Load()
					res, p := send(t, method, url+path, "k", `{"product_id":101}`)
					sent, asked := gotOne.Load()+gotTwo.Load()-before, res.Header.Get("X-Upstream")
					refused := asked == down
					if refused && method == http.MethodPost || strings.Contains(asked, ", ") &&
						(method != http.MethodPost || !strings.HasPrefix(asked, down)) {
						t.Errorf("%s: %s %s was passed to %q", edge, method, path, asked)
					}
					switch {
					case refused:
						if p.Code != api.BackendUnavailable || sent != 0 {
							t.Errorf("%s: %s %s without a connection = %s, sent %d times", edge, method, path, p.Code, sent)
						}
					case sent != 1:
						t.Errorf("%s: %s %s was sent %d times", edge, method, path, sent)
					case path == "/dies" && p.Code != api.OutcomeUnknown, path == "/" && res.StatusCode != http.StatusOK:
						t.Errorf("%s: %s %s = %s %s", edge, method, path, res.Status, p.Code)
					}
				}
			}
		}
	}
}

// TestFailingReplicaIsLeftOut, and serves again once it is back.
func TestFailingReplicaIsLeftOut(t *testing.T) {
	t.Parallel()
	down := testkit.FreePort(t)
	addr, _ := counting(t)
	for edge, url := range edges(t, addr, down) {
		ask := func() string {
			res, _ := send(t, http.MethodGet, url, "", "")
			return res.Header.Get("X-Upstream")
		}
		start := time.Now()
		for end := start.Add(time.Minute); ask() != down; start = time.Now() {
			if start.After(end) {
				t.Fatalf("%s: the replica that is down is never asked", edge)
			}
		}
		if got := ask(); got != addr && time.Since(start) < time.Second {
			t.Errorf("%s: %s was asked right after it was found down", edge, got)
		}
		l, err := net.Listen("tcp", down)
		testkit.Must(t, err)
		back := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
		go func() { _ = back.Serve(l) }()
		testkit.Until(t, edge+" asks the replica that is back", func() bool { return ask() == down })
		_ = back.Close()
	}
}

// TestEdgeErrors: a balancer's own errors have the shape of the shop's and say what is known.
func TestEdgeErrors(t *testing.T) {
	t.Parallel()
	addr := testkit.FreePort(t)
	for edge, url := range edges(t, addr) {
		status, code := http.StatusServiceUnavailable, api.BackendUnavailable // nothing was sent
		res, p := send(t, http.MethodPost, url+"/deduct_stock", "k", "")
		if res.StatusCode != status || p.Code != code || p.Status != status || res.Header.Get("X-Upstream") != addr {
			t.Errorf("%s, no replica: %s, %+v, X-Upstream %q", edge, res.Status, p, res.Header.Get("X-Upstream"))
		}
		if (res.Header.Get("Retry-After") != "") != (code == api.BackendUnavailable) {
			t.Errorf("%s, no replica: Retry-After %q", edge, res.Header.Get("Retry-After"))
		}
		res, p = send(t, http.MethodPost, url+"/deduct_stock", "", strings.Repeat("x", maxBody+1))
		if res.StatusCode != http.StatusRequestEntityTooLarge || p.Code != api.BodyTooLarge || p.Happened != api.No {
			t.Errorf("%s, huge body: %s, %+v, want 413 body_too_large", edge, res.Status, p)
		}
	}
}

// TestReplicasProblemsPass: what a replica answers is not replaced by what the balancer would say.
func TestReplicasProblemsPass(t *testing.T) {
	t.Parallel()
	replica := testkit.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", api.ProblemType)
		w.WriteHeader(http.StatusGatewayTimeout)
		_ = json.NewEncoder(w).Encode(api.NewProblem(api.OutcomeUnknown, "from the replica", r.URL.Path))
	}))
	for edge, url := range edges(t, replica.Listener.Addr().String()) {
		res, p := send(t, http.MethodPost, url+"/x", "", "")
		if res.StatusCode != http.StatusGatewayTimeout || p.Detail != "from the replica" || p.Instance != "/x" {
			t.Errorf("%s: %s, %+v, want the replica's own answer", edge, res.Status, p)
		}
	}
}
