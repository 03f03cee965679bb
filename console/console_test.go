package console

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"lastitem/contract/api"
	"lastitem/testkit"
)

const token = "the-token"

// fakeDriver sells nothing; the test decides when its runs end.
type fakeDriver struct {
	mu     sync.Mutex
	specs  []Spec
	finish chan error    // nil = at once
	loaded chan struct{} // if not nil, closed when the first load begins
}

func (d *fakeDriver) Product() int64 { return 101 }

func (d *fakeDriver) Modes(context.Context) ([]api.Mode, error) {
	return []api.Mode{{Name: "m", Available: true}, {Name: "n", Available: true}, {Name: "off", Why: "no etcd"}}, nil
}

func (d *fakeDriver) Drive(ctx context.Context, spec Spec, report func(Step)) error {
	d.mu.Lock()
	d.specs = append(d.specs, spec)
	d.mu.Unlock()
	for i, mode := range spec.Modes {
		report(Step{Index: i + 1, Total: len(spec.Modes), Mode: mode, Phase: PhaseReset})
		report(Step{Index: i + 1, Total: len(spec.Modes), Mode: mode, Phase: PhaseRun})
		if d.loaded != nil && i == 0 {
			close(d.loaded)
		}
		if d.finish != nil {
			select {
			case err := <-d.finish:
				if err != nil {
					return err
				}
			case <-ctx.Done():
			}
		}
		report(Step{Index: i + 1, Total: len(spec.Modes), Mode: mode, Ended: true, Result: map[string]string{"mode": mode}})
	}
	return nil
}

// serve starts a console. Unless the test gives replicas, they send no events.
func serve(t *testing.T, d *fakeDriver, replicas ...Replica) (*httptest.Server, *Console) {
	t.Helper()
	if replicas == nil {
		replicas = []Replica{fakeReplica(t, "1", nil), fakeReplica(t, "2", nil)}
	}
	c := New(Options{
		Token: token, Replicas: replicas, Stack: []string{"a stack"}, Files: fstest.MapFS{
			"index.html": {Data: []byte("<!doctype html>")}, "app.js": {Data: []byte("1")},
			"web.go": {Data: []byte("package web")},
		},
	}, d)
	t.Cleanup(c.Close)
	s := testkit.Serve(t, c)
	t.Cleanup(c.hub.close) // before the server, which waits for the streams
	return s, c
}

// fakeReplica serves GET /events, and sends the given events as soon as the channel is closed.
func fakeReplica(t *testing.T, name string, when <-chan struct{}, events ...api.Events) Replica {
	t.Helper()
	s := testkit.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		rc := http.NewResponseController(w)
		_, _ = io.WriteString(w, ": hello\n\n")
		_ = rc.Flush()
		select {
		case <-when: // never, if it is nil
		case <-r.Context().Done():
			return
		}
		for _, e := range events {
			e.Answers, e.Sections = slices.Clone(e.Answers), slices.Clone(e.Sections)
			later := time.Now().UnixMicro() - start // as if they had just happened
			for i := range e.Answers {
				e.Answers[i].At += later
			}
			for i := range e.Sections {
				e.Sections[i].From += later
			}
			body, _ := json.Marshal(e)
			fmt.Fprintf(w, "data: %s\n\n", body)
		}
		_ = rc.Flush()
		<-r.Context().Done()
	}))
	return Replica{Name: name, URL: s.URL}
}

// ask sends a request; headers are name, value pairs.
func ask(t *testing.T, s *httptest.Server, method, path, body string, headers ...string) (int, string, *http.Response) {
	t.Helper()
	res, text := testkit.Ask(t, method, s.URL+path, strings.NewReader(body), headers...)
	return res.StatusCode, text, res
}

var (
	bearer = []string{"Authorization", "Bearer " + token}
	asJSON = append([]string{"Content-Type", "application/json"}, bearer...)
)

