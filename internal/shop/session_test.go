package shop_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"lastitem/internal/backend"
	"lastitem/internal/shop"
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
	do := func(statement string) {
		t.Helper()
		if err := db.Exec(statement).Error; err != nil {
			t.Fatal(err)
		}
	}
	for _, assignment := range hostile {
		do("SET GLOBAL " + assignment)
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

// Orders of different products lock two further rows in any order, as triggers and foreign keys do, so that the database ends transactions
// as victims (1213). With every mode 64 clients sell all the stock, and none is told that it lost.
func TestDeadlocksAreTriedAgain(t *testing.T) {
	t.Parallel()
	redis, dsn := testenv.Miniredis(t), testenv.MySQL(t)
	h := stocktest.Open(t, stocktest.Env{Redis: redis.URL, Prefix: redis.Prefix, SQL: dsn}, 1, stock.Modes())
	b, o := h.Replicas[0].Backends, h.Replicas[0].Options
	var repeated, total atomic.Int64
	o.Repeated = func(string) { repeated.Add(1) }
	s, err := shop.New(b, o, stock.Modes())
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		"CREATE TABLE scratch (id INT PRIMARY KEY, n INT NOT NULL) ENGINE=InnoDB", "INSERT INTO scratch VALUES (1, 0), (2, 0)",
		`CREATE TRIGGER crosses BEFORE INSERT ON orders FOR EACH ROW
		BEGIN DECLARE first INT DEFAULT IF(RAND() < 0.5, 1, 2);
		UPDATE scratch SET n = n + 1 WHERE id = first; UPDATE scratch SET n = n + 1 WHERE id = 3 - first; END`,
	} {
		if err := b.SQL.DB().Exec(statement).Error; err != nil {
			t.Fatal(err)
		}
	}
	for _, mode := range []string{"sql-atomic", "sql-for-update", "sql-version", "idempotent", "lease-seq", "queue"} {
		const products, clients, units = 8, 64, 16
		var all [products]int64
		for i := range all {
			all[i] = h.Product(t, units, 0)
		}
		var ended sync.WaitGroup
		for client := range clients {
			ended.Go(func() {
				for n := 0; ; n++ {
					req := stocktest.Request(all[client%products], 1, fmt.Sprintf("%s %d %d", mode, client, n))
					req.Wait = stocktest.Patience
					_, err := s.Deduct(t.Context(), mode, req)
					if errors.Is(err, stock.ErrSoldOut) {
						return
					}
					if err != nil {
						t.Errorf("%s: Deduct() = %v, want a sale or that it is sold out", mode, err)
						return
					}
				}
			})
		}
		ended.Wait()
		for _, product := range all {
			if got := h.Books(t, product, stock.SQL); got.Stock != 0 || got.Sold != units {
				t.Errorf("%s: books of product %d = %+v, want that all is sold", mode, product, got)
			}
		}
		t.Logf("%s: %d tried again", mode, repeated.Load())
		total.Add(repeated.Swap(0))
	}
	if total.Load() == 0 {
		t.Error("no transaction was tried again")
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
