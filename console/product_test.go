package console

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"lastitem/testkit"
)

// serveShop starts the console of a shop.
func serveShop(t *testing.T, shop http.HandlerFunc) *httptest.Server {
	t.Helper()
	c := New(Options{Token: token, URL: testkit.Serve(t, shop).URL}, &fakeDriver{})
	t.Cleanup(c.Close)
	return testkit.Serve(t, c)
}

// Whoever has the token sees all pages of a product, the newest rows first, and finds them by all words of a search;
// the others see what the shop tells without it.
func TestProductIsShown(t *testing.T) {
	t.Parallel()
	s := serveShop(t, func(w http.ResponseWriter, r *http.Request) {
		with, at := r.Header.Get("Authorization") == "Bearer "+token, r.URL.String()
		body := map[string]string{
			"/products/7/ledger?limit=1000": `{"product_id":7,"initial":{"sql":9},"keys":[{"key":"k1"}],"next_cursor":"a b",` +
				`"orders":[{"order_id":"old","mode":"m","created_at":"2026-01-01T00:00:00Z"}]}`,
			"/products/7/ledger?limit=1000&cursor=a+b": `{"orders":[{"order_id":"new","created_at":"2026-01-02T00:00:00Z"}],` +
				`"keys":[]}`,
			"/products/7/reservations?store=sql": `{"product_id":7,"store":"sql","reservations":[` +
				`{"reservation_id":"r1","buyer":"Ann","state":"held"},{"reservation_id":"r2","buyer":"ann","changed_us":2}]}`,
			"/products/7/orders?limit=1000": `{"product_id":7,"initial":{"sql":9},"orders":[{"order_id":"old"}]}`,
		}[at]
		switch {
		case with == strings.Contains(at, "orders?"):
			w.WriteHeader(http.StatusUnauthorized)
		case body == "":
			w.WriteHeader(http.StatusNotFound)
			body = `{"code":"unknown_product"}`
		}
		_, _ = io.WriteString(w, body)
	})
	shown := regexp.MustCompile(`\b(old|new|r1|r2|k1)\b|"found":[^}]*`)
	for _, tt := range []struct {
		path    string
		headers []string
		want    string
	}{
		{"7", bearer, `200 new old k1 r2 r1 "found":[2,2,1],"more":false,"acts":true`},
		{"7?q=ANN+held", bearer, `200 r1 "found":[1,0,0],"more":false,"acts":true`},
		{"7?q=old", nil, `200 old "found":[0,1,0],"more":false,"acts":false`},
		{"8", bearer, `404 `},
		{"x", nil, `400 `},
	} {
		status, body, _ := ask(t, s, "GET", "/console/api/products/"+tt.path, "", tt.headers...)
		testkit.Is(t, fmt.Sprint(status, " ", strings.Join(shown.FindAllString(body, -1), " ")), tt.want, "%s", tt.path)
	}
}

// An act is one request of the contract, with its key, and with the token only where the contract wants it. An answer
// that is lost or says nothing is unknown.
func TestActs(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 9) // a request with a key may be sent again
	s := serveShop(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked <- strings.TrimSpace(fmt.Sprintf("%s %s %s %s", r.URL.EscapedPath(), r.Header.Get("Idempotency-Key"), body,
			r.Header.Get("Authorization")))
		switch r.URL.Path {
		case "/reserve_stock/m":
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, `{"reservation_id":"r"}`)
		case "/reservations/r/confirm":
			w.WriteHeader(http.StatusGone)
			_, _ = io.WriteString(w, `{"code":"reservation_expired","happened":"no","refund":true}`)
		case "/reservations/r/cancel":
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, `<html>`)
		case "/products/7/orders/o/1/return":
			w.Header().Set("Idempotent-Replayed", "true")
			_, _ = io.WriteString(w, `{"quantity":1}`)
		case "/products/7/reconcile":
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"code":"reconcile_refused","happened":"no"}`)
		default:
			panic(http.ErrAbortHandler)
		}
	})
	for _, tt := range []struct{ act, asked, done string }{
		{`{"do":"hold","of":"m","key":"k","with":{"quantity":2}}`, `/reserve_stock/m k {"quantity":2}`,
			`{"happened":"","said":{"reservation_id":"r"}}`},
		{`{"do":"confirm","of":"r","key":"p"}`, `/reservations/r/confirm p`,
			`{"happened":"no","said":{"code":"reservation_expired","happened":"no","refund":true}}`},
		{`{"do":"cancel","of":"r"}`, `/reservations/r/cancel`, `{"happened":"unknown","lost":"502 Bad Gateway"}`},
		{`{"do":"return","of":"o/1","with":{"restock":true}}`,
			`/products/7/orders/o%2F1/return  {"restock":true} Bearer ` + token,
			`{"happened":"","replayed":true,"said":{"quantity":1}}`},
		{`{"do":"look","key":"l"}`, `/products/7/reconcile l  Bearer ` + token,
			`{"happened":"no","said":{"code":"reconcile_refused","happened":"no"}}`},
		{`{"do":"adjust","key":"a","with":{"delta":1}}`, `/products/7/adjust a {"delta":1} Bearer ` + token,
			`{"happened":"unknown","lost":`},
	} {
		_, body, _ := ask(t, s, "POST", "/console/api/products/7/acts", tt.act, asJSON...)
		testkit.Is(t, <-asked, tt.asked, "%s asks the shop", tt.act)
		if !strings.HasPrefix(body, tt.done) {
			t.Errorf("%s = %s, want %s", tt.act, body, tt.done)
		}
	}
	for act, want := range map[string]int{`{"do":"set"}`: 404, `{"do":"hold","url":"x"}`: 400} {
		status, _, _ := ask(t, s, "POST", "/console/api/products/7/acts", act, asJSON...)
		testkit.Is(t, status, want, "%s", act)
	}
	status, _, _ := ask(t, s, "POST", "/console/api/products/7/acts", `{"do":"adjust","with":{"delta":1}}`,
		"Content-Type", "application/json")
	testkit.Is(t, status, 401, "an act without a session")
}
