package client

import (
	"bytes"
	"encoding/json"

	"lastitem/internal/api"
)

// interned keeps one string for each of a few recurring values, so that reading one costs no allocation. It stops adding values when
// there are many.
type interned map[string]string

// of returns b as a string.
func (in interned) of(b []byte) string {
	if s, ok := in[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(in) < 64 {
		in[s] = s
	}
	return s
}

// readFields reads order_id, remaining and code from a JSON body, with a scanner for plain JSON, or with encoding/json if the scanner
// gives up. It fails if the body of a 200 or a problem is not a JSON object; other bodies are ignored.
func readFields(body []byte, a *Answer, names interned) error {
	if a.Status != 200 && !a.Problem {
		return nil
	}
	s := scanner{b: body}
	if s.object(a, names) {
		return nil
	}
	// Carts are nested and details may have any character: rare enough for the slow way.
	var fields struct {
		OrderID   string   `json:"order_id"`
		Remaining *int64   `json:"remaining"`
		Code      api.Code `json:"code"`
	}
	// encoding/json accepts null, but null is not an answer.
	if err := json.Unmarshal(body, &fields); err != nil || bytes.HasPrefix(bytes.TrimSpace(body), []byte("null")) {
		return badAnswer("body %.60q", body)
	}
	a.OrderID, a.Code = fields.OrderID, fields.Code
	a.HasRemaining = fields.Remaining != nil
	if a.HasRemaining {
		a.Remaining = *fields.Remaining
	}
	return nil
}

// scanner reads one JSON object (RFC 8259) without allocating. It gives up on everything that is not plain: escapes and bytes beyond
// ASCII in keys and strings, nesting, and other numbers where an integer is wanted.
type scanner struct {
	b []byte
	i int
}

// object reads the whole body as one flat object and takes the three fields. If it returns false, do not use the fields.
func (s *scanner) object(a *Answer, names interned) bool {
	var order, code []byte
	var remaining int64
	has := false
	s.space()
	if !s.eat('{') {
		return false
	}
	for first := true; ; first = false {
		s.space()
		if first && s.eat('}') {
			break
		}
		key, ok := s.text() // a second one of the same name wins, as in encoding/json
		if s.space(); !ok || !s.eat(':') {
			return false
		}
		s.space()
		switch string(key) {
		case "order_id":
			order, ok = s.text()
		case "code":
			code, ok = s.text()
		case "remaining":
			remaining, ok = s.integer()
			has = true
		default:
			ok = s.skip()
		}
		if s.space(); !ok {
			return false
		}
		if s.eat('}') {
			break
		}
		if !s.eat(',') {
			return false
		}
	}
	if s.space(); s.i != len(s.b) { // something follows the object
		return false
	}
	// Ids differ each time; there are only a few codes.
	a.OrderID, a.Code = string(order), api.Code(names.of(code))
	a.Remaining, a.HasRemaining = remaining, has
	return true
}

// space skips white space.
func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\r', '\n':
			s.i++
		default:
			return
		}
	}
}

// eat takes one byte if it is c.
func (s *scanner) eat(c byte) bool {
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

// text takes a string of plain ASCII.
func (s *scanner) text() ([]byte, bool) {
	if !s.eat('"') {
		return nil, false
	}
	for start := s.i; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			return s.b[start : s.i-1], true
		case c == '\\' || c < ' ' || c > '~':
			return nil, false // an escape, a control character, or one beyond ASCII that may be no UTF-8
		}
	}
	return nil, false
}

// integer reads a whole number of at most 18 digits.
func (s *scanner) integer() (int64, bool) {
	negative := s.eat('-')
	start := s.i
	var n int64
	for ; s.i < len(s.b) && '0' <= s.b[s.i] && s.b[s.i] <= '9'; s.i++ {
		n = n*10 + int64(s.b[s.i]-'0')
		if s.i-start > 17 { // it might not fit into an int64
			return 0, false
		}
	}
	// No digits at all, or a leading zero, are not JSON.
	if s.i == start || (s.b[start] == '0' && s.i > start+1) {
		return 0, false
	}
	// A fraction or an exponent is a number, but not a count of units.
	if s.i < len(s.b) && (s.b[s.i] == '.' || s.b[s.i]|0x20 == 'e') {
		return 0, false
	}
	if negative {
		n = -n
	}
	return n, true
}

// skip reads a value that is not needed: a string, a whole number, true, false or null.
func (s *scanner) skip() bool {
	if s.i >= len(s.b) {
		return false
	}
	switch c := s.b[s.i]; {
	case c == '"':
		_, ok := s.text()
		return ok
	case c == '-' || ('0' <= c && c <= '9'):
		_, ok := s.integer()
		return ok
	case c == 't':
		return s.word("true")
	case c == 'f':
		return s.word("false")
	case c == 'n':
		return s.word("null")
	}
	return false
}

// word takes a literal.
func (s *scanner) word(w string) bool {
	if !bytes.HasPrefix(s.b[s.i:], []byte(w)) {
		return false
	}
	s.i += len(w)
	return true
}
