// Package figure is what the benchmarks make of their measurements: numbers that may be missing, tables, targets, pictures.
package figure

import (
	"encoding/json"
	"math"
	"slices"
)

// Number is a result; NaN is none, and infinity is possible. JSON has neither: both become null.
type Number float64

// None is the number of what was not measured.
var None = Number(math.NaN())

// Known says whether there is a number.
func (n Number) Known() bool { return !math.IsNaN(float64(n)) }

// MarshalJSON rounds to six digits: there are no more in a measurement.
func (n Number) MarshalJSON() ([]byte, error) {
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

// Median of the known values; none without any.
func Median(values []Number) Number {
	known := slices.DeleteFunc(slices.Clone(values), func(n Number) bool { return !n.Known() })
	if len(known) == 0 {
		return None
	}
	slices.Sort(known)
	mid := len(known) / 2
	if len(known)%2 == 1 {
		return known[mid]
	}
	return (known[mid-1] + known[mid]) / 2
}

// Ratio is none where there is nothing to divide by, and infinite where something is divided by zero.
func Ratio(a, b Number) Number {
	if a == 0 && b == 0 {
		return None
	}
	return a / b
}
