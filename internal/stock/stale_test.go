package stock_test

import (
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/google/go-cmp/cmp"

	"lastitem/contract/ledger"
	"lastitem/internal/backend"
	"lastitem/internal/idempotency"
	"lastitem/internal/stock"
	"lastitem/stack/wire"
	"lastitem/stack/wire/codec"
	"lastitem/testkit"
	"lastitem/testkit/stocktest"
	"lastitem/testkit/storetest"
)

// A mode that cannot meet the hazard stale ('–') reads nothing in SQL outside a transaction: not for a sale, not for
// two refusals, not for what it holds. handoff, which can, shows that the proxy sees such reads. kafka reads only in
// which run the product is: an older run makes the record void, which sells nothing and is answered as unknown.
func TestNoPlainReadWhereNothingIsStale(t *testing.T) {
	t.Parallel()
	env := withKafka(t, stocktest.Real(t))
	cfg, err := mysql.ParseDSN(env.SQL)
	testkit.Must(t, err)
	proxy := storetest.Gate(t, cfg.Addr, codec.MySQL)
	cfg.Addr = proxy.Addr
	env.SQL, env.Health = cfg.FormatDSN(), backend.Health{Every: -1} // no reads but those of requests
	var mu sync.Mutex
	var plain []string
	proxy.Add(wire.Rule{Match: func(c wire.Call) bool {
		mu.Lock()
		defer mu.Unlock()
		if c.Plain && !slices.Contains(plain, c.Pattern) {
			plain = append(plain, c.Pattern)
		}
		return false
	}})
	reads := func() (all []string) {
		mu.Lock()
		defer mu.Unlock()
		all, plain = plain, nil
		return all
	}
	want := map[string][]string{
		"handoff": {"SELECT stock, lease_seq, version, CAST(updated_at AS CHAR), segments FROM product_stock WHERE id = ?"},
		"kafka":   {"SELECT run FROM product_stock WHERE id = ?"},
	}
	stale := slices.Index(stock.Hazards, "stale")
	h := stocktest.Open(t, env, 1, stock.Modes())
	r := h.Replicas[0]
	for _, m := range stock.Modes() {
		never := slices.Contains(m.Stores, stock.SQL) && m.Row(stock.SQL)[stale] == "–"
		status, err := r.Mode(m.Name)
		if testkit.Must(t, err); status.Err != nil || !never && m.Name != "handoff" {
			continue
		}
		product, held := h.ProductOf(t, m, 1, 0), h.ProductOf(t, m, 2, 0)
		key := func(n int) string { return strconv.Itoa(n) + " of " + strconv.FormatInt(product, 10) }
		reads() // those of the settings
		r.Sell(t, m.Name, stock.SQL, product, 1, key(1))
		r.Refuse(t, stock.ErrSoldOut, m.Name, stock.SQL, product, 1, key(2))
		r.Refuse(t, stock.ErrSoldOut, m.Name, stock.SQL, product, 1, key(3))
		if m.Reserves {
			confirmed, cancelled := reserved(t, r, m, held, key(4)), reserved(t, r, m, held, key(5))
			_, paid := r.Confirm(t.Context(), confirmed, []byte(key(6)))
			_, back := r.Cancel(t.Context(), cancelled, ledger.Part{})
			testkit.Must(t, errors.Join(paid, back))
		}
		if diff := cmp.Diff(want[m.Name], reads()); diff != "" {
			t.Errorf("%s reads outside transactions (-want +got):\n%s", m.Name, diff)
		}
	}
	testkit.Must(t, proxy.Err())
}

// reserved holds a unit, and returns the reservation's id.
func reserved(t *testing.T, r *stocktest.Replica, m stock.Mode, product int64, key string) string {
	t.Helper()
	req := stock.ReserveRequest{Request: stocktest.Request(product, 1, key),
		Held: func(ledger.Reservation, *int64) idempotency.Answer { return idempotency.Answer{Body: []byte("{}")} }}
	req.Store = stock.SQL
	made, err := r.Reserve(t.Context(), m.Name, req)
	testkit.Must(t, err)
	return made.Hold.ID
}