const oneRun = `{"modes":["m"],"replicas":2,"clients":4,"stock":10,"lang":"en"}`

func TestAccess(t *testing.T) {
	t.Parallel()
	s, _ := serve(t, &fakeDriver{finish: make(chan error)})
	tests := map[string]struct {
		method, path, body string
		headers            []string
		want               int
	}{
		"the page":                 {"GET", "/console/", "", nil, 200},
		"the root leads there":     {"GET", "/", "", nil, 302},
		"a file":                   {"GET", "/console/app.js", "", nil, 200},
		"no other file":            {"GET", "/console/web.go", "", nil, 404},
		"no way out":               {"GET", "/console/..%2f..%2fetc/passwd", "", nil, 404},
		"state without a session":  {"GET", "/console/api/state", "", nil, 401},
		"events without a session": {"GET", "/console/api/events", "", nil, 401},
		"runs without a session":   {"POST", "/console/api/runs", oneRun, nil, 401},
		"a stop without a session": {"DELETE", "/console/api/runs", "", nil, 401},
		"a wrong token":            {"POST", "/console/api/session", "", []string{"Authorization", "Bearer x"}, 401},
		"no token":                 {"POST", "/console/api/session", "", nil, 401},
		"a wrong cookie":           {"GET", "/console/api/state", "", []string{"Cookie", "lastitem-console-80=x"}, 401},
		"the token":                {"POST", "/console/api/session", "", bearer, 204},
		"the token, as curl has":   {"GET", "/console/api/state", "", bearer, 200},
		"another site's page": {"POST", "/console/api/runs", oneRun,
			append([]string{"Origin", "https://evil.example"}, asJSON...), 403},
		"another site's fetch": {"POST", "/console/api/runs", oneRun,
			append([]string{"Sec-Fetch-Site", "cross-site"}, asJSON...), 403},
		"another site's name": {"GET", "/console/", "", []string{"Host", "evil.example"}, 403},
		"localhost":           {"GET", "/console/", "", []string{"Host", "localhost:8090"}, 200},
		"a form":              {"POST", "/console/api/runs", oneRun, bearer, 400},
		"no JSON":             {"POST", "/console/api/runs", "{", asJSON, 400},
		"something after it":  {"POST", "/console/api/runs", oneRun + " {}", asJSON, 400},
		"an unknown field":    {"POST", "/console/api/runs", `{"url":"http://elsewhere"}`, asJSON, 400},
		"no mode": {"POST", "/console/api/runs", `{"modes":[],"replicas":1,"clients":1,"stock":1}`, asJSON,
			400},
		"an unknown mode": {"POST", "/console/api/runs", `{"modes":["x"],"replicas":1,"clients":1,"stock":1}`, asJSON,
			400},
		"a glob": {"POST", "/console/api/runs", `{"modes":["*"],"replicas":1,"clients":1,"stock":1}`, asJSON,
			400},
		"a mode that is not here": {"POST", "/console/api/runs", `{"modes":["off"],"replicas":1,"clients":1,"stock":1}`,
			asJSON, 400},
		"too many replicas": {"POST", "/console/api/runs", `{"modes":["m"],"replicas":3,"clients":1,"stock":1}`, asJSON, 400},
		"too many clients": {"POST", "/console/api/runs", `{"modes":["m"],"replicas":1,"clients":100000,"stock":1}`, asJSON,
			400},
		"no stock":         {"POST", "/console/api/runs", `{"modes":["m"],"replicas":1,"clients":1,"stock":0}`, asJSON, 400},
		"an unknown route": {"GET", "/console/api/x", "", bearer, 404},
		"another path":     {"GET", "/x", "", bearer, 404},
		"another method":   {"PUT", "/console/api/runs", oneRun, asJSON, 405},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, body, res := ask(t, s, tt.method, tt.path, tt.body, tt.headers...)
			if status != tt.want {
				t.Errorf("%s %s = %d %s, want %d", tt.method, tt.path, status, body, tt.want)
			}
			if status >= 400 && !strings.HasPrefix(body, `{"error":`) {
				t.Errorf("%s %s says %q, want JSON", tt.method, tt.path, body)
			}
			if allow := res.Header.Get("Allow"); (status == 405) != strings.Contains(allow, "POST") {
				t.Errorf("%s %s = %d, Allow: %q", tt.method, tt.path, status, allow)
			}
			if res.Header.Get("Content-Security-Policy") != policy || res.Header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("headers %v lack the policy", res.Header)
			}
		})
	}
}

