package console

import (
	"encoding/json"
	"slices"
	"sync"

	"lastitem/contract/api"
)

const (
	// binWidth is the initial width of a bin of the curves, in milliseconds. The width doubles when a run has more than
	// maxBins bins.
	binWidth = 20
	maxBins  = 1500
	// frameBars and keptBars bound the sections in a frame and in a snapshot. Each replica has an equal share of a frame.
	// All sections are counted.
	frameBars = 500
	keptBars  = 2000
)

// bin sums up the answers in one slice of time.
type bin struct {
	accepted, refused, failed int64
	remaining                 *int64   // after the last deduction of the slice
	last                      int64    // when that was, see left
	locks, wait, hold, worst  int64    // microseconds: summed over the locks, and the longest wait
	ends                      [3]int64 // of holds: cancelled, expired, void; those that were paid are accepted
	done, age, oldest         int64    // of tickets that ended: microseconds in flight, summed, and the longest
}

// MarshalJSON writes [accepted, refused, failed, remaining or null, mean wait, mean hold, longest wait], waits and
// holds in microseconds or null; then, where holds ended otherwise than by a payment, cancelled, expired and void;
// then, where tickets ended, their number, their mean age and that of the oldest, in microseconds.
func (b bin) MarshalJSON() ([]byte, error) {
	row := []any{b.accepted, b.refused, b.failed, b.remaining, nil, nil, nil}
	if b.locks > 0 {
		row[4], row[5], row[6] = b.wait/b.locks, b.hold/b.locks, b.worst
	}
	if b.done > 0 || b.ends != [3]int64{} {
		row = append(row, b.ends[0], b.ends[1], b.ends[2])
	}
	if b.done > 0 {
		row = append(row, b.done, b.age/b.done, b.oldest)
	}
	return json.Marshal(row)
}

// merge adds the next slice to this one.
func (b *bin) merge(x bin) {
	b.accepted, b.refused, b.failed = b.accepted+x.accepted, b.refused+x.refused, b.failed+x.failed
	b.locks, b.wait, b.hold, b.worst = b.locks+x.locks, b.wait+x.wait, b.hold+x.hold, max(b.worst, x.worst)
	b.done, b.age, b.oldest = b.done+x.done, b.age+x.age, max(b.oldest, x.oldest)
	for i, n := range x.ends {
		b.ends[i] += n
	}
	b.left(x.remaining, x.last)
}

// left notes the stock after deductions that were answered within [api.AnswersWithin] from at on. The replicas report
// in any order. If two such times overlap, the later is taken to be the one that left less.
func (b *bin) left(remaining *int64, at int64) {
	switch {
	case remaining == nil:
	case b.remaining == nil || at >= b.last+api.AnswersWithin:
		b.remaining, b.last = remaining, at
	case at > b.last-api.AnswersWithin:
		if *remaining < *b.remaining {
			b.remaining = remaining
		}
		b.last = max(b.last, at)
	}
}

// MarshalJSON writes [lane, key, begin, end, overlaps, request], and of tickets also when SQL had their ends, and some
// of them, each as [lane, id, won, state, deliveries]; times in microseconds.
func (b *bar) MarshalJSON() ([]byte, error) {
	overlaps := 0
	if b.overlaps {
		overlaps = 1
	}
	row := []any{b.lane, b.key, b.begin, b.end, overlaps, b.request()}
	if b.lives != nil {
		row = append(row, b.committed, b.lives)
	}
	return json.Marshal(row)
}

// Frame has the changes since the previous frame. A snapshot has a frame with everything so far.
type Frame struct {
	Lanes []string `json:"lanes"` // the replicas
	// Width is the width of a bin in milliseconds. From is the index of the first of Bins: earlier bins have not changed.
	Width int64  `json:"width"`
	From  int    `json:"from"`
	Bins  []bin  `json:"bins"`
	Bars  []*bar `json:"bars"`
	Pairs []Pair `json:"pairs"`
	// Sections and Overlaps count all critical sections, and those that overlapped another one. LeftOut counts the
	// deductions that a replica could not report; if there are any, the other counts are too low.
	Sections int64 `json:"sections"`
	Overlaps int64 `json:"overlaps"`
	LeftOut  int64 `json:"left_out"`
	// Marks has all marks so far: there are few.
	Marks []Mark `json:"marks"`
}

