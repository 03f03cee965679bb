package handler

import (
	"slices"
	"sync"
	"sync/atomic"

	"lastitem/internal/api"
	"lastitem/internal/step"
)

// tap hands finished deductions to the watchers of GET /events. Without a watcher it costs one atomic load per request. A watcher that does
// not read costs its buffer, and nothing more.
type tap struct {
	steps *step.Stream

	mu       sync.Mutex
	watchers atomic.Pointer[[]*watcher] // never changed in place
	unnote   func()                     // ends step.Stream.Keep; nil while nobody watches
}

// watcher is the buffer of one reader of GET /events.
type watcher struct {
	mu       sync.Mutex
	finished []api.Finished
	left     int64
}

const (
	// maxWatchers is how many may watch one replica: a console, and a few people with curl.
	maxWatchers = 4
	// maxWaiting bounds the deductions that wait for a slow reader, about 4 MB; further ones are only counted.
	maxWaiting = 16 << 10
	// maxStepped is how many deductions of one event have their steps.
	maxStepped = 64
)

// watch adds a watcher; nil if there are enough of them.
func (t *tap) watch() *watcher {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.list()
	if len(all) >= maxWatchers {
		return nil
	}
	w := &watcher{}
	t.set(append(slices.Clone(all), w))
	if t.unnote == nil && t.steps != nil {
		t.unnote = t.steps.Keep()
	}
	return w
}

// leave removes a watcher.
func (t *tap) leave(w *watcher) {
	t.mu.Lock()
	defer t.mu.Unlock()
	left := slices.DeleteFunc(slices.Clone(t.list()), func(x *watcher) bool { return x == w })
	t.set(left)
	if len(left) == 0 && t.unnote != nil {
		t.unnote()
		t.unnote = nil
	}
}

func (t *tap) set(all []*watcher) { t.watchers.Store(&all) }

func (t *tap) list() []*watcher {
	if all := t.watchers.Load(); all != nil {
		return *all
	}
	return nil
}

// done gives a deduction that was answered at the moment at (microseconds since 1970) to the watchers.
func (t *tap) done(trace *step.Trace, at int64, code api.Code, remaining *int64) {
	all := t.list()
	if len(all) == 0 {
		return
	}
	passed := trace.Passed()
	f := api.Finished{
		Request: trace.Request, Mode: trace.Mode, ProductID: trace.ProductID, At: at, Code: code, Remaining: remaining,
		Section: sectionOf(passed, trace.Spans()),
	}
	for _, w := range all {
		w.add(f, passed)
	}
}

// add keeps a deduction, with its steps if few of the others have some. Beyond the bound it only counts.
func (w *watcher) add(f api.Finished, passed []step.Passed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.finished) >= maxWaiting {
		w.left++
		return
	}
	if len(w.finished) < maxStepped {
		f.Steps = make([]api.StepAt, len(passed))
		for i, p := range passed {
			f.Steps[i] = api.StepAt{Point: p.Point.String(), At: p.At.UnixMicro()}
		}
	}
	w.finished = append(w.finished, f)
}

// take empties the buffer.
func (w *watcher) take() (finished []api.Finished, left int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	finished, left = w.finished, w.left
	w.finished, w.left = nil, 0
	return finished, left
}

// sectionOf finds the critical section of a deduction; nil if it has none.
//
// With a lock it begins when the lock was granted and ends with the last write before the release: a moment later the release is on its
// way, and the next holder may be in before this one hears of it. A commit that follows the release belongs to the section: that is the
// defect of the modes that unlock inside a transaction. Without a lock it is the time from the read to the write that relies on it.
func sectionOf(passed []step.Passed, spans []step.Span) *api.Section {
	s := &api.Section{}
	begin, end, released := int64(0), int64(0), false
	for _, p := range passed {
		at := p.At.UnixMicro()
		switch p.Point {
		case step.Locked:
			if s.Key == "" {
				s.Key, begin, end = p.Key, at, at
			}
		case step.Read:
			if s.Key == "" {
				begin, end = at, 0
			} else if !released {
				end = at
			}
		case step.Written:
			end = at
		case step.Ordered:
			if s.Key != "" {
				end = at
			}
		case step.Committed:
			if s.Key == "" && end != 0 || released {
				end = at
			}
		case step.Released:
			released = true
		}
	}
	if begin == 0 || end == 0 {
		return nil // no read, or no write after it
	}
	s.Begin, s.End = begin, end
	for _, sp := range spans {
		s.Wait += sp.Wait().Microseconds()
		s.Hold += sp.Hold().Microseconds()
	}
	return s
}
