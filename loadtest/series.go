package loadtest

import (
	"sync"
	"time"

	"lastitem/loadtest/client"
)

// A run is recorded in windows of firstWindow. When there would be more than maxWindows of them, pairs are merged, so
// that a run of any length fits into maxWindows histograms of 20 KB, and a short one still has several windows.
const (
	firstWindow = 50 * time.Millisecond
	maxWindows  = 240
)

// series has the counts of each window of a run. Workers count into the interval of their shard, and merge it here when
// its window is over, so that all workers share one histogram per window.
type series struct {
	mu      sync.Mutex
	per     int // how many first windows each window spans
	windows []*interval
}

// interval is one window.
type interval struct {
	at       int // first windows since the start; -1 = not begun
	kinds    [3]int64
	accepted *histogram // response times; nil if nothing was accepted
	// completed are the tickets that ended.
	completed int64
}

// complete counts a ticket whose end was told ns nanoseconds after the start.
func (s *series) complete(ns int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.window(int(ns/int64(firstWindow))).completed++
}

// add counts one answer of kind k, which came ns nanoseconds after the start and took took, in the shard's current
// interval, which the caller has locked.
func (s *series) add(current *interval, ns int64, k int, took int64) {
	at := int(ns / int64(firstWindow))
	if current.at != at {
		s.flush(current)
		current.at = at
	}
	current.kinds[k]++
	if client.Kinds[k] == client.Accepted {
		if current.accepted == nil {
			current.accepted = newHistogram(windowDigits)
		}
		current.accepted.record(took)
	}
}

// flush merges the interval and empties it.
func (s *series) flush(from *interval) {
	if from.at < 0 || from.kinds == [3]int64{} {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	to := s.window(from.at)
	to.merge(from)
	from.kinds = [3]int64{}
	if from.accepted != nil {
		from.accepted.reset()
	}
}

// window returns the window that contains a first window, and makes it if needed.
func (s *series) window(at int) *interval {
	s.per = max(s.per, 1)
	for at/s.per >= maxWindows {
		s.halve()
	}
	for len(s.windows) <= at/s.per {
		s.windows = append(s.windows, &interval{})
	}
	return s.windows[at/s.per]
}

// halve merges the windows in pairs.
func (s *series) halve() {
	s.per *= 2
	half := s.windows[:0]
	for i, w := range s.windows {
		if i%2 == 0 {
			half = append(half, w)
			continue
		}
		half[len(half)-1].merge(w)
	}
	clear(s.windows[len(half):])
	s.windows = half
}

// merge adds another interval to in.
func (in *interval) merge(from *interval) {
	for k, n := range from.kinds {
		in.kinds[k] += n
	}
	in.completed += from.completed
	if from.accepted == nil || from.accepted.hdr.TotalCount() == 0 {
		return
	}
	if in.accepted == nil {
		in.accepted = newHistogram(windowDigits)
	}
	in.accepted.merge(from.accepted)
}

// list returns all windows, including empty ones: a stall is a row of zeros.
func (s *series) list() []Window {
	list := make([]Window, len(s.windows))
	span := firstWindow * time.Duration(s.per)
	for i, in := range s.windows {
		w := Window{At: span * time.Duration(i), For: span, Accepted: in.kinds[0], Refused: in.kinds[1], Failed: in.kinds[2],
			Completed: in.completed}
		if in.accepted != nil {
			w.P50, w.P90, w.P99 = in.accepted.percentile(50), in.accepted.percentile(90), in.accepted.percentile(99)
		}
		list[i] = w
	}
	return list
}
