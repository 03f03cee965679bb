package replica

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// usual are values that make requests collide with each other and find existing products.
var usual = map[string][]string{
	"id": {"101", "102", "103"}, "product_id": {"101", "102", "103"}, "quantity": {"1", "2", "3"}, "wait_ms": {"0", "5"}, "stock": {"100", "1000000000"},
	"segments": {"0", "4"}, "lease_ms": {"50", "60000"}, "depth": {"0", "1", "2"}, "hold_ms": {"0", "1", "20"}, "Idempotency-Key": {"a", "b", "c", `"d"`},
	"code": {"sold_out", "internal", "not_found", "no_such"},
}

// param makes the value of a parameter, as text.
func (g *generator) param(p *openapi3.Parameter, c *call) string {
	switch {
	case g.hostile():
		return g.unlikely(p.Schema.Value, hostileTexts)
	case p.Name == "mode" && p.In == openapi3.ParameterInQuery && g.chance(0.6):
		return "rwlock"
	case p.Name == "mode" && g.chance(0.9):
		return pick(g, g.names...)
	case p.Name == "cursor" && len(g.cursors[c.path["id"]]) > 0 && g.chance(0.8):
		return pick(g, g.cursors[c.path["id"]]...)
	}
	return g.text(p.Name, p.Schema.Value, c)
}

// text makes a value that a schema allows, as a query and a form have it.
func (g *generator) text(name string, s *openapi3.Schema, c *call) string {
	if texts := usual[name]; len(texts) > 0 && g.chance(0.75) {
		return pick(g, texts...)
	}
	if stores := g.modes[c.path["mode"]].Stores; name == "store" && len(stores) > 0 && g.chance(0.9) {
		return string(pick(g, stores...))
	}
	switch {
	case len(s.Enum) > 0:
		return fmt.Sprint(pick(g, s.Enum...))
	case s.Type.Is("integer"):
		low, high := limits(s)
		if name == "segments" && g.chance(0.98) { // miniredis looks at all of its keys at each command
			high = 10
		}
		return strconv.FormatInt(pick(g, low, low+1, high-1, high, low+g.Int64N(high-low)), 10)
	case s.Pattern != "": // of a name
		return pick(g, "no-such-thing", "x", "0-0", strings.Repeat("a-b-", 500)+"c")
	}
	return strings.Repeat(pick(g, "k", "~", "k%y", "é"), pick(g, int(max(1, s.MinLength)), 2, 17, int(maxLength(s))))
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

func maxLength(s *openapi3.Schema) uint64 {
	if s.MaxLength != nil {
		return *s.MaxLength
	}
	return 300
}

// hostileTexts are values that few schemas allow.
var hostileTexts = []string{
	"", " ", "-1", "0", "1.0", "1e2", "-0", "+1", "01", " 1", "1 ", "1,2", "0x1", "1_000", "NaN", "Infinity", "null", "true", `"1"`, "[1]", "{}", "٣", "１",
	"9223372036854775807", "9223372036854775808", "-9223372036854775809", "1" + strings.Repeat("0", 400), "REDIS", "redis,sql", "redis\x00", "sql\n", "a/b", "..",
	".", "%", "%zz", "\x00", "\x01\x7f", "\xff\xfe", "\xed\xa0\x80", "é", "\u202e", "😀", "a\r\nX-Evil: 1", "';DROP TABLE orders;--", "${jndi:x}", "<script>",
	strings.Repeat("a", 5000), strings.Repeat("😀", 300),
}

// beyond are values next to the limits of a schema.
func beyond(s *openapi3.Schema) (all []string) {
	if s.Min != nil {
		all = append(all, strconv.FormatInt(int64(*s.Min)-1, 10))
	}
	if s.Max != nil {
		all = append(all, strconv.FormatInt(int64(*s.Max)+1, 10))
	}
	if s.MaxLength != nil {
		all = append(all, strings.Repeat("k", int(*s.MaxLength)+1))
	}
	return all
}

// unlikely is a value that a schema probably forbids: one just beyond its limits, or one of others.
func (g *generator) unlikely(s *openapi3.Schema, others []string) string {
	if near := beyond(s); len(near) > 0 && g.chance(0.4) {
		return pick(g, near...)
	}
	return pick(g, others...)
}

// free says that the query lacks the field, or that a hostile request may give it twice.
func (g *generator) free(c *call, name string) bool {
	return g.hostile() || !strings.Contains("&"+c.query, "&"+name+"=")
}

func (g *generator) form(s *openapi3.Schema, c *call) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property := s.Properties[name].Value
		if !g.free(c, name) || !g.fits(c, name) || !slices.Contains(s.Required, name) && g.chance(0.6) || slices.Contains(s.Required, name) && g.hostile() {
			continue
		}
		text := g.text(name, property, c)
		if g.hostile() {
			text = g.unlikely(property, hostileTexts)
		}
		all = append(all, g.pair(name, text)...)
	}
	if g.hostile() {
		all = append(all, pick(g, "nope=1", "items=[]", "=", "%", "stock%=1", "\xff=\xfe", "a=%zz", strings.Repeat("b=1&", 20_000)))
	}
	return all
}

