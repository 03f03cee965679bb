package replica

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"lastitem/internal/api"
	"lastitem/internal/localstack"
)

// A query that does not parse is refused, whichever way it comes, and sells nothing. The tests of nginx's two configurations hold
// that they pass a query on as it came.
func TestBadQueriesSellNothing(t *testing.T) {
	t.Parallel()
	r := openReplica(t)
	send(t, r, http.MethodPut, "/products/101/stock", `{"stock":100}`, http.StatusOK)
	send(t, r, http.MethodPut, "/products/102/stock", `{"stock":100}`, http.StatusOK)
	direct := httptest.NewServer(r)
	t.Cleanup(direct.Close)
	balanced := httptest.NewServer(localstack.NewBalancer([]string{direct.Listener.Addr().String()}))
	t.Cleanup(balanced.Close)
	for edge, url := range map[string]string{"direct": direct.URL, "built-in balancer": balanced.URL} {
		for _, query := range []string{
			"product_id=102;quantity=5", "product_id=102&quantity=5%", "product_id=10%2", "%zz=1&product_id=102", "quantity=5&product_id=%",
			"product_id=102;", "product_id=102&quantity=%2", "product_id=102&product_id=101", "product_id=102&quantity=1;quantity=1",
		} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/deduct_stock/sql-atomic", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			req.URL.RawQuery = query
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if res.StatusCode != http.StatusBadRequest {
				t.Errorf("%s: ?%s = %d %s, want 400", edge, query, res.StatusCode, body)
			}
		}
	}
	for _, product := range []string{"101", "102"} {
		var ledger api.Ledger
		if err := json.Unmarshal([]byte(send(t, r, http.MethodGet, "/products/"+product+"/ledger", "", http.StatusOK)), &ledger); err != nil {
			t.Fatal(err)
		}
		if len(ledger.Orders) != 0 || ledger.Stock[api.SQL] != 100 {
			t.Errorf("product %s: %d orders, stock %v, want nothing sold", product, len(ledger.Orders), ledger.Stock)
		}
	}
}
