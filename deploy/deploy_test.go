// Package deploy_test holds the deployment files against the contract: the two nginx configurations, and a live nginx.
package deploy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lastitem/contract/api"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

const (
	composeConf = "nginx.conf"
	stackConf   = "../stack/nginx.conf.tmpl"
)

func read(t *testing.T, file string) string {
	t.Helper()
	return string(testkit.Read(t, file))
}

// rules are the lines that neither configuration may lose.
var rules = []struct {
	name     string
	ok       func(conf string) bool
	from, to string // a change that it refuses
}{
	{"proxy_next_upstream is off, but where only a POST gets: a PUT or GET would be sent again", func(c string) bool {
		found := regexp.MustCompile(`(?m)^\s*proxy_next_upstream (.*);`).FindAllStringSubmatch(c, -1)
		return len(found) == 2 && found[0][1] == "off" && found[1][1] == "error timeout" &&
			!strings.Contains(c, "non_idempotent") &&
			has(c, `location / \{\s+if \(\$request_method != POST\) \{\s+return 418;\s+\}\s+proxy_next_upstream error timeout;`)
	}, "proxy_next_upstream off", "proxy_next_upstream error"},
	{"a failing replica is left out for a while, by a number that can be set to 0", func(c string) bool {
		servers := regexp.MustCompile(`(?m)^\s*server [^{;]+;|^\s*server \{\{[^;]+;`).FindAllString(c, -1)
		for _, s := range servers {
			if !has(s, ` max_fails=(1|\{\{\$\.MaxFails\}\}) fail_timeout=2s;`) {
				return false
			}
		}
		return len(servers) > 0
	}, "shop-2:8080 max_fails=1", "shop-2:8080"},
	{"idle connections end before a drain does", all(`keepalive 128;[^}]*keepalive_timeout 4s;`),
		"keepalive_timeout 4s", "keepalive_timeout 60s"},
	{"slow clients are cut off", all(`client_header_timeout 10s;`, `client_body_timeout 10s;`, `send_timeout 30s;`),
		"client_header_timeout 10s;", ""},
	{"connections to the replicas are kept", all(`(?m)^\s*keepalive 128;`, `proxy_http_version 1\.1;`,
		`proxy_set_header Connection "";`), `proxy_set_header Connection "";`, ""},
	{"the service's own problem bodies pass", func(c string) bool { return !has(c, `proxy_intercept_errors\s+on`) },
		"server_name _;", "proxy_intercept_errors on;"},
	{"the body limit is above the service's 64 KiB, and not by much", all(`client_max_body_size 80k;`),
		"client_max_body_size 80k", "client_max_body_size 32k"},
	{"a body has a small buffer", all(`client_body_buffer_size 16k;`),
		"client_body_buffer_size 16k", "client_body_buffer_size 128k"},
	{"nginx waits longer than a replica may take", func(c string) bool {
		m := regexp.MustCompile(`(?m)^\t?\s*proxy_read_timeout (\d+)s;`).FindStringSubmatch(c)
		return len(m) == 2 && time.Duration(atoi(m[1]))*time.Second > longestAnswer
	}, "proxy_read_timeout 75s", "proxy_read_timeout 65s"},
	{"X-Upstream says whom nginx asked", all(`add_header X-Upstream \$upstream_addr always;`),
		"add_header X-Upstream", "# add_header Upstream"},
	{"events are not buffered", all(`(?s)location = /events \{[^}]*proxy_buffering off;`,
		`(?s)location /console/ \{.{0,60}proxy_buffering off;`), "proxy_buffering off;", ""},
	{"a browser is redirected by a path alone", all(`(?m)^\s*absolute_redirect off;`,
		`if \(\$browser\) \{\s+return 302 /console/;`), "absolute_redirect off;", ""},
}

// all accepts a configuration that has all patterns.
func all(patterns ...string) func(conf string) bool {
	return func(conf string) bool {
		return !slices.ContainsFunc(patterns, func(pattern string) bool { return !has(conf, pattern) })
	}
}

// longestAnswer is how long a replica may take for a deduction: the longest wait_ms and hold_ms, and the default of
// SHOP_WORK_TIMEOUT.
const longestAnswer = (30 + 30 + 5) * time.Second

