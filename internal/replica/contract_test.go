package replica

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"lastitem/contract/api"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// A finding is an answer that breaks a rule of the contract.
type finding struct{ rule, text string }

// The rules. Each has a mutant below.
const (
	healthy  = "healthy backends: no 5xx"
	declared = "a status is declared"
	shaped   = "an answer has the declared type, headers and body"
	problems = "a refusal is a problem that fits its status"
	accepted = "a request that the document allows is not refused as malformed"
	refused  = "a request that the document forbids is not served"
	methods  = "a method that a path lacks is 405, with Allow"
)

// Requests that are made from openapi.json, allowed and forbidden ones, of every path and method, on a whole replica:
// the answers keep the rules above. SHOP_TEST_SEED chooses other requests.
func TestGeneratedRequests(t *testing.T) {
	t.Parallel()
	generatedRequests(t, 300)
}

// SHOP_TEST_REQUESTS says how many.
func TestManyGeneratedRequests(t *testing.T) {
	testenv.Slow(t, "ten times the requests of TestGeneratedRequests")
	t.Parallel()
	generatedRequests(t, envNumber("SHOP_TEST_REQUESTS", 3000))
}

func generatedRequests(t *testing.T, n uint64) {
	seed := envNumber("SHOP_TEST_SEED", 1)
	t.Logf("SHOP_TEST_SEED=%d SHOP_TEST_REQUESTS=%d", seed, n)
	r := openReplica(t)
	e := explore(t, r, documentOf(t, r), plan{seed: seed, requests: n, most: 20})
	for _, f := range e.found {
		t.Errorf("%s: %s", f.rule, f.text)
	}
	t.Logf("%d requests sent again, because a backend was too slow", e.count["repeated"])
	for _, op := range e.ops {
		served, forbidden := e.count[op.name()+" served"], e.count[op.name()+" forbidden"]
		t.Logf("%-28s %4d served, %4d forbidden", op.name(), served, forbidden)
		if n >= 3000 && (served == 0 || op.named() && len(op.params) > 0 && forbidden == 0) {
			t.Errorf("%s: %d requests served, %d forbidden, want some of each: without them the run proves nothing", op.name(),
				served, forbidden)
		}
	}
}

// Every rule can be broken: by a document that says something else, or by a service that does.
func TestGeneratedRequestsFindMutants(t *testing.T) {
	t.Parallel()
	for _, m := range []struct {
		name, rule string
		path       string // the only one that is asked, "" = all
		document   func(node)
		service    func(w http.ResponseWriter, req *http.Request, next http.Handler)
	}{
		{name: "a status removed", rule: declared, document: func(d node) {
			delete(d.at("paths", "/modes/{mode}", "get", "responses"), "default")
		}},
		{name: "200 removed", rule: declared, document: func(d node) {
			delete(d.at("paths", "/products/{id}/audit", "get", "responses"), "200")
		}},
		{name: "a lower maximum in a query", rule: refused, path: "/products/{id}/orders", document: func(d node) {
			d.at("components", "parameters", "limit", "schema")["maximum"] = 999
		}},
		{name: "a lower maximum in a body", rule: refused, path: "/products/{id}/stock", document: func(d node) {
			d.at("components", "schemas", "SetStock", "properties", "stock")["maximum"] = 1000
		}},
		{name: "a higher maximum", rule: accepted, document: func(d node) {
			d.at("components", "parameters", "quantity", "schema")["maximum"] = 2_000_000
		}},
		{name: "an extra field", rule: accepted, document: func(d node) {
			d.at("components", "schemas", "Deduct", "properties")["colour"] = node{"type": "string"}
		}},
		{name: "an extra type of body", rule: accepted, document: func(d node) {
			content := d.at("components", "requestBodies", "Deduct", "content")
			content["text/csv"] = content["application/x-www-form-urlencoded"]
		}},
		{name: "a field of an answer removed", rule: shaped, document: func(d node) {
			delete(d.at("components", "schemas", "Deduction", "properties"), "remaining")
		}},
		{name: "an extra header of an answer", rule: shaped, document: func(d node) {
			d.at("components", "responses", "Product", "headers")["X-Colour"] = node{"required": true,
				"schema": node{"type": "string"}}
		}},
		{name: "another type of answer", rule: shaped, document: func(d node) {
			content := d.at("components", "responses", "Product", "content")
			content["text/csv"] = content["application/json"]
			delete(content, "application/json")
		}},
		{name: "an error now and then", rule: healthy, path: "/products/{id}/ledger",
			service: func(w http.ResponseWriter, req *http.Request, next http.Handler) {
				if strings.Contains(req.URL.RawQuery, "limit=1000") {
					w.WriteHeader(http.StatusInternalServerError)
					return
				}
				next.ServeHTTP(w, req)
			}},
		{name: "a refusal in plain text", rule: problems, path: "/problems/{code}",
			service: func(w http.ResponseWriter, req *http.Request, next http.Handler) {
				if strings.HasPrefix(req.URL.Path, "/problems/n") {
					http.NotFound(w, req)
					return
				}
				next.ServeHTTP(w, req)
			}},
		{name: "a service that asks for no token", rule: refused, service: func(w http.ResponseWriter, req *http.Request,
			next http.Handler) {
			req.Header.Set("Authorization", "Bearer t0ken")
			next.ServeHTTP(w, req)
		}},
		{name: "a service that takes every method", rule: methods, path: "/healthz",
			service: func(w http.ResponseWriter, req *http.Request, next http.Handler) {
				if req.Method == http.MethodPatch {
					req.Method = http.MethodGet
				}
				next.ServeHTTP(w, req)
			}},
	} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			r := openReplica(t)
			doc := documentOf(t, r)
			if m.document != nil {
				d := node{}
				testkit.Must(t, json.Unmarshal(doc, &d))
				m.document(d)
				doc, _ = json.Marshal(d)
			}
			h := http.Handler(r)
			if m.service != nil {
				h = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { m.service(w, req, r) })
			}
			found := explore(t, h, doc, plan{seed: 1, requests: 3000, most: 1, path: m.path}).found
			if !slices.ContainsFunc(found, func(f finding) bool { return f.rule == m.rule }) {
				t.Errorf("found %+v, want one of the rule %q", found, m.rule)
			}
		})
	}
}

