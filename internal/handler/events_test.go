package handler

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lastitem/contract/api"
	"lastitem/internal/handler/events"
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

func TestTooManyWatchers(t *testing.T) {
	t.Parallel()
	h, s := withEvents(t)
	for range events.MaxWatchers {
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
