package handler

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// This file reads a body in JSON token by token. encoding/json cannot be used for it: it silently takes the last of two
// members with one name, matches names whatever their case, and turns 1.0 or null into an integer.

// kind is how a value was written.
type kind uint8

const (
	plain kind = iota // in a query or form: always text
	number
	quoted
	null
	boolean
	array
	object
)

var kindNames = [...]string{"text", "a number", "a string", "null", "a boolean", "an array", "an object"}

// value is one value as it was written.
type value struct {
	kind kind
	text string  // the raw JSON, or the decoded text of a plain one; "" for an array and an object
	in   *reader // where an array or an object is read from, next; nil for the others
}

// errSyntax says that a body is not JSON. decoder.json finds out why.
var errSyntax = errors.New("malformed")

// reader takes a body apart. All its errors are errSyntax.
type reader struct {
	dec  jsontext.Decoder
	src  bytes.Buffer
	text string // the body, of which names and values are parts
}

var readers = sync.Pool{New: func() any { return new(reader) }}

// start begins with a new body in UTF-8. The options allow a name that is given twice and half of a surrogate pair:
// decoder.set refuses the former, also between query and body, and no field takes the latter.
func (r *reader) start(body []byte) {
	r.text, r.src = string(body), *bytes.NewBuffer(body)
	r.dec.Reset(&r.src, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// stop drops the references to the body.
func (r *reader) stop() {
	r.text, r.src = "", bytes.Buffer{}
	r.dec.Reset(&r.src)
}

// open takes the bracket of the array or object that comes next.
func (r *reader) open() error { return r.token() }

// more says whether another element follows in the array or object; if not, it takes the closing bracket.
func (r *reader) more() (bool, error) {
	switch r.dec.PeekKind() {
	case ']', '}':
		return false, r.token()
	case 0:
		return false, errSyntax
	}
	return true, nil
}

func (r *reader) token() error {
	if _, err := r.dec.ReadToken(); err != nil {
		return errSyntax
	}
	return nil
}

// name takes the name of a member.
func (r *reader) name() (string, error) {
	raw, err := r.raw()
	if err != nil {
		return "", err
	}
	return unquote(raw), nil
}

// value takes a value; an array or an object is left to the caller to open.
func (r *reader) value() (v value, err error) {
	switch r.dec.PeekKind() {
	case '{':
		return value{kind: object, in: r}, nil
	case '[':
		return value{kind: array, in: r}, nil
	case '"':
		v.kind = quoted
	case 'n':
		v.kind = null
	case 't', 'f':
		v.kind = boolean
	default: // a number, or no value
		v.kind = number
	}
	v.text, err = r.raw()
	return v, err
}

// raw takes a name or a value as it is written.
func (r *reader) raw() (string, error) {
	v, err := r.dec.ReadValue()
	if err != nil {
		return "", errSyntax
	}
	end := int(r.dec.InputOffset())
	return r.text[end-len(v) : end], nil
}

// end expects that nothing follows but white space.
func (r *reader) end() error {
	if _, err := r.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return errSyntax
	}
	return nil
}

// unquote decodes a JSON string.
func unquote(text string) string {
	if !strings.Contains(text, `\`) {
		return text[1 : len(text)-1]
	}
	var s string
	if json.Unmarshal([]byte(text), &s) != nil {
		return text
	}
	return s
}
