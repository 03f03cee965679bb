// Package deploy_test holds the deployment files against the contract: the two nginx configurations, and a live nginx.
package deploy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lastitem/internal/api"
	"lastitem/internal/testenv"
)

const (
	composeConf = "nginx.conf"
	stackConf   = "../internal/localstack/nginx.conf.tmpl"
)

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// rules are the lines that neither configuration may lose.
var rules = []struct {
	name string
	ok   func(conf string) bool
}{
	{"proxy_next_upstream off, once: a deduction is never sent again", func(c string) bool {
		all := regexp.MustCompile(`(?m)^\s*proxy_next_upstream .*`).FindAllString(c, -1)
		return len(all) == 1 && strings.TrimSpace(all[0]) == "proxy_next_upstream off;"
	}},
	{"max_fails=0 on every server: a failing replica is not hidden", func(c string) bool {
		servers := regexp.MustCompile(`(?m)^\s*server [^{;]+;|^\s*server \{\{[^;]+;`).FindAllString(c, -1)
		for _, s := range servers {
			if !strings.Contains(s, " max_fails=0;") {
				return false
			}
		}
		return len(servers) > 0
	}},
	{"connections to the replicas are kept", func(c string) bool {
		return has(c, `(?m)^\s*keepalive 128;`) && has(c, `proxy_http_version 1\.1;`) && has(c, `proxy_set_header Connection "";`)
	}},
	{"the service's own problem bodies pass", func(c string) bool { return !has(c, `proxy_intercept_errors\s+on`) }},
	{"the body limit is above the service's 64 KiB", func(c string) bool { return has(c, `client_max_body_size 1m;`) }},
	{"patience above the longest wait_ms, 30 s", func(c string) bool {
		m := regexp.MustCompile(`(?m)^\t?\s*proxy_read_timeout (\d+)s;`).FindStringSubmatch(c)
		return len(m) == 2 && atoi(m[1]) > 30
	}},
	{"X-Upstream says whom nginx asked", func(c string) bool { return has(c, `add_header X-Upstream \$upstream_addr always;`) }},
	{"events are not buffered", func(c string) bool { return has(c, `(?s)location = /events \{[^}]*proxy_buffering off;`) }},
}

func has(conf, pattern string) bool { return regexp.MustCompile(pattern).MatchString(conf) }

func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return n
}

func TestNginxRules(t *testing.T) {
	for _, file := range []string{composeConf, stackConf} {
		conf := read(t, file)
		for _, rule := range rules {
			if !rule.ok(conf) {
				t.Errorf("%s breaks the rule: %s", file, rule.name)
			}
		}
	}
}

// A mutant per rule: the rules must reject it.
func TestNginxRulesCatch(t *testing.T) {
	conf := read(t, composeConf)
	mutants := [][2]string{ // in the order of rules
		{"proxy_next_upstream off", "proxy_next_upstream error"},
		{"shop-2:8080 max_fails=0", "shop-2:8080"},
		{`proxy_set_header Connection "";`, ""},
		{"server_name _;", "proxy_intercept_errors on;"},
		{"client_max_body_size 1m", "client_max_body_size 32k"},
		{"proxy_read_timeout 40s", "proxy_read_timeout 30s"},
		{"add_header X-Upstream", "# add_header Upstream"},
		{"proxy_buffering off;", ""},
	}
	if len(mutants) != len(rules) {
		t.Fatalf("%d mutants for %d rules", len(mutants), len(rules))
	}
	for i, m := range mutants {
		mutant := strings.ReplaceAll(conf, m[0], m[1])
		if mutant == conf {
			t.Errorf("mutant %q changes nothing", m[0])
		}
		if rules[i].ok(mutant) {
			t.Errorf("the rule %q accepts %q", rules[i].name, m[1])
		}
	}
}

