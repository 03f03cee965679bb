package replica

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"lastitem/contract/api"
	"lastitem/testkit"
)

// A call is one generated request: one that the document allows, or one with a single fault.
type call struct {
	op       *operation
	method   string // that of op, HEAD, or one that the path lacks
	declared bool
	token    bool // it has the admin token
	path     map[string]string
	query    []field
	body     []field // JSON texts if kind is JSON
	kind     string  // of the body
	key      string
	fault    string // why the document forbids the request, "" = it does not
}

type field struct{ name, text string }

const jsonKind = "application/json"

// value is the text of a field, wherever it stands; "" = it is not given.
func (c *call) value(name string) string {
	for _, f := range slices.Concat(c.query, c.body) {
		if f.name == name {
			return strings.Trim(f.text, `"`)
		}
	}
	return ""
}

// without takes a field away.
func (c *call) without(name string) {
	is := func(f field) bool { return f.name == name }
	c.query, c.body = slices.DeleteFunc(c.query, is), slices.DeleteFunc(c.body, is)
}

// generator makes requests from a document.
type generator struct {
	*rand.Rand
	doc     *openapi3.T
	ops     []*operation
	weights []int
	modes   map[string]api.Mode
	names   []string            // of the modes, sorted
	cursors map[string][]string // by product, as they were answered
	held    []string            // the reservations made
	won     []string            // the tickets given
	sold    map[string]string   // by product: its last order
}

func newGenerator(t *testing.T, h http.Handler, document []byte, p plan) *generator {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(document)
	testkit.Must(t, err)
	g := &generator{
		Rand: rand.New(rand.NewPCG(p.seed, 0)), doc: doc, ops: operationsOf(doc), modes: map[string]api.Mode{},
		cursors: map[string][]string{}, sold: map[string]string{},
	}
	for i, op := range g.ops {
		weight := 2 + 2*len(op.params)
		if op.spec.RequestBody != nil {
			weight += 8
		}
		if p.path == "" || op.path == p.path {
			g.weights = append(g.weights, slices.Repeat([]int{i}, weight)...)
		}
	}
	var all api.Modes
	testkit.Must(t, json.Unmarshal([]byte(send(t, h, http.MethodGet, "/modes", "", http.StatusOK)), &all))
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
	send(t, h, http.MethodPut, "/products/"+ticketed+"/stock", `{"stock":1000000000}`, http.StatusOK)
	var won api.Ticket
	body := send(t, h, http.MethodPost, "/deduct_stock/redis-stream?product_id="+ticketed, "", http.StatusAccepted)
	testkit.Must(t, json.Unmarshal([]byte(body), &won))
	g.won = append(g.won, won.TicketID)
	return g
}

func pick[T any](g *generator, all ...T) T { return all[g.IntN(len(all))] }

func (g *generator) chance(p float64) bool { return g.Float64() < p }

// learn keeps what later requests need of an answer.
func (g *generator) learn(c *call, a answer) {
	var page struct {
		NextCursor    string `json:"next_cursor"`
		ReservationID string `json:"reservation_id"`
		TicketID      string `json:"ticket_id"`
		OrderID       string `json:"order_id"`
		ProductID     int64  `json:"product_id"`
	}
	if a.StatusCode < http.StatusMultipleChoices && json.Unmarshal([]byte(a.body), &page) == nil {
		if a.StatusCode == http.StatusCreated {
			g.held = append(g.held, page.ReservationID)
		}
		if page.TicketID != "" {
			g.won = append(g.won, page.TicketID)
		}
		if page.OrderID != "" && page.ProductID > 0 {
			g.sold[strconv.FormatInt(page.ProductID, 10)] = page.OrderID
		}
	}
	if json.Unmarshal([]byte(a.body), &page) == nil && page.NextCursor != "" {
		g.cursors[c.path["id"]] = append(g.cursors[c.path["id"]], page.NextCursor)
	}
}

