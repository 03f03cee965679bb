package loadtest

import (
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The range of the histograms, in microseconds: longer times count as the longest, except in Min, Mean and Max.
const (
	shortest = 1
	longest  = 60_000_000
)

// Significant digits: runDigits for a whole run (139 KB a histogram), windowDigits for one window of it (20 KB).
const (
	runDigits    = 3
	windowDigits = 2
)

// histogram is an HDR histogram of microseconds, plus the exact extremes and sum in nanoseconds.
type histogram struct {
	hdr      *hdrhistogram.Histogram
	min, max int64
	sum      float64
}

// newHistogram returns an empty histogram of that many significant digits.
func newHistogram(digits int) *histogram {
	return &histogram{hdr: hdrhistogram.New(shortest, longest, digits), min: math.MaxInt64}
}

// record adds one value in nanoseconds; a negative value, which a clock's rounding may give, counts as zero.
func (h *histogram) record(ns int64) {
	ns = max(ns, 0)
	// Both ends are inside the range, so it cannot fail.
	_ = h.hdr.RecordValue(min(max((ns+500)/1000, shortest), longest))
	h.min, h.max = min(h.min, ns), max(h.max, ns)
	h.sum += float64(ns)
}

// merge adds all of from, which may be nil.
func (h *histogram) merge(from *histogram) {
	if from == nil {
		return
	}
	h.hdr.Merge(from.hdr)
	h.min, h.max = min(h.min, from.min), max(h.max, from.max)
	h.sum += from.sum
}

// reset empties the histogram.
func (h *histogram) reset() {
	h.hdr.Reset()
	h.min, h.max, h.sum = math.MaxInt64, 0, 0
}

// percentile returns the value that p percent of the values do not exceed.
func (h *histogram) percentile(p float64) time.Duration {
	ns := h.hdr.ValueAtQuantile(p) * 1000
	return time.Duration(min(max(ns, h.min), h.max))
}

// curvePercentiles are the points of a curve: each halves the remaining share, and the usual ones are included.
var curvePercentiles = []float64{
	0, 10, 25, 50, 75, 87.5, 90, 93.75, 95, 96.875, 98.4375, 99, 99.21875, 99.609375, 99.8046875, 99.9, 99.951171875,
	99.99, 99.9969482421875, 100,
}

// curve returns the distribution at curvePercentiles. It leaves out points that the number of values cannot distinguish
// from the greatest, except the last.
func (h *histogram) curve() []Point {
	n := float64(h.hdr.TotalCount())
	if n == 0 {
		return nil
	}
	var points []Point
	for _, p := range curvePercentiles {
		if beyond := n * (100 - p) / 100; beyond < 1 && p < 100 {
			continue
		}
		points = append(points, Point{Percentile: p, Value: h.percentile(p)})
	}
	return points
}

// latency summarizes the histogram.
func (h *histogram) latency() Latency {
	n := h.hdr.TotalCount()
	if n == 0 {
		return Latency{}
	}
	return Latency{
		Count: n,
		Min:   time.Duration(h.min),
		Mean:  time.Duration(h.sum / float64(n)),
		P50:   h.percentile(50),
		P90:   h.percentile(90),
		P95:   h.percentile(95),
		P99:   h.percentile(99),
		P999:  h.percentile(99.9),
		Max:   time.Duration(h.max),
	}
}