// The contract and the settings say what longestAnswer is made of.
func TestLongestAnswer(t *testing.T) {
	var contract struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct{ Maximum int64 }
			}
		}
	}
	testkit.Must(t, json.Unmarshal([]byte(read(t, "../internal/handler/openapi.json")), &contract))
	fields := contract.Components.Schemas["Deduct"].Properties
	work := regexp.MustCompile("`SHOP_WORK_TIMEOUT` \\| `([0-9a-z]+)`").FindStringSubmatch(read(t, "../docs/settings.md"))
	if len(work) != 2 {
		t.Fatal("docs/settings.md does not list SHOP_WORK_TIMEOUT")
	}
	beyond, err := time.ParseDuration(work[1])
	if got := time.Duration(fields["wait_ms"].Maximum+fields["hold_ms"].Maximum)*time.Millisecond + beyond; err != nil ||
		got != longestAnswer {
		t.Errorf("a replica may take %v (%v), want %v: adjust longestAnswer, and proxy_read_timeout of both configurations",
			got, err, longestAnswer)
	}
}

func has(conf, pattern string) bool { return regexp.MustCompile(pattern).MatchString(conf) }

func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return n
}

// Both configurations keep the rules, and each rule refuses its mutant.
func TestNginxRules(t *testing.T) {
	conf := read(t, composeConf)
	for _, rule := range rules {
		for _, file := range []string{composeConf, stackConf} {
			if !rule.ok(read(t, file)) {
				t.Errorf("%s breaks the rule: %s", file, rule.name)
			}
		}
		if mutant := strings.ReplaceAll(conf, rule.from, rule.to); mutant == conf || rule.ok(mutant) {
			t.Errorf("%q in place of %q changes nothing, or is accepted by the rule: %s", rule.to, rule.from, rule.name)
		}
	}
}

// Slow clients with large bodies and headers, as many as one address may have under way, fit into the memory of the
// container.
func TestNginxMemory(t *testing.T) {
	conf := read(t, composeConf)
	number := func(text, pattern string) int {
		m := regexp.MustCompile(pattern).FindStringSubmatch(text)
		if len(m) != 2 {
			t.Fatalf("nothing is like %s", pattern)
		}
		return atoi(m[1])
	}
	// below that nginx allocates the length that was announced
	body := number(conf, `client_body_buffer_size (\d+)k;`) * 5 / 4
	heads := 4 * number(conf, `large_client_header_buffers 4 (\d+)k;`)
	used := number(conf, `limit_conn clients (\d+);`) * (body + heads) / 1024
	if limit := number(readCompose(t, read(t, composeFile)).Services["nginx"].Memory, `^(\d+)m$`); used > limit*3/4 {
		t.Errorf("the clients of one address may use %d MiB of the %d MiB that nginx has", used, limit)
	}
}

// Every error of nginx's own is a problem of the contract, and agrees with it on all but the status.
func TestNginxProblems(t *testing.T) {
	conf := read(t, composeConf)
	returns := regexp.MustCompile(`return (\d+) '(\{.*?\})\\n';`).FindAllStringSubmatch(conf, -1)
	pages := regexp.MustCompile(`error_page (?:\d+ )*(\d+)(?: 494)? (?:= )?/\.nginx/(\d+);`).FindAllStringSubmatch(conf,
		-1)
	if len(pages) < 10 || len(returns) < len(pages) {
		t.Fatalf("found %d bodies for %d error pages", len(returns), len(pages))
	}
	answered := map[string]bool{}
	for _, m := range returns {
		var got api.Problem
		if err := json.Unmarshal([]byte(strings.ReplaceAll(m[2], `\'`, `'`)), &got); err != nil {
			t.Errorf("%s: %v: %s", m[1], err, m[2])
			continue
		}
		want := api.NewProblem(got.Code, got.Detail, "")
		want.Status, want.RequestID = atoi(m[1]), "$request_name"
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", m[1], got, want)
		}
		answered[m[1]] = true
	}
	for _, m := range pages {
		if m[1] != m[2] && m[1] != "494" || !answered[m[2]] {
			t.Errorf("error_page %s leads to %s, which is answered: %t", m[1], m[2], answered[m[2]])
		}
	}
	for status, code := range map[string]api.Code{"502": api.OutcomeUnknown, "504": api.OutcomeUnknown,
		"413": api.BodyTooLarge, "429": api.RateLimited, "401": api.Unauthorized} {
		if !has(conf, `"status":`+status+`,[^\n]*"code":"`+string(code)+`"`) {
			t.Errorf("%s is not %s", status, code)
		}
	}
}

