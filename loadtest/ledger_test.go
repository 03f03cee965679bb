package loadtest

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"lastitem/internal/api"
)

// ledgerOf returns the control of a service that answers the n-th question for a ledger by the n-th page.
func ledgerOf(t *testing.T, pages ...any) (*Control, *int) {
	t.Helper()
	asked := new(int)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page := pages[min(*asked, len(pages)-1)]
		*asked++
		if code, is := page.(api.Code); is {
			refuse(w, code, "")
			return
		}
		l := page.(api.Ledger)
		if first := l.Totals != nil; first != (r.URL.Query().Get("cursor") == "") {
			t.Errorf("question %d = %s", *asked, r.URL)
		}
		send(w, l)
	}))
	t.Cleanup(server.Close)
	c, err := NewControl(server.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, asked
}

// pageOf is a page of orders for one unit each, with these numbers; total above 0 makes it a first one.
func pageOf(total int64, next string, numbers ...int) api.Ledger {
	l := api.Ledger{ProductID: 1, NextCursor: next}
	if total > 0 {
		l.Stock, l.Totals = map[api.Store]int64{api.SQL: 7}, map[api.Store]api.Totals{api.SQL: {Orders: total, Units: total}, api.Redis: {}}
	}
	for _, n := range numbers {
		l.Orders = append(l.Orders, api.Order{OrderID: fmt.Sprint(n), Quantity: 1, Store: api.SQL, CreatedAt: time.Unix(int64(n), 0)})
		l.Keys = append(l.Keys, api.KeyRow{Key: fmt.Sprint(n)})
	}
	return l
}

func TestLedgerReadsAllPages(t *testing.T) {
	t.Parallel()
	c, asked := ledgerOf(t, pageOf(5, "a b", 2, 1), pageOf(0, "c", 4, 3), api.RateLimited, pageOf(0, "", 5), pageOf(5, "z", 1))
	l, err := c.Ledger(t.Context(), 1)
	if err != nil || *asked != 5 || l.Moved || len(l.Orders) != 5 || len(l.Keys) != 5 || l.Stock[api.SQL] != 7 || l.NextCursor != "" {
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
	c, asked := ledgerOf(t, pageOf(5, "a", 1, 2), pageOf(0, "", 3, 4, 5, 6), pageOf(5, "a", 1, 2), pageOf(0, "", 3, 4, 5), pageOf(5, "z", 1))
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

// The keys of later pages are younger than the totals if the product is sold meanwhile; a ledger of one page is of one moment.
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
