package handler

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
	"lastitem/internal/step"
	"lastitem/internal/stock"
	"lastitem/testkit"
)

// withEvents serves a shop whose deductions read, write and order, under a lock unless the mode is unsafe.
func withEvents(t *testing.T) (*Handler, *httptest.Server) {
	t.Helper()
	steps := &step.Stream{}
	shop := &fakeShop{deduct: func(ctx context.Context, mode string, r stock.Request) (stock.Receipt, error) {
		points := []step.Point{step.Read, step.Written, step.Ordered}
		if mode != "unsafe" {
			points = []step.Point{step.Waiting, step.Locked, step.Read, step.Written, step.Ordered, step.Releasing,
				step.Released}
		}
		for _, p := range points {
			key := ""
			if p == step.Waiting || p == step.Locked || p >= step.Releasing {
				key = "lock"
			}
			steps.At(ctx, p, key)
		}
		if r.Items[0].Quantity > 1 {
			return stock.Receipt{}, stock.ErrSoldOut
		}
		left := int64(4)
		return stock.Receipt{OrderID: "o", Remaining: &left}, nil
	}}
	h := newHandler(t, shop, func(o *Options) { o.Steps, o.Events = steps, true })
	s := testkit.Serve(t, h)
	t.Cleanup(h.Drain) // ends the streams, for which Close waits
	return h, s
}

// watchEvents opens GET /events, and returns a function that reads the next event.
func watchEvents(t *testing.T, s *httptest.Server) func() api.Events {
	t.Helper()
	ctx := testkit.Within(t, time.Minute)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/events", nil)
	testkit.Must(t, err)
	req.Header.Set("Authorization", "Bearer "+adminToken)
	res, err := s.Client().Do(req)
	testkit.Must(t, err)
	t.Cleanup(func() { res.Body.Close() })
	if got := res.Header.Get("Content-Type"); res.StatusCode != http.StatusOK || got != "text/event-stream" {
		t.Fatalf("GET /events = %d, %s", res.StatusCode, got)
	}
	lines := bufio.NewScanner(res.Body)
	if !lines.Scan() { // the stream is open, and the tap watches
		t.Fatal(lines.Err())
	}
	return func() (e api.Events) {
		t.Helper()
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				if err := json.Unmarshal([]byte(data), &e); err != nil || e.Replica != "2" {
					t.Fatalf("event %s: %v", data, err)
				}
				return e
			}
		}
		t.Fatalf("the stream ended: %v", lines.Err())
		return e
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	_, s := withEvents(t)
	next := watchEvents(t, s)
	before := time.Now().UnixMicro()
	var all []api.Finished
	sum := map[api.Code]api.Answers{}
	for _, path := range []string{"/deduct_stock/unsafe?product_id=7", "/deduct_stock/lua-lock?product_id=7&quantity=2"} {
		res, err := s.Client().Post(s.URL+path, "", nil)
		testkit.Must(t, err)
		res.Body.Close()
		e := next()
		all = append(all, e.Finished...)
		if len(e.Finished) != 1 || len(e.Sections) != 1 || len(e.Sections[0].Rows) != api.SectionRow {
			t.Fatalf("event %+v, want one deduction with its section", e)
		}
		for _, a := range e.Answers {
			sum[a.Code] = a
		}
		if x := e.Sections[0]; x.ProductID != 7 || x.From < before || x.Rows[1] != 0 || x.Rows[2] < 0 ||
			api.RequestName("2", x.Rows[0]) != e.Finished[0].Request {
			t.Errorf("section %+v, want that of %s", x, e.Finished[0].Request)
		}
	}
	if a := sum[""]; a.Count != 1 || a.Mode != "unsafe" || a.Remaining == nil || *a.Remaining != 4 || a.Locks != 0 ||
		a.At < before {
		t.Errorf("accepted: %+v, want one of unsafe with 4 left and no lock", a)
	}
	if a := sum[api.SoldOut]; a.Count != 1 || a.Mode != "lua-lock" || a.Locks != 1 {
		t.Errorf("refused: %+v, want one of lua-lock under a lock", a)
	}
	f := all[0]
	if f.Mode != "unsafe" || f.ProductID != 7 || f.Code != "" || f.Remaining == nil || *f.Remaining != 4 ||
		f.At < before || !strings.HasPrefix(f.Request, "2-") {
		t.Errorf("first = %+v, want an accepted one of unsafe, product 7, 4 left", f)
	}
	if f.Section == nil || f.Section.Key != "" || f.Section.Begin < before || f.Section.End < f.Section.Begin ||
		len(f.Steps) != 3 || f.Steps[1].Point != "written" {
		t.Errorf("first = %+v with section %+v, want one from the read to the write, and three steps", f, f.Section)
	}
	f = all[1]
	if f.Mode != "lua-lock" || f.Code != api.SoldOut || f.Section == nil || f.Section.Key != "lock" || len(f.Steps) != 7 {
		t.Errorf("second = %+v with section %+v, want one of lua-lock, sold out, under a lock", f, f.Section)
	}
}

