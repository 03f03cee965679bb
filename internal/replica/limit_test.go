package replica

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"lastitem/internal/api"
	"lastitem/internal/stock"
	"lastitem/internal/testkit"
	"lastitem/internal/testkit/testenv"
)

// A buyer gets as many units as the limit allows, however many requests come at once; a return gives room, and a key
// replays its sale. Every mode that knows no limit refuses the product.
func TestLimitPerBuyer(t *testing.T) {
	t.Parallel()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		limitPerBuyer(t, testenv.Miniredis(t), testenv.SQLite(t))
	})
	t.Run("servers", func(t *testing.T) {
		t.Parallel()
		limitPerBuyer(t, testenv.Redis(t), testenv.MySQL(t))
	})
}

func limitPerBuyer(t *testing.T, redis *testenv.RedisServer, sql string) {
	r := startReplica(t, Config{Redis: redis.URL, Prefix: redis.Prefix, SQL: sql, Conns: 16})
	waitReady(t, r)
	product, refused := 100, 0
	defer func() {
		if refused < 20 {
			t.Errorf("%d modes refuse a product with a limit", refused)
		}
	}()
	for _, m := range stock.Modes() {
		if len(m.Stores) == 0 || slices.Contains(m.Stores, stock.Etcd) {
			continue
		}
		product++
		s := limitShop{t, r, m.Name, product}
		send(t, r, http.MethodPut, fmt.Sprintf("/products/%d/stock", product), fmt.Sprintf(
			`{"stock":10,"per_buyer":2,"units":%t}`, m.Segments < 0), http.StatusOK)
		if !m.PerBuyer && !m.Reserves {
			for _, in := range m.Stores {
				refused += s.refuses(fmt.Sprintf(`"store":%q`, in))
			}
			continue
		}
		at := m.Stores[0]
		elsewhere := slices.Contains(m.Needs, stock.NeedMySQL) && strings.HasSuffix(t.Name(), "embedded")
		if elsewhere || m.Claims[at].Threads == "B" { // it breaks the limit
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			s.T = t
			s.crowd()
			s.returns()
			got := send(t, r, http.MethodGet, fmt.Sprintf("/products/%d", s.product), "", http.StatusOK)
			if !strings.Contains(got, fmt.Sprintf(`%q:0`, at)) {
				t.Errorf("%s, want 0 left in %s", got, at)
			}
		})
	}
}

type limitShop struct {
	*testing.T
	r       *Replica
	mode    string
	product int
}

// deduct sends a deduction with more fields of its body, and returns the status and the answer.
func (s limitShop) deduct(key, fields string) (int, string) {
	return s.post("/deduct_stock/"+s.mode, key, fields)
}