// Every error of nginx's own is a problem of the contract, and agrees with it on all but the status.
func TestNginxProblems(t *testing.T) {
	conf := read(t, composeConf)
	returns := regexp.MustCompile(`(?s)location = /\.nginx/(\d+) \{\s+internal;[^}]*?return (\d+) '(\{.*?\})\\n';\s+\}`).FindAllStringSubmatch(conf, -1)
	pages := regexp.MustCompile(`error_page (?:\d+ )*(\d+)(?: 494)? /\.nginx/(\d+);`).FindAllStringSubmatch(conf, -1)
	if len(returns) < 10 || len(returns) != len(pages) {
		t.Fatalf("found %d bodies for %d error pages", len(returns), len(pages))
	}
	for _, m := range returns {
		var got api.Problem
		if err := json.Unmarshal([]byte(strings.ReplaceAll(m[3], `\'`, `'`)), &got); err != nil {
			t.Errorf("%s: %v: %s", m[1], err, m[3])
			continue
		}
		want := api.NewProblem(got.Code, got.Detail, "")
		want.Status = atoi(m[1])
		if got != want || m[1] != m[2] {
			t.Errorf("%s: got %+v, want %+v", m[1], got, want)
		}
	}
	for _, m := range pages {
		if m[1] != m[2] && m[1] != "494" {
			t.Errorf("error_page %s leads to %s", m[1], m[2])
		}
	}
	for status, code := range map[string]api.Code{"502": api.OutcomeUnknown, "504": api.OutcomeUnknown, "413": api.BodyTooLarge} {
		if !has(conf, `"status":`+status+`,[^\n]*"code":"`+string(code)+`"`) {
			t.Errorf("%s is not %s", status, code)
		}
	}
}

// edge is an nginx with deploy/nginx.conf, on free ports, before two replicas that answer and one address that does not.
type edge struct {
	url  string
	hits atomic.Int64 // requests that reached a replica
}

func startEdge(t *testing.T) *edge {
	t.Helper()
	program := testenv.Nginx(t)
	e := &edge{}
	replica := func(name string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			e.hits.Add(1)
			e.serve(w, r, name)
		}))
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	}
	dir, listen := t.TempDir(), free(t)
	conf := read(t, composeConf)
	for from, to := range map[string]string{
		"shop-1:8080":            replica("1"),
		"shop-2:8080":            replica("2"),
		"shop-3:8080":            free(t),
		"listen 80 ":             "listen " + listen + " ",
		"worker_processes auto;": "daemon off; master_process off; pid " + dir + "/pid;",
		"access_log off;": "access_log off; client_body_temp_path " + dir + "/b; proxy_temp_path " + dir + "/p; fastcgi_temp_path " +
			dir + "/f; uwsgi_temp_path " + dir + "/u; scgi_temp_path " + dir + "/s;",
		"proxy_read_timeout 40s": "proxy_read_timeout 1s",
	} {
		if !strings.Contains(conf, from) {
			t.Fatalf("%s has no %q", composeConf, from)
		}
		conf = strings.Replace(conf, from, to, 1)
	}
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, "-p", dir, "-c", file)
	cmd.Stderr, cmd.WaitDelay = &log, 10*time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("nginx: %s", log.String())
		}
	})
	e.url = "http://" + listen
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", listen)
		if err == nil {
			_ = conn.Close()
			return e
		}
		if time.Since(start) > 20*time.Second {
			t.Fatalf("nginx does not listen: %v", err)
		}
	}
}