// foreign are methods that paths may lack.
var foreign = []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"}

// call makes the next request. Half of them have a fault.
func (g *generator) call() *call {
	for {
		c := &call{op: g.ops[pick(g, g.weights...)], declared: true, path: map[string]string{}}
		c.method, c.token = c.op.method, c.op.secured() || g.chance(0.5)
		if other := pick(g, foreign...); g.chance(0.03) &&
			c.op.item.GetOperation(cmp.Or(map[string]string{"BREW": "CONNECT"}[other], other)) == nil {
			c.method, c.declared = other, false
		} else if c.method == http.MethodGet && g.chance(0.05) {
			c.method = http.MethodHead
		}
		g.fill(c)
		if !c.declared || g.chance(0.4) {
			return c
		}
		f := pick(g, faults...)
		made := f.make(g, c)
		if made {
			c.fault = f.name
			return c
		}
	}
}

// fill gives a request parameters and a body that the document allows.
func (g *generator) fill(c *call) {
	for _, p := range c.op.params {
		switch p.In {
		case openapi3.ParameterInPath:
			c.path[p.Name] = g.valid(c, p.Name, p.Schema.Value)
		case openapi3.ParameterInQuery:
			if g.wants(c, p.Name) && g.chance(0.5) {
				c.query = append(c.query, field{p.Name, g.valid(c, p.Name, p.Schema.Value)})
			}
		case openapi3.ParameterInHeader:
			if p.Required || g.mode(c).KeyRequired || g.chance(0.4) {
				c.key = g.valid(c, p.Name, p.Schema.Value)
			}
		}
	}
	if b := c.op.spec.RequestBody; b != nil {
		g.fillBody(c, b)
	}
	// The document cannot say that a field must be given in the query or in the body.
	for _, p := range c.op.params {
		if must := map[string]string{"extend": "hold_ms", "return": "restock"}[path.Base(c.op.path)]; p.Name == must &&
			c.value(must) == "" {
			c.query = append(c.query, field{must, g.valid(c, must, p.Schema.Value)})
		}
	}
}

func (g *generator) fillBody(c *call, b *openapi3.RequestBodyRef) {
	c.kind = pick(g, slices.Sorted(maps.Keys(b.Value.Content))...)
	s := b.Value.Content[c.kind].Schema.Value
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if required := slices.Contains(s.Required, name); required || g.wants(c, name) && g.chance(0.5) {
			c.body = append(c.body, field{name, g.inBody(c, name, s.Properties[name].Value)})
		}
	}
}

// mode is what GET /modes says of the mode of a deduction or a hold; the zero value if there is none.
func (g *generator) mode(c *call) api.Mode {
	if !strings.HasPrefix(c.op.path, "/deduct_stock") && !strings.HasPrefix(c.op.path, "/reserve_stock") {
		return api.Mode{}
	}
	return g.modes[c.path["mode"]]
}

// wants says whether a request may have a field besides those that it has.
func (g *generator) wants(c *call, name string) bool {
	switch name {
	case "lease_ms", "depth", "hold_ms":
		if !strings.HasPrefix(c.op.path, "/deduct_stock") {
			break
		}
		return c.token && slices.Contains(g.mode(c).Holds, name) && c.value(name) == ""
	case "store":
		return (len(g.mode(c).Stores) > 0 || c.op.method == http.MethodGet || strings.HasSuffix(c.op.path, "/adjust")) &&
			c.value(name) == ""
	case "items":
		return c.value("product_id") == "" && c.value("quantity") == ""
	case "product_id", "quantity":
		return c.value("items") == "" && c.value(name) == ""
	case "segments":
		return c.value("per_buyer") == "" && c.value("units") == ""
	case "per_buyer":
		return c.value("segments") == ""
	case "units":
		return c.value("segments") == "" && len(c.value("stock")) < 6
	case "after": // it is the service's to make
		return false
	case "cursor":
		return len(g.cursors[c.path["id"]]) > 0
	case "repair": // what differs is looked at twice, with the settle time-out between
		return c.path["id"] == ticketed && c.value(name) == ""
	case "wait_ms":
		return (c.op.path != "/products/{id}" || c.value("mode") != "") && c.value(name) == ""
	}
	return c.value(name) == ""
}

