package main

import (
	"math"
	"slices"

	"lastitem/bench/figure"
)

// percentile uses the nearest rank: the smallest value that at least p percent of the values do not exceed. It sorts
// values; 0 without values.
func percentile(values []int64, p float64) int64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	rank := int(math.Ceil(p / 100 * float64(len(values))))
	return values[min(max(rank, 1), len(values))-1]
}

// jain returns Jain's index of fairness: 1 when all are equal, 1/n when one has everything (Jain, Chiu, Hawe 1984).
func jain(shares []int64) figure.Number {
	sum, squares := 0.0, 0.0
	for _, s := range shares {
		sum += float64(s)
		squares += float64(s) * float64(s)
	}
	if squares == 0 {
		return figure.None
	}
	return figure.Number(sum * sum / (float64(len(shares)) * squares))
}
