package handler

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"lastitem/internal/api"
	"lastitem/internal/shop"
	"lastitem/internal/stock"
)

// paged is a shop with three pages, the second of which begins where the first one says.
func paged(t *testing.T) *fakeShop {
	return &fakeShop{page: func(p shop.Page) (shop.Ledger, error) {
		l, _ := soldOnce(101)
		at := p.After[stock.SQL]
		switch {
		case p.After == nil:
			at.Order = "first"
			l.Next = shop.Cursor{stock.SQL: at}
		case at.Order == "first":
			at.Order = "second"
			l.Next = shop.Cursor{stock.SQL: at}
		case at.Order != "second":
			t.Errorf("page after %+v", p.After)
		}
		return l, nil
	}}
}

func TestPages(t *testing.T) {
	t.Parallel()
	h := newHandler(t, paged(t))
	for _, path := range []string{"/products/101/ledger", "/products/101/orders"} {
		cursor, pages := "", 0
		for {
			var page api.Ledger // an api.Orders has fewer fields of the same names
			a := ask(t, h, "GET", path+"?limit=7"+cursor, "")
			decode(t, a.body, &page)
			first := page.Initial != nil && page.Stock != nil && page.Totals != nil && !page.AsOf.IsZero()
			rest := page.Initial == nil && page.Stock == nil && page.Totals == nil && page.AsOf.IsZero()
			if pages == 0 && !first || pages > 0 && !rest || len(page.Orders) != 2 {
				t.Errorf("page %d of %s = %s", pages, path, a.body)
			}
			if pages++; page.NextCursor == "" || pages > 3 {
				break
			}
			cursor = "&cursor=" + url.QueryEscape(page.NextCursor)
		}
		if pages != 3 {
			t.Errorf("%s has %d pages, want 3", path, pages)
		}
	}
}

func TestPageRefusesItsQuery(t *testing.T) {
	t.Parallel()
	h := newHandler(t, paged(t))
	code := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	for query, field := range map[string]string{
		"limit=0": "limit", "limit=1001": "limit", "limit=-1": "limit", "limit=": "limit", "limit=1.0": "limit", "limit=x": "limit",
		"limit=1&limit=1": "limit", "Limit=1": "Limit", "cursor=": "cursor", "cursor=a&cursor=a": "cursor", "cursor=%21": "cursor",
		"cursor=AAAA":                                                  "cursor",
		"cursor=" + code(`{}`):                                         "cursor",
		"cursor=" + code(`{"p":101,"at":{}}`):                          "cursor",
		"cursor=" + code(`{"p":101,"at":null}`):                        "cursor",
		"cursor=" + code(`{"p":102,"at":{"sql":{"o":"first"}}}`):       "cursor",
		"cursor=" + code(`{"p":101,"at":{"sql":{"o":"first","z":1}}}`): "cursor",
		"cursor=" + code(`{"p":101,"at":{"sql":{"o":"first"}}}{}`):     "cursor",
		"cursor=" + code(`{"p":101,"at":{"sql":{"o":1}}}`):             "cursor",
		"cursor=" + strings.Repeat("A", maxCursor+1):                   "cursor",
	} {
		for _, path := range []string{"/products/101/ledger", "/products/101/orders"} {
			a := ask(t, h, "GET", path+"?"+query, "")
			if p := problem(t, a); a.StatusCode != http.StatusBadRequest || p.Code != api.InvalidRequest || p.Field != field {
				t.Errorf("%s?%s = %d %s, want it to refuse %s", path, query, a.StatusCode, a.body, field)
			}
		}
	}
}

// A read beyond the limit is told to come again, and nothing is read for it; when a read ends, the next one may begin.
func TestReadsAreBounded(t *testing.T) {
	t.Parallel()
	h := newHandler(t, &fakeShop{})
	h.pages, h.audits, h.scrapes = newGate(1, time.Millisecond), newGate(1, time.Millisecond), newGate(1, 0)
	for path, g := range map[string]gate{
		"/products/101/ledger": h.pages, "/products/101/orders": h.pages, "/products/101/audit": h.audits, "/metrics": h.scrapes,
	} {
		if err := g.enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		a := ask(t, h, "GET", path, "")
		if p := problem(t, a); a.StatusCode != http.StatusTooManyRequests || p.Code != api.RateLimited || p.Happened != api.NoForNow || a.Header.Get("Retry-After") == "" {
			t.Errorf("%s beyond the bound = %d %s", path, a.StatusCode, a.body)
		}
		g.leave()
		for range 3 {
			if a := ask(t, h, "GET", path, ""); a.StatusCode != http.StatusOK {
				t.Errorf("%s after that = %d %s", path, a.StatusCode, a.body)
			}
		}
	}
}

func TestReadsMayBeProtected(t *testing.T) {
	t.Parallel()
	paths := []string{"/products/101/orders", "/products/101/ledger", "/products/101/audit", "/metrics"}
	open := newHandler(t, &fakeShop{})
	shut := newHandler(t, &fakeShop{}, func(o *Options) { o.ProtectReads = true })
	for _, path := range paths {
		if a := ask(t, open, "GET", path, ""); a.StatusCode != http.StatusOK {
			t.Errorf("GET %s = %d %s, want it open by default", path, a.StatusCode, a.body)
		}
		for _, method := range []string{"GET", "HEAD"} {
			if a := ask(t, shut, method, path, ""); a.StatusCode != http.StatusUnauthorized || a.Header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s %s without the token = %d %s", method, path, a.StatusCode, a.body)
			}
			if a := ask(t, shut, method, path, "", "Authorization", "Bearer "+adminToken); a.StatusCode != http.StatusOK {
				t.Errorf("%s %s with the token = %d %s", method, path, a.StatusCode, a.body)
			}
		}
	}
	for _, path := range []string{"/products/101", "/modes", "/readyz", "/openapi.json"} {
		if a := ask(t, shut, "GET", path, ""); a.StatusCode != http.StatusOK {
			t.Errorf("GET %s = %d %s, want it open", path, a.StatusCode, a.body)
		}
	}
}