// The names are those of SHOP_HOSTS, which compares them in lower case and takes * for any.
func TestServedHosts(t *testing.T) {
	t.Parallel()
	named, anything := newAccess("x", []string{"Shop.example", " other.example third.example"}),
		newAccess("x", []string{"*"})
	for host, want := range map[string]bool{
		"shop.example": true, "SHOP.example:8080": true, "other.example.": true, "third.example": true, "localhost:80": true,
		"a.localhost": true, "10.0.0.1:80": true, "[::1]:80": true,
		"evil.example": false, "shop.example.evil": false, "": false,
	} {
		testkit.Is(t, named.served(host), want, "served(%q)", host)
		if !anything.served(host) {
			t.Errorf("with *, served(%q) = false", host)
		}
	}
}

// A one-time code opens one session, and nothing else; a newer one voids it.
func TestOneTimeCode(t *testing.T) {
	t.Parallel()
	s, c := serve(t, &fakeDriver{})
	login := func(code string) int {
		status, _, _ := ask(t, s, "POST", "/console/api/session", "", "Authorization", "Bearer "+code)
		return status
	}
	older, code := c.OneTimeCode(), c.OneTimeCode()
	if status, _, _ := ask(t, s, "GET", "/console/api/state", "", "Authorization",
		"Bearer "+code); status != http.StatusUnauthorized {
		t.Errorf("GET state with the code = %d, want 401", status)
	}
	for _, try := range []struct {
		what, code string
		want       int
	}{{"the older code", older, 401}, {"the code", code, 204}, {"the code again", code, 401}, {"no code", "", 401},
		{"the token", token, 204}} {
		testkit.Is(t, login(try.code), try.want, "login with %s", try.what)
	}
}

func TestNobodyGetsInWithoutAToken(t *testing.T) {
	t.Parallel()
	a := newAccess("", nil)
	r := httptest.NewRequest(http.MethodPost, "/console/api/session", nil)
	r.Header.Set("Authorization", "Bearer ")
	if a.bearer(r) {
		t.Error("an empty token is taken where there is none")
	}
}

func TestSessionCookie(t *testing.T) {
	t.Parallel()
	s, _ := serve(t, &fakeDriver{})
	_, _, res := ask(t, s, "POST", "/console/api/session", "", bearer...)
	cookies := res.Cookies()
	if len(cookies) != 1 {
		t.Fatalf("%d cookies, want 1", len(cookies))
	}
	c := cookies[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/console/" || strings.Contains(c.Value, token) {
		t.Errorf("cookie %+v, want one that no script reads, no other site sends, and without the token", c)
	}
	if status, body, _ := ask(t, s, "GET", "/console/api/state", "", "Cookie", c.Name+"="+c.Value); status != 200 ||
		!strings.Contains(body, `"stack":["a stack"]`) {
		t.Errorf("state with the cookie = %d %s", status, body)
	}
}

// told is an event of the stream.
type told struct{ id, kind, data string }

// follow reads the console's events; last is the last event that the browser has seen.
func follow(t *testing.T, s *httptest.Server, last string) (next func() told, leave func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/console/api/events", nil)
	testkit.Must(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	res, err := s.Client().Do(req)
	if err != nil || res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("GET events: %v, %v", res, err)
	}
	t.Cleanup(func() { cancel(); res.Body.Close() })
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	return func() told {
		t.Helper()
		var e told
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "id":
				e.id = value
			case "event":
				e.kind = value
			case "data":
				e.data = value
				return e
			}
		}
		t.Fatalf("the stream ended: %v", lines.Err())
		return e
	}, cancel
}

