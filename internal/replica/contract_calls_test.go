package replica

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"lastitem/internal/api"
)

// A call is one generated request.
type call struct {
	op       *operation
	method   string // that of op, HEAD, or one that the path lacks
	declared bool
	path     map[string]string
	query    string
	header   [][2]string
	body     string
	raw      string // the bytes of the request, as sent

	// What the examiner finds out.
	fields map[string]string // those of query and form as they are, those of a JSON body as JSON
	mode   string
	wrong  string // why the document forbids the request, "" = it does not
	vague  bool   // the document does not say
	broken bool   // it is no HTTP request
}

// generator makes requests from a document. Half of them are meant to be allowed; the examiner decides what they are.
type generator struct {
	*rand.Rand
	doc     *openapi3.T
	ops     []*operation
	weights []int
	modes   map[string]api.Mode
	names   []string            // of the modes, sorted
	cursors map[string][]string // by product, as they were answered
	madness float64             // how likely a part of the current request is hostile
	budget  int                 // how many more hostile parts the current request may have
}

func newGenerator(t *testing.T, h http.Handler, document []byte, p plan) *generator {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(document)
	if err != nil {
		t.Fatal(err)
	}
	g := &generator{
		Rand: rand.New(rand.NewPCG(p.seed, 0)), doc: doc, ops: operationsOf(doc), modes: map[string]api.Mode{}, cursors: map[string][]string{},
	}
	for i, op := range g.ops {
		weight := 2 + 2*len(op.params)
		if op.spec.RequestBody != nil {
			weight += 8
		}
		if p.path != "" && op.path != p.path {
			weight = 0
		}
		for range weight {
			g.weights = append(g.weights, i)
		}
	}
	var all api.Modes
	if err := json.Unmarshal([]byte(send(t, h, http.MethodGet, "/modes", "", http.StatusOK)), &all); err != nil {
		t.Fatal(err)
	}
	for _, m := range all.Modes {
		g.modes[m.Name] = m
		g.names = append(g.names, m.Name)
		if m.Default {
			g.modes[""] = m
		}
	}
	slices.Sort(g.names)
	for _, product := range usual["id"] {
		send(t, h, http.MethodPut, "/products/"+product+"/stock", `{"stock":1000000000}`, http.StatusOK)
	}
	return g
}

func pick[T any](g *generator, all ...T) T { return all[g.IntN(len(all))] }

func (g *generator) chance(p float64) bool { return g.Float64() < p }

func (g *generator) hostile() bool {
	if g.budget == 0 || !g.chance(g.madness) {
		return false
	}
	g.budget--
	return true
}

// learn keeps what later requests need of an answer.
func (g *generator) learn(c *call, a answer) {
	var page struct {
		NextCursor string `json:"next_cursor"`
	}
	if json.Unmarshal([]byte(a.body), &page) == nil && page.NextCursor != "" {
		g.cursors[c.path["id"]] = append(g.cursors[c.path["id"]], page.NextCursor)
	}
}

// foreign are methods that paths may lack.
var foreign = []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"}

// call makes the next request.
func (g *generator) call() *call {
	g.madness, g.budget = pick(g, 0.15, 0.3, 0.5), pick(g, 0, 0, 0, 1, 1, 1, 2, 99) // one hostile part tells most about the rule for it
	c := &call{op: g.ops[pick(g, g.weights...)], declared: true, path: map[string]string{}}
	c.method = c.op.method
	if other := pick(g, foreign...); g.chance(0.03) && c.op.item.GetOperation(cmp.Or(map[string]string{"BREW": "CONNECT"}[other], other)) == nil {
		c.method, c.declared, g.budget = other, false, 0
	} else if c.method == http.MethodGet && g.chance(0.05) {
		c.method = http.MethodHead
	}
	g.authorize(c)
	c.query = strings.Join(g.params(c), "&")
	g.addBody(c)
	c.examine(g)
	if n, err := strconv.Atoi(c.fields["hold_ms"]); err == nil && n > 20 && c.token() { // nobody waits for half a minute here
		c.header = slices.DeleteFunc(c.header, func(h [2]string) bool { return h[0] == "Authorization" })
		c.examine(g)
	}
	c.write()
	return c
}

// params makes the parameters, and returns the pairs of the query.
func (g *generator) params(c *call) (query []string) {
	for _, p := range c.op.params {
		switch p.In {
		case openapi3.ParameterInPath:
			c.path[p.Name] = cmp.Or(g.param(p, c), "%zz") // an empty one would make another path
		case openapi3.ParameterInQuery:
			if g.chance(0.25) && g.fits(c, p.Name) {
				query = append(query, g.pair(p.Name, g.param(p, c))...)
			}
		case openapi3.ParameterInHeader:
			for _, likely := range []bool{g.chance(0.4) || g.modes[c.path["mode"]].KeyRequired, g.hostile()} {
				if likely {
					c.header = append(c.header, [2]string{p.Name, strings.NewReplacer("\r", "", "\n", "").Replace(g.param(p, c))})
				}
			}
		}
	}
	if g.hostile() {
		query = append(query, pick(g, "nope=1", "Quantity=1", "stock=7", "limit=5", "wait_ms=1", "exclude=redis", "items=[]", "quantity=1;wait_ms=1", "%zz=1", "a=%", "%ff=%fe", "=", "&&", strings.Repeat("x", 5000)+"=1", "mode[]=rwlock"))
	}
	return query
}