// usual are values that make requests collide with each other and find existing products.
var usual = map[string][]string{
	"id": {"101", "102", "103"}, "product_id": {"101", "102", "103"}, "quantity": {"1", "2", "3"}, "wait_ms": {"0", "5"},
	"stock":    {"100", "1000000000"},
	"segments": {"0", "4"}, "lease_ms": {"0", "50", "60000"}, "depth": {"0", "1", "2"}, "hold_ms": {"0", "1", "20"},
	"Idempotency-Key": {"a", "b", "c", `"d"`},
	"code":            {"sold_out", "internal", "not_found", "no_such"},
	"max_hold_ms":     {"3600000", "604800000"},
}

// ticketed is a product that nothing but redis-stream sells, so that it can be reconciled.
const ticketed = "104"

// valid makes a value that the document allows, as the path, a query and a form have it.
func (g *generator) valid(c *call, name string, s *openapi3.Schema) string {
	texts := usual[name]
	switch {
	case name == "mode" && c.op.path == "/products/{id}":
		return "rwlock"
	case name == "mode" && strings.HasPrefix(c.op.path, "/reserve_stock") && g.chance(0.8):
		return pick(g, "reserve-sql", "reserve-redis")
	case name == "id" && strings.HasSuffix(c.op.path, "/reconcile") && g.chance(0.5):
		return ticketed
	case name == "id" && strings.HasPrefix(c.op.path, "/reservations") && len(g.held) > 0 && g.chance(0.9):
		return pick(g, g.held[max(0, len(g.held)-3):]...)
	case name == "id" && strings.HasPrefix(c.op.path, "/tickets") && len(g.won) > 0 && g.chance(0.9):
		return pick(g, g.won...)
	case name == "order_id" && g.sold[c.path["id"]] != "":
		return g.sold[c.path["id"]]
	case name == "mode" && g.chance(0.95):
		return pick(g, g.names...)
	case name == "store" && len(g.mode(c).Stores) > 0:
		return string(pick(g, g.mode(c).Stores...))
	case name == "store" && strings.HasSuffix(c.op.path, "/adjust"): // those that the test has
		return string(pick(g, api.Redis, api.SQL))
	case s.Type.Is("boolean"):
		return pick(g, "true", "false")
	case name == "hold_ms" && !strings.HasPrefix(c.op.path, "/deduct_stock"):
		return pick(g, "100", "3600000")
	case name == "cursor":
		return pick(g, g.cursors[c.path["id"]]...)
	case len(texts) > 0 && (g.chance(0.75) || name == "wait_ms" && strings.HasPrefix(c.op.path, "/tickets") ||
		slices.Contains([]string{"lease_ms", "hold_ms", "code", "max_hold_ms"}, name)):
		// nobody waits for half a minute here
		return pick(g, texts...)
	case len(s.Enum) > 0:
		return fmt.Sprint(pick(g, s.Enum...))
	case s.Type.Is("integer"):
		low, high := limits(s)
		if name == "segments" && g.chance(0.98) { // miniredis looks at all of its keys at each command
			high = 10
		}
		return strconv.FormatInt(pick(g, low, low+1, high-1, high), 10)
	case s.Pattern != "": // of a name
		return pick(g, "no-such-thing", "x", "0-0", strings.Repeat("a-b-", 500)+"c")
	case s.MaxLength == nil:
		return "x"
	}
	return strings.Repeat(pick(g, "k", "~"), pick(g, int(s.MinLength), 2, 17, int(*s.MaxLength)))
}