// node is an object of the document.
type node map[string]any

// at is the object at a path.
func (n node) at(path ...string) node {
	for _, name := range path {
		n = n[name].(map[string]any)
	}
	return n
}

func envNumber(name string, otherwise uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return otherwise
}

func documentOf(t *testing.T, h http.Handler) []byte {
	t.Helper()
	return []byte(send(t, h, http.MethodGet, "/openapi.json", "", http.StatusOK))
}

// exploration is a run of generated requests.
type exploration struct {
	*generator
	found []finding
	count map[string]int
	valid map[string]bool // bodies that have been held against their schemas
}

// plan bounds an exploration: it ends after requests, or once it has most findings. path is the only path that it asks;
// "" = all.
type plan struct {
	seed, requests uint64
	most           int
	path           string
}

// explore sends requests and judges the answers.
func explore(t *testing.T, h http.Handler, document []byte, p plan) *exploration {
	t.Helper()
	e := &exploration{generator: newGenerator(t, h, document, p), count: map[string]int{}, valid: map[string]bool{}}
	for i := range p.requests {
		c := e.call()
		a := c.send(t, h)
		for again := 0; e.overtaxed(c, a) && again < 3; again++ {
			e.count["repeated"]++
			waitFor(t, h)
			a = c.send(t, h)
		}
		for _, f := range e.judge(c, a) {
			e.found = append(e.found, finding{f.rule, fmt.Sprintf("%s\nrequest %d, forbidden because of %q: %s\nanswer: %d %v "+
				"%.2000s",
				f.text, i, c.fault, a.request, a.StatusCode, a.Header, a.body)})
		}
		if len(e.found) >= p.most {
			break
		}
		e.learn(c, a)
	}
	return e
}

// judge checks an answer against the rules.
func (e *exploration) judge(c *call, a answer) (found []finding) {
	add := func(rule, text string, args ...any) { found = append(found, finding{rule, fmt.Sprintf(text, args...)}) }
	var p api.Problem
	if a.StatusCode >= http.StatusBadRequest && c.method != http.MethodHead {
		f := api.Facts{}
		if err := json.Unmarshal([]byte(a.body), &p); err == nil {
			f = api.Codes[p.Code]
		}
		if a.Header.Get("Content-Type") != api.ProblemType || p.Status != a.StatusCode || f.Status != p.Status ||
			f.Happened != p.Happened && (p.Code != api.SoldOut || p.Happened != api.NoForNow) { // units of a hold come back
			add(problems, "%+v", p)
		}
	}
	if a.StatusCode >= http.StatusInternalServerError && !e.mayFail(c, p.Code) {
		add(healthy, "%d", a.StatusCode)
	}
	if !c.declared {
		if a.StatusCode != http.StatusMethodNotAllowed || a.Header.Get("Allow") != c.op.allow {
			add(methods, "%d, Allow %q, want %q", a.StatusCode, a.Header.Get("Allow"), c.op.allow)
		}
		return found
	}
	if r := c.op.spec.Responses; r.Status(a.StatusCode) == nil &&
		(r.Default() == nil || a.StatusCode < http.StatusBadRequest) {
		add(declared, "%d", a.StatusCode)
	} else if err := e.validate(c, a); err != nil && len(found) == 0 {
		add(shaped, "%v", err)
	}
	switch served := a.StatusCode < http.StatusMultipleChoices; {
	case served && c.fault != "":
		add(refused, "served")
	case a.Header.Get(api.HeaderRequestID) == "":
		add(shaped, "no X-Request-Id")
	case !served && c.fault == "" && len(found) == 0 && p.Code != "" && !e.mayRefuse(c, p.Code):
		add(accepted, "%s", p.Detail)
	}
	if a.StatusCode < http.StatusMultipleChoices {
		e.count[c.op.name()+" served"]++
	}
	if c.fault != "" {
		e.count[c.op.name()+" forbidden"]++
	}
	return found
}

