package step

import (
	"context"
	"sync"
	"time"
)

// Passed is one point that a deduction has passed.
type Passed struct {
	Point Point
	Key   string // of the lock, "" for the other points
	At    time.Time
}

// Note keeps an event in its trace, in the order of arrival. [Stream.Keep] calls it for each event, but only while
// somebody watches: a trace that began before has only its later points.
func Note(e Event) {
	if e.Trace == nil {
		return
	}
	t := e.Trace
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.passed == nil {
		t.passed = make([]Passed, 0, fewPassed)
	}
	if len(t.passed) < maxPassed {
		t.passed = append(t.passed, Passed{Point: e.Point, Key: e.Key, At: e.At})
	}
}

// Keep passes each event of the stream to [Note] until the returned function is called. It may be called by several at
// once: each step is noted once.
func (s *Stream) Keep() (stop func()) {
	s.keepMu.Lock()
	defer s.keepMu.Unlock()
	if s.keepers++; s.keepers == 1 {
		s.unkeep = s.Subscribe(func(_ context.Context, e Event) { Note(e) })
	}
	return sync.OnceFunc(func() {
		s.keepMu.Lock()
		defer s.keepMu.Unlock()
		if s.keepers--; s.keepers == 0 {
			s.unkeep()
		}
	})
}

// Answered is a deduction that has been answered, with what its steps do not tell.
type Answered struct {
	Trace        *Trace
	Route        string // of the request, as metrics name it
	Begun, Ended time.Time
	Status       int    // of the answer
	Code         string // of the problem; "" = ok
	Store        string // as the request named it; "" = the mode's default
}

// maxPassed bounds what one trace keeps: a deduction that retries without end would grow without end. fewPassed is how
// many points most deductions pass at most.
const (
	maxPassed = 256
	fewPassed = 8
)

// Passed returns a copy of the points so far.
func (t *Trace) Passed() []Passed { return t.AppendPassed(nil) }

// AppendPassed appends the points so far to a buffer of the caller's.
func (t *Trace) AppendPassed(to []Passed) []Passed {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append(to, t.passed...)
}
