package handler

import (
	"fmt"
	"strconv"
	"strings"
)

// integer reads a whole number between low and high, both allowed.
func (v value) integer(field string, low, high int64) (int64, error) {
	n, exact, err := v.whole(field)
	if err == nil && (!exact || n < low || n > high) {
		return 0, invalid(field, fmt.Sprintf("must be between %d and %d", low, high))
	}
	return n, err
}

// number reads a whole number whose limits are checked later. One beyond 64 bits becomes the nearest within 64 bits,
// which is beyond those limits too.
func (v value) number(field string) (int64, error) {
	n, _, err := v.whole(field)
	return n, err
}

// whole reads a whole number; exact is false for the nearest one to a number beyond 64 bits.
func (v value) whole(field string) (n int64, exact bool, err error) {
	switch {
	case v.kind == plain && v.text == "":
		return 0, false, invalid(field, "is empty")
	case v.kind != plain && v.kind != number:
		return 0, false, invalid(field, "must be a number, not "+kindNames[v.kind])
	case !isInteger(v.text):
		return 0, false, invalid(field, "must be a whole number in decimal digits, without fraction, exponent or leading "+
			"zeros")
	}
	n, err = strconv.ParseInt(v.text, 10, 64)
	return n, err == nil, nil
}

// isInteger reports whether text is an integer literal as JSON has it. strconv alone would take "+1" and "007" as well,
// which JSON does not, and a query should not differ. "-0" is JSON, and refused as well: no client means it.
func isInteger(text string) bool {
	digits := strings.TrimPrefix(text, "-")
	if digits == "" || digits[0] == '0' && text != "0" {
		return false
	}
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return false
		}
	}
	return true
}

// word reads a text.
func (v value) word(field string) (string, error) {
	switch v.kind {
	case plain:
		return v.text, nil
	case quoted:
		return unquote(v.text), nil
	}
	return "", invalid(field, "must be a string, not "+kindNames[v.kind])
}
