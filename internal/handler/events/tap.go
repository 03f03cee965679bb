// Package events tells the readers of GET /events what a replica has answered. Start with [Tap], to which the handler
// gives what it has finished; stream.go is what a reader is sent.
package events

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
	"lastitem/internal/step"
)

// Tap hands finished deductions to the watchers of GET /events. Without a watcher it costs one atomic load per request.
// A watcher that does not read costs its buffer, and nothing more.
type Tap struct {
	Replica string                // names this process in the events
	Steps   *step.Stream          // keeps steps while somebody watches; nil = there are none
	LeftOut func(answers float64) // is told what a slow reader was not sent

	mu       sync.Mutex
	watchers atomic.Pointer[[]*watcher] // never changed in place
	unnote   func()                     // ends step.Stream.Keep; nil while nobody watches
}

// watcher is the buffer of one reader of GET /events. Hundreds of deductions may end between two events, and encoding
// and parsing each one costs more than the rest of watching. So answers are counted here, and only critical sections,
// which the reader compares with those of other replicas, are kept one by one.
type watcher struct {
	mu   sync.Mutex
	next api.Events
	kept int // sections in next
}

const (
	// MaxWatchers is how many may watch one replica: a console, and a few people with curl.
	MaxWatchers = 4
	// maxSections bounds the critical sections that wait for a slow reader, and maxAnswers the counts of answers: together
	// below 2 MB.
	maxSections = 16 << 10
	maxAnswers  = 4 << 10
	// maxSample is how many deductions of one event are reported with their steps, and how many tickets of a batch.
	maxSample = 4
	// maxBatches bounds the batches of tickets that wait for a slow reader: below 1 MB.
	maxBatches = 1 << 10
	// lookBack is how many counts, and how many keys, are searched for the matching one. Under load there are few.
	lookBack = 16
)

// Answer is a deduction, a hold or its end that has been answered.
type Answer struct {
	Trace     *step.Trace
	Spans     []step.Span
	Number    int64 // of the request
	At        int64 // when it was answered, in microseconds since 1970
	Code      api.Code
	Held      bool // see api.Answers
	End       ledger.ReservationState
	Remaining *int64
}

// watch adds a watcher; nil if there are enough of them.
func (t *Tap) watch() *watcher {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.list()
	if len(all) >= MaxWatchers {
		return nil
	}
	w := &watcher{}
	t.set(append(slices.Clone(all), w))
	if t.unnote == nil && t.Steps != nil {
		t.unnote = t.Steps.Keep()
	}
	return w
}

// leave removes a watcher.
func (t *Tap) leave(w *watcher) {
	t.mu.Lock()
	defer t.mu.Unlock()
	left := slices.DeleteFunc(slices.Clone(t.list()), func(x *watcher) bool { return x == w })
	t.set(left)
	if len(left) == 0 && t.unnote != nil {
		t.unnote()
		t.unnote = nil
	}
}

// Watched says whether anybody watches.
func (t *Tap) Watched() bool { return len(t.list()) > 0 }

func (t *Tap) set(all []*watcher) { t.watchers.Store(&all) }

func (t *Tap) list() []*watcher {
	if all := t.watchers.Load(); all != nil {
		return *all
	}
	return nil
}

// DoneReservation counts a hold, or its end, for the watchers. It has no critical section and no steps.
func (t *Tap) DoneReservation(mode string, product int64, f Answer) {
	f.At = time.Now().UnixMicro()
	for _, w := range t.list() {
		f.Trace = &step.Trace{Mode: mode, ProductID: product}
		w.mu.Lock()
		w.count(f, api.Section{})
		w.mu.Unlock()
	}
}

// DoneTickets gives tickets, at least one, that have ended together to the watchers.
func (t *Tap) DoneTickets(b ledger.TicketBatch) {
	if !t.Watched() {
		return
	}
	first := b.Tickets[0].Order
	told := api.Batch{Mode: first.Mode, ProductID: first.ProductID, Read: b.Read, Committed: b.Committed, Ended: b.Ended,
		Count: int64(len(b.Tickets)) - b.Again}
	for i, l := range b.Tickets {
		age := max(0, b.Ended-l.Order.CreatedMicros) // clocks of two replicas
		told.Age, told.Oldest = told.Age+age, max(told.Oldest, age)
		if i < maxSample {
			told.Tickets = append(told.Tickets, api.TicketLife{ID: l.Order.ID, Won: l.Order.CreatedMicros,
				Replica: l.Order.Replica, State: string(l.State), Deliveries: l.Deliveries})
		}
	}
	told.Age = told.Age * told.Count / int64(len(b.Tickets))
	for _, w := range t.list() {
		w.mu.Lock()
		if len(w.next.Batches) < maxBatches {
			w.next.Batches = append(w.next.Batches, told)
		} else {
			w.next.LeftOut += told.Count
		}
		w.mu.Unlock()
	}
}

