package handler

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"lastitem/contract/api"
	"lastitem/internal/stock"
	"lastitem/testkit"
)

// walk lists what is in a value: names, values, and the brackets of what is nested.
func walk(v value) ([]string, error) {
	got := []string{kindNames[v.kind] + " " + v.text}
	if v.kind != '[' && v.kind != '{' {
		return got, nil
	}
	got[0] = kindNames[v.kind]
	err := v.each(func(name string, member value) error {
		if v.kind == '{' {
			got = append(got, name)
		}
		inner, err := walk(member)
		got = append(got, inner...)
		return err
	})
	return append(got, "end"), err
}

func TestReader(t *testing.T) {
	t.Parallel()
	for body, want := range map[string][]string{
		`{}`:              {"an object", "end"},
		"[ \n] ":          {"an array", "end"},
		`{"a":"é","a":1}`: {"an object", "a", `a string "é"`, "a", "a number 1", "end"},
		`{"a":{"b":"}]\"{\\"},"c":[1,"]"],"e":-1.5e2,"f":"\"x","h":true}`: {
			"an object", "a", "an object", "b", `a string "}]\"{\\"`, "end", "c", "an array", "a number 1", `a string "]"`,
			"end",
			"e", "a number -1.5e2", "f", `a string "\"x"`, "h", "a boolean true", "end",
		},
		"{ \"a\\u0062\" :\t1 ,\r\n\"\" : \"\\ud800\" }": {"an object", "ab", "a number 1", "", `a string "\ud800"`, "end"},
	} {
		got, err := walk(value{kind: jsontext.Value(body).Kind(), text: body})
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%s: %v %s", body, err, d)
		}
	}
	for _, body := range []string{``, ` `, `{`, `[1,]`, `{"a"}`, `{"a":}`, `{"a":]`, `{"a":1,}`, `{"a":1]`, `01`, `1 2`,
		`{}x`, `tru`, `"`, "\"\n\"", `{a:1}`, `]`} {
		in := decoder[deduction]{fields: deductionFields, into: &deduction{}}
		if err := in.json([]byte(body)); err == nil || !strings.Contains(err.Error(), "is not one JSON value: ") {
			t.Errorf("%q = %v", body, err)
		}
	}
}

// BenchmarkJSON reads a body, without the rest of the request.
func BenchmarkJSON(b *testing.B) {
	for _, c := range []struct {
		name, body string
		fails      bool
	}{
		{"single", `{"product_id":101,"quantity":1}`, false},
		{"cart", `{"items":[` + cartOf(20) + `]}`, false},
		{"unknown", `{"product_id":101,"quantity":1,"price":2}`, true},
		{"blanks", `{"product_id":101,` + strings.Repeat(" ", 1<<10) + `"quantity":1}`, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			raw := []byte(c.body)
			b.ReportAllocs()
			for b.Loop() {
				in := decoder[deduction]{fields: deductionFields, into: &deduction{}}
				if err := in.json(raw); (err != nil) != c.fails {
					b.Fatal(err)
				}
			}
		})
	}
}

// openAPIPath writes a route of gin as the document does.
func openAPIPath(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		if name, ok := strings.CutPrefix(p, ":"); ok {
			parts[i] = "{" + name + "}"
		}
	}
	return strings.Join(parts, "/")
}

func TestOpenAPIIsValid(t *testing.T) {
	t.Parallel()
	testkit.Must(t, document.Validate(t.Context()))
	if document.OpenAPI != "3.1.0" {
		t.Errorf("version %s", document.OpenAPI)
	}
	if !jsontext.Value(openAPIDocument).IsValid() {
		t.Error("it is not JSON, or an object has two members of one name")
	}
}

func TestOpenAPIHasTheRoutes(t *testing.T) {
	t.Parallel()
	var served, written []string
	for _, r := range newHandler(t, &fakeShop{}).engine.Routes() {
		served = append(served, r.Method+" "+openAPIPath(r.Path))
	}
	for path, item := range document.Paths.Map() {
		for method := range item.Operations() {
			written = append(written, method+" "+path)
		}
	}
	slices.Sort(served)
	slices.Sort(written)
	if !slices.Equal(served, written) {
		t.Errorf("served:\n%s\nwritten:\n%s", strings.Join(served, "\n"), strings.Join(written, "\n"))
	}
}

func TestOpenAPIHasTheCodes(t *testing.T) {
	t.Parallel()
	var written []api.Code
	for _, v := range document.Components.Schemas["Code"].Value.Enum {
		written = append(written, api.Code(v.(string)))
	}
	slices.Sort(written)
	if want := slices.Sorted(maps.Keys(api.Codes)); !slices.Equal(written, want) {
		t.Errorf("codes %v, want %v", written, want)
	}
}

func TestOpenAPIHasTheHazards(t *testing.T) {
	t.Parallel()
	if got := document.Components.Schemas["Claims"].Value.Required; !slices.Equal(got, stock.Hazards) {
		t.Errorf("hazards %v, want %v", got, stock.Hazards)
	}
}

func TestOpenAPIHasTheFields(t *testing.T) {
	t.Parallel()
	for schema, names := range map[string][]string{
		"Deduct": deductionFields.names(), "Line": lineFields.names(), "SetStock": stockLevelFields.names(),
		"DeductForm": slices.DeleteFunc(slices.Clone(deductionFields.names()), func(s string) bool { return s == "items" }),
		"Reserve":    reservationFields.names(), "Extend": extensionFields.names(), "Return": returnFields.names(),
		"Empty": noFields.names(),
	} {
		got := slices.Sorted(maps.Keys(document.Components.Schemas[schema].Value.Properties))
		want := slices.Sorted(slices.Values(names))
		testkit.Same(t, got, want, "%s has fields", schema)
	}
}

func TestOpenAPIIsServed(t *testing.T) {
	t.Parallel()
	a := ask(t, newHandler(t, &fakeShop{}), "GET", "/openapi.json", "")
	if a.StatusCode != http.StatusOK || a.body != string(openAPIDocument) {
		t.Errorf("GET /openapi.json = %d, %d bytes", a.StatusCode, len(a.body))
	}
}