func (s limitShop) post(path, key, fields string) (int, string) {
	body := fmt.Sprintf(`{"product_id":%d,"wait_ms":20000,%s}`, s.product, fields)
	req := httptest.NewRequestWithContext(s.Context(), http.MethodPost, path, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", fmt.Sprint(s.product, key))
	rec := httptest.NewRecorder()
	s.r.ServeHTTP(rec, req)
	return rec.Code, rec.Body.String()
}

// sells sends a deduction that must be sold, and returns its order.
func (s limitShop) sells(key, fields string) (order, answer string) {
	s.Helper()
	status, answer := s.deduct(key, fields)
	var sold api.Deduction
	if status != http.StatusOK {
		s.Errorf("%s %s = %d %s, want 200", s.mode, fields, status, answer)
		return "", answer
	}
	testkit.Must(s.T, json.Unmarshal([]byte(answer), &sold))
	return sold.OrderID, answer
}

// limited sends a deduction that the limit must refuse; the refusal is not kept under the key.
func (s limitShop) limited(key, fields string) {
	s.Helper()
	status, answer := s.deduct(key, fields)
	for _, part := range []string{`"code":"limit_reached"`, `"happened":"no_for_now"`} {
		if status != http.StatusConflict || !strings.Contains(answer, part) {
			s.Errorf("%s %s = %d %s, want 409 and %s", s.mode, fields, status, answer, part)
		}
	}
}

// refuses sends a deduction by a mode without the rule, and returns 1 if the mode has its backends.
func (s limitShop) refuses(fields string) int {
	s.Helper()
	status, answer := s.deduct("any", fields)
	switch {
	case strings.Contains(answer, `"code":"mode_unavailable"`):
		return 0
	case status != http.StatusConflict || !strings.Contains(answer, `"code":"limit_unsupported"`):
		s.Errorf("%s %s = %d %s, want 409 limit_unsupported", s.mode, fields, status, answer)
	}
	return 1
}

// crowd sends the requests of one buyer at once.
func (s limitShop) crowd() {
	const requests = 40
	var all sync.WaitGroup
	var mu sync.Mutex
	answers := map[string]int{}
	for i := range requests {
		all.Go(func() {
			status, answer := s.deduct(fmt.Sprint("ann", i), `"buyer":"ann"`)
			var p api.Problem
			_ = json.Unmarshal([]byte(answer), &p) // of a sale the code is ""
			mu.Lock()
			defer mu.Unlock()
			answers[fmt.Sprint(status, p.Code)]++
		})
	}
	all.Wait()
	if answers["200"] != 2 || answers["409limit_reached"] != requests-2 {
		s.Errorf("%d requests of one buyer = %v, want 2 sales, and else limit_reached", requests, answers)
	}
}

// returns sells, takes back, and sells again.
func (s limitShop) returns() {
	s.Helper()
	order, first := s.sells("bob 1", `"buyer":"bob","quantity":2`)
	s.limited("bob 2", `"buyer":"bob"`)
	if _, again := s.sells("bob 1", `"buyer":"bob","quantity":2`); again != first {
		s.Errorf("the key again = %s, want %s", again, first)
	}
	s.sells("nobody", `"quantity":2`) // without a buyer there is no limit
	send(s.T, s.r, http.MethodPost, fmt.Sprintf("/products/%d/orders/%s/return", s.product, order), `{"restock":true}`,
		http.StatusOK)
	s.limited("bob 2", `"buyer":"bob","quantity":3`)
	s.sells("bob 3", `"buyer":"bob","quantity":2`)
	s.limited("bob 4", `"buyer":"bob"`)
	s.sells("nobody 2", `"quantity":3`)
	if status, answer := s.deduct("cid 1", `"buyer":"cid","quantity":2`); !strings.Contains(answer, `"code":"sold_out"`) {
		s.Errorf("2 of the last = %d %s, want sold_out", status, answer)
	}
	s.sells("cid 2", `"buyer":"cid"`) // what was sold out does not count for the limit
}

// What a buyer holds counts when he buys at once, and the other way round; the refusal names his reservations, and a
// cancel gives room.
func TestLimitCountsWhatIsHeld(t *testing.T) {
	t.Parallel()
	redis := testenv.Redis(t)
	r := startReplica(t, Config{Redis: redis.URL, Prefix: redis.Prefix, SQL: testenv.MySQL(t), Conns: 16})
	waitReady(t, r)
	for i, c := range []struct{ holds, sells string }{
		{"reserve-sql", "queue"}, {"reserve-sql", "idempotent"}, {"reserve-sql", "reserve-sql"},
		{"reserve-unit", "reserve-unit"}, {"reserve-check", "reserve-check"}, {"reserve-redis", "redis-lua"},
	} {
		t.Run(c.holds+" "+c.sells, func(t *testing.T) {
			s := limitShop{t, r, c.sells, 200 + i}
			send(t, r, http.MethodPut, fmt.Sprintf("/products/%d/stock", s.product), fmt.Sprintf(
				`{"stock":4,"per_buyer":2,"units":%t}`, c.holds == "reserve-unit"), http.StatusOK)
			var held api.Reservation
			_, answer := s.post("/reserve_stock/"+c.holds, "hold", `"buyer":"ann"`)
			testkit.Must(t, json.Unmarshal([]byte(answer), &held))
			_, more := s.post("/reserve_stock/"+c.holds, "more", `"buyer":"ann","quantity":2`)
			_, alike := s.deduct("two", `"buyer":"ann","quantity":2`)
			for _, answer := range []string{more, alike} {
				if want := fmt.Sprintf(`"holders":[%q]`, held.ReservationID); !strings.Contains(answer, want) {
					t.Errorf("the surplus = %s, want limit_reached with %s", answer, want)
				}
			}
			s.sells("one", `"buyer":"ann"`)
			s.limited("one more", `"buyer":"ann"`)
			send(t, r, http.MethodPost, "/reservations/"+held.ReservationID+"/cancel", "", http.StatusOK)
			s.sells("after it", `"buyer":"ann"`)
			s.limited("again", `"buyer":"ann"`)
		})
	}
}

// buyer-check counts orders, those of returned units excepted: alone, it keeps to the limit.
func TestBuyerCheckAlone(t *testing.T) {
	t.Parallel()
	r := startReplica(t, Config{SQL: testenv.SQLite(t), Conns: 4})
	waitReady(t, r)
	s := limitShop{t, r, "buyer-check", 300}
	send(t, r, http.MethodPut, "/products/300/stock", `{"stock":4,"per_buyer":2}`, http.StatusOK)
	s.sells("1", `"buyer":"ann"`)
	s.limited("2", `"buyer":"ann","quantity":2`)
	order, _ := s.sells("3", `"buyer":"ann"`)
	s.limited("4", `"buyer":"ann"`)
	s.sells("5", `"buyer":"bob"`)
	send(t, r, http.MethodPost, "/products/300/orders/"+order+"/return", `{"restock":true}`, http.StatusOK)
	s.sells("6", `"buyer":"ann"`)
	s.sells("7", `"quantity":1`) // without a buyer there is no limit
	if status, answer := s.deduct("8", `"buyer":"bob"`); !strings.Contains(answer, `"code":"sold_out"`) {
		t.Errorf("one of none = %d %s, want sold_out", status, answer)
	}
}
