package figure

import (
	"encoding/json"
	"math"
	"testing"
)

func TestMedian(t *testing.T) {
	tests := []struct {
		values []Number
		want   Number
	}{
		{nil, None},
		{[]Number{3}, 3},
		{[]Number{3, 1, 2}, 2},
		{[]Number{4, 1, 2, 3}, 2.5},
		{[]Number{None, 7, None}, 7},
		{[]Number{1, 2, Number(math.Inf(1))}, 2},
	}
	for _, tt := range tests {
		if got := Median(tt.values); got != tt.want && (got.Known() || tt.want.Known()) {
			t.Errorf("Median(%v) = %v, want %v", tt.values, got, tt.want)
		}
	}
}

func TestNumberJSON(t *testing.T) {
	tests := []struct {
		n    Number
		want string
	}{
		{0, "0"}, {None, "null"}, {Number(math.Inf(1)), "null"},
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