// inBody makes a value that the document allows, as the body has it.
func (g *generator) inBody(c *call, name string, s *openapi3.Schema) string {
	switch {
	case s.Type.Is("array"):
		n := 1
		if g.mode(c).Cart {
			n = pick(g, 1, 2, 3, int(*s.MaxItems))
		}
		return g.cart(c, n, s)
	case c.kind != jsonKind || s.Type.Is("integer") || s.Type.Is("boolean"):
		return g.valid(c, name, s)
	}
	return strconv.Quote(g.valid(c, name, s))
}

// cart is a JSON array of so many lines.
func (g *generator) cart(c *call, n int, s *openapi3.Schema) string {
	lines := make([]string, n)
	for i := range lines {
		line := s.Items.Value.Properties
		lines[i] = fmt.Sprintf(`{"product_id":%s,"quantity":%s}`, g.valid(c, "product_id", line["product_id"].Value),
			g.valid(c, "quantity", line["quantity"].Value))
	}
	return "[" + strings.Join(lines, ",") + "]"
}

func limits(s *openapi3.Schema) (low, high int64) {
	low, high = 0, 1<<63-1
	if s.Min != nil {
		low = int64(*s.Min)
	}
	if s.Max != nil {
		high = int64(*s.Max)
	}
	return low, high
}

