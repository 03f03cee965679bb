// Package figure presents the measurements of the benchmarks: numbers that may be missing, tables, targets, pictures.
package figure

import (
	"encoding/json"
	"math"
	"slices"
)

// Number is a result; NaN = missing, and it may be infinite. JSON has neither: both become null.
type Number float64

// None is a missing number.
var None = Number(math.NaN())

// Known reports whether there is a number.
func (n Number) Known() bool { return !math.IsNaN(float64(n)) }

// MarshalJSON rounds to six digits: measurements are not more exact.
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

// Median returns the median of the known values; None without any.
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

// Ratio returns a divided by b; None if one is missing or both are zero, infinite if only b is zero.
func Ratio(a, b Number) Number {
	if a == 0 && b == 0 {
		return None
	}
	return a / b
}
