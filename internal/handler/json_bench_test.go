package handler

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"lastitem/internal/step"
)

// jsonBodies are the bodies that the two benchmarks below read, with the status of the answer.
var jsonBodies = []struct {
	name, body string
	status     int
}{
	{"single", `{"product_id":101,"quantity":1}`, 200},
	{"cart", `{"items":[` + cartOf(20) + `]}`, 200},
	{"unknown", `{"product_id":101,"quantity":1,"price":2}`, 400},
	{"blanks", `{"product_id":101,` + strings.Repeat(" ", 1<<10) + `"quantity":1}`, 200},
}

// BenchmarkJSON reads a body, without the rest of the request.
func BenchmarkJSON(b *testing.B) {
	for _, c := range jsonBodies {
		b.Run(c.name, func(b *testing.B) {
			raw := []byte(c.body)
			b.ReportAllocs()
			for b.Loop() {
				in := decoder{target: &deduction{}}
				if err := in.json(raw); (err == nil) != (c.status == 200) {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkJSONRequest serves a whole request with such a body; the shop it asks does nothing.
func BenchmarkJSONRequest(b *testing.B) {
	for _, c := range jsonBodies {
		b.Run(c.name, func(b *testing.B) {
			var steps step.Stream
			h := newHandler(b, &fakeShop{}, func(o *Options) { o.Steps = &steps })
			body := strings.NewReader(c.body)
			r := httptest.NewRequest(http.MethodPost, "/deduct_stock/mutex", body)
			r.Header.Set("Content-Type", jsonType)
			b.ReportAllocs()
			for b.Loop() {
				body.Reset(c.body)
				w := httptest.ResponseRecorder{}
				h.ServeHTTP(&w, r)
				if w.Code != c.status {
					b.Fatal(w.Code)
				}
			}
		})
	}
}
