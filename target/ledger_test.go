package target

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/contract/api"
	"lastitem/testkit"
	"lastitem/testkit/fakeshop"
)

// The pages of a product's tickets are one list, in which each has one row: one that ended between two pages has ended.
func TestTicketsOfAllPages(t *testing.T) {
	t.Parallel()
	pages := map[string]api.TicketBook{
		"": {Front: 3, InFlight: 2, Next: "queued/2", Tickets: []api.TicketEnd{{ID: "2", State: api.TicketQueued},
			{ID: "3", State: api.TicketQueued}}},
		"queued/2": {Next: "sold/1", Tickets: []api.TicketEnd{{ID: "1", State: "sold"}}},
		"sold/1":   {Tickets: []api.TicketEnd{{ID: "2", State: "sold"}}},
	}
	c := &Shop{URL: testkit.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fakeshop.Send(w, pages[r.FormValue("after")])
	})).URL}
	all, err := c.Tickets(t.Context(), 7)
	testkit.Must(t, err)
	testkit.Same(t, all, &api.TicketBook{Front: 3, InFlight: 2, Tickets: []api.TicketEnd{{ID: "1", State: "sold"},
		{ID: "2", State: "sold"}, {ID: "3", State: api.TicketQueued}}}, "tickets")
}

// reading returns a read that takes d, and whose product is how many reads there have been.
func reading(d time.Duration) func(context.Context) (*api.Ledger, error) {
	n := int64(0)
	return func(ctx context.Context) (*api.Ledger, error) {
		n++
		if !rest(ctx, d) {
			return nil, context.Cause(ctx)
		}
		return &api.Ledger{ProductID: n}, nil
	}
}

// A reading that takes longer than the patience is no rest: the next one must show the same.
func TestSlowReadingIsNoRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		left, slow := int64(9), reading(3*time.Second)
		l, rested, err := AtRest(t.Context(), func(ctx context.Context) (*api.Ledger, error) {
			l, err := slow(ctx)
			left = max(left-1, 5)
			l.Stock = map[api.Store]int64{ForeignStore: left}
			return l, err
		}, new(Foreign).Gone, 9, time.Now(), 2*time.Second)
		if err != nil || !rested || l.ProductID != 5 {
			t.Errorf("AtRest() = reading %d, rested %t, %v; want the fifth, the first that shows what the one before did",
				l.ProductID, rested, err)
		}
	})
}

// A read that the deadline cuts off does not replace the one before it, and the result tells whether it is of a time at
// which no unanswered request can change it.
func TestSettleKeepsWhatItHasRead(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		takes, within time.Duration
		quiet         time.Duration // from now; 0 = long ago
		want          int64
		late          bool
	}{
		"the deadline cuts off the second read":       {4 * time.Second, 6 * time.Second, 0, 1, true},
		"the deadline comes before the quiet time":    {4 * time.Second, 6 * time.Second, 20 * time.Second, 1, false},
		"a read that began before the quiet time":     {5 * time.Second, time.Minute, 9 * time.Second, 3, true},
		"a read takes longer than the wait for quiet": {20 * time.Second, time.Minute, 9 * time.Second, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx := testkit.Within(t, tt.within)
				quiet := time.Time{}
				if tt.quiet > 0 {
					quiet = time.Now().Add(tt.quiet)
				}
				got, late, err := Settle(ctx, reading(tt.takes), quiet)
				if err != nil || got.ProductID != tt.want || late != tt.late {
					t.Errorf("Settle() = read %v, late %t, %v, want read %d, late %t", got, late, err, tt.want, tt.late)
				}
			})
		})
	}
}

// ledgerOf returns the shop that answers the n-th question for a ledger by the n-th page.
func ledgerOf(t *testing.T, pages ...any) (*Shop, *int) {
	t.Helper()
	asked := new(int)
	server := testkit.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page := pages[min(*asked, len(pages)-1)]
		*asked++
		if code, is := page.(api.Code); is {
			fakeshop.Refuse(w, code, "")
			return
		}
		l := page.(api.Ledger)
		if first := l.Totals != nil; first != (r.URL.Query().Get("cursor") == "") {
			t.Errorf("question %d = %s", *asked, r.URL)
		}
		fakeshop.Send(w, l)
	}))
	c, err := NewShop(server.URL, "")
	testkit.Must(t, err)
	t.Cleanup(c.Close)
	return c, asked
}