func (*edge) serve(w http.ResponseWriter, r *http.Request, name string) {
	w.Header().Set(api.HeaderReplica, name)
	switch r.URL.Path {
	case "/dies":
		panic(http.ErrAbortHandler)
	case "/hangs":
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-r.Context().Done():
		case <-time.After(10 * time.Second):
		}
	case "/refuses":
		w.Header().Set("Content-Type", api.ProblemType)
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"code":"lock_busy"}`)
	default:
		_, _ = io.WriteString(w, r.Header.Get(api.HeaderKey))
	}
}

func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// send makes one request on a connection of its own, so that the client cannot repeat it.
func (e *edge) send(t *testing.T, method, target string, body io.Reader, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, e.url+target, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	req.Close = true
	resp, err := (&http.Client{Timeout: 30 * time.Second}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(answer)
}

func TestNginxErrors(t *testing.T) {
	e := startEdge(t)
	long := strings.Repeat("a", 20_000)
	tests := []struct {
		name, method, target string
		body                 io.Reader
		header               []string
		status               int
		code                 api.Code
	}{
		{"body too large", "POST", "/", strings.NewReader(strings.Repeat("a", 1<<20+1)), nil, 413, api.BodyTooLarge},
		{"request line too long", "POST", "/?x=" + long, nil, nil, 414, api.InvalidRequest},
		{"header too long", "POST", "/", nil, []string{api.HeaderKey, long}, 400, api.InvalidRequest},
		{"method", "TRACE", "/", nil, nil, 405, api.MethodNotAllowed},
		{"a path of nginx's own", "GET", "/.nginx/502", nil, nil, 404, api.NotFound},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := e.hits.Load()
			resp, body := e.send(t, tt.method, tt.target, tt.body, tt.header...)
			wantProblem(t, resp, body, tt.status, tt.code)
			if n := e.hits.Load() - before; n != 0 {
				t.Errorf("%d requests were passed on", n)
			}
		})
	}
}

// Whatever happens to a request that was passed on, nginx sends it once and says that the outcome is unknown.
func TestNginxSendsOnce(t *testing.T) {
	e := startEdge(t)
	for _, method := range []string{"POST", "PUT", "GET"} {
		for _, path := range []string{"/dies", "/hangs"} {
			t.Run(method+path, func(t *testing.T) {
				for range 3 { // each upstream in turn: two replicas, and an address that refuses
					before := e.hits.Load()
					resp, body := e.send(t, method, path, strings.NewReader("{}"), api.HeaderKey, "k")
					status := http.StatusBadGateway
					passed := e.hits.Load() - before
					if path == "/hangs" && passed == 1 {
						status = http.StatusGatewayTimeout
					}
					wantProblem(t, resp, body, status, api.OutcomeUnknown)
					if passed > 1 || resp.Header.Get("X-Upstream") == "" || strings.Contains(resp.Header.Get("X-Upstream"), ",") {
						t.Errorf("nginx asked %q, %d replicas saw it: want one", resp.Header.Get("X-Upstream"), passed)
					}
				}
			})
		}
	}
}

// A replica that has failed stays in the round, and what the replicas answer passes unchanged.
func TestNginxPasses(t *testing.T) {
	e := startEdge(t)
	seen := map[string]int{}
	for range 9 {
		resp, body := e.send(t, "POST", "/", nil, api.HeaderKey, "a key")
		seen[resp.Header.Get(api.HeaderReplica)]++
		if resp.StatusCode == http.StatusOK && body != "a key" {
			t.Errorf("the replica saw the key %q", body)
		}
	}
	if fmt.Sprint(seen) != "map[:3 1:3 2:3]" {
		t.Errorf("nine requests went to %v, want three to each replica and three into the void", seen)
	}
	for {
		resp, body := e.send(t, "POST", "/refuses", nil)
		if resp.StatusCode == http.StatusBadGateway {
			continue
		}
		if resp.StatusCode != http.StatusServiceUnavailable || body != `{"code":"lock_busy"}` {
			t.Errorf("the replica's refusal arrived as %d %s", resp.StatusCode, body)
		}
		break
	}
}

func wantProblem(t *testing.T, resp *http.Response, body string, status int, code api.Code) {
	t.Helper()
	var p api.Problem
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		t.Fatalf("%d: body %q: %v", resp.StatusCode, body, err)
	}
	if resp.StatusCode != status || p.Status != status || p.Code != code || resp.Header.Get("Content-Type") != api.ProblemType {
		t.Errorf("got %d %s %s, want %d %s", resp.StatusCode, resp.Header.Get("Content-Type"), body, status, code)
	}
}
