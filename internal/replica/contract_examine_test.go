package replica

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"

	"lastitem/internal/api"
)

// maxKnownBody is how long a body may be, in bytes, before the shop may refuse it unread.
const maxKnownBody = 64 << 10

// examine says whether the document allows a request: by its schemas, and where a schema cannot say it, by its descriptions: a field is given
// once and, on some paths, must be known; integers are decimal digits; an idempotency key is measured in bytes; store, items, lease_ms,
// depth and hold_ms depend on the mode, and the last three need the token; wait_ms of a product needs a mode with a lock for readers;
// a cursor must have been issued.
func (c *call) examine(g *generator) {
	c.fields, c.mode, c.wrong, c.vague = map[string]string{}, c.path["mode"], "", false
	c.broken = slices.Contains(slices.Collect(maps.Values(c.path)), "%zz") || slices.ContainsFunc(c.header, func(h [2]string) bool {
		return strings.ContainsFunc(h[1], func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
	})
	if c.broken {
		c.wrong = "it is no HTTP request"
		return
	}
	for _, check := range []func(*generator) error{c.checkPath, c.checkHeaders, c.checkQuery, c.checkBody, c.checkMode, c.checkProduct} {
		if err := check(g); err != nil {
			c.wrong = err.Error()
			return
		}
	}
}

func (c *call) checkPath(*generator) error {
	for _, p := range c.op.params {
		if p.In != openapi3.ParameterInPath {
			continue
		}
		if err := allows(p.Schema.Value, c.path[p.Name]); err != nil {
			return fmt.Errorf("path: %s: %w", p.Name, err)
		}
	}
	return nil
}

// given are the values of a header, as a server reads them.
func (c *call) given(name string) (all []string) {
	for _, h := range c.header {
		if h[0] == name {
			all = append(all, strings.Trim(h[1], " \t"))
		}
	}
	return all
}

// token says whether the request has the admin token.
func (c *call) token() bool { return slices.Equal(c.given("Authorization"), []string{"Bearer t0ken"}) }

func (c *call) checkHeaders(*generator) error {
	for _, p := range c.op.params {
		values := c.given(p.Name)
		if p.In != openapi3.ParameterInHeader || len(values) == 0 {
			continue
		}
		s := p.Schema.Value
		if n := uint64(len(values[0])); len(values) > 1 || n < s.MinLength || n > maxLength(s) {
			return fmt.Errorf("%s: given %d times, the first with %d bytes", p.Name, len(values), n)
		}
	}
	if s := c.op.spec.Security; s != nil && len((*s)[0]) > 0 && !c.token() {
		return errors.New("no token")
	}
	return nil
}

// pairs reads the fields of a query or a form, which schemas describes.
func (c *call) pairs(text string, schemas map[string]*openapi3.Schema) error {
	for pair := range strings.SplitSeq(text, "&") {
		if pair == "" {
			continue
		}
		rawName, rawValue, _ := strings.Cut(pair, "=")
		name, err1 := url.QueryUnescape(rawName)
		value, err2 := url.QueryUnescape(rawValue)
		broken := errors.Join(err1, err2)
		s := schemas[name]
		if broken != nil || s == nil {
			c.vague = true
			if c.op.named() {
				return fmt.Errorf("%q: unknown or broken", pair)
			}
			continue
		}
		if _, twice := c.fields[name]; twice {
			return fmt.Errorf("%s: given twice", name)
		}
		c.fields[name] = value
		if err := allows(s, value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (c *call) checkQuery(*generator) error {
	schemas := map[string]*openapi3.Schema{}
	for _, p := range c.op.params {
		if p.In == openapi3.ParameterInQuery {
			schemas[p.Name] = p.Schema.Value
		}
	}
	return c.pairs(c.query, schemas)
}

func (c *call) checkBody(*generator) error {
	if len(c.body) > maxKnownBody {
		c.vague = true
	}
	if c.op.spec.RequestBody == nil {
		c.vague = c.vague || c.body != ""
		return nil
	}
	b := c.op.spec.RequestBody.Value
	if c.body == "" {
		if b.Required {
			return errors.New("no body")
		}
		return nil
	}
	types := c.given("Content-Type")
	if len(types) != 1 {
		return fmt.Errorf("%d content types", len(types))
	}
	kind, params, err := mime.ParseMediaType(types[0])
	media := b.Content[kind]
	if set := params["charset"]; err != nil || media == nil || set != "" && !strings.EqualFold(set, "utf-8") {
		return fmt.Errorf("content type %q", types[0])
	}
	s := media.Schema.Value
	if kind == "application/json" {
		return c.checkJSON(s)
	}
	schemas := map[string]*openapi3.Schema{}
	for name, property := range s.Properties {
		schemas[name] = property.Value
	}
	if err := c.pairs(c.body, schemas); err != nil {
		return err
	}
	for _, name := range s.Required {
		if _, ok := c.fields[name]; !ok {
			return fmt.Errorf("no %s", name)
		}
	}
	return nil
}

func (c *call) checkJSON(s *openapi3.Schema) error {
	v, err := strictJSON(c.body)
	if err != nil {
		return err
	}
	if err := s.VisitJSON(v); err != nil {
		return err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(c.body), &members); err != nil {
		return err
	}
	for name, text := range members {
		if _, twice := c.fields[name]; twice {
			return fmt.Errorf("%s: in the query as well", name)
		}
		c.fields[name] = strings.Trim(string(text), `"`)
	}
	_, items := members["items"]
	if items && (c.fields["product_id"] != "" || c.fields["quantity"] != "") {
		return errors.New("items exclude product_id and quantity")
	}
	return nil
}

// checkMode checks a deduction against what GET /modes says of its mode.
func (c *call) checkMode(g *generator) error {
	if c.op.method != http.MethodPost {
		return nil
	}
	m, known := g.modes[c.mode]
	if !known {
		return nil
	}
	if store := c.fields["store"]; store != "" && !slices.Contains(m.Stores, api.Store(store)) {
		return fmt.Errorf("%s has no %s", m.Name, store)
	}
	for _, name := range []string{"lease_ms", "depth", "hold_ms"} {
		text, given := c.fields[name]
		if given && !c.token() {
			return fmt.Errorf("%s without the token", name)
		}
		if given && text != "0" && !slices.Contains(m.Holds, name) {
			return fmt.Errorf("%s has no %s", m.Name, name)
		}
	}
	if strings.Count(c.fields["items"], "{") > 1 && !m.Cart {
		return fmt.Errorf("%s takes no cart", m.Name)
	}
	if m.KeyRequired && len(c.given("Idempotency-Key")) == 0 {
		return fmt.Errorf("%s needs a key", m.Name)
	}
	return nil
}

func (c *call) checkProduct(g *generator) error {
	switch mode, given := c.fields["mode"]; {
	case c.op.path == "/products/{id}" && given && mode != "rwlock":
		if _, known := g.modes[mode]; known {
			return fmt.Errorf("%s has no lock for readers", mode)
		}
	case c.op.path == "/products/{id}" && !given && c.fields["wait_ms"] != "":
		return errors.New("wait_ms without a mode")
	}
	if cursor, given := c.fields["cursor"]; given && !slices.Contains(g.cursors[c.path["id"]], cursor) {
		return errors.New("a cursor that was not issued")
	}
	return nil
}

// digits is an integer as the document wants it.
var digits = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)

// allows says whether a schema allows a value of a path, query, or form.
func allows(s *openapi3.Schema, text string) error {
	if !utf8.ValidString(text) {
		return errors.New("not UTF-8")
	}
	if !s.Type.Is("integer") {
		return s.VisitJSON(text)
	}
	n, err := integer(text)
	if err != nil {
		return err
	}
	return s.VisitJSON(float64(n))
}

func integer(text string) (int64, error) {
	if !digits.MatchString(text) {
		return 0, fmt.Errorf("%.30q is not decimal digits", text)
	}
	return strconv.ParseInt(text, 10, 64)
}

// strictJSON reads one JSON value whose objects have each member once, and whose numbers are integers in digits.
func strictJSON(text string) (v any, err error) {
	if !utf8.ValidString(text) {
		return nil, errors.New("not UTF-8")
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil && !strings.Contains(err.Error(), "cannot unmarshal number") {
		return nil, err
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	return v, plain(d)
}

// plain reads the next value.
func plain(d *json.Decoder) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	if n, ok := t.(json.Number); ok {
		_, err = integer(n.String())
		return err
	}
	if t != json.Delim('{') && t != json.Delim('[') {
		return nil
	}
	seen := map[string]bool{}
	for d.More() {
		if t == json.Delim('{') {
			name, err := d.Token()
			if err != nil {
				return err
			}
			if text := name.(string); seen[text] {
				return fmt.Errorf("%q twice", text)
			}
			seen[name.(string)] = true
		}
		if err := plain(d); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}
