package delta

import (
	"cmp"
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
)

// Confidence is the confidence level of every interval.
const Confidence = 0.95

// Least is the least number of samples per side: with fewer, no result is rare enough to show a difference at Confidence.
const Least = 4

// Interval is an estimate with the ends of its confidence interval.
type Interval struct {
	Estimate float64 `json:"estimate"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
}

// Covers reports whether a value lies in the interval.
func (i Interval) Covers(v float64) bool { return i.Low <= v && v <= i.High }

// median returns the median of the samples with its interval. If there are too few samples for Confidence, the interval is the samples'
// range and enough is false.
func median(samples []float64) (i Interval, enough bool) {
	s := benchmath.AssumeNothing.Summary(benchmath.NewSample(slices.Clone(samples), &benchmath.DefaultThresholds), Confidence)
	i = Interval{Estimate: s.Center, Low: s.Lo, High: s.Hi}
	if math.IsInf(s.Lo, 0) || math.IsInf(s.Hi, 0) {
		i.Low, i.High = slices.Min(samples), slices.Max(samples)
		return i, false
	}
	return i, true
}

// probability returns the probability of a difference at least this large if there were none (Mann-Whitney).
func probability(a, b []float64) float64 {
	t := &benchmath.DefaultThresholds
	return benchmath.AssumeNothing.Compare(benchmath.NewSample(slices.Clone(a), t), benchmath.NewSample(slices.Clone(b), t)).P
}

// shift estimates by how much b is greater than a: the median of all differences between a value of b and a value of a, and the interval of
// the shifts that the Mann-Whitney test does not reject (Hodges and Lehmann, 1963). Each side has at least Least values.
func shift(a, b []float64) Interval {
	differences := make([]float64, 0, len(a)*len(b))
	for _, x := range a {
		for _, y := range b {
			differences = append(differences, y-x)
		}
	}
	slices.Sort(differences)
	n := len(differences)
	k := rejected(len(a), len(b))
	middle := (differences[(n-1)/2] + differences[n/2]) / 2
	return Interval{Estimate: middle, Low: differences[k], High: differences[n-1-k]}
}

// rejected returns how many of the differences at either end are outside the interval: the greatest u for which P(U <= u) is at most (1 -
// Confidence) / 2.
func rejected(n, m int) int {
	tail := (1 - Confidence) / 2
	if n*m > exactUpTo {
		mean, deviation := float64(n*m)/2, math.Sqrt(float64(n*m*(n+m+1))/12)
		// 1.96 deviations below the mean, and half a step for the continuity.
		return max(0, int(math.Floor(mean-1.959963984540054*deviation-0.5)))
	}
	counts := orders(n, m)
	total := 0.0
	for _, c := range counts {
		total += c
	}
	below := 0.0
	for u, c := range counts {
		below += c
		if below > tail*total {
			return max(0, u-1)
		}
	}
	return 0
}

// exactUpTo is the product of the sample sizes up to which the distribution of U is computed exactly.
const exactUpTo = 400

// orders counts, for each U, the orderings of n and m values with U inverted pairs: the coefficients of the Gaussian binomial, by the
// recurrence of Mann and Whitney (1947).
func orders(n, m int) []float64 {
	table := make([][][]float64, n+1)
	for i := range table {
		table[i] = make([][]float64, m+1)
		for j := range table[i] {
			counts := make([]float64, i*j+1)
			for u := range counts {
				switch {
				case i == 0 || j == 0:
					counts[u] = 1
				default:
					counts[u] = at(table[i-1][j], u-j) + at(table[i][j-1], u)
				}
			}
			table[i][j] = counts
		}
	}
	return table[n][m]
}

// at returns an element of a list, zero outside of it.
func at(list []float64, i int) float64 {
	if i < 0 || i >= len(list) {
		return 0
	}
	return list[i]
}

// sign is -1, 0 or 1.
func sign(v float64) int { return cmp.Compare(v, 0) }
