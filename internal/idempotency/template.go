package idempotency

import (
	"strconv"
	"strings"
)

// Template is an answer with gaps for one number that is only known where the effect happens: the count that is left.
// It is for effects that happen where no answer can be rendered: in a script in Redis, or in another process.
type Template struct {
	Status int
	// Pieces are the body's; the number goes between each two.
	Pieces []string
}

// gap stands for the number while a template is rendered.
const gap int64 = 8_446_744_073_709_551_557

// NewTemplate renders an answer to a number that does not matter, and cuts it out. taken are the other numbers of the
// answer.
func NewTemplate(render func(int64) Answer, taken func(int64) bool) Template {
	n := gap
	for taken(n) {
		n--
	}
	a := render(n)
	return Template{a.Status, strings.Split(string(a.Body), strconv.FormatInt(n, 10))}
}

// Fill returns the answer with the number in its gaps.
func (t Template) Fill(n int64) Answer {
	return Answer{t.Status, []byte(strings.Join(t.Pieces, strconv.FormatInt(n, 10)))}
}