// Done gives a deduction to the watchers.
func (t *Tap) Done(f Answer) {
	var few [16]step.Passed // on the stack
	passed := f.Trace.AppendPassed(few[:0])
	section, has := sectionOf(passed, f.Spans)
	for _, w := range t.list() {
		w.mu.Lock()
		w.count(f, section)
		if has {
			w.keep(f, section)
		}
		if len(w.next.Finished) < maxSample {
			w.next.Finished = append(w.next.Finished, t.report(f, passed, section, has))
		}
		w.mu.Unlock()
	}
}

// count counts an answer. The caller holds w.mu.
func (w *watcher) count(f Answer, s api.Section) {
	a := w.answers(f)
	if a == nil {
		w.next.LeftOut++
		return
	}
	if a.Count++; f.Remaining != nil {
		a.Remaining = f.Remaining
	}
	if s.Key != "" {
		a.Locks, a.Wait, a.Hold, a.Longest = a.Locks+1, a.Wait+s.Wait, a.Hold+s.Hold, max(a.Longest, s.Wait)
	}
}

// answers finds the count to which an answer belongs, or begins one; nil if there are too many.
func (w *watcher) answers(f Answer) *api.Answers {
	all := w.next.Answers
	for i := len(all) - 1; i >= max(0, len(all)-lookBack); i-- {
		a := &all[i]
		alike := a.Code == f.Code && a.Held == f.Held && a.End == string(f.End) && a.ProductID == f.Trace.ProductID &&
			a.Mode == f.Trace.Mode
		if alike && f.At-a.At < api.AnswersWithin {
			return a
		}
	}
	if len(all) >= maxAnswers {
		return nil
	}
	w.next.Answers = append(w.next.Answers, api.Answers{Mode: f.Trace.Mode, ProductID: f.Trace.ProductID, Code: f.Code,
		Held: f.Held, End: string(f.End), At: f.At})
	return &w.next.Answers[len(all)]
}

// keep keeps a critical section. The caller holds w.mu.
func (w *watcher) keep(f Answer, s api.Section) {
	if w.kept >= maxSections {
		w.next.LeftOut++
		return
	}
	w.kept++
	all := w.next.Sections
	i, oldest := len(all)-1, max(0, len(all)-lookBack)
	for ; i >= oldest; i-- {
		if x := &all[i]; x.Key == s.Key && x.ProductID == f.Trace.ProductID && x.Mode == f.Trace.Mode {
			break
		}
	}
	if i < oldest {
		i, all = len(all), append(all, api.Sections{Mode: f.Trace.Mode, ProductID: f.Trace.ProductID, Key: s.Key,
			From: s.Begin})
	}
	all[i].Rows = append(all[i].Rows, f.Number, s.Begin-all[i].From, s.End-s.Begin)
	w.next.Sections = all
}

// report returns a deduction with its steps.
func (t *Tap) report(f Answer, passed []step.Passed, s api.Section, has bool) api.Finished {
	r := api.Finished{
		Request: api.RequestName(t.Replica, f.Number), Mode: f.Trace.Mode, ProductID: f.Trace.ProductID, At: f.At,
		Code:      f.Code,
		Remaining: f.Remaining, Steps: make([]api.StepAt, len(passed)),
	}
	if has {
		r.Section = &s
	}
	for i, p := range passed {
		r.Steps[i] = api.StepAt{Point: p.Point.String(), At: p.At.UnixMicro()}
	}
	return r
}

// take empties the buffer; ok is false if there was nothing in it.
func (w *watcher) take() (e api.Events, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e, w.next, w.kept = w.next, api.Events{}, 0
	return e, len(e.Answers)+len(e.Batches) > 0 || e.LeftOut > 0
}

// sectionOf finds the critical section of a deduction; ok is false if it has none.
//
// With a lock it begins when the lock was granted and ends with the last write before the release: a moment later the
// release is on its way, and the next holder may be in before this one hears of it. A commit that follows the release
// belongs to the section: that is the defect of the modes that unlock inside a transaction. Without a lock it is the
// time from the read to the write that relies on it.
func sectionOf(passed []step.Passed, spans []step.Span) (s api.Section, ok bool) {
	begin, end, released := int64(0), int64(0), false
	for i := range passed {
		p := &passed[i]
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
		return api.Section{}, false // no read, or no write after it
	}
	s.Begin, s.End = begin, end
	for _, sp := range spans {
		s.Wait += sp.Wait().Microseconds()
		s.Hold += sp.Hold().Microseconds()
	}
	return s, true
}