// validate checks an answer against what the document says of its status.
func (e *exploration) validate(c *call, a answer) error {
	body := fmt.Sprint(c.op.name(), a.StatusCode, a.Header.Get("Content-Type"), a.body)
	o := &openapi3filter.Options{IncludeResponseStatus: true, ExcludeResponseBody: c.method == http.MethodHead ||
		e.valid[body]}
	req, err := http.NewRequest(c.op.method, c.op.path, http.NoBody)
	if err != nil {
		return err
	}
	in := &openapi3filter.RequestValidationInput{
		Request: req, Options: o,
		Route: &routers.Route{Spec: e.doc, Path: c.op.path, PathItem: c.op.item, Method: c.op.method, Operation: c.op.spec},
	}
	err = openapi3filter.ValidateResponse(req.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: a.StatusCode, Header: a.Header, Options: o,
		Body: io.NopCloser(strings.NewReader(a.body)),
	})
	e.valid[body] = err == nil && !o.ExcludeResponseBody || e.valid[body]
	return err
}

// overtaxed says that a backend on a busy machine may have been too slow for the request, which is then sent again:
// what the shop itself does wrong, it does again.
func (e *exploration) overtaxed(c *call, a answer) bool {
	var p api.Problem
	_ = json.Unmarshal([]byte(a.body), &p)
	busy := a.StatusCode == http.StatusServiceUnavailable || a.StatusCode == http.StatusGatewayTimeout
	return busy && !e.mayFail(c, p.Code)
}

// waitFor waits until a service is ready. One that is never ready again is found by the next answer.
func waitFor(t *testing.T, h http.Handler) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", http.NoBody))
		if w.Code == http.StatusOK {
			return
		}
	}
}

// mayFail says whether healthy backends may cause this 5xx: the replica lacks the mode's backend; the lock cannot be
// taken within the short wait that the request allows; or the lock expires before the work is done, because the request
// gave it a lease time.
func (e *exploration) mayFail(c *call, code api.Code) bool {
	switch code {
	case api.Contended: // one look at a time
		return strings.HasSuffix(c.op.path, "/reconcile") || strings.HasSuffix(c.op.path, "/tickets")
	case api.ModeUnavailable:
		m, known := e.modes[c.path["mode"]]
		return known && !m.Available
	case api.LockBusy: // many locks, or a slow backend
		wait, err := strconv.Atoi(c.value("wait_ms"))
		return err == nil && wait > 0 && wait < 1000
	case api.LockLost, api.OutcomeUnknown:
		return c.value("lease_ms") != "" && c.value("lease_ms") != "0"
	}
	return false
}

// mayRefuse says whether a refusal depends on the state of the shop, and so does not call the request malformed.
func (e *exploration) mayRefuse(c *call, code api.Code) bool {
	switch code {
	case api.SoldOut, api.UnknownProduct, api.ProductSegmented, api.UnknownMode, api.KeyReused, api.LimitReached,
		api.LimitUnsupported, api.HoldUnsupported, api.ReturnUnsupported, api.AdjustUnsupported,
		api.ReconcileRefused,
		api.UnknownReservation, api.UnknownOrder, api.UnknownTicket, api.ReservationExpired, api.ReservationCancelled,
		api.ReservationConfirmed:
		return true
	case api.KeyMissing, api.InvalidRequest: // by the rules of the product, and what is left
		return slices.Contains([]string{"extend", "cancel", "return"}, path.Base(c.op.path))
	case api.NotFound:
		return c.op.path == "/problems/{code}"
	}
	return e.mayFail(c, code)
}

// answer is a response whose body has been read, and the request, for people.
type answer struct {
	*http.Response
	body, request string
}
