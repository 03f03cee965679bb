package plan

import (
	"math"
	"time"
)

// Schedule computes when each arrival of an open loop is due. The rate is linear within a stage, so the number of
// arrivals until t is quadratic, and the time of the n-th arrival is its inverse: errors do not add up from one arrival
// to the next, however late the pacer wakes.
type Schedule struct {
	ramps []ramp
	i     int     // the ramp of the next arrival
	n     float64 // how many arrivals there have been
	total float64
}

// ramp is one stage: the rate goes from one value to another between two moments.
type ramp struct {
	from, to float64 // arrivals per second
	at, long float64 // seconds
	before   float64 // arrivals before it
}

// NewSchedule returns the schedule of an open plan with its defaults.
func NewSchedule(p Plan) *Schedule {
	s := &Schedule{}
	if p.Rate > 0 {
		s.add(p.Rate, p.Rate, p.Duration)
		return s
	}
	rate, at := 0.0, 0.0
	for _, stage := range p.Stages {
		if stage.For > 0 {
			s.add(rate, stage.Rate, stage.For)
			at += stage.For.Seconds()
		}
		rate = stage.Rate
	}
	return s
}

// add appends a ramp.
func (s *Schedule) add(from, to float64, long time.Duration) {
	at := 0.0
	if n := len(s.ramps); n > 0 {
		at = s.ramps[n-1].at + s.ramps[n-1].long
	}
	s.ramps = append(s.ramps, ramp{from: from, to: to, at: at, long: long.Seconds(), before: s.total})
	s.total += (from + to) / 2 * long.Seconds()
}

// Len returns the number of arrivals.
func (s *Schedule) Len() int { return int(math.Ceil(s.total - 1e-6)) }

// Next returns when the next arrival is due, from the start; false if there is none.
func (s *Schedule) Next() (time.Duration, bool) {
	if s.n >= s.total-1e-6 {
		return 0, false
	}
	for s.i+1 < len(s.ramps) && s.n >= s.ramps[s.i+1].before {
		s.i++
	}
	t := s.ramps[s.i].when(s.n - s.ramps[s.i].before)
	s.n++
	return time.Duration(t * float64(time.Second)), true
}

// when solves from·t + slope·t²/2 = m for the smaller t ≥ 0, in the form that does not cancel, and adds the ramp's
// start.
func (r ramp) when(m float64) float64 {
	if m <= 0 {
		return r.at
	}
	slope := (r.to - r.from) / r.long
	root := math.Sqrt(max(0, r.from*r.from+2*slope*m))
	return r.at + min(2*m/(r.from+root), r.long)
}
