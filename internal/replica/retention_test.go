package replica

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"lastitem/internal/api"
	"lastitem/internal/audit"
	"lastitem/internal/testenv"
	"lastitem/internal/testenv/wait"
)

// A key that is repeated after its retention sells again, and the audit, which still sees the first order, does not call that a double
// charge.
func TestKeyAfterItsRetention(t *testing.T) {
	t.Parallel()
	redis := testenv.Miniredis(t)
	r := startReplica(t, Config{
		Redis: redis.URL, Prefix: redis.Prefix, SQL: testenv.SQLite(t), Conns: 16,
		KeepKeys: 3 * time.Second, PurgeEvery: 100 * time.Millisecond,
	})
	waitReady(t, r)
	for _, mode := range []string{"idempotent", "queue", "redis-lua"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			product := map[string]string{"idempotent": "101", "queue": "102", "redis-lua": "103"}[mode]
			send(t, r, http.MethodPut, "/products/"+product+"/stock", `{"stock":9}`, http.StatusOK)
			deduct := func() (a api.Deduction) {
				t.Helper()
				body := sendKeyed(t, r, http.MethodPost, "/deduct_stock/"+mode, mode, `{"product_id":`+product+`}`, http.StatusOK)
				if err := json.Unmarshal([]byte(body), &a); err != nil || t.Failed() {
					t.Fatal(body, err)
				}
				return a
			}
			first := deduct()
			wait.Until(t, "the key is purged", func() bool { return deduct().OrderID != first.OrderID })
			var l api.Ledger
			if err := json.Unmarshal([]byte(send(t, r, http.MethodGet, "/products/"+product+"/ledger", "", http.StatusOK)), &l); err != nil {
				t.Fatal(err)
			}
			var a struct {
				Verdict audit.Verdict
				Reports []audit.Report
			}
			if err := json.Unmarshal([]byte(send(t, r, http.MethodGet, "/products/"+product+"/audit", "", http.StatusOK)), &a); err != nil {
				t.Fatal(err)
			}
			if len(l.Orders) != 2 || l.Orders[0].Key != l.Orders[1].Key || a.Verdict != audit.Exact {
				t.Errorf("%d orders, and the audit is %s: %+v; want 2 of one key, and EXACT", len(l.Orders), a.Verdict, a.Reports)
			}
		})
	}
}