// pageOf is a page of orders for one unit each, with these numbers; total above 0 makes it a first one.
func pageOf(total int64, next string, numbers ...int) api.Ledger {
	l := api.Ledger{ProductID: 1, NextCursor: next}
	if total > 0 {
		l.Stock, l.Totals = map[api.Store]int64{api.SQL: 7}, map[api.Store]api.Totals{api.SQL: {Orders: total, Units: total},
			api.Redis: {}}
	}
	for _, n := range numbers {
		l.Orders = append(l.Orders, api.Order{OrderID: fmt.Sprint(n), Quantity: 1, Store: api.SQL,
			CreatedAt: time.Unix(int64(n), 0)})
		l.Keys = append(l.Keys, api.KeyRow{Key: fmt.Sprint(n)})
	}
	return l
}

func TestLedgerReadsAllPages(t *testing.T) {
	t.Parallel()
	c, asked := ledgerOf(t, pageOf(5, "a b", 2, 1), pageOf(0, "c", 4, 3), api.RateLimited, pageOf(0, "", 5),
		pageOf(5, "z", 1))
	l, err := c.Ledger(t.Context(), 1)
	if err != nil || *asked != 5 || l.Moved || len(l.Orders) != 5 || len(l.Keys) != 5 || l.Stock[api.SQL] != 7 ||
		l.NextCursor != "" {
		t.Fatalf("Ledger() = %+v, %v after %d questions", l, err, *asked)
	}
	for i, o := range l.Orders {
		if o.OrderID != fmt.Sprint(i+1) {
			t.Errorf("order %d is %s, want them by time", i, o.OrderID)
		}
	}
}

// If the rows differ from the totals, the ledger is read again, and finally given up.
func TestLedgerOfTornPages(t *testing.T) {
	t.Parallel()
	c, asked := ledgerOf(t, pageOf(5, "a", 1, 2), pageOf(0, "", 3, 4, 5, 6), pageOf(5, "a", 1, 2), pageOf(0, "", 3, 4, 5),
		pageOf(5, "z", 1))
	if l, err := c.Ledger(t.Context(), 1); err != nil || len(l.Orders) != 5 || *asked != 5 {
		t.Errorf("Ledger() = %+v, %v after %d questions", l, err, *asked)
	}
	c, _ = ledgerOf(t, pageOf(3, "", 1, 2))
	if l, err := c.Ledger(t.Context(), 1); !errors.Is(err, errTorn) {
		t.Errorf("Ledger() = %+v, %v, want errTorn", l, err)
	}
	c, _ = ledgerOf(t, pageOf(3, "a", 1, 2), pageOf(0, "a", 3))
	if l, err := c.Ledger(t.Context(), 1); err == nil {
		t.Errorf("Ledger() of a cursor that leads to itself = %+v", l)
	}
}

// The keys of later pages are younger than the totals if the product is sold meanwhile; a ledger of one page is of one
// moment.
func TestLedgerSaysThatItMoved(t *testing.T) {
	t.Parallel()
	sold := pageOf(4, "z", 1)
	for name, c := range map[string]struct {
		pages []any
		want  bool
	}{
		"at rest": {[]any{pageOf(3, "a", 1, 2), pageOf(0, "", 3), pageOf(3, "z", 1)}, false},
		"sold":    {[]any{pageOf(3, "a", 1, 2), pageOf(0, "", 3), sold}, true},
		"a page":  {[]any{pageOf(3, "", 1, 2, 3), sold}, false},
	} {
		control, _ := ledgerOf(t, c.pages...)
		if l, err := control.Ledger(t.Context(), 1); err != nil || l.Moved != c.want {
			t.Errorf("%s: Ledger() = %+v, %v, want Moved %t", name, l, err, c.want)
		}
	}
}
