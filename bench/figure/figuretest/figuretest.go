// Package figuretest reads pictures in tests.
package figuretest

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
)

// Texts returns the texts of an SVG, in order. It fails t if the SVG is not well-formed, or a number in it is far off
// the page.
func Texts(t *testing.T, svg []byte) []string {
	t.Helper()
	var texts []string
	for decoder := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return texts
		}
		if err != nil {
			t.Fatalf("not well-formed: %v\n%s", err, svg)
		}
		switch token := token.(type) {
		case xml.CharData:
			texts = append(texts, strings.TrimSpace(string(token)))
		case xml.StartElement:
			for _, a := range token.Attr {
				if n, err := strconv.ParseFloat(a.Value, 64); err == nil && (n < 0 || n > 2000 || math.IsNaN(n)) {
					t.Errorf("<%s %s=%q>: off the page", token.Name.Local, a.Name.Local, a.Value)
				}
			}
		}
	}
}
