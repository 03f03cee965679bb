package main

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"lastitem/stack"
	"lastitem/testkit"
)

// envTestConsole is the address of a console, with its token, that is looked at by the browser test.
const envTestConsole = "SHOP_TEST_CONSOLE"

// TestRunningConsole looks at the console of a stack that runs already, such as the one of make up, as testPlayBrowser
// does.
func TestRunningConsole(t *testing.T) {
	address := testkit.Asked(t, envTestConsole, "by hand, to the address of a console")
	u, err := url.Parse(address)
	testkit.Must(t, err)
	token, _ := strings.CutPrefix(u.Fragment, "token=")
	p := playing{address: address, base: "http://" + u.Host, token: token}
	judged(t, p.run(t, "lease-seq"))
	testPlayBrowser(t, p)
}

// testUpConsole holds the console of 'shop up', which is reached by the balancer: which clients get it, which may use
// it, and a run.
func testUpConsole(t *testing.T, s stackJSON) {
	if s.Console != s.URL+"/console/#token=t0ken" {
		t.Errorf("shop up printed the console %q", s.Console)
	}
	for _, c := range []struct {
		method, path string
		header       []string
		status       int
		in           string
	}{
		{"GET", "/", []string{"Accept", "*/*"}, 200, "POST  /deduct_stock"},
		{"GET", "/", []string{"Accept", "text/html"}, 302, ""},
		{"GET", "/console/", nil, 200, "<!doctype html>"},
		{"GET", "/console/api/state", nil, 401, ""},
		{"POST", "/console/api/session", []string{"Authorization", "Bearer t0ken"}, 204, ""},
		{"POST", "/console/api/session", []string{"Authorization", "Bearer t0ken", "Origin", "http://evil.example"}, 403, ""},
		{"GET", "/console/", []string{"Host", "evil.example"}, 403, "not served under this host name"},
		{"GET", "/events", nil, 401, ""},
	} {
		res, body := testkit.Ask(t, c.method, s.URL+c.path, nil, c.header...)
		if res.StatusCode != c.status || !strings.Contains(body, c.in) {
			t.Errorf("%s %s with %q = %s %s, want %d and %q", c.method, c.path, c.header, res.Status, body, c.status, c.in)
		}
		if policy := res.Header.Get("Content-Security-Policy"); strings.HasPrefix(c.path, "/console/") &&
			!strings.HasPrefix(policy, "default-src 'self';") {
			t.Errorf("%s %s: Content-Security-Policy %q", c.method, c.path, policy)
		}
	}
	p := playing{address: s.Console, base: s.URL, token: s.Token, replicas: len(s.Replicas)}
	if v := judged(t, p.run(t, "unsafe")); v.Verdict != "BROKEN" || v.Oversold == 0 {
		t.Errorf("unsafe through the balancer: %+v, want that it oversold", v)
	}
	t.Run("browser", func(t *testing.T) {
		b := openTab(t, s.URL)
		// a browser takes the fragment along where it is redirected
		b.do("open", chromedp.Navigate(s.URL+"/?lang=en#token=t0ken"))
		b.wait(`!!document.querySelector('.go')`)
		b.clean()
	})
}

// TestUpWithoutConsole holds what a production 'shop serve' has of the console: nothing. Then the console is served
// beside the stack, as docker-compose does. At the end the terminal of 'shop up' is closed, whose shell and kernel both
// say so: it ends as after Ctrl-C, with its file of the token.
func TestUpWithoutConsole(t *testing.T) {
	t.Parallel()
	shop, file := program(t), filepath.Join(t.TempDir(), "up.env")
	cmd, s := startUp(t, shop, "--no-console", "--env", file)
	if s.Console != "" {
		t.Errorf("shop up --no-console printed the console %q", s.Console)
	}
	for _, base := range []string{s.URL, s.Replicas[0].URL} {
		if res, body := testkit.Ask(t, "GET", base+"/", nil, "Accept", "text/html"); res.StatusCode != http.StatusOK ||
			strings.Contains(body, "/events") {
			t.Errorf("GET %s/ for a browser = %s %s, want the list, without events", base, res.Status, body)
		}
		for _, path := range []string{"/console/", "/console/api/state", "/events"} {
			res, _ := testkit.Ask(t, "GET", base+path, nil, "Authorization", "Bearer t0ken")
			if res.StatusCode != http.StatusNotFound {
				t.Errorf("GET %s%s = %s, want 404", base, path, res.Status)
			}
		}
	}
	t.Run("console", func(t *testing.T) { testConsole(t, shop, s) })
	for range 2 {
		testkit.Must(t, cmd.Process.Signal(syscall.SIGHUP))
		time.Sleep(50 * time.Millisecond) // two signals of a kind that come at once are one
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("shop up after SIGHUP: %v, want exit 0", err)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("%v; want the file of --env removed at the end", err)
	}
	wantGone(t, s)
}

