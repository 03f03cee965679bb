package main

import (
	"encoding/json"
	"math"
	"testing"
)

func TestMedian(t *testing.T) {
	tests := []struct {
		values []number
		want   number
	}{
		{nil, none},
		{[]number{3}, 3},
		{[]number{3, 1, 2}, 2},
		{[]number{4, 1, 2, 3}, 2.5},
		{[]number{none, 7, none}, 7},
		{[]number{1, 2, number(math.Inf(1))}, 2},
	}
	for _, tt := range tests {
		if got := median(tt.values); got != tt.want && (got.known() || tt.want.known()) {
			t.Errorf("median(%v) = %v, want %v", tt.values, got, tt.want)
		}
	}
}

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
		want   number
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
	if got := jain([]int64{0, 0}); got.known() {
		t.Errorf("jain of nothing = %v, want none", got)
	}
}

func TestNumberJSON(t *testing.T) {
	tests := []struct {
		n    number
		want string
	}{
		{0, "0"}, {none, "null"}, {number(math.Inf(1)), "null"},
		{1234567.8, "1.23457e+06"}, {0.000123456789, "0.000123457"}, {-2.5, "-2.5"},
	}
	for _, tt := range tests {
		got, err := json.Marshal(tt.n)
		var back, want float64
		if err != nil || json.Unmarshal(got, &back) != nil || json.Unmarshal([]byte(tt.want), &want) != nil || back != want {
			t.Errorf("JSON of %v = %s, %v, want %s", float64(tt.n), got, err, tt.want)
		}
	}
}
