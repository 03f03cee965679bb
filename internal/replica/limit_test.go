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

// limitModes keep to a limit per buyer when they sell at once, on the store of that name.
var limitModes = map[string]string{
	"redis-lua": "redis", "idempotent": "sql", "queue": "sql", "reserve-redis": "redis", "reserve-naive": "sql", "reserve-sql": "sql",
}

// A buyer gets as many units as the limit allows, however many requests come at once; a return gives room, and a key
// replays its sale. Every other mode refuses the product.
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
		send(t, r, http.MethodPut, fmt.Sprintf("/products/%d/stock", product), `{"stock":10,"per_buyer":2}`, http.StatusOK)
		at := limitModes[m.Name]
		if at == "" {
			for _, in := range m.Stores {
				refused += s.refuses(fmt.Sprintf(`"store":%q`, in))
			}
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
	body := fmt.Sprintf(`{"product_id":%d,"wait_ms":20000,%s}`, s.product, fields)
	req := httptest.NewRequestWithContext(s.Context(), http.MethodPost, "/deduct_stock/"+s.mode, strings.NewReader(body))
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
	case strings.HasPrefix(s.mode, "reserve-") && strings.Contains(answer, `"code":"hold_unsupported"`):
		return 1 // it takes no such product at all
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