// until reads events up to the first one of a kind.
func until(next func() told, kind string) told {
	for {
		if e := next(); e.kind == kind {
			return e
		}
	}
}

// The events describe a run from beginning to end, and the overlaps between two replicas are found in their streams.
func TestRunIsTold(t *testing.T) {
	t.Parallel()
	d := &fakeDriver{finish: make(chan error, 1), loaded: make(chan struct{})}
	s, _ := serve(t, d,
		fakeReplica(t, "1", d.loaded, events("1", sectionOf("1-a", "", 0, 20_000_000))),
		fakeReplica(t, "2", d.loaded, events("2", sectionOf("2-a", "", 0, 20_000_000))))
	next, _ := follow(t, s, "")
	if e := next(); e.kind != "snapshot" || e.data != "{}" {
		t.Fatalf("first event %+v, want an empty snapshot", e)
	}
	if status, body, _ := ask(t, s, "POST", "/console/api/runs", oneRun, asJSON...); status != http.StatusAccepted {
		t.Fatalf("POST runs = %d %s", status, body)
	}
	begin := until(next, "begin")
	until(next, "load")
	if status, _, _ := ask(t, s, "POST", "/console/api/runs", oneRun, asJSON...); status != http.StatusConflict {
		t.Errorf("a second run = %d, want 409", status)
	}
	var frame struct { // of which a Frame has more
		Sections, Overlaps int64
		Pairs              []Pair
	}
	for frame.Overlaps == 0 {
		frame.Pairs = nil
		testkit.Must(t, json.Unmarshal([]byte(until(next, "frame").data), &frame))
	}
	if frame.Sections != 2 || frame.Overlaps != 2 || len(frame.Pairs) != 1 {
		t.Errorf("frame = %+v, want two sections that overlap, one pair", frame)
	}
	d.finish <- nil
	if e := until(next, "result"); !strings.Contains(e.data, `"result":{"mode":"m"}`) {
		t.Errorf("result = %s", e.data)
	}
	end := until(next, "end")
	if !strings.Contains(end.data, `"state":"ended"`) {
		t.Errorf("end = %s", end.data)
	}
	t.Run("a page that opens late", func(t *testing.T) {
		late, _ := follow(t, s, "")
		if e := late(); e.kind != "snapshot" || !strings.Contains(e.data, `"overlaps":2`) ||
			!strings.Contains(e.data, `"state":"ended"`) || e.id != end.id {
			t.Errorf("%+v, want a snapshot of the whole run, with the id %s", e, end.id)
		}
	})
	t.Run("a page that comes back", func(t *testing.T) {
		back, _ := follow(t, s, begin.id)
		kinds := ""
		for e := back(); ; e = back() {
			kinds += e.kind + " "
			if e.id == end.id {
				break
			}
		}
		if strings.Contains(kinds, "snapshot") || !strings.Contains(kinds, "result ") || !strings.HasSuffix(kinds, " end ") {
			t.Errorf("replayed %s, want what was missed after the begin", kinds)
		}
	})
}