// Mark is something that happened to a replica or to the run, for the charts to show.
type Mark struct {
	At int64 `json:"at"` // microseconds since the load began
	// Replica is empty if the mark is about the run.
	Replica string `json:"replica,omitempty"`
	What    string `json:"what"`
}

// What a mark says. A replica is gone when the stream of its events breaks: it has died, or it is out of reach.
const (
	Gone = "gone"
	Back = "back"
	// Stop says that a user stopped the run.
	Stop = "stop"
)

// otherEnds are those of a hold without a payment, in the order of bin.ends.
var otherEnds = []string{"cancelled", "expired", "void"}

// maxMarks bounds the marks of a load, for a replica that dies again and again.
const maxMarks = 40

// picture collects the reports of the replicas about one load. It is safe for concurrent use.
type picture struct {
	mu       sync.Mutex
	mode     string
	product  int64
	start    int64 // microseconds since 1970; 0 = the load has not begun
	lanes    []string
	width    int64 // milliseconds
	bins     []bin
	changed  int // the first bin that has changed since the last frame; -1 = none
	bars     []*bar
	new      []*bar
	drawn    []int // how many of new are on each lane
	leftOut  int64
	marks    []Mark
	overlaps *overlaps
	dirty    bool
}

func newPicture(mode string, product int64, lanes []string) *picture {
	return &picture{mode: mode, product: product, lanes: lanes, drawn: make([]int, len(lanes)), width: binWidth,
		changed: -1, overlaps: newOverlaps()}
}

// begin empties the picture for a load that begins at the given time, in microseconds since 1970.
func (p *picture) begin(start int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.start, p.width, p.bins, p.changed = start, binWidth, nil, -1
	clear(p.drawn)
	p.bars, p.new, p.leftOut, p.marks, p.overlaps, p.dirty = nil, nil, 0, nil, newOverlaps(), true
}

// mark notes what happened at a time in microseconds since 1970.
func (p *picture) mark(at int64, replica, what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.start == 0 || len(p.marks) >= maxMarks {
		return
	}
	p.marks, p.dirty = append(p.marks, Mark{At: max(0, at-p.start), Replica: replica, What: what}), true
}

// add adds the finished deductions of a replica.
func (p *picture) add(e api.Events) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.start == 0 {
		return
	}
	p.leftOut += e.LeftOut
	lane := p.lane(e.Replica)
	for _, a := range e.Answers {
		// not the warm-up, and not the requests of others
		if a.Mode == p.mode && a.ProductID == p.product && a.At >= p.start {
			p.dirty = true
			p.count(a)
		}
	}
	for _, s := range e.Sections {
		if s.Mode == p.mode && s.ProductID == p.product {
			p.sections(s, lane, e.Replica)
		}
	}
	for _, b := range e.Batches {
		if b.Mode == p.mode && b.ProductID == p.product && b.Read >= p.start {
			p.batch(b, lane, e.Replica)
		}
	}
}

// batch counts tickets that have ended, and keeps some of them to be drawn.
func (p *picture) batch(t api.Batch, lane int, replica string) {
	p.dirty = true
	b := p.bin(t.Ended)
	b.done, b.age, b.oldest = b.done+t.Count, b.age+t.Age, max(b.oldest, t.Oldest)
	x := &bar{lane: lane, replica: replica, begin: t.Read - p.start, end: t.Ended - p.start,
		committed: t.Committed - p.start, lives: [][]any{}}
	for _, l := range t.Tickets {
		x.lives = append(x.lives, []any{p.lane(l.Replica), l.ID, l.Won - p.start, l.State, l.Deliveries})
	}
	p.draw(x)
}

// draw keeps a bar for the next frame, unless its lane has enough.
func (p *picture) draw(b *bar) {
	if p.drawn[b.lane] < frameBars/len(p.lanes) {
		p.new, p.drawn[b.lane] = append(p.new, b), p.drawn[b.lane]+1
	}
}

