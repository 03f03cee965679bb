package events

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
	"lastitem/internal/step"
	"lastitem/testkit"
)

// With nobody watching a trace keeps no steps, and when the last watcher leaves, it keeps none any more.
func TestTapKeepsNothingForNobody(t *testing.T) {
	t.Parallel()
	steps := &step.Stream{}
	tap := &Tap{Steps: steps}
	pass := func() int {
		trace := &step.Trace{}
		steps.At(step.NewContext(t.Context(), trace), step.Read, "")
		return len(trace.Passed())
	}
	if n := pass(); n != 0 {
		t.Errorf("%d steps kept before anybody watched", n)
	}
	a, b := tap.watch(), tap.watch()
	tap.leave(a)
	if n := pass(); n != 1 {
		t.Errorf("%d steps kept for the second watcher, want 1", n)
	}
	tap.leave(b)
	if n := pass(); n != 0 {
		t.Errorf("%d steps kept after the last one left", n)
	}
}

// locked is a trace with a critical section from 100 to 110, after a wait of 10.
func locked(mode string) (*step.Trace, []step.Span) {
	trace := &step.Trace{Mode: mode, ProductID: 7}
	for i, p := range []step.Point{step.Waiting, step.Locked, step.Written} {
		key := "k"
		if p == step.Written {
			key = ""
		}
		e := step.Event{Point: p, Key: key, At: time.UnixMicro(int64(90 + 10*i)), Trace: trace}
		step.Note(e)
		step.Record(e)
	}
	spans := trace.Spans()
	return trace, spans
}

// The buffer of a watcher that does not read is bounded. The tap counts the sections that do not fit, still counts
// every answer, and serves the other watchers as before.
func TestTapIsBounded(t *testing.T) {
	t.Parallel()
	tap := &Tap{Replica: "2", Steps: &step.Stream{}}
	slow, quick := tap.watch(), tap.watch()
	const n = maxSections + 100
	trace, spans := locked("m")
	answers, rows := int64(0), 0
	for i := range int64(n) {
		left := i
		tap.Done(Answer{Trace: trace, Spans: spans, Number: i, At: api.AnswersWithin * i / 5, Remaining: &left})
		if i%1000 == 999 || i == n-1 {
			e, _ := quick.take()
			for _, a := range e.Answers {
				answers += a.Count
			}
			for _, s := range e.Sections {
				rows += len(s.Rows)
			}
			if e.LeftOut != 0 || len(e.Finished) != maxSample {
				t.Fatalf("the quick one: %d left out, %d with their steps", e.LeftOut, len(e.Finished))
			}
		}
	}
	if answers != n || rows != n*api.SectionRow {
		t.Errorf("the quick one got %d answers and %d numbers of sections, want %d and %d", answers, rows, n,
			n*api.SectionRow)
	}
	e, ok := slow.take()
	if !ok || e.LeftOut != 100 || len(e.Sections) != 1 || len(e.Sections[0].Rows) != maxSections*api.SectionRow ||
		len(e.Finished) != maxSample {
		t.Errorf("the slow one: %d left out, %d with their steps, want 100, %d, and %d sections", e.LeftOut, len(e.Finished),
			maxSample, maxSections)
	}
	answers = 0
	for _, a := range e.Answers {
		answers += a.Count
	}
	if last := e.Answers[len(e.Answers)-1]; answers != n || *last.Remaining != n-1 {
		t.Errorf("the slow one got %d answers, %d left; want %d, %d left", answers, *last.Remaining, n, n-1)
	}
	for i := range int64(maxAnswers) { // of kinds that differ
		tap.Done(Answer{Trace: &step.Trace{Mode: "m", ProductID: i}, Number: i, At: i})
	}
	tap.Done(Answer{Trace: trace, At: 0})
	if e, _ := slow.take(); e.LeftOut != 1 || len(e.Answers) != maxAnswers {
		t.Errorf("the slow one: %d counts, %d left out; want %d and 1", len(e.Answers), e.LeftOut, maxAnswers)
	}
	if _, ok := slow.take(); ok {
		t.Error("a second event, though nothing has been finished")
	}
}

// Answers of one kind within a slice of time are counted together, others apart; each section is kept, by its key.
func TestTapCounts(t *testing.T) {
	t.Parallel()
	tap := &Tap{Replica: "2", Steps: &step.Stream{}}
	w := tap.watch()
	a, spans := locked("a")
	for i, f := range []Answer{
		{Trace: a, Spans: spans, At: 1000}, {Trace: &step.Trace{Mode: "b", ProductID: 7}, At: 1001},
		{Trace: a, Spans: spans, At: 1002, Code: api.SoldOut},
		{Trace: a, Spans: spans, At: 1000 + api.AnswersWithin - 1}, {Trace: a, Spans: spans, At: 1000 + api.AnswersWithin},
		{Trace: a, Spans: spans, At: 999 + api.AnswersWithin, Code: api.SoldOut},
	} {
		f.Number = int64(i)
		tap.Done(f)
	}
	e, _ := w.take()
	var got []string
	for _, x := range e.Answers {
		got = append(got, fmt.Sprintf("%s %s at %d: %d, %d locks, wait %d, longest %d", x.Mode, x.Code, x.At, x.Count,
			x.Locks, x.Wait, x.Longest))
	}
	left := int64(4)
	tap.DoneReservation("r", 7, Answer{Held: true, Remaining: &left})
	tap.DoneReservation("r", 7, Answer{End: ledger.Confirmed})
	if held, _ := w.take(); len(held.Answers) != 2 || !held.Answers[0].Held || *held.Answers[0].Remaining != left ||
		held.Answers[1].Held || held.Answers[1].End != "confirmed" || held.Answers[1].Mode != "r" || len(held.Finished) > 0 {
		t.Errorf("a hold and its payment: %+v, want a count of each", held)
	}
	want := []string{
		"a  at 1000: 2, 2 locks, wait 20, longest 10", "b  at 1001: 1, 0 locks, wait 0, longest 0",
		"a sold_out at 1002: 2, 2 locks, wait 20, longest 10", "a  at 6000: 1, 1 locks, wait 10, longest 10",
	}
	testkit.Same(t, got, want, "counts")
	rows := []int64{0, 0, 10, 2, 0, 10, 3, 0, 10, 4, 0, 10, 5, 0, 10}
	if len(e.Sections) != 1 || e.Sections[0].From != 100 || e.Sections[0].Key != "k" ||
		!slices.Equal(e.Sections[0].Rows, rows) {
		t.Errorf("sections %+v, want five of one key", e.Sections)
	}
	if len(e.Finished) != maxSample || e.Finished[0].Request != "2-0" || len(e.Finished[0].Steps) != 3 {
		t.Errorf("finished: %+v, want the first %d, with three steps", e.Finished, maxSample)
	}
}

