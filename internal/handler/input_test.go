package handler

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lastitem/contract/api"
	"lastitem/internal/stock"
)

const (
	jsonType = "application/json"
	formType = "application/x-www-form-urlencoded"
)

// taken serves one request and returns what the shop was asked for.
func taken(t *testing.T, target, body string, headers ...string) (*stock.Request, answer) {
	t.Helper()
	var got *stock.Request
	shop := &fakeShop{deduct: func(_ context.Context, _ string, r stock.Request) (stock.Receipt, error) {
		r.Answer = nil
		got = &r
		return stock.Receipt{OrderID: "order-1"}, nil
	}}
	return got, ask(t, newHandler(t, shop), "POST", target, body, headers...)
}

func TestDeductionInput(t *testing.T) {
	t.Parallel()
	standard := stock.Request{Items: []stock.Item{{ProductID: 101, Quantity: 1}}, Wait: 3 * time.Second}
	full := stock.Request{Items: []stock.Item{{ProductID: 7, Quantity: 3}}, Wait: 0, Store: stock.SQL}
	for _, c := range []struct {
		name, query, body, contentType string
		want                           stock.Request
	}{
		{"nothing", "", "", "", standard},
		{"nothing, of a strange type", "", "", "image/png", standard},
		{"empty object", "", "{}", jsonType, standard},
		{"empty pairs", "?&&", "&", formType, standard},
		{"query", "?product_id=7&quantity=3&store=sql&wait_ms=0", "", "", full},
		{"form", "", "product_id=7&quantity=3&store=sql&wait_ms=0", formType, full},
		{"json", "", `{"product_id":7,"quantity":3,"store":"sql","wait_ms":0}`, jsonType, full},
		{"json with space", "", "\r\n{ \"product_id\" :\t7 , \"quantity\":3,\n\"store\" : \"sql\", \"wait_ms\":0 } ",
			jsonType, full},
		{"json with escapes", "", `{"product\u005fid":7,"quantity":3,"store":"s\u0071l","wait_ms":0}`, jsonType, full},
		{"query and json", "?product_id=7&wait_ms=0", `{"quantity":3,"store":"sql"}`, jsonType, full},
		{"query and form", "?product_id=7&wait_ms=0", "quantity=3&store=sql", formType, full},
		{"escaped query", "?product%5Fid=%37&quantity=3&store=sql&wait_ms=0", "", "", full},
		{"charset", "", `{"product_id":7,"quantity":3,"store":"sql","wait_ms":0}`, jsonType + "; charset=UTF-8", full},
		{"type in capitals", "", `{"product_id":7,"quantity":3,"store":"sql","wait_ms":0}`, "Application/JSON", full},
		{"limits", "?product_id=9223372036854775807&quantity=1000000&wait_ms=30000", "", "",
			stock.Request{Items: []stock.Item{{ProductID: 1<<63 - 1, Quantity: 1_000_000}}, Wait: 30 * time.Second}},
		{"cart", "", `{"items":[{"product_id":1},{"quantity":2,"product_id":2}],"store":"redis"}`, jsonType,
			stock.Request{Items: []stock.Item{{ProductID: 1, Quantity: 1}, {ProductID: 2, Quantity: 2}}, Cart: true,
				Wait: 3 * time.Second, Store: stock.Redis}},
		{"cart of one product twice", "", `{"items":[{"product_id":1},{"product_id":1}]}`, jsonType,
			stock.Request{Items: []stock.Item{{ProductID: 1, Quantity: 1}, {ProductID: 1, Quantity: 1}}, Cart: true,
				Wait: 3 * time.Second}},
	} {
		var headers []string
		if c.contentType != "" {
			headers = []string{"Content-Type", c.contentType}
		}
		got, a := taken(t, "/deduct_stock/mutex"+c.query, c.body, headers...)
		if got == nil {
			t.Errorf("%s: %s", c.name, a.body)
		} else if d := cmp.Diff(c.want, *got); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

func TestRefusedInput(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ query, body, field, why string }{
		{"?quantity=0", "", "quantity", "between 1 and 1000000"},
		{"?quantity=-1", "", "quantity", "between"},
		{"?quantity=1000001", "", "quantity", "between"},
		{"?quantity=99999999999999999999", "", "quantity", "between"},
		{"?quantity=-99999999999999999999", "", "quantity", "between"},
		{"?quantity=1.5", "", "quantity", "whole number"},
		{"?quantity=1e2", "", "quantity", "whole number"},
		{"?quantity=%2B1", "", "quantity", "whole number"},
		{"?quantity=+1", "", "quantity", "whole number"},
		{"?quantity=01", "", "quantity", "whole number"},
		{"?quantity=0x1", "", "quantity", "whole number"},
		{"?quantity=1_000", "", "quantity", "whole number"},
		{"?quantity=one", "", "quantity", "whole number"},
		{"?quantity=%D9%A1", "", "quantity", "whole number"}, // an Arabic one
		{"?quantity=-", "", "quantity", "whole number"},
		{"?quantity=", "", "quantity", "empty"},
		{"?quantity", "", "quantity", "empty"},
		{"?product_id=0", "", "product_id", "between"},
		{"?product_id=9223372036854775808", "", "product_id", "between"},
		{"?wait_ms=-1", "", "wait_ms", "between 0 and 30000"},
		{"?wait_ms=30001", "", "wait_ms", "between"},
		{"?lease_ms=-1", "", "lease_ms", "between 0 and 60000"},
		{"?lease_ms=60001", "", "lease_ms", "between 0 and 60000"},
		{"?lease_ms=49", "", "lease_ms", "must be 0 or between 50 and 60000"},
		{"?depth=-1", "", "depth", "between 0 and 10"},
		{"?depth=11", "", "depth", "between 0 and 10"},
		{"?depth=1.5", "", "depth", "whole number"},
		{"?hold_ms=-1", "", "hold_ms", "between 0 and 30000"},
		{"?hold_ms=30001", "", "hold_ms", "between 0 and 30000"},
		{"?hold_ms=1s", "", "hold_ms", "whole number"},
		{"?store=", "", "store", "redis, sql or etcd"},
		{"?store=SQL", "", "store", "redis, sql or etcd"},
		{"?quantity=1&quantity=1", "", "quantity", "given twice"},
		{"?nope=1", "", "nope", "unknown field"},
		{"?Quantity=1", "", "Quantity", "unknown field"},
		{"?=1", "", `""`, "unknown field"},
		{"?" + strings.Repeat("x", 500) + "=1", "", strings.Repeat("x", 64) + "...", "unknown field"},
		{"?quantity=%zz", "", "quantity", "% escape"},
		{"?%zz=1", "", "query", "% escape"},
		{"?quantity=%ff", "", "quantity", "UTF-8"},
		{"?%ff=1", "", "query", "UTF-8"},
		{"?quantity=1;store=sql", "", "quantity", "whole number"},
		{"?items=1", "", "items", "JSON body"},
		{"?quantity=1", `{"quantity":1}`, "quantity", "given twice"},
		{"", `{"quantity":0}`, "quantity", "between"},
		{"", `{"quantity":-1}`, "quantity", "between"},
		{"", `{"quantity":1.5}`, "quantity", "whole number"},
		{"", `{"quantity":1.0}`, "quantity", "whole number"},
		{"", `{"quantity":1e2}`, "quantity", "whole number"},
		{"", `{"quantity":1E0}`, "quantity", "whole number"},
		{"", `{"quantity":1e400}`, "quantity", "whole number"},
		{"", `{"quantity":-0}`, "quantity", "decimal digits"},
		{"", `{"quantity":99999999999999999999}`, "quantity", "between"},
		{"", `{"quantity":"1"}`, "quantity", "not a string"},
		{"", `{"quantity":null}`, "quantity", "not null"},
		{"", `{"quantity":true}`, "quantity", "not a boolean"},
		{"", `{"quantity":[1]}`, "quantity", "not an array"},
		{"", `{"quantity":{"a":"}]\""}}`, "quantity", "not an object"},
		{"", `{"quantity":1,"quantity":2}`, "quantity", "given twice"},
		{"", `{"quantity":1,"quant\u0069ty":1}`, "quantity", "given twice"},
		{"", `{"Quantity":1}`, "Quantity", "unknown field"},
		{"", `{"":1}`, `""`, "unknown field"},
		{"", `{"store":1}`, "store", "must be a string"},
		{"", `{"store":null}`, "store", "must be a string"},
		{"", `{"store":"mysql"}`, "store", "redis, sql or etcd"},
		{"", `{"items":1}`, "items", "array"},
		{"", `{"items":null}`, "items", "array"},
		{"", `{"items":"[1]"}`, "items", "array"},
		{"", `{"items":[]}`, "items", "at least one"},
		{"", `{"items":[1]}`, "items[0]", "object"},
		{"", `{"items":[{}]}`, "items[0].product_id", "missing"},
		{"", `{"items":[{"product_id":1},{"product_id":"1"}]}`, "items[1].product_id", "not a string"},
		{"", `{"items":[{"product_id":1,"quantity":0}]}`, "items[0].quantity", "between"},
		{"", `{"items":[{"product_id":1},{"product_id":2,"quantity":1000001}]}`, "items[1].quantity",
			"between 1 and 1000000"},
		{"?wait_ms=99999999999999999999", "", "wait_ms", "between 0 and 30000"},
		{"?wait_ms=9223372036854775807", "", "wait_ms", "between 0 and 30000"},
		{"", `{"items":[{"product_id":1,"product_id":2}]}`, "items[0].product_id", "given twice"},
		{"", `{"items":[{"product_id":1,"price":2}]}`, "items[0].price", "unknown field"},
		{"", `{"items":[{"product_id":1}],"quantity":1}`, "items", "excludes"},
		{"?product_id=1", `{"items":[{"product_id":1}]}`, "items", "excludes"},
		{"", `{"items":[` + cartOf(101) + `]}`, "items", "at most 100"},
		{"", `{"quantity":1}x`, "body", "after top-level value"},
		{"", `{"quantity":1}{"quantity":1}`, "body", "after top-level value"},
		{"", `{"quantity":1`, "body", "unexpected end"},
		{"", `{"quantity":01}`, "body", "invalid character"},
		{"", `{quantity:1}`, "body", "invalid character"},
		{"", `{"quantity":1,}`, "body", "invalid character"},
		{"", `{"quantity":NaN}`, "body", "invalid character"},
		{"", "\xef\xbb\xbf{}", "body", "byte order mark"},
		{"", " ", "body", "unexpected end"},
		{"", `[]`, "body", "must be a JSON object"},
		{"", `null`, "body", "must be a JSON object"},
		{"", `"quantity"`, "body", "must be a JSON object"},
		{"", "{\"quantity\":\"\xff\"}", "body", "UTF-8"},
		{"", strings.Repeat("[", 20_000), "body", "depth"},
	} {
		got, a := taken(t, "/deduct_stock/mutex"+c.query, c.body, "Content-Type", jsonType, "Authorization",
			"Bearer "+adminToken)
		p := problem(t, a)
		if p.Code != api.InvalidRequest || p.Field != c.field || !strings.Contains(p.Detail, c.why) {
			t.Errorf("%.80s %.80s = %.300s, want field %s and %q", c.query, c.body, a.body, c.field, c.why)
		}
		if got != nil {
			t.Errorf("%.80s %.80s reached the shop", c.query, c.body)
		}
		if c.body != "" || strings.Contains(c.query, "items") {
			continue
		}
		_, a = taken(t, "/deduct_stock/mutex", strings.TrimPrefix(c.query, "?"), "Content-Type", formType, "Authorization",
			"Bearer "+adminToken)
		want := c.field
		if want == "query" {
			want = "body"
		}
		if p := problem(t, a); p.Code != api.InvalidRequest || p.Field != want || !strings.Contains(p.Detail, c.why) {
			t.Errorf("form %.80s = %.300s, want field %s and %q", c.query, a.body, want, c.why)
		}
	}
}

// cartOf writes n lines with different products.
func cartOf(n int) string {
	lines := make([]string, n)
	for i := range lines {
		b, _ := json.Marshal(api.Line{ProductID: int64(i + 1), Quantity: 1})
		lines[i] = string(b)
	}
	return strings.Join(lines, ",")
}

func TestLargestCart(t *testing.T) {
	t.Parallel()
	got, a := taken(t, "/deduct_stock/mutex", `{"items":[`+cartOf(stock.MaxItems)+`]}`, "Content-Type", jsonType)
	if got == nil || len(got.Items) != stock.MaxItems {
		t.Fatalf("a cart of %d = %s", stock.MaxItems, a.body)
	}
	var d api.Deduction
	decode(t, a.body, &d)
	if len(d.Items) != stock.MaxItems || d.ProductID != 0 || d.Quantity != 0 {
		t.Errorf("the answer to a cart = %s", a.body)
	}
}

func TestMediaTypes(t *testing.T) {
	t.Parallel()
	for _, headers := range [][]string{
		{},
		{"Content-Type", "text/plain"},
		{"Content-Type", "multipart/form-data; boundary=x"},
		{"Content-Type", "application/jsonx"},
		{"Content-Type", "application/json; charset=gbk"},
		{"Content-Type", "application/json; charset"},
		{"Content-Type", "json"},
		{"Content-Type", jsonType, "Content-Type", jsonType},
		{"Content-Type", jsonType, "Content-Encoding", "gzip"},
	} {
		got, a := taken(t, "/deduct_stock/mutex", `{}`, headers...)
		if problem(t, a).Code != api.UnsupportedMediaType || got != nil {
			t.Errorf("%q = %d %s", headers, a.StatusCode, a.body)
		}
	}
}

type brokenReader struct{ err error }

func (b brokenReader) Read([]byte) (int, error) { return 0, b.err }

func TestBodyThatEndsTooEarly(t *testing.T) {
	t.Parallel()
	for err, why := range map[error]string{io.ErrUnexpectedEOF: "Content-Length",
		errors.New("reset"): "could not be read"} {
		r := httptest.NewRequest(http.MethodPost, "/deduct_stock",
			io.MultiReader(strings.NewReader(`{"quantity":`), brokenReader{err}))
		r.Header.Set("Content-Type", jsonType)
		w := httptest.NewRecorder()
		newHandler(t, &fakeShop{}).ServeHTTP(w, r)
		if p := problem(t, answer{body: w.Body.String()}); p.Field != "body" || !strings.Contains(p.Detail, why) {
			t.Errorf("%v = %s", err, w.Body)
		}
	}
}
