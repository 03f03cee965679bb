package handler

import (
	"encoding/json"
	"strings"
)

// This file walks JSON that [json.Valid] has accepted. encoding/json cannot be used for it: it silently takes the last of
// two members with one name, matches names whatever their case, and turns 1.0 or null into an integer. Since the text is
// known to be valid, nothing here can fail.

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

// value is one value as it was written; text is the raw JSON, or the decoded text of a plain one.
type value struct {
	kind kind
	text string
}

// scanner walks the members of an object or the elements of an array.
type scanner struct{ rest string }

// openObject starts the walk over the members of a JSON object; ok is false when text is something else.
func openObject(text string) (s scanner, ok bool) { return open(text, '{') }

// openArray starts the walk over the elements of a JSON array.
func openArray(text string) (s scanner, ok bool) { return open(text, '[') }

// open drops the bracket, which the caller expects first.
func open(text string, bracket byte) (scanner, bool) {
	text = skip(text, "")
	if text == "" || text[0] != bracket {
		return scanner{}, false
	}
	return scanner{text[1:]}, true
}

// next returns the next member of an object, in the order in which they are written; ok is false after the last.
func (s *scanner) next() (name string, v value, ok bool) {
	key, ok := s.element()
	if !ok {
		return "", value{}, false
	}
	v, ok = s.element()
	return unquote(key.text), v, ok
}

// element returns the next value; ok is false at the closing bracket.
func (s *scanner) element() (v value, ok bool) {
	s.rest = skip(s.rest, ",:")
	if s.rest == "" || s.rest[0] == ']' || s.rest[0] == '}' {
		return value{}, false
	}
	v.kind = kindOf(s.rest[0])
	end := length(s.rest)
	v.text, s.rest = s.rest[:end], s.rest[end:]
	return v, true
}

// skip drops white space, and the punctuation given, from the start of text.
func skip(text, punctuation string) string { return strings.TrimLeft(text, " \t\r\n"+punctuation) }

// kindOf tells a value by its first byte, which in valid JSON is enough.
func kindOf(first byte) kind {
	switch first {
	case '"':
		return quoted
	case '{':
		return object
	case '[':
		return array
	case 'n':
		return null
	case 't', 'f':
		return boolean
	}
	return number
}

// length is how many bytes the value at the start of text has.
func length(text string) int {
	switch text[0] {
	case '"':
		return stringLength(text)
	case '{', '[':
		return nestedLength(text)
	}
	if end := strings.IndexAny(text, ",]} \t\r\n"); end >= 0 {
		return end
	}
	return len(text)
}

// stringLength finds the closing quote, past the ones that are escaped.
func stringLength(text string) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// nestedLength counts brackets of both kinds together: in valid JSON they pair up. Brackets inside strings do not count.
func nestedLength(text string) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i += stringLength(text[i:]) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(text)
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
