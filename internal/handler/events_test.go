package handler

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lastitem/internal/api"
	"lastitem/internal/step"
	"lastitem/internal/stock"
)

// withEvents serves a shop whose deductions read, write and order, under a lock unless the mode is unsafe.
func withEvents(t *testing.T) (*Handler, *httptest.Server) {
	t.Helper()
	steps := &step.Stream{}
	shop := &fakeShop{deduct: func(ctx context.Context, mode string, r stock.Request) (stock.Receipt, error) {
		points := []step.Point{step.Read, step.Written, step.Ordered}
		if mode != "unsafe" {
			points = []step.Point{step.Waiting, step.Locked, step.Read, step.Written, step.Ordered, step.Releasing, step.Released}
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
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	t.Cleanup(h.Drain) // ends the streams, for which Close waits
	return h, s
}

// watchEvents opens GET /events, and returns what reads the next finished deduction.
func watchEvents(t *testing.T, s *httptest.Server) func() api.Finished {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+adminToken)
	res, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	if got := res.Header.Get("Content-Type"); res.StatusCode != http.StatusOK || got != "text/event-stream" {
		t.Fatalf("GET /events = %d, %s", res.StatusCode, got)
	}
	lines := bufio.NewScanner(res.Body)
	if !lines.Scan() { // the stream is open, and the tap watches
		t.Fatal(lines.Err())
	}
	var waiting []api.Finished
	return func() api.Finished {
		t.Helper()
		for len(waiting) == 0 && lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				var e api.Events
				if err := json.Unmarshal([]byte(data), &e); err != nil || e.Replica != "2" {
					t.Fatalf("event %s: %v", data, err)
				}
				waiting = e.Finished
			}
		}
		if len(waiting) == 0 {
			t.Fatalf("the stream ended: %v", lines.Err())
		}
		f := waiting[0]
		waiting = waiting[1:]
		return f
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	_, s := withEvents(t)
	next := watchEvents(t, s)
	before := time.Now().UnixMicro()
	for _, path := range []string{"/deduct_stock/unsafe?product_id=7", "/deduct_stock/lua-lock?product_id=7&quantity=2"} {
		res, err := s.Client().Post(s.URL+path, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
	}
	f := next()
	if f.Mode != "unsafe" || f.ProductID != 7 || f.Code != "" || f.Remaining == nil || *f.Remaining != 4 || f.At < before || !strings.HasPrefix(f.Request, "2-") {
		t.Errorf("first = %+v, want an accepted one of unsafe, product 7, 4 left", f)
	}
	if f.Section == nil || f.Section.Key != "" || f.Section.Begin < before || f.Section.End < f.Section.Begin || len(f.Steps) != 3 || f.Steps[1].Point != "written" {
		t.Errorf("first = %+v with section %+v, want one from the read to the write, and three steps", f, f.Section)
	}
	f = next()
	if f.Mode != "lua-lock" || f.Code != api.SoldOut || f.Section == nil || f.Section.Key != "lock" || len(f.Steps) != 7 {
		t.Errorf("second = %+v with section %+v, want one of lua-lock, sold out, under a lock", f, f.Section)
	}
}

func TestEventsAreOffUnlessSwitchedOn(t *testing.T) {
	t.Parallel()
	if a := ask(t, newHandler(t, &fakeShop{}), "GET", "/events", "", "Authorization", "Bearer "+adminToken); a.StatusCode != http.StatusNotFound {
		t.Errorf("GET /events = %d, want 404", a.StatusCode)
	}
	h := newHandler(t, &fakeShop{}, func(o *Options) { o.Events = true })
	for _, headers := range [][]string{nil, {"Authorization", "Bearer x"}} {
		r := httptest.NewRequest(http.MethodGet, "/events", nil)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusUnauthorized {
			t.Errorf("GET /events with %v = %d, want 401", headers, w.Code)
		}
	}
	h = newHandler(t, &fakeShop{}, func(o *Options) { o.Events, o.AdminToken = true, "" })
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/events", nil))
	if w.Code != http.StatusUnauthorized {
		t.Errorf("GET /events of a replica without a token = %d, want 401", w.Code)
	}
}

// With nobody watching a trace keeps no steps, and the last who leaves ends the keeping.
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

// A watcher that does not read keeps a bounded buffer, and what is beyond it is counted. Others are not touched.
func TestTapIsBounded(t *testing.T) {
	t.Parallel()
	tap := &tap{steps: &step.Stream{}}
	slow, quick := tap.watch(), tap.watch()
	const n = maxWaiting + 100
	got := 0
	for i := range n {
		tap.done(&step.Trace{Request: fmt.Sprint(i)}, 1, "", nil)
		if i%1000 == 0 {
			finished, _ := quick.take()
			got += len(finished)
		}
	}
	finished, left := quick.take()
	if got += len(finished); got != n || left != 0 {
		t.Errorf("the quick one got %d of %d, %d left out", got, n, left)
	}
	if finished, left := slow.take(); len(finished) != maxWaiting || left != 100 || finished[maxStepped].Steps != nil {
		t.Errorf("the slow one got %d, %d left out; want %d, 100, the later ones without steps", len(finished), left, maxWaiting)
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
		"read, check, write":         {p(step.Read, step.Written, step.Ordered), 100, 110},
		"the same in a transaction":  {p(step.Read, step.Written, step.Ordered, step.Committed), 100, 130},
		"refused after the read":     {p(step.Read), 0, 0},
		"one statement":              {p(step.Written, step.Ordered), 0, 0},
		"read again after a rival":   {p(step.Read, step.Read, step.Written), 110, 120},
		"a lock":                     {p(step.Waiting, step.Locked, step.Read, step.Written, step.Ordered, step.Releasing, step.Released), 110, 140},
		"a lock, refused":            {p(step.Waiting, step.Locked, step.Read, step.Released), 110, 120},
		"a lock, and commit inside":  {p(step.Waiting, step.Locked, step.Read, step.Written, step.Ordered, step.Committed, step.Released), 110, 140},
		"a lock, and commit outside": {p(step.Waiting, step.Locked, step.Read, step.Written, step.Ordered, step.Released, step.Committed), 110, 160},
		"a lock that was not had":    {p(step.Waiting), 0, 0},
		"nothing":                    {nil, 0, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sectionOf(tt.passed, nil)
			if s == nil {
				s = &api.Section{}
			}
			if s.Begin != tt.begin || s.End != tt.end {
				t.Errorf("section from %d to %d, want %d to %d", s.Begin, s.End, tt.begin, tt.end)
			}
		})
	}
}
