package shop_test

import (
	"slices"
	"sync/atomic"
	"testing"

	"lastitem/internal/backend"
	"lastitem/internal/shop"
	"lastitem/internal/stock"
	"lastitem/testkit"
	"lastitem/testkit/stocktest"
	"lastitem/testkit/testenv"
)

// hostile are defaults of a server that a statement of the shop would stumble over.
var hostile = []string{
	"autocommit = 0", "completion_type = 1", "sql_safe_updates = 1", "sql_select_limit = 1", "time_zone = '+09:00'",
	"unique_checks = 0",
	"sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,IGNORE_SPACE'",
	"TRANSACTION ISOLATION LEVEL READ UNCOMMITTED",
}

// A session is what the shop needs, whatever the server's defaults are: every mode with its stock in SQL sells what
// another replica has set, and no replica reads an old stock.
func TestHostileSessionDefaults(t *testing.T) {
	t.Parallel()
	own := testenv.Own(t, "mysql")
	db, err := backend.OpenSQL(own.SQL.URL, 1)
	testkit.Must(t, err)
	do := func(statement string) {
		t.Helper()
		testkit.Must(t, db.Exec(statement).Error)
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
		product := h.ProductOf(t, m, 3, 0)
		for i, r := range h.Replicas {
			r.Sell(t, m.Name, stock.SQL, product, 1, m.Name+r.Options.Replica)
			for _, reader := range h.Replicas {
				l, err := reader.Ledger(t.Context(), product)
				if f := l.Facts[stock.SQL]; err != nil || f.Stock != int64(2-i) || len(f.Orders) != i+1 {
					t.Errorf("%s: %s reads %+v, %v, want %d left", m.Name, reader.Options.Replica, f, err, 2-i)
				}
			}
		}
	}
}

// Orders of different products lock two further rows in any order, as triggers and foreign keys do, so that the
// database ends transactions as victims (1213). With every mode 64 clients sell all the stock, and none is told that it
// lost.
func TestDeadlocksAreTriedAgain(t *testing.T) {
	t.Parallel()
	redis, dsn := testenv.Miniredis(t), testenv.MySQL(t)
	h := stocktest.Open(t, stocktest.Env{Redis: redis.URL, Prefix: redis.Prefix, SQL: dsn}, 1, stock.Modes())
	b, o, repeated := h.Replicas[0].Backends, h.Replicas[0].Options, atomic.Int64{}
	o.Repeated = func(string) { repeated.Add(1) }
	s, err := shop.New(b, o, stock.Modes())
	testkit.Must(t, err)
	for _, statement := range []string{
		"CREATE TABLE scratch (id INT PRIMARY KEY, n INT NOT NULL) ENGINE=InnoDB",
		"INSERT INTO scratch VALUES (1, 0), (2, 0)",
		`CREATE TRIGGER crosses BEFORE INSERT ON orders FOR EACH ROW
		BEGIN DECLARE first INT DEFAULT IF(RAND() < 0.5, 1, 2);
		UPDATE scratch SET n = n + 1 WHERE id = first; UPDATE scratch SET n = n + 1 WHERE id = 3 - first; END`,
	} {
		testkit.Must(t, b.SQL.DB().Exec(statement).Error)
	}
	for _, mode := range []string{"sql-atomic", "sql-for-update", "sql-version", "sql-one-trip", "idempotent", "lease-seq",
		"queue"} {
		var products []int64
		for range 8 {
			products = append(products, h.Product(t, 16, 0))
		}
		sellOut(t, s, b.SQL, mode, 8*16, products...)
		n := repeated.Swap(0)
		if t.Logf("%s: %d tried again", mode, n); n == 0 {
			t.Errorf("%s: no transaction was tried again", mode)
		}
	}
}
