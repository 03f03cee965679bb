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

	"lastitem/contract/api"
	"lastitem/internal/stock"
	"lastitem/testkit/testenv"
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
		s := limitShop{heldShop{t, r, m.Name, product}}
		s.stock(10, fmt.Sprintf(`,"per_buyer":2,"units":%t`, m.Units()))
		if !m.PerBuyer && !m.Reserves {
			for _, in := range m.Stores {
				refused += s.refuses(fmt.Sprintf(`,"store":%q`, in))
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
			s.sellsAndReturns()
			got := send(t, r, http.MethodGet, fmt.Sprintf("/products/%d", s.product), "", http.StatusOK)
			if !strings.Contains(got, fmt.Sprintf(`%q:0`, at)) {
				t.Errorf("%s, want 0 left in %s", got, at)
			}
		})
	}
}

// limitShop is a product with a limit per buyer. A key belongs to the product.
type limitShop struct{ heldShop }

// deduct sends a deduction with more fields of its body, and returns the status and the answer.
func (s limitShop) deduct(key, fields string) (int, string) {
	req := httptest.NewRequestWithContext(s.Context(), http.MethodPost, "/deduct_stock/"+s.mode,
		strings.NewReader(s.with(fields)))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", fmt.Sprint(s.product, key))
	rec := httptest.NewRecorder()
	s.r.ServeHTTP(rec, req)
	return rec.Code, rec.Body.String()
}

// sells sends a deduction that must be sold.
func (s limitShop) sells(key, fields string) (answer string) {
	s.Helper()
	return s.deducts(fmt.Sprint(s.product, key), fields, http.StatusOK)
}

// limited sends a deduction that the limit must refuse; the refusal is not kept under the key.
func (s limitShop) limited(key, fields string, parts ...string) {
	s.Helper()
	s.deducts(fmt.Sprint(s.product, key), fields, http.StatusConflict, append(parts, `"code":"limit_reached"`,
		`"happened":"no_for_now"`)...)
}

// soldOut sends a deduction for which too little is left.
func (s limitShop) soldOut(key, fields string) {
	s.Helper()
	s.deducts(fmt.Sprint(s.product, key), fields, http.StatusConflict, `"code":"sold_out"`)
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
			status, answer := s.deduct(fmt.Sprint("ann", i), `,"buyer":"ann"`)
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

// sellsAndReturns sells, takes back, and sells again.
func (s limitShop) sellsAndReturns() {
	s.Helper()
	const bob = `,"buyer":"bob"`
	first := s.sells("bob 1", bob+`,"quantity":2`)
	s.limited("bob 2", bob)
	if again := s.sells("bob 1", bob+`,"quantity":2`); again != first {
		s.Errorf("the key again = %s, want %s", again, first)
	}
	s.sells("nobody", `,"quantity":2`) // without a buyer there is no limit
	s.returns(s.read(first).OrderID, `{"restock":true}`, http.StatusOK)
	s.limited("bob 2", bob+`,"quantity":3`)
	s.sells("bob 3", bob+`,"quantity":2`)
	s.limited("bob 4", bob)
	s.sells("nobody 2", `,"quantity":3`)
	s.soldOut("cid 1", `,"buyer":"cid","quantity":2`)
	last := s.sells("cid 2", `,"buyer":"cid"`) // what was sold out does not count for the limit
	s.returns(s.read(last).OrderID, `{"restock":false}`, http.StatusOK)
	s.soldOut("cid 3", `,"buyer":"cid","quantity":2`) // his right has come back, the unit has not
}

// What a buyer holds counts when he buys at once, and the other way round; a cancel gives room.
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
			const ann = `,"buyer":"ann"`
			s, holds := limitShop{heldShop{t, r, c.sells, 200 + i}}, heldShop{t, r, c.holds, 200 + i}
			s.stock(4, fmt.Sprintf(`,"per_buyer":2,"units":%t`, c.holds == "reserve-unit"))
			held := holds.hold(ann)
			const says = `"per_buyer":2`
			holds.reserves("", ann+`,"quantity":2`, http.StatusConflict, says)
			s.limited("two", ann+`,"quantity":2`, says)
			s.sells("one", ann)
			s.limited("one more", ann)
			s.says(held+"/cancel", "", "", http.StatusOK)
			s.sells("after it", ann)
			s.limited("again", ann)
		})
	}
}

// No product is sold by a counter and by a sum. A returned sale that did not count for the limit gives nothing back to
// it, and a hold does not count itself.
func TestWaysDoNotMix(t *testing.T) {
	t.Parallel()
	r := startReplica(t, Config{SQL: testenv.MySQL(t), Conns: 4})
	waitReady(t, r)
	const ann = `,"buyer":"ann"`
	sql, sum := heldShop{t, r, "reserve-sql", 400}, heldShop{t, r, "reserve-check", 400}
	sql.stock(1, `,"per_buyer":2,"late":"rehold"`)
	sum.hold(ann)
	sql.reserves("", "", http.StatusConflict, `"code":"hold_unsupported"`)
	sql.stock(1, `,"per_buyer":2,"late":"rehold"`)
	sql.says(sql.hold("")+"/cancel", "", "", http.StatusOK)
	sum.reserves("", "", http.StatusConflict, `"code":"hold_unsupported"`)

	sql.stock(9, `,"per_buyer":2`)
	sql.says(sql.hold(ann)+"/cancel", "", "", http.StatusOK)
	counts := limitShop{heldShop{t, r, "buyer-check", 400}}
	sql.returns(sql.read(counts.sells("1", ann+`,"quantity":2`)).OrderID, `{"restock":true}`, http.StatusOK)
	sql.hold(ann + `,"quantity":2`)
	sql.reserves("", ann, http.StatusConflict, `"code":"limit_reached"`)
}

// buyer-check counts orders, those of returned units excepted: alone, it keeps to the limit.
func TestBuyerCheckAlone(t *testing.T) {
	t.Parallel()
	r := startReplica(t, Config{SQL: testenv.SQLite(t), Conns: 4})
	waitReady(t, r)
	const ann, bob = `,"buyer":"ann"`, `,"buyer":"bob"`
	s := limitShop{heldShop{t, r, "buyer-check", 300}}
	s.stock(4, `,"per_buyer":2`)
	s.sells("1", ann)
	s.limited("2", ann+`,"quantity":2`)
	order := s.read(s.sells("3", ann)).OrderID
	s.limited("4", ann)
	s.sells("5", bob)
	s.returns(order, `{"restock":true}`, http.StatusOK)
	s.sells("6", ann)
	s.sells("7", "") // without a buyer there is no limit
	s.soldOut("8", bob)
}
