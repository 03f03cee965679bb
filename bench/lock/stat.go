package main

import (
	"encoding/json"
	"math"
	"slices"
)

// number is a result; NaN is none, and infinity is possible. JSON has neither: both become null.
type number float64

var none = number(math.NaN())

func (n number) known() bool { return !math.IsNaN(float64(n)) }

// MarshalJSON rounds to six digits: there are no more in a measurement.
func (n number) MarshalJSON() ([]byte, error) {
	v := float64(n)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte("null"), nil
	}
	if v != 0 {
		digits := math.Pow(10, 5-math.Floor(math.Log10(math.Abs(v))))
		v = math.Round(v*digits) / digits
	}
	return json.Marshal(v)
}

// median of the known values; none without any.
func median(values []number) number {
	known := slices.DeleteFunc(slices.Clone(values), func(n number) bool { return !n.known() })
	if len(known) == 0 {
		return none
	}
	slices.Sort(known)
	mid := len(known) / 2
	if len(known)%2 == 1 {
		return known[mid]
	}
	return (known[mid-1] + known[mid]) / 2
}

// percentile is by nearest rank: the smallest value that at least p percent are not above. It sorts; 0 without values.
func percentile(values []int64, p float64) int64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	rank := int(math.Ceil(p / 100 * float64(len(values))))
	return values[min(max(rank, 1), len(values))-1]
}

// jain is Jain's index of fairness: 1 when all are equal, 1/n when one has everything (Jain, Chiu, Hawe 1984).
func jain(shares []int64) number {
	sum, squares := 0.0, 0.0
	for _, s := range shares {
		sum += float64(s)
		squares += float64(s) * float64(s)
	}
	if squares == 0 {
		return none
	}
	return number(sum * sum / (float64(len(shares)) * squares))
}

// ratio is none where there is nothing to divide by, and infinite where something is divided by zero.
func ratio(a, b number) number {
	if a == 0 && b == 0 {
		return none
	}
	return a / b
}
