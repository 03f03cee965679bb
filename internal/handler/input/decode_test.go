package input

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"lastitem/contract/api"
	"lastitem/internal/stock"
)

// FuzzDeduction holds the decoder against encoding/json and against its own limits.
func FuzzDeduction(f *testing.F) {
	for _, body := range []string{
		"", "{}", `{"product_id":7,"quantity":3,"store":"sql","wait_ms":0}`, `{"lease_ms":500,"depth":2,"hold_ms":800}`,
		`{"items":[{"product_id":1},{"product_id":2,"quantity":2}]}`,
		`{"quantity":1,"quantity":2}`, `{"quant\u0069ty":1e2}`, `{"quantity":{"a":"}]\""}}`, `[{"quantity":1}]`,
		"{\"\xff\":1}",
		`{"store":"\ud800"}`, "quantity=1&product_id=2", "quantity=%zz", "=&;&+",
	} {
		f.Add("quantity=1", body, true)
		f.Add("", body, false)
	}
	f.Fuzz(func(t *testing.T, query, body string, isJSON bool) {
		r := &http.Request{URL: &url.URL{RawQuery: query},
			Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}},
			Body:   io.NopCloser(strings.NewReader(body))}
		if isJSON {
			r.Header["Content-Type"] = []string{"application/json"}
		}
		d, err := ReadDeduction(r, nil, DeductionFields)
		if err != nil {
			var e *stock.InvalidError
			if !errors.Is(err, ErrBodyTooLarge) && (!errors.As(err, &e) || e.Field == "" || !utf8.ValidString(err.Error())) {
				t.Fatalf("%q %q: %v", query, body, err)
			}
			return
		}
		for _, item := range d.Items {
			if item.ProductID < 1 {
				t.Fatalf("%q %q: %+v", query, body, d)
			}
		}
		if d.WaitMS < 0 || d.WaitMS > MaxWaitMS {
			t.Fatalf("%q %q: %+v", query, body, d)
		}
		if isJSON && body != "" {
			agree(t, body, d)
		}
	})
}

// agree decodes a body that was accepted with encoding/json and expects the same.
func agree(t *testing.T, body string, d *Deduction) {
	t.Helper()
	var std struct {
		ProductID *int64     `json:"product_id"`
		Quantity  *int64     `json:"quantity"`
		Items     []api.Line `json:"items"`
		Store     *string    `json:"store"`
		WaitMS    *int64     `json:"wait_ms"`
		LeaseMS   int64      `json:"lease_ms"`
		Depth     int        `json:"depth"`
		HoldMS    int64      `json:"hold_ms"`
	}
	in := json.NewDecoder(bytes.NewReader([]byte(body)))
	in.DisallowUnknownFields()
	if err := in.Decode(&std); err != nil {
		t.Fatalf("%q was accepted, encoding/json says %v", body, err)
	}
	if std.ProductID != nil && d.Product != *std.ProductID || std.Quantity != nil && d.Quantity != *std.Quantity ||
		std.WaitMS != nil && d.WaitMS != *std.WaitMS || std.Store != nil && string(d.Store) != *std.Store {
		t.Fatalf("%q = %+v, encoding/json says %+v", body, d, std)
	}
	if d.Hold.Lease.Milliseconds() != std.LeaseMS || d.Hold.Depth != std.Depth ||
		d.Hold.Work.Milliseconds() != std.HoldMS {
		t.Fatalf("%q = %+v, encoding/json says %+v", body, d, std)
	}
	if d.Cart != (std.Items != nil) || d.Cart && len(d.Items) != len(std.Items) {
		t.Fatalf("%q = %+v, encoding/json says %+v", body, d, std)
	}
	for i, l := range std.Items {
		if l.Quantity == 0 {
			l.Quantity = 1
		}
		if stock.Item(l) != d.Items[i] {
			t.Fatalf("%q: item %d = %+v, encoding/json says %+v", body, i, d.Items[i], l)
		}
	}
}