// edge is an nginx with deploy/nginx.conf, on free ports, before two replicas that answer and one address that does
// not.
type edge struct {
	url  string
	down string       // the address that does not answer
	hits atomic.Int64 // requests that reached a replica
}

// startEdge starts it; a replica that fails is left out after maxFails failures, or with 0 never. more are replacements
// in the configuration.
func startEdge(t *testing.T, maxFails int, more ...string) *edge {
	t.Helper()
	program := testenv.Nginx(t)
	e := &edge{}
	replica := func(name string) string {
		s := testkit.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			e.hits.Add(1)
			e.serve(w, r, name)
		}))
		return s.Listener.Addr().String()
	}
	dir, listen := t.TempDir(), testkit.FreePort(t)
	e.down = testkit.FreePort(t)
	conf := read(t, composeConf)
	for from, to := range map[string]string{
		"shop-1:8080":            replica("1"),
		"shop-2:8080":            replica("2"),
		"shop-3:8080":            e.down,
		"listen 80 ":             "listen " + listen + " ",
		"worker_processes auto;": "daemon off; master_process off; pid " + dir + "/pid;",
		"access_log off;": "access_log off; client_body_temp_path " + dir + "/b; proxy_temp_path " + dir +
			"/p; fastcgi_temp_path " +
			dir + "/f; uwsgi_temp_path " + dir + "/u; scgi_temp_path " + dir + "/s;",
		"proxy_read_timeout 75s;": "proxy_read_timeout 20s;",
	} {
		if !strings.Contains(conf, from) {
			t.Fatalf("%s has no %q", composeConf, from)
		}
		conf = strings.Replace(conf, from, to, 1)
	}
	conf = strings.ReplaceAll(conf, "max_fails=1", fmt.Sprintf("max_fails=%d", maxFails))
	// a test may have replaced the console's address
	conf = strings.NewReplacer(append(more, "console:8090", "127.0.0.1:9")...).Replace(conf)
	file := filepath.Join(dir, "nginx.conf")
	testkit.Must(t, os.WriteFile(file, []byte(conf), 0o600))
	var log bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, "-p", dir, "-c", file)
	cmd.Stderr, cmd.WaitDelay = &log, 10*time.Second
	testkit.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("nginx: %s", log.String())
		}
	})
	e.url = "http://" + listen
	testkit.NoError(t, "nginx listens", func() error {
		conn, err := net.Dial("tcp", listen)
		if err == nil {
			_ = conn.Close()
		}
		return err
	})
	return e
}

func (*edge) serve(w http.ResponseWriter, r *http.Request, name string) {
	w.Header().Set(api.HeaderReplica, name)
	w.Header().Set("X-Saw-Required", r.Header.Get("X-Token-Required"))
	switch r.URL.Path {
	case "/query":
		_, _ = io.WriteString(w, r.URL.RawQuery)
	case "/dies":
		panic(http.ErrAbortHandler)
	case "/hangs":
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-r.Context().Done():
		case <-time.After(time.Minute):
		}
	default:
		_, _ = io.WriteString(w, r.Header.Get(api.HeaderKey))
	}
}

// send makes one request on a connection of its own, so that the client cannot repeat it. It follows no redirect.
func (e *edge) send(t *testing.T, method, target string, body io.Reader, header ...string) (*http.Response, string) {
	t.Helper()
	return testkit.Ask(t, method, e.url+target, body, header...)
}

