package loadtest

import (
	"sync"
	"time"

	"lastitem/internal/audit"
)

// shards is over how many parts the workers spread their records. Histograms are too large to give one to each of a
// thousand workers; a lock that eight parts keep almost free costs less than the memory would.
const shards = 8

// sample is one request, as the worker that sent it saw it.
type sample struct {
	op   audit.Op
	read reading
	// intended is when the request was due, in nanoseconds since the start; in the closed model that is op.Call.
	intended int64
	retry    bool
	open     bool // its lag counts
}

// recorder collects the samples of one run.
type recorder struct {
	start   time.Time
	history bool // keep every op
	parts   [shards]shard
	series  series
}

// shard is the part of a recorder that every eighth worker writes to.
type shard struct {
	mu       sync.Mutex
	response [3]*histogram // by the index of Kinds; made when first needed
	service  [3]*histogram
	lag      *histogram
	second   interval

	history         []audit.Op
	codes, served   map[string]int
	sent, retried   int
	kinds           [3]int64
	soldOut         int64 // refusals as sold out
	first, last     int64 // first call, last return
	lastAccepted    int64
	firstIsRecorded bool
	remaining       []int64  // where the ops of the history point to
	_               [64]byte // keeps two shards off one cache line
}

// newRecorder returns an empty recorder; begin sets its clock.
func newRecorder(history bool) *recorder {
	r := &recorder{history: history}
	for i := range r.parts {
		r.parts[i].codes = map[string]int{}
		r.parts[i].served = map[string]int{}
		r.parts[i].second.at = -1
	}
	return r
}

// begin starts the clock that all times of the run count from.
func (r *recorder) begin() { r.start = time.Now() }

// now is the time since the start in nanoseconds, by the monotonic clock.
func (r *recorder) now() int64 { return int64(time.Since(r.start)) }

// add takes one sample in; left is what the answer said of the stock that remains, where hasLeft is set.
func (r *recorder) add(s sample, left int64, hasLeft bool) {
	k := kindIndex(s.read.kind)
	p := &r.parts[s.op.Client%shards]
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count(&s, k)
	record(&p.response[k], s.op.Return-s.intended)
	record(&p.service[k], s.op.Return-s.op.Call)
	if s.open {
		record(&p.lag, s.op.Call-s.intended)
	}
	r.series.add(&p.second, int(s.op.Return/int64(time.Second)), k, s.op.Return-s.intended)
	if !r.history { // the histograms have it
		return
	}
	if hasLeft {
		s.op.Remaining = p.keep(left)
	}
	p.history = append(p.history, s.op)
}

// count adds the sample to the plain counters.
func (p *shard) count(s *sample, k int) {
	p.sent++
	p.kinds[k]++
	if s.op.Outcome == audit.Refused {
		p.soldOut++
	}
	p.codes[s.read.code]++
	if s.op.Replica != "" {
		p.served[s.op.Replica]++
	}
	if s.retry {
		p.retried++
	}
	if !p.firstIsRecorded || s.op.Call < p.first {
		p.first, p.firstIsRecorded = s.op.Call, true
	}
	p.last = max(p.last, s.op.Return)
	if s.read.kind == Accepted {
		p.lastAccepted = max(p.lastAccepted, s.op.Return)
	}
}

// keep returns a pointer to a copy of v, from a block shared by many.
func (p *shard) keep(v int64) *int64 {
	if len(p.remaining) == cap(p.remaining) {
		p.remaining = make([]int64, 0, 512)
	}
	p.remaining = append(p.remaining, v)
	return &p.remaining[len(p.remaining)-1]
}

// record adds to a histogram that is made when it is first needed.
func record(h **histogram, ns int64) {
	if *h == nil {
		*h = newHistogram(runDigits)
	}
	(*h).record(ns)
}

// kindIndex is the place of a kind in Kinds.
func kindIndex(k Kind) int {
	switch k {
	case Accepted:
		return 0
	case RefusedK:
		return 1
	default:
		return 2
	}
}

// counts returns how many samples of each kind there are so far.
func (r *recorder) counts() (kinds [3]int64) {
	for i := range r.parts {
		p := &r.parts[i]
		p.mu.Lock()
		for k, n := range p.kinds {
			kinds[k] += n
		}
		p.mu.Unlock()
	}
	return kinds
}

// sales returns how many requests were accepted and how many were refused as sold out so far, and the time of the last acceptance.
func (r *recorder) sales() (accepted, soldOut, last int64) {
	for i := range r.parts {
		p := &r.parts[i]
		p.mu.Lock()
		accepted, soldOut, last = accepted+p.kinds[kindIndex(Accepted)], soldOut+p.soldOut, max(last, p.lastAccepted)
		p.mu.Unlock()
	}
	return accepted, soldOut, last
}