func TestRunIsStopped(t *testing.T) {
	t.Parallel()
	s, c := serve(t, &fakeDriver{finish: make(chan error)})
	ask(t, s, "POST", "/console/api/runs", `{"modes":["m","n"],"replicas":1,"clients":4,"stock":10}`, asJSON...)
	if status, _, _ := ask(t, s, "DELETE", "/console/api/runs", "", bearer...); status != http.StatusNoContent {
		t.Errorf("DELETE runs = %d", status)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.run.State != Stopped {
		t.Errorf("the run is %s, want %s", c.run.State, Stopped)
	}
}

func TestRunThatFails(t *testing.T) {
	t.Parallel()
	d := &fakeDriver{finish: make(chan error, 1)}
	d.finish <- errors.New("the stack is gone")
	s, _ := serve(t, d)
	next, _ := follow(t, s, "")
	ask(t, s, "POST", "/console/api/runs", oneRun, asJSON...)
	if e := until(next, "end"); !strings.Contains(e.data, `"state":"failed"`) ||
		!strings.Contains(e.data, "the stack is gone") {
		t.Errorf("end = %s", e.data)
	}
}

// A browser that does not read delays nobody: it is cut off, and counted.
func TestSlowBrowserIsCutOff(t *testing.T) {
	t.Parallel()
	h := newHub()
	slow, _, _, _, err := h.join(0)
	testkit.Must(t, err)
	for i := range 2 * clientBuffer {
		h.publish("frame", i)
	}
	got := 0
	for range slow {
		got++
	}
	if got != clientBuffer || h.cut != 1 {
		t.Errorf("the slow one got %d events and %d were cut off, want %d and 1", got, h.cut, clientBuffer)
	}
	h.leave(slow) // once more does no harm
}

func TestRing(t *testing.T) {
	t.Parallel()
	h := newHub()
	for i := range 2 * ringSize {
		h.publish("frame", i)
	}
	newest := h.next - 1
	tests := []struct {
		last   uint64
		missed int
		ok     bool
	}{
		{0, 0, false}, {1, 0, false}, {newest, 0, true}, {newest - 5, 5, true}, {newest + 1, 0, false},
		{h.ring[0].id - 1, len(h.ring), true}, {h.ring[0].id - 2, 0, false},
	}
	for _, tt := range tests {
		c, missed, _, ok, err := h.join(tt.last)
		if err != nil || len(missed) != tt.missed || ok != tt.ok {
			t.Errorf("join(%d) = %d events, %t, %v; want %d, %t", tt.last, len(missed), ok, err, tt.missed, tt.ok)
		}
		h.leave(c)
	}
}

// A page that has seen events of an earlier console gets a snapshot, however many events the new one has sent.
func TestEarlierConsole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		earlier := newHub()
		for i := range 50 {
			earlier.publish("frame", i)
		}
		time.Sleep(time.Second)
		h := newHub()
		for i := range 80 {
			h.publish("frame", i)
		}
		if _, missed, _, ok, err := h.join(earlier.next - 1); ok || len(missed) > 0 || err != nil {
			t.Errorf("join(the last of an earlier console) = %d events, %t, %v; want a snapshot", len(missed), ok, err)
		}
	})
}

func TestTooManyPages(t *testing.T) {
	t.Parallel()
	h := newHub()
	for range maxClients {
		_, _, _, _, err := h.join(0)
		testkit.Must(t, err)
	}
	if _, _, _, _, err := h.join(0); !errors.Is(err, errTooMany) {
		t.Errorf("one more page: %v, want %v", err, errTooMany)
	}
	h.close()
	if _, _, _, _, err := h.join(0); err == nil {
		t.Error("a page joined a hub that is closed")
	}
}

