package main

import (
	"math"
	"testing"

	"lastitem/bench/figure"
)

func TestPercentile(t *testing.T) {
	hundred := make([]int64, 100)
	for i := range hundred {
		hundred[i] = int64(100 - i)
	}
	tests := []struct {
		values []int64
		p      float64
		want   int64
	}{
		{nil, 50, 0},
		{[]int64{9}, 99, 9},
		{[]int64{2, 1}, 50, 1},
		{hundred, 50, 50},
		{hundred, 99, 99},
		{hundred, 100, 100},
		{hundred, 0, 1},
	}
	for _, tt := range tests {
		if got := percentile(tt.values, tt.p); got != tt.want {
			t.Errorf("percentile(%d values, %v) = %d, want %d", len(tt.values), tt.p, got, tt.want)
		}
	}
}

func TestJain(t *testing.T) {
	tests := []struct {
		shares []int64
		want   figure.Number
	}{
		{[]int64{5, 5, 5, 5}, 1},
		{[]int64{8, 0, 0, 0}, 0.25},
		{[]int64{1, 3}, 0.8},
	}
	for _, tt := range tests {
		if got := jain(tt.shares); math.Abs(float64(got-tt.want)) > 1e-12 {
			t.Errorf("jain(%v) = %v, want %v", tt.shares, got, tt.want)
		}
	}
	if got := jain([]int64{0, 0}); got.Known() {
		t.Errorf("jain of nothing = %v, want none", got)
	}
}
