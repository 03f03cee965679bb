package idempotency_test

import (
	"bytes"
	"fmt"
	"testing"

	"lastitem/internal/idempotency"
)

func TestTemplateFillsItsGaps(t *testing.T) {
	t.Parallel()
	for format, gaps := range map[string]int{"": 0, "none": 0, "%d": 1, `{"left":%d}`: 1, "%[1]d of %[1]d": 2, "%[1]d\x00%[1]d\xff": 2} {
		var others []int64
		render := func(n int64) idempotency.Answer {
			body := format
			if gaps > 0 {
				body = fmt.Sprintf(format, n)
			}
			return idempotency.Answer{Status: 299, Body: []byte(body + fmt.Sprint(others))}
		}
		taken := func(n int64) bool {
			for _, o := range others {
				if o == n {
					return true
				}
			}
			return false
		}
		for range 2 { // the second time with a number in it that was the gap of the first
			template := idempotency.NewTemplate(render, taken)
			if len(template.Pieces) != gaps+1 {
				t.Errorf("%q: %d pieces, want %d", format, len(template.Pieces), gaps+1)
			}
			for _, n := range []int64{0, 7, -1, 1 << 52} {
				got, want := template.Fill(n), render(n)
				if got.Status != want.Status || !bytes.Equal(got.Body, want.Body) {
					t.Errorf("%q: Fill(%d) = %d %q, want %d %q", format, n, got.Status, got.Body, want.Status, want.Body)
				}
			}
			idempotency.NewTemplate(func(n int64) idempotency.Answer {
				others = []int64{n}
				return idempotency.Answer{}
			}, taken)
		}
	}
}