// BenchmarkTap is what a deduction under a lock costs a busy replica while a reader watches: 5,000 a second, and ten
// events a second.
func BenchmarkTap(b *testing.B) {
	tap := &Tap{Replica: "2", Steps: &step.Stream{}}
	w := tap.watch()
	trace, spans := locked("m")
	b.ReportAllocs()
	at := int64(0)
	for b.Loop() {
		if at += 200; at%100_000 == 0 {
			e, _ := w.take()
			_, err := json.Marshal(e)
			testkit.Must(b, err)
		}
		tap.Done(Answer{Trace: trace, Spans: spans, Number: at, At: at})
	}
}

func TestSection(t *testing.T) {
	t.Parallel()
	const lock = "k"
	p := func(points ...step.Point) []step.Passed {
		var all []step.Passed
		for i, point := range points {
			key := ""
			if point == step.Waiting || point == step.Acquiring || point == step.Locked || point >= step.Releasing {
				key = lock
			}
			all = append(all, step.Passed{Point: point, Key: key, At: time.UnixMicro(int64(100 + 10*i))})
		}
		return all
	}
	tests := map[string]struct {
		passed     []step.Passed
		begin, end int64 // 0 = none
	}{
		"read, check, write":        {p(step.Read, step.Written, step.Ordered), 100, 110},
		"the same in a transaction": {p(step.Read, step.Written, step.Ordered, step.Committed), 100, 130},
		"refused after the read":    {p(step.Read), 0, 0},
		"one statement":             {p(step.Written, step.Ordered), 0, 0},
		"read again after a rival":  {p(step.Read, step.Read, step.Written), 110, 120},
		"a lock": {p(step.Waiting, step.Locked, step.Read, step.Written, step.Ordered, step.Releasing,
			step.Released), 110, 140},
		"a lock, refused": {p(step.Waiting, step.Locked, step.Read, step.Released), 110, 120},
		"a lock, and commit inside": {p(step.Waiting, step.Locked, step.Read, step.Written, step.Ordered, step.Committed,
			step.Released), 110, 140},
		"a lock, and commit outside": {p(step.Waiting, step.Locked, step.Read, step.Written, step.Ordered, step.Released,
			step.Committed), 110, 160},
		"a lock that was not had": {p(step.Waiting), 0, 0},
		"nothing":                 {nil, 0, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, ok := sectionOf(tt.passed, nil)
			if s.Begin != tt.begin || s.End != tt.end || ok != (tt.end != 0) {
				t.Errorf("section from %d to %d, want %d to %d", s.Begin, s.End, tt.begin, tt.end)
			}
		})
	}
}

// A watcher is told of tickets that have ended: how many now, for how long they were in flight, and of the first few
// when and where they were won. A slow watcher is told how many it was not told of.
func TestTapTellsOfTickets(t *testing.T) {
	t.Parallel()
	tap := &Tap{Replica: "2"}
	b := ledger.TicketBatch{Read: 900, Committed: 950, Ended: 1000, Again: 1}
	for i := range int64(5) {
		b.Tickets = append(b.Tickets, ledger.TicketLife{State: ledger.TicketSold, Deliveries: i, Order: &ledger.Order{
			ID: fmt.Sprint(i), Mode: "m", ProductID: 7, Replica: "1", CreatedMicros: 1000 - 10*(i-1)}})
	}
	w := tap.watch()
	tap.DoneTickets(b)
	e, ok := w.take()
	testkit.Is(t, ok, true, "there is an event")
	testkit.Is(t, len(e.Batches[0].Tickets), maxSample, "tickets")
	e.Batches[0].Tickets = e.Batches[0].Tickets[2:3]
	testkit.Same(t, e.Batches, []api.Batch{{Mode: "m", ProductID: 7, Read: 900, Committed: 950, Ended: 1000, Count: 4,
		Age: (0 + 0 + 10 + 20 + 30) * 4 / 5, Oldest: 30,
		Tickets: []api.TicketLife{{ID: "2", Won: 990, Replica: "1", State: "sold", Deliveries: 2}}}}, "batches")
	for range maxBatches + 2 {
		tap.DoneTickets(b)
	}
	e, _ = w.take()
	testkit.Is(t, len(e.Batches), maxBatches, "batches for a slow watcher")
	testkit.Is(t, e.LeftOut, 8, "tickets left out")
}
