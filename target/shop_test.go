package target

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/testkit"
	"lastitem/testkit/fakeshop"
)

// opened is the client of a shop.
func opened(t *testing.T, s *fakeshop.Shop, token string) *Shop {
	t.Helper()
	c, err := NewShop(s.Start(t)+"/", token)
	testkit.Must(t, err)
	t.Cleanup(c.Close)
	return c
}

func TestShop(t *testing.T) {
	t.Parallel()
	c := opened(t, &fakeshop.Shop{Modes: []api.Mode{{Name: "a"}, {Name: "b"}}}, fakeshop.Token)
	ctx := t.Context()
	modes, err := c.Modes(ctx)
	if err != nil || len(modes) != 2 || modes[1].Name != "b" {
		t.Errorf("Modes() = %+v, %v, want a and b", modes, err)
	}
	if err := c.get(ctx, "/modes/none", nil); err == nil || !strings.Contains(err.Error(),
		"404 unknown_mode: no such mode") {
		t.Errorf("get(none) = %v, want the problem's code and detail", err)
	}
	testkit.Must(t, c.SetStock(ctx, 5, api.SetStock{Stock: 70, Segments: 7}))
	if p, err := c.Product(ctx, 5); err != nil || p.Stock[api.Redis] != 70 {
		t.Errorf("Product(5) = %+v, %v, want 70 in redis", p, err)
	}
	if l, err := c.Ledger(ctx, 5); err != nil || l.Initial[api.Redis] != 70 {
		t.Errorf("Ledger(5) = %+v, %v, want 70 at first", l, err)
	}
	if l, err := c.Ledger(ctx, 6); err == nil || l != nil {
		t.Errorf("Ledger(6) = %+v, %v, want nil and an error", l, err)
	}
}

// An answer is read up to a bound, and so is a ledger of many pages.
func TestShopReadsNoEndlessAnswer(t *testing.T) {
	t.Parallel()
	var pages atomic.Int64
	server := testkit.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := pages.Add(1); strings.HasSuffix(r.URL.Path, "/ledger") && n < 200 {
			fmt.Fprintf(w, `{"orders":[],"next_cursor":"%d"}`, n)
			return
		}
		blanks := bytes.Repeat([]byte(" "), 1<<20)
		for range maxAnswer>>20 + 1 { // not for ever: if it is read, then to this end
			_, _ = w.Write(blanks)
		}
	}))
	c, err := NewShop(server.URL, fakeshop.Token)
	testkit.Must(t, err)
	c.maxRows = 100
	_, byGet := c.Modes(t.Context())
	byPut := c.SetStock(t.Context(), 101, api.SetStock{Stock: 1})
	_, ledger := c.Ledger(t.Context(), 101)
	for want, got := range map[string]error{"/modes: the answer has more than 64 MiB": byGet,
		"/stock: the answer has more than 64 MiB": byPut, "more than 100 rows": ledger} {
		if got == nil || !strings.Contains(got.Error(), want) {
			t.Errorf("an answer without an end: %v, want %q", got, want)
		}
	}
}

func TestShopSaysWhatToDo(t *testing.T) {
	t.Parallel()
	shop := &fakeshop.Shop{}
	address := shop.Start(t)
	for token, want := range map[string]string{
		"": "set SHOP_ADMIN_TOKEN or --token", "guess": "the one in SHOP_ADMIN_TOKEN or --token is another",
	} {
		stranger, err := NewShop(address, token)
		testkit.Must(t, err)
		t.Cleanup(stranger.Close)
		err = stranger.SetStock(t.Context(), 1, api.SetStock{Stock: 1})
		if !errors.Is(err, ErrUnauthorized) || !strings.Contains(err.Error(), want) {
			t.Errorf("SetStock() with token %q = %v, want ErrUnauthorized that says %q", token, err, want)
		}
	}
	html := testkit.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "<html>", http.StatusNotFound)
	}))
	other, err := NewShop(html.URL, "")
	testkit.Must(t, err)
	t.Cleanup(other.Close)
	if _, err := other.Modes(t.Context()); err == nil || !strings.Contains(err.Error(), "is that address lastitem's?") {
		t.Errorf("Modes() of another service = %v, want a doubt about the address", err)
	}
	for _, bad := range []string{"", "localhost:8080", "ftp://x", "http://"} {
		if _, err := NewShop(bad, ""); err == nil {
			t.Errorf("NewShop(%q) = nil error, want one", bad)
		}
	}
}

// transport answers requests without a network.
type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// answering is a shop whose requests get these answers, by the seconds since the first and the number of the
// request: a code, a book, or the JSON of one.
func answering(t *testing.T, answer func(at float64, n int, r *http.Request) any) *Shop {
	t.Helper()
	c, err := NewShop("http://shop", "")
	testkit.Must(t, err)
	began, n := time.Now(), 0
	c.Client.Transport = transport(func(r *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		switch said := answer(time.Since(began).Seconds(), n, r).(type) {
		case api.Code:
			fakeshop.Refuse(w, said, "")
		case string:
			_, _ = w.WriteString(said)
		default:
			fakeshop.Send(w, said)
		}
		n++
		return w.Result(), nil
	})
	return c
}

