package delta

import (
	"math/rand/v2"
	"testing"
)

// The number of rejected differences is one less than R's qwilcox(0.025, n, m), by which wilcox.test computes its interval; those are the
// critical values of the tables of Mann and Whitney.
func TestRejected(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ n, m, want int }{{4, 4, 0}, {5, 5, 2}, {6, 6, 5}, {6, 8, 8}, {8, 8, 13}, {10, 10, 23}, {20, 20, 127}, {4, 10, 5}} {
		if got := rejected(tt.n, tt.m); got != tt.want {
			t.Errorf("rejected(%d, %d) = %d, want %d", tt.n, tt.m, got, tt.want)
		}
	}
	// The approximation agrees with the exact count.
	if got := rejected(21, 20); got < 134 || got > 136 { // the table says 134
		t.Errorf("rejected(21, 20) = %d, want about 134", got)
	}
}

func TestOrders(t *testing.T) {
	t.Parallel()
	total := 0.0
	for _, c := range orders(6, 4) {
		total += c
	}
	if total != 210 || orders(6, 4)[0] != 1 || orders(6, 4)[2] != 2 {
		t.Errorf("orders(6, 4) = %v, want 210 in all, 1 of them in order and 2 with two pairs the wrong way round", orders(6, 4))
	}
}

// drawn returns n random values around a center.
func drawn(random *rand.Rand, n int, center, noise float64) []float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = center + noise*random.NormFloat64()
	}
	return values
}

// The interval holds the true difference in at least its share of all cases, also for small samples.
func TestShiftCoversTheTruth(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	const cases = 2000
	for _, n := range []int{4, 6, 12, 30} {
		held, zero := 0, 0
		for range cases {
			a, b := drawn(random, n, 100, 5), drawn(random, n, 110, 5)
			s := shift(a, b)
			if s.Covers(10) {
				held++
			}
			if shift(a, drawn(random, n, 100, 5)).Covers(0) {
				zero++
			}
			if s.Low > s.Estimate || s.Estimate > s.High {
				t.Fatalf("the estimate is not in its interval: %+v", s)
			}
		}
		if least := cases * 94 / 100; held < least || zero < least {
			t.Errorf("n=%d: the interval held the difference in %d and the absence of one in %d of %d cases, want 95%%", n, held, zero, cases)
		}
	}
}

// The interval and the test agree: zero is outside the interval if and only if a difference of that size is improbable.
func TestShiftAgreesWithTheTest(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		a, b := drawn(random, 6, 100, 5), drawn(random, 7, 100+10*random.Float64(), 5)
		if s, p := shift(a, b), probability(a, b); s.Covers(0) != (p > 1-Confidence) {
			t.Fatalf("interval %+v, p = %v of %v and %v", s, p, a, b)
		}
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	if i, enough := median([]float64{3, 1, 2, 6, 5, 4}); !enough || i != (Interval{3.5, 1, 6}) {
		t.Errorf("median of six = %+v, %v, want 3.5 from 1 to 6", i, enough)
	}
	if i, enough := median([]float64{3, 1, 2}); enough || i != (Interval{2, 1, 3}) {
		t.Errorf("median of three = %+v, %v, want their range, and that they are too few", i, enough)
	}
}