// The matrix, its witnesses and the documentation are served to clients with a session; a console that has none of them
// answers 404, and a picture may not run anything.
func TestFacts(t *testing.T) {
	t.Parallel()
	witness := func(w Witness) (json.RawMessage, bool) {
		body, err := json.Marshal(w)
		return body, err == nil && w.Letter == "O"
	}
	facts := Facts{Book: small(t), Matrix: json.RawMessage(`{"cells":1}`), Witness: witness}
	full, none := New(Options{Token: token, Facts: facts}, &fakeDriver{}), New(Options{Token: token}, &fakeDriver{})
	t.Cleanup(full.Close)
	t.Cleanup(none.Close)
	ask := func(c *Console, path, with string) *httptest.ResponseRecorder {
		req := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/console/api/"+path, nil)
		req.Header.Set("Authorization", "Bearer "+with)
		w := httptest.NewRecorder()
		c.ServeHTTP(w, req)
		return w
	}
	for path, want := range map[string]string{
		"pages": "Which lock", "pages?lang=zh": "哪种锁", "pages/modes/lua-lock?lang=zh": `"lang":"en"`, "pages/n": "not found",
		"search?q=SQL&lang=zh": `"match":"SQL"`,
		"picture/bench.svg":    "<svg ", "picture/c.svg": "not found", "matrix": `{"cells":1}`,
		"witness?mode=m&store=sql&fault=pause&letter=O": `{"Mode":"m","Store":"sql","Fault":"pause","Letter":"O"}`,
		"witness?mode=m&store=sql&fault=pause&letter=D": "not found",
	} {
		w := ask(full, path, token)
		if !strings.Contains(w.Body.String(), want) || (w.Code == http.StatusNotFound) != (want == "not found") {
			t.Errorf("%s = %d %s, want %s", path, w.Code, w.Body, want)
		}
		if policy := w.Header().Get("Content-Security-Policy"); want == "<svg " &&
			!strings.Contains(policy, "default-src 'none'") {
			t.Errorf("a picture has the policy %s", policy)
		}
		if w := ask(full, path, ""); w.Code != http.StatusUnauthorized {
			t.Errorf("%s without a session = %d %s", path, w.Code, w.Body)
		}
	}
	for _, path := range []string{"matrix", "witness?letter=O"} {
		if w := ask(none, path, token); w.Code != http.StatusNotFound {
			t.Errorf("%s of a console without facts = %d %s", path, w.Code, w.Body)
		}
	}
}

// A replica whose stream breaks and opens again leaves two marks, and a stopped run one; a load that begins has none.
func TestMarks(t *testing.T) {
	t.Parallel()
	streams := make(chan struct{}, 2)
	streams <- struct{}{} // the first stream ends at once, the second stays
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		select {
		case <-streams:
		case <-r.Context().Done():
		}
	}))
	defer s.Close()
	c := New(Options{Token: "t0ken"}, nil)
	defer c.Close()
	p := newPicture("m", 101, []string{"2"})
	p.begin(time.Now().UnixMicro())
	stop := c.watch(t.Context(), []Replica{{Name: "2", URL: s.URL}}, p)
	for len(p.whole().Marks) < 2 {
		time.Sleep(time.Millisecond)
	}
	stop()
	p.mark(time.Now().UnixMicro(), "", Stop)
	var got []string
	for _, m := range p.whole().Marks {
		got = append(got, m.Replica+m.What)
	}
	if want := []string{"2gone", "2back", "stop"}; !slices.Equal(got, want) {
		t.Errorf("the marks are %q, want %q", got, want)
	}
	p.begin(time.Now().UnixMicro())
	if n := len(p.whole().Marks); n != 0 {
		t.Errorf("a new load has %d marks, want none", n)
	}
}

// A run of one mode does not take the last comparison away.
func TestComparisonIsKept(t *testing.T) {
	t.Parallel()
	_, c := serve(t, &fakeDriver{})
	for _, modes := range [][]string{{"m", "n"}, {"m"}, {"n"}} {
		r, err := c.start(Spec{Modes: modes, Replicas: 1, Window: "w"})
		testkit.Must(t, err)
		<-r.done
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.snapshot()
	if s.Compared == nil || !slices.Equal(s.Compared.Spec.Modes, []string{"m", "n"}) || len(s.Compared.Results) != 2 {
		t.Errorf("after two runs the comparison is %+v, want that of m and n", s.Compared)
	}
	if got := s.Run.Spec; !slices.Equal(got.Modes, []string{"n"}) || got.Window != "w" {
		t.Errorf("the run is %+v, want that of n in window w", got)
	}
}