func TestNginxErrors(t *testing.T) {
	t.Parallel()
	e := startEdge(t, 0)
	long := strings.Repeat("a", 20_000)
	tests := []struct {
		name, method, target string
		body                 io.Reader
		header               []string
		status               int
		code                 api.Code
	}{
		{"body too large", "POST", "/", strings.NewReader(strings.Repeat("a", 80<<10+1)), nil, 413, api.BodyTooLarge},
		{"request line too long", "POST", "/?x=" + long, nil, nil, 414, api.InvalidRequest},
		{"header too long", "POST", "/", nil, []string{api.HeaderKey, long}, 400, api.InvalidRequest},
		{"method", "TRACE", "/", nil, nil, 405, api.MethodNotAllowed},
		{"a path of nginx's own", "GET", "/.nginx/502", nil, nil, 404, api.NotFound},
		{"the console is away", "GET", "/console/", nil, nil, 503, api.BackendUnavailable},
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

// nginx never repeats a request that it has sent; if no answer comes, it reports the outcome as unknown. A refused
// connection means that nothing was sent: nginx then passes a POST, and only a POST, to the next replica.
func TestNginxSendsOnce(t *testing.T) {
	t.Parallel()
	e := startEdge(t, 0, "proxy_read_timeout 20s", "proxy_read_timeout 1s")
	for _, method := range []string{"POST", "PUT", "GET"} {
		for _, path := range []string{"/", "/dies", "/hangs"} {
			t.Run(method+path, func(t *testing.T) {
				refused := 0
				for range 3 { // each upstream in turn: two replicas, and an address that refuses
					before := e.hits.Load()
					resp, body := e.send(t, method, path, strings.NewReader("{}"), api.HeaderKey, "k")
					sent := e.hits.Load() - before
					asked := strings.Split(resp.Header.Get("X-Upstream"), ", ")
					if asked[0] == e.down {
						refused++
					}
					if last := asked[len(asked)-1]; last == e.down {
						wantProblem(t, resp, body, http.StatusServiceUnavailable, api.BackendUnavailable)
						if method == "POST" || sent != 0 || resp.Header.Get("Retry-After") != "1" {
							t.Errorf("%s ended at the replica that is down; %d replicas saw it, Retry-After %q", method, sent,
								resp.Header.Get("Retry-After"))
						}
						continue
					}
					e.wantSent(t, path, resp, body, sent)
					if len(asked) != 1 && (method != "POST" || len(asked) != 2 || asked[0] != e.down) {
						t.Errorf("%s was passed to %q", method, asked)
					}
				}
				if refused == 0 {
					t.Error("no request met the replica that is down")
				}
			})
		}
	}
}

// wantSent checks the answer to a request that one replica saw.
func (*edge) wantSent(t *testing.T, path string, resp *http.Response, body string, sent int64) {
	t.Helper()
	if sent != 1 {
		t.Errorf("%d replicas saw it, want 1", sent)
	}
	switch path {
	case "/dies":
		wantProblem(t, resp, body, http.StatusBadGateway, api.OutcomeUnknown)
	case "/hangs":
		wantProblem(t, resp, body, http.StatusGatewayTimeout, api.OutcomeUnknown)
	default:
		if resp.StatusCode != http.StatusOK || body != "k" {
			t.Errorf("%d, and the replica saw the key %q", resp.StatusCode, body)
		}
	}
	if path != "/" && resp.Header.Get(api.HeaderRequestID) == "" {
		t.Error("an unknown outcome without the name of its request")
	}
	if path != "/" && resp.Header.Get("Retry-After") != "" {
		t.Error("Retry-After with an unknown outcome")
	}
}

// A query arrives as it came, also where it does not parse: what it asks for is the shop's to refuse.
func TestNginxKeepsTheQuery(t *testing.T) {
	t.Parallel()
	e := startEdge(t, 1)
	for _, query := range []string{"product_id=102;quantity=5", "product_id=102&quantity=5%", "product_id=10%2",
		"%zz=1&product_id=102", "a=%00"} {
		resp, body := e.send(t, "POST", "/query?"+query, nil)
		if resp.StatusCode != http.StatusOK || body != query {
			t.Errorf("?%s arrived as %d ?%s", query, resp.StatusCode, body)
		}
	}
}

func wantProblem(t *testing.T, resp *http.Response, body string, status int, code api.Code) {
	t.Helper()
	var p api.Problem
	testkit.Mustf(t, json.Unmarshal([]byte(body), &p), "%d: body %q", resp.StatusCode, body)
	if resp.StatusCode != status || p.Status != status || p.Code != code ||
		resp.Header.Get("Content-Type") != api.ProblemType {
		t.Errorf("got %d %s %s, want %d %s", resp.StatusCode, resp.Header.Get("Content-Type"), body, status, code)
	}
	if ids := resp.Header.Values(api.HeaderRequestID); len(ids) != 1 || ids[0] == "" || ids[0] != p.RequestID {
		t.Errorf("%d: X-Request-Id is %q, request_id %q; want one name in both", status, ids, p.RequestID)
	}
}