// sections compares critical sections with those of all replicas, and keeps some of them to be drawn.
func (p *picture) sections(s api.Sections, lane int, replica string) {
	for rows := s.Rows; len(rows) >= api.SectionRow; rows = rows[api.SectionRow:] {
		begin := s.From + rows[1] - p.start
		if begin < 0 {
			continue
		}
		b := &bar{lane: lane, key: s.Key, replica: replica, number: rows[0], begin: begin, end: begin + max(0, rows[2])}
		p.dirty = true
		p.overlaps.add(b)
		p.draw(b)
	}
}

// bin returns the bin of a moment, in microseconds since 1970, to be changed.
func (p *picture) bin(micros int64) *bin {
	at := int((micros - p.start) / 1000 / p.width)
	for at >= maxBins {
		p.halve()
		at = int((micros - p.start) / 1000 / p.width)
	}
	from := min(at, len(p.bins)) // the browsers do not have the empty bins of a pause yet
	for len(p.bins) <= at {
		p.bins = append(p.bins, bin{})
	}
	if p.changed < 0 || from < p.changed {
		p.changed = from
	}
	return &p.bins[at]
}

// count adds answers to their bin.
func (p *picture) count(a api.Answers) {
	b := p.bin(a.At)
	switch end := slices.Index(otherEnds, a.End); {
	case end >= 0:
		b.ends[end] += a.Count
	case a.Code == "" && a.Held: // sold is what is paid
		b.left(a.Remaining, a.At)
	case a.Code == "":
		b.accepted += a.Count
		b.left(a.Remaining, a.At)
	case api.Codes[a.Code].Happened == api.Unknown:
		b.failed += a.Count
	default:
		b.refused += a.Count
	}
	b.locks, b.wait, b.hold, b.worst = b.locks+a.Locks, b.wait+a.Wait, b.hold+a.Hold, max(b.worst, a.Longest)
}

// halve doubles the width of the bins.
func (p *picture) halve() {
	half := make([]bin, (len(p.bins)+1)/2)
	for i, b := range p.bins {
		half[i/2].merge(b)
	}
	p.bins, p.width, p.changed = half, 2*p.width, 0
}

// lane returns the index of a replica, and adds a lane for an unknown one.
func (p *picture) lane(replica string) int {
	for i, name := range p.lanes {
		if name == replica {
			return i
		}
	}
	p.lanes, p.drawn = append(p.lanes, replica), append(p.drawn, 0)
	return len(p.lanes) - 1
}

// frame returns what has changed since the last frame; ok is false if nothing has.
func (p *picture) frame() (f Frame, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.dirty {
		return Frame{}, false
	}
	f = p.counts()
	if p.changed >= 0 {
		f.From, f.Bins = p.changed, append([]bin{}, p.bins[p.changed:]...)
	}
	f.Bars, f.Pairs = copies(p.new), append(f.Pairs, p.overlaps.takeFresh()...)
	p.bars = append(p.bars, p.new...)
	if len(p.bars) > keptBars {
		p.bars = append(p.bars[:0:0], p.bars[len(p.bars)-keptBars:]...)
	}
	clear(p.drawn)
	p.new, p.changed, p.dirty = nil, -1, false
	return f, true
}

// whole returns everything so far, except the changes that the next frame will carry.
func (p *picture) whole() Frame {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.counts()
	f.Bins, f.Bars, f.Pairs = append(f.Bins, p.bins...), copies(p.bars), append(f.Pairs, p.overlaps.pairs...)
	return f
}

func (p *picture) counts() Frame {
	return Frame{
		Lanes: append([]string{}, p.lanes...), Width: p.width, Bins: []bin{}, Bars: []*bar{}, Pairs: []Pair{},
		Sections: p.overlaps.sections, Overlaps: p.overlaps.found, LeftOut: p.leftOut,
		Marks: append([]Mark{}, p.marks...),
	}
}

// copies returns copies of the bars: a later section may mark the originals as overlapping while the copies are
// encoded.
func copies(bars []*bar) []*bar {
	all := make([]*bar, len(bars))
	for i, b := range bars {
		c := *b
		all[i] = &c
	}
	return all
}
