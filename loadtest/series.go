package loadtest

import "sync"

// series holds what happened in each second of a run. Workers count into the interval of their shard, and merge it here
// when its second is over, so that a histogram per second is shared by all of them.
type series struct {
	mu      sync.Mutex
	seconds []*interval
}

// interval is one second.
type interval struct {
	at       int // seconds since the start; -1 = not begun
	kinds    [3]int64
	accepted *histogram // response times; nil where nothing was accepted
}

// add counts one answer of kind k in second at, by way of the shard's current interval, which the caller has locked.
func (s *series) add(current *interval, at, k int, ns int64) {
	if current.at != at {
		s.flush(current)
		current.at = at
	}
	current.kinds[k]++
	if Kinds[k] == Accepted {
		if current.accepted == nil {
			current.accepted = newHistogram(secondDigits)
		}
		current.accepted.record(ns)
	}
}

// flush merges the interval and empties it.
func (s *series) flush(from *interval) {
	if from.at < 0 || from.kinds == [3]int64{} {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.seconds) <= from.at {
		s.seconds = append(s.seconds, &interval{at: len(s.seconds)})
	}
	to := s.seconds[from.at]
	for k, n := range from.kinds {
		to.kinds[k] += n
	}
	from.kinds = [3]int64{}
	if from.accepted == nil || from.accepted.hdr.TotalCount() == 0 {
		return
	}
	if to.accepted == nil {
		to.accepted = newHistogram(secondDigits)
	}
	to.accepted.merge(from.accepted)
	from.accepted.reset()
}

// list returns every second from the first on, the empty ones too: a stall is a row of zeros.
func (s *series) list() []Second {
	list := make([]Second, len(s.seconds))
	for i, in := range s.seconds {
		list[i] = Second{At: i, Accepted: in.kinds[0], Refused: in.kinds[1], Failed: in.kinds[2]}
		if in.accepted != nil {
			list[i].P50, list[i].P99 = in.accepted.percentile(50), in.accepted.percentile(99)
		}
	}
	return list
}
