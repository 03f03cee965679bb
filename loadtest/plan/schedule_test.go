package plan

import (
	"math"
	"testing"
	"time"
)

func TestSchedule(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		plan Plan
		want int
		at   map[int]float64 // arrival to seconds
	}{
		{"rate", Plan{Rate: 100, Duration: 3 * time.Second}, 300, map[int]float64{0: 0, 1: 0.01, 150: 1.5, 299: 2.99}},
		{"slow", Plan{Rate: 0.5, Duration: 5 * time.Second}, 3, map[int]float64{0: 0, 1: 2, 2: 4}},
		// Up from 0 to 100/s in 2 s: N(t) = 25 t².
		{"ramp", Plan{Stages: []Stage{{2 * time.Second, 100}}}, 100, map[int]float64{0: 0, 25: 1, 81: 1.8}},
		{"jump and hold", Plan{Stages: []Stage{{0, 50}, {2 * time.Second, 50}}}, 100, map[int]float64{0: 0, 50: 1, 99: 1.98}},
		{"up and down", Plan{Stages: []Stage{{time.Second, 100}, {time.Second, 0}}}, 100, map[int]float64{0: 0, 50: 1, 98: 1.8}},
		{"pause", Plan{Stages: []Stage{{0, 10}, {time.Second, 10}, {0, 0}, {time.Second, 0}, {0, 10}, {time.Second, 10}}}, 20, map[int]float64{9: 0.9, 10: 2, 11: 2.1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := NewSchedule(tt.plan.WithDefaults())
			if got := s.Len(); got != tt.want {
				t.Errorf("Len() = %d, want %d", got, tt.want)
			}
			last, n := time.Duration(0), 0
			for due, ok := s.Next(); ok; due, ok = s.Next() {
				if want, check := tt.at[n]; check && math.Abs(due.Seconds()-want) > 1e-6 {
					t.Errorf("arrival %d at %v, want %vs", n, due, want)
				}
				if due < last {
					t.Errorf("arrival %d at %v is before the one at %v", n, due, last)
				}
				last = due
				n++
			}
			if n != tt.want {
				t.Errorf("%d arrivals, want %d", n, tt.want)
			}
		})
	}
}
