package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"

	"lastitem/bench/figure"
)

func TestDraw(t *testing.T) {
	o := &outcome{Name: drawn, Title: "a <b> & c"}
	for i, c := range contenders {
		m := figure.Measures{mRate: figure.Number(100 * i), mWait99: figure.Number(math.Inf(1)), mCommands: figure.Number(i) / 4}
		if i%2 == 0 {
			m[mWait99] = figure.Number(i * i)
		}
		o.Results = append(o.Results, &result{Contender: c.name, Rounds: figure.Rounds{m}})
	}
	o.conclude()
	svg := draw(facts{CPU: `an "odd" <cpu>`}, []*outcome{{Name: "other"}, o})
	texts := map[string]bool{}
	for decoder := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("not well-formed: %v\n%s", err, svg)
		}
		switch token := token.(type) {
		case xml.CharData:
			texts[strings.TrimSpace(string(token))] = true
		case xml.StartElement:
			for _, a := range token.Attr {
				if n, err := strconv.ParseFloat(a.Value, 64); err == nil && (n < 0 || n > 2000 || math.IsNaN(n)) {
					t.Errorf("<%s %s=%q>: off the page", token.Name.Local, a.Name.Local, a.Value)
				}
			}
		}
	}
	for _, c := range contenders {
		if !texts[c.name] {
			t.Errorf("%s is not in the picture", c.name)
		}
	}
	if draw(facts{}, nil) != nil {
		t.Error("a picture of nothing")
	}
}
