package shop_test

import (
	"slices"
	"strings"
	"testing"

	"lastitem/internal/backend"
	"lastitem/internal/stock"
	"lastitem/internal/stock/stocktest"
	"lastitem/internal/testenv"
)

// hostile are defaults of a server that a statement of the shop would stumble over.
var hostile = []string{
	"autocommit = 0", "completion_type = 1", "sql_safe_updates = 1", "sql_select_limit = 1", "time_zone = '+09:00'", "unique_checks = 0",
	"sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,IGNORE_SPACE'", "TRANSACTION ISOLATION LEVEL READ UNCOMMITTED",
}

// A session is what the shop needs, whatever the server's defaults are: every mode with its stock in SQL sells what another replica has set,
// and no replica reads an old stock.
func TestHostileSessionDefaults(t *testing.T) {
	t.Parallel()
	own := testenv.Own(t, "mysql")
	db, err := backend.OpenSQL(own.SQL.URL, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, assignment := range hostile {
		if err := db.Exec("SET GLOBAL " + assignment).Error; err != nil {
			t.Fatal(err)
		}
	}
	redis := testenv.Miniredis(t)
	h := stocktest.Open(t, stocktest.Env{Redis: redis.URL, Prefix: redis.Prefix, SQL: own.SQL.URL}, 2, stock.Modes())
	for _, m := range stock.Modes() {
		if !slices.Contains(m.Stores, stock.SQL) || slices.ContainsFunc(m.Needs, elsewhere) {
			continue
		}
		product := h.Product(t, 3, 0)
		for i, r := range h.Replicas {
			r.Sell(t, m.Name, stock.SQL, product, 1, m.Name+r.Options.Replica)
			for _, reader := range h.Replicas {
				p, err := reader.Product(t.Context(), product)
				if want := int64(2 - i); err != nil || p.Stock[stock.SQL] != want {
					t.Errorf("%s: %s reads %v, %v, want %d", m.Name, reader.Options.Replica, p.Stock, err, want)
				}
			}
		}
		want := stocktest.Books{Initial: 3, Stock: 1, Sold: 2, Orders: 2}
		if got := h.Books(t, product, stock.SQL); got.Stock != want.Stock || got.Sold != want.Sold || got.Orders != want.Orders {
			t.Errorf("%s: books = %+v, want %+v", m.Name, got, want)
		}
	}
}

// A parameter of the address that the shop would overwrite is refused; one that says the same is not.
func TestSessionParameters(t *testing.T) {
	t.Parallel()
	for parameter, bad := range map[string]bool{"autocommit=1": false, "wsrep_sync_wait=1": false, "autocommit=0": true, "Completion_Type=1": true} {
		s, err := backend.Open(backend.Config{SQL: "root@tcp(127.0.0.1:1)/shop?" + parameter, Conns: 1})
		if (err != nil) != bad || bad && !strings.Contains(err.Error(), "the shop needs") {
			t.Errorf("%s: Open() = %v, want it refused: %t", parameter, err, bad)
		}
		if err == nil && s.Close() != nil {
			t.Error("Close() failed")
		}
	}
}
