package wire_test

import (
	"database/sql"
	"net/url"
	"strings"
	"testing"

	"lastitem/stack/wire"
	"lastitem/stack/wire/codec"
	"lastitem/target"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// postgresProxy is a proxy before a PostgreSQL, and a pool of one connection through it; near is past it. The clients
// ask for TLS first.
func postgresProxy(t *testing.T) (p *wire.Proxy, far, near *sql.DB) {
	t.Helper()
	u, err := url.Parse(testenv.Postgres(t))
	testkit.Must(t, err)
	open := func() *sql.DB {
		db, err := sql.Open("pgx", u.String())
		testkit.Must(t, err)
		return testkit.Closing(t, db)
	}
	near = open()
	p = newProxy(t, u.Host, codec.Postgres)
	u.Host = p.Addr
	far = open()
	far.SetMaxOpenConns(1)
	return p, far, near
}

func TestPostgresCommit(t *testing.T) {
	t.Parallel()
	database{postgresProxy, "INSERT INTO kept VALUES ($1)",
		[]string{"begin", "INSERT INTO kept VALUES (?)", "commit"}}.cutCommit(t)
}

// What the server answered is told in words, whatever form the values have.
func TestPostgresSaid(t *testing.T) {
	t.Parallel()
	p, far, near := postgresProxy(t)
	mustExec(t, near, "CREATE TABLE kept (id INT PRIMARY KEY, name TEXT, big BIGINT, paid BOOL, no UUID)",
		"INSERT INTO kept VALUES (7, 'it''s', -8, true, '01234567-89ab-cdef-0123-456789abcdef')")
	for query, said := range map[string]string{
		"SELECT * FROM kept WHERE id = $1":          "7, it's, -8, true, 01234567-89ab-cdef-0123-456789abcdef",
		"SELECT NULL FROM kept WHERE id = $1":       "NULL",
		"SELECT id FROM kept WHERE id > $1":         "0 rows",
		"UPDATE kept SET paid = true WHERE id = $1": "1 row",
		"INSERT INTO kept VALUES ($1)":              "ERROR 23505",
	} {
		h := p.Add(wire.Rule{Answer: true, Match: func(c wire.Call) bool {
			return c.Text == strings.Replace(query, "$1", "7", 1)
		}})
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = far.ExecContext(t.Context(), query, 7)
		}()
		reached(t, h)
		h.Pass()
		<-done
		testkit.Is(t, h.Said(), said, "%s", query)
	}
}

// The reader of somebody's books gets texts, of whatever type they are.
func TestPostgresRead(t *testing.T) {
	t.Parallel()
	address := testenv.Postgres(t)
	f := target.Foreign{
		Request: "POST /buy", ResetSQL: []string{"UPDATE shop SET stock = {{stock}} WHERE id = '{{product}}'"},
		SetupSQL: []string{"CREATE TABLE shop (id TEXT, stock NUMERIC)", "INSERT INTO shop VALUES ('7', 0)"},
		Stock:    target.Source{SQL: "SELECT sum(stock) FROM shop WHERE id = '{{product}}'"},
		Orders:   target.Source{SQL: "SELECT gen_random_uuid() AS id, 2::smallint AS quantity"},
	}
	r, err := f.At("http://127.0.0.1:1", "", address)
	testkit.Must(t, err)
	testkit.Closes(t, r.SQL)
	testkit.Must(t, r.Setup(t.Context()))
	_, err = r.Prepare(t.Context(), 7, 5)
	if err == nil || !strings.Contains(err.Error(), "1 orders before the run") {
		t.Errorf("Prepare() = %v, want the order that is there", err)
	}
	ledger, err := r.Ledger(t.Context(), 7, 5)
	testkit.Must(t, err)
	if ledger.Stock[target.ForeignStore] != 5 || len(ledger.Orders) != 1 || ledger.Orders[0].Quantity != 2 ||
		len(ledger.Orders[0].OrderID) != 36 {
		t.Errorf("Ledger() = %+v, want a stock of 5 and an order of 2", ledger)
	}
}