// Reservations are read again until a sweep must have been, for as long as it ends some, and while they change. Orders
// without a reservation count.
func TestReservationsAreReadAtRest(t *testing.T) {
	t.Parallel()
	book := func(overdue int64, since, sweep float64) any { // the oldest overdue reservation, and the sweeps, in seconds
		now := time.Now().UnixMicro()
		b := api.Reservations{AsOfMicros: now, Held: overdue, Overdue: overdue, SweepMS: int64(1000 * sweep)}
		if overdue > 0 {
			b.Rows = []api.ReservationRow{{State: "held", Quantity: overdue, ExpiresMicros: now - int64(1e6*since)}}
		}
		return b
	}
	for _, tt := range []struct {
		name        string
		answer      func(at float64, n int) any
		least, most int64 // seconds
		overdue     int64 // -1 = none, but an error
	}{
		{"at rest", func(float64, int) any { return book(0, 0, 1) }, 0, 0, 0},
		{"swept", func(at float64, _ int) any { return book(max(0, 3-int64(at)), at, 1) }, 3, 4, 0},
		{"lost", func(at float64, _ int) any { return book(2, at, 1) }, 3, 4, 2},
		{"not swept in time for the sweeps", func(at float64, _ int) any { return book(2, at, 20) }, 32, 33, 2},
		{"one replica does not sweep", func(at float64, n int) any { return book(2, at, float64(n%2)*20) }, 32, 33, 2},
		{"swept for two minutes", func(at float64, _ int) any { return book(max(0, 60-int64(at/2)), at, 1) }, 119, 121, 0},
		{"as many fall due as are swept", func(float64, int) any { return book(2, 0.5, 1) }, 30, 31, -1},
		{"refused twice", func(_ float64, n int) any {
			if n < 2 {
				return api.BackendUnavailable
			}
			return book(0, 0, 1)
		}, 0, 1, 0},
		{"refused", func(float64, int) any { return api.BackendUnavailable }, 30, 31, -1},
		{"refused for good", func(float64, int) any { return api.UnknownProduct }, 0, 0, -1},
		{"sold without", func(float64, int) any { return api.Reservations{Ordered: 3, Stock: 4, Initial: 7} }, 0, 1, 0},
		{"being sold without", func(_ float64, n int) any { return api.Reservations{Ordered: int64(n + 1)} }, 30, 31, -1},
		{"sold without, and limited", func(float64, int) any { return api.Reservations{Ordered: 3, PerBuyer: 1} }, 0, 1, -1},
		{"held, and not counted", func(at float64, _ int) any {
			b := book(2, at+1, 1).(api.Reservations)
			b.Held, b.Overdue = 0, 0
			return b
		}, 0, 1, 2},
		{"held by no row", func(float64, int) any { return api.Reservations{Held: 3} }, 0, 1, -1},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			c := answering(t, func(at float64, n int, _ *http.Request) any { return tt.answer(at, n) })
			got, err := c.Reservations(t.Context(), 101, api.SQL)
			switch took := time.Since(began).Milliseconds(); {
			case took < 1000*tt.least || took > 1000*tt.most:
				t.Errorf("%s: %d ms, want %d to %d s", tt.name, took, tt.least, tt.most)
			case (err == nil) != (tt.overdue >= 0):
				t.Errorf("%s: %+v, %v, want %d overdue", tt.name, got, err, tt.overdue)
			case err == nil:
				if held, _, _ := got.Count(); held != tt.overdue {
					t.Errorf("%s: %+v, want %d overdue", tt.name, got, tt.overdue)
				}
				if r := judge.Reservations(got, nil, "en"); (r.Found != "") != (tt.overdue > 0) || r.Sold != got.Ordered {
					t.Errorf("%s: %+v, want L only of what is overdue", tt.name, r)
				}
			}
		})
	}
}

// After a full page, the last page may have no rows; one that has none and names another is refused.
func TestReservationsOfFullPages(t *testing.T) {
	t.Parallel()
	for last, want := range map[string]bool{`{"reservations":[]}`: true, `{"reservations":[],"next_cursor":"b"}`: false} {
		c := answering(t, func(_ float64, _ int, r *http.Request) any {
			if r.URL.Query().Get("cursor") != "" {
				return last
			}
			return `{"held":1,"reservations":[{"reservation_id":"a","state":"held","quantity":1}],"next_cursor":"a"}`
		})
		if book, err := c.Reservations(t.Context(), 101, api.SQL); (err == nil && len(book.Rows) == 1) != want {
			t.Errorf("the last page is %s: %+v, %v, want it read: %t", last, book, err, want)
		}
	}
}