// testConsole serves the console beside a stack that runs already.
func testConsole(t *testing.T, shop string, s stackJSON) {
	args := []string{"console", "--listen", "127.0.0.1:0", "--url", s.URL, "--host", "shop.example,Other.example"}
	for _, r := range s.Replicas {
		args = append(args, "--replica", r.URL)
	}
	out := startUntil(t, "console: ", shop, args...)
	base, _, _ := strings.Cut(out, "/console/")
	p := playing{base: base, token: "t0ken", replicas: len(s.Replicas)}
	if v := judged(t, p.run(t, "lease-seq")); v.Verdict != "EXACT" {
		t.Errorf("lease-seq: %+v, want it exact", v)
	}
	for _, name := range []string{"shop.example", "other.example"} {
		if res, _ := testkit.Ask(t, "GET", base+"/console/", nil, "Host", name); res.StatusCode != http.StatusOK {
			t.Errorf("GET /console/ by the name %s of --host = %s", name, res.Status)
		}
	}
	res, _ := testkit.Ask(t, "GET", base+"/console/", nil, "Host", "evil.example")
	if res.StatusCode != http.StatusForbidden {
		t.Errorf("GET /console/ by another name = %s, want 403", res.Status)
	}
	t.Run("no steps", func(t *testing.T) { testNoSteps(t, base) })
}

// A console that cannot work is refused on the command line.
func TestConsoleRefuses(t *testing.T) {
	for _, c := range []struct {
		token string
		args  []string
		want  string
	}{
		{"", []string{"--url", "http://127.0.0.1:1", "--replica", "http://127.0.0.1:1"}, "SHOP_ADMIN_TOKEN is not set"},
		{"x", []string{"--url", "http://127.0.0.1:1"}, "name each replica"},
		{"x", []string{"--replica", "http://127.0.0.1:1"}, "--url "},
		{"x", []string{"--url", "http://u:p@127.0.0.1:1", "--replica", "http://127.0.0.1:1"}, "want http://host:port"},
		{"x", []string{"--url", "http://127.0.0.1:1", "--replica", "127.0.0.1:1"}, "want http://host:port"},
		{"x", []string{"--url", "http://127.0.0.1:1", "--replica", "http://127.0.0.1:1/x"}, "want http://host:port"},
		{"x", []string{"--url", "http://127.0.0.1:1", "--replica", "http://127.0.0.1:1", "--host", "a.example,b.example:80"},
			"--host b.example:80: want a name"},
	} {
		t.Setenv(envToken, c.token)
		wantRefused(t, newConsoleCommand("en"), c.want, c.args...)
	}
}

// The driver sends the load to the balancer where all replicas are wanted, to the one replica, or to a balancer of its
// own.
func TestDriverAddress(t *testing.T) {
	t.Parallel()
	d := driverOf(&stack.Stack{URL: "http://balancer", Replicas: []stack.Service{{Addr: "a:1"}, {Addr: "b:2"},
		{Addr: "c:3"}}}, 0, nil)
	for replicas, want := range map[int]string{3: "http://balancer", 1: "http://a:1", 2: "http://127.0.0.1:"} {
		got, closing, err := d.address(t.Context(), replicas)
		if err != nil || !strings.HasPrefix(got, want) {
			t.Errorf("address of %d replicas = %s, %v, want %s", replicas, got, err, want)
		}
		closing()
	}
}

// cutWriter loses what is written while the network is cut.
type cutWriter struct {
	http.ResponseWriter
	cut *atomic.Bool
}

func (w cutWriter) Write(b []byte) (int, error) {
	if w.cut.Load() {
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w cutWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// testPageSilence cuts the network without a word: the page says within seconds that it hears nothing, and comes back.
func testPageSilence(p *idle) {
	p.t.Helper()
	p.cut.Store(true)
	p.wait(`document.getElementById('link').classList.contains('is-lost') && document.querySelector('.go').disabled`)
	p.cut.Store(false)
	p.wait(`document.getElementById('link').classList.contains('is-live')`)
}
