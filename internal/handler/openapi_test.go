package handler

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"lastitem/contract/api"
	"lastitem/internal/handler/input"
	"lastitem/internal/stock"
	"lastitem/testkit"
)

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
	deduct := input.DeductionFields.Names()
	for schema, names := range map[string][]string{
		"Deduct": deduct, "Line": input.LineFields.Names(), "SetStock": input.StockLevelFields.Names(),
		"DeductForm": slices.DeleteFunc(slices.Clone(deduct), func(s string) bool { return s == "items" }),
		"Reserve":    input.ReservationFields.Names(), "Extend": input.ExtensionFields.Names(),
		"Return": input.ReturnFields.Names(), "Adjust": input.AdjustFields.Names(), "Empty": input.NoFields.Names(),
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
