package input

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"lastitem/internal/stock"
)

// value is one value as it was written.
type value struct {
	kind jsontext.Kind
	text string // the JSON, or the decoded text of a plain one
}

// plain is the kind of what stands in a query or form: always text.
const plain jsontext.Kind = 0

var kindNames = map[jsontext.Kind]string{plain: "text", '0': "a number", '"': "a string", 'n': "null", 't': "a boolean",
	'f': "a boolean", '[': "an array", '{': "an object"}

// decoders take JSON apart. encoding/json cannot be used for it: it silently takes the last of two members with one
// name, matches names whatever their case, and turns 1.0 or null into an integer.
var decoders = sync.Pool{New: func() any { return new(jsontext.Decoder) }}

// each hands over the members of an object, or the elements of an array, which have no names. The options allow a name
// that is given twice and half of a surrogate pair: decoder.set refuses the former, also between query and body, and no
// field takes the latter.
func (v value) each(take func(name string, v value) error) error {
	dec, _ := decoders.Get().(*jsontext.Decoder)
	defer decoders.Put(dec)
	dec.Reset(strings.NewReader(v.text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	next := func() (value, error) {
		raw, err := dec.ReadValue()
		if err != nil {
			return value{}, Invalid("body", "is not one JSON value: malformed") // encoding/json read it
		}
		end := int(dec.InputOffset())
		return value{kind: raw.Kind(), text: v.text[end-len(raw) : end]}, nil
	}
	_, err := dec.ReadToken() // the opening bracket
	for err == nil {
		if k := dec.PeekKind(); k == ']' || k == '}' {
			return nil
		}
		var name, member value
		if v.kind == '{' {
			name, err = next()
		}
		if err == nil {
			member, err = next()
		}
		if err == nil {
			err = take(name.string(), member)
		}
	}
	return err
}

// string decodes a JSON string; other values are as they were written.
func (v value) string() string {
	if v.kind != '"' {
		return v.text
	}
	if !strings.Contains(v.text, `\`) {
		return v.text[1 : len(v.text)-1]
	}
	s, _ := jsontext.AppendUnquote(nil, v.text) // half of a surrogate pair is an error, and U+FFFD in s
	return string(s)
}

// word reads a text.
func (v value) word(field string) (string, error) {
	if v.kind != plain && v.kind != '"' {
		return "", Invalid(field, "must be a string, not "+kindNames[v.kind])
	}
	return v.string(), nil
}

// yes reads true or false.
func (v value) yes(field string) (bool, error) {
	if (v.kind == plain || v.kind == 't' || v.kind == 'f') && (v.text == "true" || v.text == "false") {
		return v.text == "true", nil
	}
	return false, Invalid(field, "must be true or false")
}

// integer reads a whole number between low and high, both allowed.
func (v value) integer(field string, low, high int64) (int64, error) {
	n, exact, err := v.whole(field)
	if err == nil && (!exact || n < low || n > high) {
		return 0, Invalid(field, fmt.Sprintf("must be between %d and %d", low, high))
	}
	return n, err
}

// whole reads a whole number; exact is false for the nearest one to a number beyond 64 bits.
func (v value) whole(field string) (n int64, exact bool, err error) {
	switch {
	case v.kind == plain && v.text == "":
		return 0, false, Invalid(field, "is empty")
	case v.kind != plain && v.kind != '0':
		return 0, false, Invalid(field, "must be a number, not "+kindNames[v.kind])
	case !isInteger(v.text):
		return 0, false, Invalid(field, "must be a whole number in decimal digits, without fraction, exponent or leading "+
			"zeros")
	}
	n, err = strconv.ParseInt(v.text, 10, 64)
	return n, err == nil, nil
}

// isInteger reports whether text is an integer literal as JSON has it. strconv alone would take "+1" and "007" as well,
// which JSON does not, and a query should not differ. "-0" is JSON, and refused as well: no client means it.
func isInteger(text string) bool {
	digits := strings.TrimPrefix(text, "-")
	return digits != "" && (digits[0] != '0' || text == "0") && strings.Trim(digits, "0123456789") == ""
}

// Invalid is the refusal of one field.
func Invalid(field, why string) error { return &stock.InvalidError{Field: field, Why: why} }
