package console

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"

	"lastitem/contract/api"
)

// Options configures a console.
type Options struct {
	// Token is the stack's admin token. Without it no run can be started, and no events are served.
	Token string
	// Hosts are names under which the console is served, besides localhost and IP addresses; "*" = any.
	Hosts []string
	// URL is the address of the shop's balancer, for the page of a product.
	URL string
	// Replicas are the replicas of the stack, in their order.
	Replicas []Replica
	// Stack describes the servers of the stack, a sentence for each.
	Stack []string
	// Version of lastitem.
	Version string
	// Files is the page.
	Files fs.FS
	// Facts has the contents of the pages other than runs.
	Facts Facts
	// Stepper plays the schedules of the Step page; nil = the page says that it needs the local stack. The console closes
	// the stepper.
	Stepper Stepper
	// Log receives errors that do not belong to a run; nil = not called.
	Log func(format string, args ...any)
}

// Console serves the page and its API, and owns the current run. It is safe for concurrent use.
type Console struct {
	options Options
	driver  Driver
	access  *access
	hub     *hub
	client  *http.Client
	handler http.Handler
	shop    *products
	base    context.Context //nolint:containedctx // of the runs, which outlive the requests that start them
	cancel  context.CancelFunc

	mu       sync.Mutex
	run      *run
	compared *run // the last run of several modes before run
	runs     int
	closed   bool
}

// New returns a console. Close ends its run and its streams.
func New(o Options, driver Driver) *Console {
	c := &Console{options: o, driver: driver, access: newAccess(o.Token, o.Hosts), hub: newHub(),
		client: &http.Client{Transport: &http.Transport{}}}
	c.shop = newProducts(o.URL, o.Token, c.client)
	c.base, c.cancel = context.WithCancel(context.Background())
	c.handler = c.access.guard(inJSON(c.routes()))
	return c
}

// routes lists the routes of the console.
func (c *Console) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/console/", http.StatusFound)
	})
	mux.HandleFunc("GET /console/{file...}", c.file)
	mux.HandleFunc("POST /console/api/session", c.access.login)
	mux.HandleFunc("GET /console/api/state", c.access.wants(c.state))
	mux.HandleFunc("GET /console/api/matrix", c.access.wants(c.matrix))
	mux.HandleFunc("GET /console/api/witness", c.access.wants(c.witness))
	mux.HandleFunc("GET /console/api/events", c.access.wants(c.events))
	mux.HandleFunc("POST /console/api/runs", c.access.wants(c.startRun))
	mux.HandleFunc("DELETE /console/api/runs", c.access.wants(c.endRun))
	mux.HandleFunc("GET /console/api/lessons", c.access.wants(c.lessons))
	mux.HandleFunc("POST /console/api/step", c.access.wants(c.play))
	mux.HandleFunc("GET /console/api/products/{id}", c.product)
	mux.HandleFunc("POST /console/api/products/{id}/acts", c.access.wants(c.act))
	c.bookRoutes(mux)
	return mux
}

// inJSON answers what mux has no route for as the other errors are answered; mux itself answers in plain text.
func inJSON(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		refusal := headers{}
		h.ServeHTTP(refusal, r)
		err := errNotFound
		if allow := http.Header(refusal).Get("Allow"); allow != "" {
			w.Header().Set("Allow", allow)
			err = errMethod
		}
		fail(w, err)
	})
}

// headers keeps the headers of an answer and drops the rest.
type headers http.Header

func (h headers) Header() http.Header         { return http.Header(h) }
func (h headers) WriteHeader(int)             {}
func (h headers) Write(b []byte) (int, error) { return len(b), nil }

// OneTimeCode returns a code that one login may use in place of the token; a new one voids the one before. It is for
// the address that a program is started with: other users of the machine can read that.
func (c *Console) OneTimeCode() string { return c.access.oneTimeCode() }

// ServeHTTP implements http.Handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.handler.ServeHTTP(w, r) }

// Close ends the run and all streams, and waits for the run.
func (c *Console) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	if c.options.Stepper != nil {
		if err := c.options.Stepper.Close(); err != nil {
			c.log("%v", err)
		}
	}
	c.stopRun()
	c.hub.close()
	c.client.CloseIdleConnections()
}