func TestEventsAreOffUnlessSwitchedOn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		on           bool
		token, given string
		want         int
	}{{false, adminToken, adminToken, 404}, {true, adminToken, "", 401}, {true, adminToken, "x", 401},
		{true, "", "", 401}} {
		h := newHandler(t, &fakeShop{}, func(o *Options) { o.Events, o.AdminToken = c.on, c.token })
		if a := ask(t, h, "GET", "/events", "", "Authorization", "Bearer "+c.given); a.StatusCode != c.want {
			t.Errorf("GET /events with %+v = %d", c, a.StatusCode)
		}
	}
}

// With nobody watching a trace keeps no steps, and when the last watcher leaves, it keeps none any more.
func TestTapKeepsNothingForNobody(t *testing.T) {
	t.Parallel()
	steps := &step.Stream{}
	tap := &tap{steps: steps}
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
	tap := &tap{replica: "2", steps: &step.Stream{}}
	slow, quick := tap.watch(), tap.watch()
	const n = maxSections + 100
	trace, spans := locked("m")
	answers, rows := int64(0), 0
	for i := range int64(n) {
		left := i
		tap.done(finished{trace: trace, spans: spans, number: i, at: api.AnswersWithin * i / 5, remaining: &left})
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
		tap.done(finished{trace: &step.Trace{Mode: "m", ProductID: i}, number: i, at: i})
	}
	tap.done(finished{trace: trace, at: 0})
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
	tap := &tap{replica: "2", steps: &step.Stream{}}
	w := tap.watch()
	a, spans := locked("a")
	for i, f := range []finished{
		{trace: a, spans: spans, at: 1000}, {trace: &step.Trace{Mode: "b", ProductID: 7}, at: 1001},
		{trace: a, spans: spans, at: 1002, code: api.SoldOut},
		{trace: a, spans: spans, at: 1000 + api.AnswersWithin - 1}, {trace: a, spans: spans, at: 1000 + api.AnswersWithin},
		{trace: a, spans: spans, at: 999 + api.AnswersWithin, code: api.SoldOut},
	} {
		f.number = int64(i)
		tap.done(f)
	}
	e, _ := w.take()
	var got []string
	for _, x := range e.Answers {
		got = append(got, fmt.Sprintf("%s %s at %d: %d, %d locks, wait %d, longest %d", x.Mode, x.Code, x.At, x.Count,
			x.Locks, x.Wait, x.Longest))
	}
	left := int64(4)
	tap.doneHold("r", 7, finished{held: true, remaining: &left})
	tap.doneHold("r", 7, finished{end: ledger.Confirmed})
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
	tap := &tap{replica: "2", steps: &step.Stream{}}
	w := tap.watch()
	trace, spans := locked("m")
	b.ReportAllocs()
	at := int64(0)
	for b.Loop() {
		if at += 200; at%100_000 == 0 {
			e, _ := w.take()
			_, err := encode(e)
			testkit.Must(b, err)
		}
		tap.done(finished{trace: trace, spans: spans, number: at, at: at})
	}
}

func TestTooManyWatchers(t *testing.T) {
	t.Parallel()
	h, s := withEvents(t)
	for range maxWatchers {
		watchEvents(t, s)
	}
	r := httptest.NewRequest(http.MethodGet, "/events", nil)
	r.Header.Set("Authorization", "Bearer "+adminToken)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusTooManyRequests {
		t.Errorf("one more watcher = %d, want 429", w.Code)
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
