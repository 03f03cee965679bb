package handler

import (
	"strings"
	"testing"
)

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
				in := decoder{target: &deduction{}}
				if err := in.json(raw); (err != nil) != c.fails {
					b.Fatal(err)
				}
			}
		})
	}
}