// log passes an error to Options.Log.
func (c *Console) log(format string, args ...any) {
	if c.options.Log != nil {
		c.options.Log(format, args...)
	}
}

// types has the content types of the page's files. A file of another type is not served.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".json": "application/json", ".svg": "image/svg+xml",
}

// file serves the page. It needs no token: the repository is public, and so is the page without data.
func (c *Console) file(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	if name == "" {
		name = "index.html"
	}
	kind := types[path.Ext(name)]
	text, err := fs.ReadFile(c.options.Files, name)
	if err != nil || kind == "" {
		fail(w, errNotFound)
		return
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(text)
}

// State is the body of GET /console/api/state.
type State struct {
	Version  string     `json:"version"`
	Stack    []string   `json:"stack"`
	Replicas []Replica  `json:"replicas"`
	Modes    []api.Mode `json:"modes"`
	// Steps says that the Step page can be played here.
	Steps bool `json:"steps"`
}

// state serves GET /console/api/state. Only the availability of the modes changes while the console runs.
func (c *Console) state(w http.ResponseWriter, r *http.Request) {
	modes, err := c.driver.Modes(r.Context())
	if err != nil {
		fail(w, err)
		return
	}
	send(w, http.StatusOK, State{Version: c.options.Version, Stack: c.options.Stack, Replicas: c.options.Replicas,
		Modes: modes, Steps: c.options.Stepper != nil})
}

// maxSpec bounds the body of a request.
const maxSpec = 16 << 10

// decode reads a JSON body.
func decode(w http.ResponseWriter, r *http.Request, into any) error {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		return invalid{errors.New("want a body of type application/json")}
	}
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxSpec))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return invalid{err}
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return invalid{errors.New("want one JSON object and nothing after it")}
	}
	return nil
}

// startRun serves POST /console/api/runs.
func (c *Console) startRun(w http.ResponseWriter, r *http.Request) {
	var spec Spec
	if err := decode(w, r, &spec); err != nil {
		fail(w, err)
		return
	}
	modes, err := c.driver.Modes(r.Context())
	if err != nil {
		fail(w, err)
		return
	}
	if err := c.check(&spec, modes); err != nil {
		fail(w, invalid{err})
		return
	}
	if _, err := c.start(spec); err != nil {
		fail(w, err)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// endRun serves DELETE /console/api/runs: it answers when the run has ended.
func (c *Console) endRun(w http.ResponseWriter, _ *http.Request) {
	c.stopRun()
	w.WriteHeader(http.StatusNoContent)
}

// product serves GET /console/api/products/{id}?q=words.
func (c *Console) product(w http.ResponseWriter, r *http.Request) {
	s, err := c.shop.shelf(r.Context(), r.PathValue("id"), r.URL.Query().Get("q"), c.access.has(r))
	if err != nil {
		fail(w, err)
		return
	}
	send(w, http.StatusOK, s)
}

// act serves POST /console/api/products/{id}/acts.
func (c *Console) act(w http.ResponseWriter, r *http.Request) {
	var a Act
	var d Done
	err := decode(w, r, &a)
	if err == nil {
		d, err = c.shop.act(r.Context(), r.PathValue("id"), a)
	}
	if err != nil {
		fail(w, err)
		return
	}
	send(w, http.StatusOK, d)
}

// fail answers with the error as JSON.
func fail(w http.ResponseWriter, err error) {
	status := http.StatusBadGateway
	var bad invalid
	switch {
	case errors.As(err, &bad):
		status = http.StatusBadRequest
	case errors.Is(err, errNoSession), errors.Is(err, errWrong):
		status = http.StatusUnauthorized
	case errors.Is(err, errHost), errors.Is(err, errForeign):
		status = http.StatusForbidden
	case errors.Is(err, errNotFound), errors.Is(err, errNoSteps):
		status = http.StatusNotFound
	case errors.Is(err, errMethod):
		status = http.StatusMethodNotAllowed
	case errors.Is(err, errRunning):
		status = http.StatusConflict
	case errors.Is(err, errTooMany):
		status = http.StatusServiceUnavailable
	}
	send(w, status, map[string]string{"error": err.Error()})
}

// send answers with JSON.
func send(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}