// fits says whether a request should have a field. The fields of experiments are mostly left out where the mode does not take them.
func (g *generator) fits(c *call, name string) bool {
	if name != "lease_ms" && name != "depth" && name != "hold_ms" {
		return true
	}
	return c.token() && slices.Contains(g.modes[c.path["mode"]].Holds, name) || g.chance(0.1)
}

// pair writes a field for a query or a form, now and then twice.
func (g *generator) pair(name, text string) []string {
	one := url.QueryEscape(name) + "=" + url.QueryEscape(text)
	if g.hostile() && g.chance(0.3) {
		return []string{one, one}
	}
	return []string{one}
}

// authorize sends the token, another one, or none.
func (g *generator) authorize(c *call) {
	secured := c.op.spec.Security != nil && len((*c.op.spec.Security)[0]) > 0
	if g.chance(0.5) || secured && g.chance(0.8) {
		c.header = append(c.header, [2]string{"Authorization", "Bearer t0ken"})
	} else if g.chance(0.2) {
		c.header = append(c.header, [2]string{"Authorization", pick(g, "", "Bearer", "Bearer ", "Bearer wrong", "Basic t0ken", "t0ken", "Bearer t0ken t0ken", "Bearer \xff")})
	}
}

// addBody adds a body where the document has one, and now and then where it has none.
func (g *generator) addBody(c *call) {
	if c.op.spec.RequestBody == nil {
		if g.hostile() {
			c.body = pick(g, "{}", "x", strings.Repeat(" ", 70_000))
		}
		return
	}
	b := c.op.spec.RequestBody.Value
	if g.hostile() || !b.Required && g.chance(0.3) {
		return
	}
	var kinds []string
	for kind := range b.Content {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	kind := pick(g, kinds...)
	s := b.Content[kind].Schema.Value
	if kind == "application/json" {
		c.body = g.document(s, c)
	} else {
		c.body = strings.Join(g.form(s, c), "&")
	}
	if g.hostile() {
		kind = pick(g, "", "text/plain", "application/xml", "multipart/form-data; boundary=x", "application/json; charset=latin1", "application/json/x",
			"application/jsonx", "*/*", "application/x-www-form-urlencoded; charset=utf-16", "\xff", "application/problem+json", kinds[0])
	} else {
		kind += pick(g, "", "", "", "; charset=utf-8", ";charset=UTF-8")
	}
	c.header = append(c.header, [2]string{"Content-Type", kind})
	if g.hostile() && g.chance(0.3) {
		c.header = append(c.header, [2]string{"Content-Type", kind})
	}
}

// write makes the bytes of the request.
func (c *call) write() {
	target := c.op.path
	for name, value := range c.path {
		escaped := url.PathEscape(value)
		if value == "%zz" { // as it is
			escaped = value
		}
		target = strings.Replace(target, "{"+name+"}", escaped, 1)
	}
	if c.query != "" {
		target += "?" + c.query
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: localhost\r\n", c.method, target)
	for _, h := range c.header {
		fmt.Fprintf(&b, "%s: %s\r\n", h[0], h[1])
	}
	fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(c.body), c.body)
	c.raw = b.String()
}

// operation is a method of a path, as the document has it.
type operation struct {
	method, path string
	item         *openapi3.PathItem
	spec         *openapi3.Operation
	params       []*openapi3.Parameter
	allow        string // the methods of the path, as in Allow
}

func (o *operation) name() string { return o.method + " " + o.path }

// named says that the document promises to refuse fields that it does not name.
func (o *operation) named() bool {
	return slices.ContainsFunc([]string{"/deduct_stock", "/modes", "/products"}, func(p string) bool { return strings.HasPrefix(o.path, p) })
}

func operationsOf(doc *openapi3.T) (all []*operation) {
	for path, item := range doc.Paths.Map() {
		var allow []string
		for method := range item.Operations() {
			allow = append(allow, method)
			if method == http.MethodGet {
				allow = append(allow, http.MethodHead)
			}
		}
		slices.Sort(allow)
		for method, spec := range item.Operations() {
			op := &operation{method: method, path: path, item: item, spec: spec, allow: strings.Join(allow, ", ")}
			for _, p := range slices.Concat(item.Parameters, spec.Parameters) {
				op.params = append(op.params, p.Value)
			}
			all = append(all, op)
		}
	}
	slices.SortFunc(all, func(a, b *operation) int { return strings.Compare(a.name(), b.name()) })
	return all
}
