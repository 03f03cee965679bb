// Package step is the stream of named points that a deduction passes.
//
// Every deductor and locker reports through one function, [Stream.At]. The readers of the stream are the metrics (lock
// wait and hold), the live timeline and the trace spans; in tests also functions that stop a deduction by blocking. A
// [Trace] in the context says whose step it is. Start with [Stream].
package step

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Point is a named point of a deduction, in the order in which a lock mode passes them.
type Point uint8

// The points. Acquiring lies between the two commands of a two-command acquire, Releasing between compare and delete.
const (
	Waiting Point = iota
	Acquiring
	Locked
	Read
	Written
	Ordered
	Committed
	Releasing
	Released
)

var names = [...]string{"waiting", "acquiring", "locked", "read", "written", "ordered", "committed", "releasing",
	"released"}

// String returns the point's name as the API shows it.
func (p Point) String() string { return names[p] }

// Event is one step of one deduction.
type Event struct {
	Point Point
	// Key is the lock key for the points of a lock, else "".
	Key string
	At  time.Time
	// Trace is the deduction; nil where the caller carries none.
	Trace *Trace
}

// A Reader is called on the deduction's own goroutine: it is fast, or, in a test, it blocks on purpose.
type Reader func(ctx context.Context, e Event)

// Stream carries steps to its readers. The zero value, and a nil *Stream, have none: a step then costs a nanosecond or
// two.
type Stream struct {
	mu      sync.Mutex
	readers atomic.Pointer[[]*Reader]

	keepMu  sync.Mutex
	keepers int
	unkeep  func()
}

// Subscribe adds a reader and returns the function that removes it.
func (s *Stream) Subscribe(r Reader) (cancel func()) {
	p := &r
	s.change(func(all []*Reader) []*Reader { return append(all, p) })
	return func() {
		s.change(func(all []*Reader) []*Reader {
			kept := make([]*Reader, 0, len(all))
			for _, q := range all {
				if q != p {
					kept = append(kept, q)
				}
			}
			return kept
		})
	}
}

// change replaces the reader list, never editing the one that At may be walking.
func (s *Stream) change(edit func([]*Reader) []*Reader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*Reader
	if old := s.readers.Load(); old != nil {
		all = append(all, *old...)
	}
	all = edit(all)
	if len(all) == 0 {
		s.readers.Store(nil)
		return
	}
	s.readers.Store(&all)
}

// At reports that the deduction in ctx has reached point p; key is the lock key for the points of a lock.
func (s *Stream) At(ctx context.Context, p Point, key string) {
	if s == nil {
		return
	}
	readers := s.readers.Load()
	if readers == nil {
		return
	}
	e := Event{Point: p, Key: key, At: time.Now(), Trace: FromContext(ctx)}
	for _, r := range *readers {
		(*r)(ctx, e)
	}
}