// send sends the request to h.
func (c *call) send(t *testing.T, h http.Handler) answer {
	t.Helper()
	target, text := "http://localhost"+c.op.path+"?"+pairs(c.query), pairs(c.body)
	for name, value := range c.path {
		target = strings.Replace(target, "{"+name+"}", url.PathEscape(value), 1)
	}
	if c.kind == jsonKind && len(c.body) > 0 {
		members := make([]string, len(c.body))
		for i, f := range c.body {
			members[i] = strconv.Quote(f.name) + ":" + f.text
		}
		text = "{" + strings.Join(members, " ,") + "}"
	}
	req, err := http.NewRequestWithContext(t.Context(), c.method, target, strings.NewReader(text))
	testkit.Must(t, err)
	set := func(name, value string) {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	set("Content-Type", c.kind)
	set("Idempotency-Key", c.key)
	if c.token {
		set("Authorization", "Bearer t0ken")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return answer{w.Result(), w.Body.String(), fmt.Sprintf("%s %s %.2000q", c.method, target, text)}
}

func pairs(fields []field) string {
	var all []string
	for _, f := range fields {
		all = append(all, url.QueryEscape(f.name)+"="+url.QueryEscape(f.text))
	}
	return strings.Join(all, "&")
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
	return slices.ContainsFunc([]string{"/deduct_stock", "/modes", "/products"}, func(p string) bool {
		return strings.HasPrefix(o.path, p)
	})
}

// secured says that the document demands the token.
func (o *operation) secured() bool {
	return o.spec.Security != nil && len((*o.spec.Security)[0]) > 0
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

// faults make of a request that the document allows one that it, or GET /modes, forbids. A fault that a request cannot
// have returns false, and another request is made. What a decoder must refuse besides, the tables of package handler
// list.
var faults = []struct {
	name string
	make func(g *generator, c *call) bool
}{
	{"a bad value", (*generator).badValue},
	{"a bad value", (*generator).badValue}, // there are many kinds of them
	{"an unknown field", func(g *generator, c *call) bool {
		list := &c.query
		if len(c.body) > 0 && g.chance(0.5) {
			list = &c.body
		}
		*list = append(*list, field{pick(g, "nope", "Quantity", "quantity "), "1"})
		return c.op.named()
	}},
	{"a field that is required is missing", func(_ *generator, c *call) bool {
		c.without("stock")
		c.without("delta")
		return c.op.spec.RequestBody != nil && c.op.spec.RequestBody.Value.Required
	}},
	{"no token", func(_ *generator, c *call) bool {
		c.token = false
		return c.op.secured()
	}},
	{"what its mode does not take", (*generator).foreignToMode},
}

// Values that no integer, no name and no enumeration has.
var (
	badTexts = []string{"", " ", "-1", "1.0", "1e2", "-0", "01", " 1", "0x1", "NaN", `"1"`, "٣",
		"1" + strings.Repeat("0", 400), "REDIS", "redis,sql,etcd", "\x00", "\xff\xfe", "😀", "<script>"}
	badJSON = []string{"null", "true", `""`, `"x"`, "{}", "[[]]", "-1", "1.5", "1e2", "-0", `"REDIS"`, "[]", "[null]",
		"[{}]", `[{"product_id":101,"nope":1}]`, "1" + strings.Repeat("0", 400)}
)

// badValue spoils a field of the path, of the query or of the body.
func (g *generator) badValue(c *call) bool {
	schemas := map[string]*openapi3.Schema{}
	for _, p := range c.op.params {
		if s := p.Schema.Value; p.In != openapi3.ParameterInHeader &&
			(s.Type.Is("integer") || len(s.Enum) > 0 || s.Pattern != "") {
			schemas[p.In+" "+p.Name] = s
		}
	}
	if len(c.body) > 0 {
		for name, p := range c.op.spec.RequestBody.Value.Content[c.kind].Schema.Value.Properties {
			if s := p.Value; !s.Type.Is("string") || len(s.Enum) > 0 || s.Pattern != "" { // any text is a buyer's name
				schemas["body "+name] = s
			}
		}
	}
	places := slices.Sorted(maps.Keys(schemas))
	if len(places) == 0 {
		return false
	}
	place := pick(g, places...)
	in, name, _ := strings.Cut(place, " ")
	text := pick(g, badTexts...)
	if in == "body" && c.kind == jsonKind {
		text = pick(g, badJSON...)
	}
	if near := beyond(schemas[place]); len(near) > 0 && g.chance(0.4) {
		text = pick(g, near...)
	}
	if s := schemas[place]; text == "-1" && s.Min != nil && *s.Min < 0 || text == "true" && s.Type.Is("boolean") {
		return false // it is a good one
	}
	c.without(name)
	switch in {
	case "body":
		c.body = append(c.body, field{name, text})
	case openapi3.ParameterInQuery:
		c.query = append(c.query, field{name, text})
	default:
		c.path[name] = text
	}
	return in != openapi3.ParameterInPath || text != "" // that would be another path
}

// beyond are the values next to the limits of a schema.
func beyond(s *openapi3.Schema) (all []string) {
	if s.Min != nil {
		all = append(all, strconv.FormatInt(int64(*s.Min)-1, 10))
	}
	if s.Max != nil {
		all = append(all, strconv.FormatInt(int64(*s.Max)+1, 10))
	}
	return all
}

// foreignToMode gives a deduction what GET /modes says that its mode does not take, or takes away the key that it
// needs.
func (g *generator) foreignToMode(c *call) bool {
	m := g.mode(c)
	if m.Name == "" {
		return false
	}
	add := func(name, text string) {
		c.without(name)
		c.query = append(c.query, field{name, text})
	}
	switch pick(g, "store", "hold", "cart", "key") {
	case "store":
		store := pick(g, api.Redis, api.SQL, api.Etcd)
		add("store", string(store))
		return !slices.Contains(m.Stores, store)
	case "hold":
		name := pick(g, "lease_ms", "depth", "hold_ms")
		add(name, pick(g, "50", "1", "20"))
		c.token = true
		return !slices.Contains(m.Holds, name)
	case "cart":
		for _, name := range []string{"items", "product_id", "quantity"} {
			c.without(name)
		}
		c.kind, c.body = jsonKind, []field{{"items", `[{"product_id":101},{"product_id":102}]`}}
		return !m.Cart
	}
	c.key = ""
	return m.KeyRequired
}
