package console

import (
	"cmp"
	"slices"

	"lastitem/contract/api"
)

// bar is one critical section on the timeline, or some tickets from their reading to their end. Times are microseconds
// since the load began.
type bar struct {
	lane       int
	key        string
	replica    string
	number     int64 // of the request, at its replica
	begin, end int64
	overlaps   bool
	committed  int64   // when SQL had the ends of the tickets
	lives      [][]any // of some of the tickets; nil for a section
}

// request names the request.
func (b *bar) request() string { return api.RequestName(b.replica, b.number) }

// Pair is two critical sections of one key that overlapped.
type Pair struct {
	A  string `json:"a"` // the request that entered first: its replica, "-", and its number there
	B  string `json:"b"`
	At int64  `json:"at"` // microseconds since the load began, when the second one entered
	By int64  `json:"by"` // microseconds for which both were inside
}

const (
	// keepBars is how many sections of a key are compared with a new one. The sections of a replica arrive in the order of
	// their ends, and a batch of another replica may arrive two tenths of a second later.
	keepBars = 8192
	// maxPairs bounds the pairs that the table lists.
	maxPairs = 40
)

// overlaps counts the critical sections that overlapped another one of their key, whichever replica they belong to.
type overlaps struct {
	sections int64 // of all requests
	found    int64 // sections that overlapped with another
	pairs    []Pair
	fresh    []Pair            // since the last frame
	recent   map[string][]*bar // by key, sorted by begin
	longest  map[string]int64  // the longest section of a key that is in recent
}

func newOverlaps() *overlaps {
	return &overlaps{recent: map[string][]*bar{}, longest: map[string]int64{}}
}

// add compares a section with the recent ones of its key.
func (o *overlaps) add(b *bar) {
	o.sections++
	bars := o.recent[b.key]
	at, _ := slices.BinarySearchFunc(bars, b.begin, func(x *bar, begin int64) int { return cmp.Compare(x.begin, begin) })
	for i := at - 1; i >= 0 && bars[i].begin+o.longest[b.key] > b.begin; i-- {
		o.compare(bars[i], b)
	}
	for i := at; i < len(bars) && bars[i].begin < b.end; i++ {
		o.compare(b, bars[i])
	}
	bars = slices.Insert(bars, at, b)
	o.longest[b.key] = max(o.longest[b.key], b.end-b.begin)
	if len(bars) > keepBars {
		bars = slices.Delete(bars, 0, keepBars/2)
		o.longest[b.key] = 0
		for _, x := range bars {
			o.longest[b.key] = max(o.longest[b.key], x.end-x.begin)
		}
	}
	o.recent[b.key] = bars
}

// compare marks two sections if both holders were inside at the same time. a must not begin later than b.
func (o *overlaps) compare(a, b *bar) {
	by := min(a.end, b.end) - b.begin
	if by <= 0 || a.number == b.number && a.replica == b.replica {
		return
	}
	for _, x := range []*bar{a, b} {
		if !x.overlaps {
			x.overlaps = true
			o.found++
		}
	}
	if len(o.pairs) < maxPairs {
		p := Pair{A: a.request(), B: b.request(), At: b.begin, By: by}
		o.pairs, o.fresh = append(o.pairs, p), append(o.fresh, p)
	}
}

// takeFresh returns the listed pairs that were found since the last call.
func (o *overlaps) takeFresh() []Pair {
	fresh := o.fresh
	o.fresh = nil
	return fresh
}
