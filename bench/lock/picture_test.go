package main

import (
	"math"
	"slices"
	"testing"

	"lastitem/bench/figure"
	"lastitem/bench/figure/figuretest"
	"lastitem/bench/machine"
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
	texts := figuretest.Texts(t, draw(facts{Facts: machine.Facts{CPU: `an "odd" <cpu>`}}, []*outcome{{Name: "other"}, o}))
	for _, c := range contenders {
		if !slices.Contains(texts, c.name) {
			t.Errorf("%s is not in the picture", c.name)
		}
	}
	if draw(facts{}, nil) != nil {
		t.Error("a picture of nothing")
	}
}