// document makes a JSON body, whole or broken.
func (g *generator) document(s *openapi3.Schema, c *call) string {
	text := g.object(s, c)
	if g.hostile() && g.chance(0.5) {
		const deep = 30_000
		return pick(g, text[:g.IntN(len(text))], text+"x", text+text, text+",", "\ufeff"+text, "["+text+"]", "null", "[]", `"`+text, "1", "{", "\x00",
			strings.Repeat("[", deep), strings.Repeat(`{"items":[`, deep/10), `{"nope":`+strings.Repeat("[", deep)+strings.Repeat("]", deep)+"}",
			`{"store":"\ud800"}`, `{"store":"`+"\xff"+`"}`, `{"quantity":1,"quantity":1}`, `{"\u0071uantity":1,"quantity":1}`, `{"quantity":1e999999999}`,
			text+strings.Repeat(" ", 70_000), `{"`+strings.Repeat("n", 60_000)+`":1}`, `{"quantity":`+strings.Repeat("9", 60_000)+"}", strings.ReplaceAll(text, `"`, "'"))
	}
	return text
}

// hostileJSON are values that few schemas allow.
var hostileJSON = []string{
	"null", "true", `"1"`, `""`, `"x"`, "[]", "{}", "[[]]", "0", "-1", "1.5", "1.0", "1e2", "-0", "9223372036854775807", "9223372036854775808", "1e400", `"REDIS"`,
	`"redis\u0000"`, "[null]", "[1]", "[{}]", `[{"product_id":101,"product_id":101}]`, `[{"product_id":101,"nope":1}]`, "01", "+1", "NaN", "'a'", "1" + strings.Repeat("0", 400),
}

// value makes the JSON of a value.
func (g *generator) value(name string, s *openapi3.Schema, c *call) string {
	if g.hostile() {
		return g.unlikely(s, hostileJSON)
	}
	switch {
	case s.Type.Is("object"):
		return g.object(s, c)
	case s.Type.Is("array"):
		n := pick(g, 1, 2, 3, int(*s.MaxItems))
		if g.hostile() {
			n = pick(g, 0, int(*s.MaxItems)+1)
		}
		all := make([]string, n)
		for i := range all {
			all[i] = g.value("", s.Items.Value, c)
		}
		return "[" + strings.Join(all, ",") + "]"
	case s.Type.Is("integer"):
		return g.text(name, s, c)
	}
	text, _ := json.Marshal(g.text(name, s, c))
	return string(text)
}

// object makes the JSON of an object.
func (g *generator) object(s *openapi3.Schema, c *call) string {
	var all []string
	cart := g.chance(0.3) // items exclude product_id and quantity
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		_, lines := s.Properties["items"]
		line := name == "product_id" || name == "quantity"
		switch {
		case slices.Contains(s.Required, name) && !g.hostile():
		case slices.Contains(s.Required, name), !g.free(c, name):
			continue
		case name == "items" && !cart && !g.hostile(), lines && line && cart && !g.hostile():
			continue
		case name != "items" && g.chance(0.6), !g.fits(c, name):
			continue
		}
		quoted := strings.Replace(strconv.Quote(name), "q", pick(g, "q", "q", `\u0071`), 1)
		all = append(all, quoted+pick(g, ":", " :\n\t")+g.value(name, s.Properties[name].Value, c))
	}
	if g.hostile() {
		all = append(all, pick(g, `"nope":1`, `"":1`, `"QUANTITY":1`, `"items":null`, `"__proto__":{}`, `"quantity ":1`))
	}
	g.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return "{" + strings.Join(all, ",") + "}"
}
