package wire_test

import (
	"database/sql"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"lastitem/internal/backend"
	"lastitem/stack/wire"
	"lastitem/stack/wire/codec"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// numberless hides the number of a prepared statement, which the server counts for everybody.
func numberless(calls []string) []string {
	for i, c := range calls {
		calls[i] = statementNumber.ReplaceAllString(c, "EXECUTE statement <n>")
	}
	return calls
}

var statementNumber = regexp.MustCompile(`^EXECUTE statement \d+$`)

func TestMySQL(t *testing.T) {
	t.Parallel()
	var r wire.Recorder
	cfg, err := driver.ParseDSN(testenv.MySQL(t))
	testkit.Must(t, err)
	cfg.Addr = tap(t, &r, cfg.Addr, codec.MySQL)
	db, err := backend.OpenSQL(cfg.FormatDSN(), 1)
	testkit.Must(t, err)
	pool, err := db.DB()
	testkit.Must(t, err)
	t.Cleanup(func() { _ = pool.Close() })
	var n int
	if err := pool.QueryRowContext(t.Context(), "SELECT\n\t? + 1", 41).Scan(&n); err != nil || n != 42 {
		t.Fatalf("%d, %v", n, err)
	}
	bytes := []byte{0, 1, '\'', 0xff}
	testkit.Must(t, pool.QueryRowContext(t.Context(), "SELECT 1 FROM dual WHERE 'x' = ? OR 1", bytes).Scan(&n))
	prepared, err := pool.PrepareContext(t.Context(), "SELECT ?")
	testkit.Must(t, err)
	defer prepared.Close()
	testkit.Must(t, prepared.QueryRowContext(t.Context(), 7).Scan(&n))
	testkit.Must(t, pool.PingContext(t.Context()))
	want(t, []string{
		"SELECT 41 + 1", "SELECT 1 FROM dual WHERE 'x' = <bytes> OR 1", "PREPARE SELECT ?", "EXECUTE statement <n>",
	}, numberless(recorded(t, &r)))
	calls := r.Between(time.Time{}, time.Now())
	for i := range calls[1:] {
		if calls[i].Answered.After(calls[i+1].Sent) {
			t.Errorf("%s is answered after %s was sent", calls[i].Text, calls[i+1].Text)
		}
	}
}

// mysqlProxy is a proxy before a MariaDB, and a pool of one connection through it; near is past it.
func mysqlProxy(t *testing.T, change func(*driver.Config)) (p *wire.Proxy, far, near *sql.DB) {
	t.Helper()
	return mysqlProxyAt(t, testenv.MySQL(t), change)
}

func mysqlProxyAt(t *testing.T, dsn string, change func(*driver.Config)) (p *wire.Proxy, far, near *sql.DB) {
	t.Helper()
	cfg, err := driver.ParseDSN(dsn)
	testkit.Must(t, err)
	open := func() *sql.DB {
		connector, err := driver.NewConnector(cfg)
		testkit.Must(t, err)
		db := testkit.Closing(t, sql.OpenDB(connector))
		return db
	}
	near = open()
	p = newProxy(t, cfg.Addr, codec.MySQL)
	if cfg.Addr = p.Addr; change != nil {
		change(cfg)
	}
	far = open()
	far.SetMaxOpenConns(1)
	return p, far, near
}

func mustExec(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		_, err := db.ExecContext(t.Context(), s)
		testkit.Mustf(t, err, "%.60s", s)
	}
}

// results are how many rows there are in each result of a query.
func results(t *testing.T, db *sql.DB, query string, args ...any) (sets []int) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query, args...)
	testkit.Must(t, err)
	defer rows.Close()
	for more := true; more; more = rows.NextResultSet() {
		sets = append(sets, 0)
		for rows.Next() {
			sets[len(sets)-1]++
		}
	}
	testkit.Must(t, rows.Err())
	return sets
}

// Every answer is that of its own command: text and prepared, several results, a packet of more than 16 MB either way,
// a file, an error.
func TestMySQLAnswers(t *testing.T) {
	t.Parallel()
	p, far, _ := mysqlProxy(t, func(c *driver.Config) { c.MultiStatements, c.MaxAllowedPacket = true, 64<<20 })
	ctx := t.Context()
	mustExec(t, far, "CREATE TABLE kept (id INT PRIMARY KEY, text LONGTEXT)",
		"INSERT INTO kept VALUES (1, 'a'), (2, NULL)")
	for _, query := range []string{"SELECT id, text FROM kept ORDER BY id", "SELECT id FROM kept WHERE id > ?"} {
		args := make([]any, strings.Count(query, "?"))
		for i := range args {
			args[i] = 0
		}
		if sets := results(t, far, query, args...); !slices.Equal(sets, []int{2}) {
			t.Errorf("%s: rows %v", query, sets)
		}
	}
	if sets := results(t, far, "SELECT 1; SELECT id FROM kept; SELECT 2, 3 FROM kept"); !slices.Equal(sets,
		[]int{1, 2, 2}) {
		t.Errorf("several results: rows %v", sets)
	}
	_, err := far.ExecContext(ctx, "SELECT * FROM nowhere")
	var refused *driver.MySQLError
	if !errors.As(err, &refused) || refused.Number != 1146 {
		t.Errorf("nowhere: %v", err)
	}
	var a, b, c, d string // a row of more than a packet holds
	if err := far.QueryRowContext(ctx, "SELECT x, x, x, x FROM (SELECT REPEAT('x', 5000000) AS x) AS t").Scan(&a, &b, &c,
		&d); err != nil {
		t.Errorf("%d characters, %v", len(a+b+c+d), err)
	}
	var n int
	if err := far.QueryRowContext(ctx, "SELECT 7").Scan(&n); err != nil || n != 7 {
		t.Error(n, err)
	}
	calls := p.Since(0)
	for _, c := range calls {
		if c.Answered.Before(c.Sent) && c.Text != "CLOSE STATEMENT" ||
			(c.Failed == "1146") != strings.Contains(c.Text, "nowhere") {
			t.Errorf("%.60s: sent %v, answered %v, failed %q", c.Text, c.Sent, c.Answered, c.Failed)
		}
	}
	if len(p.Unanswered()) > 0 {
		t.Error(p.Unanswered())
	}
	want(t, []string{"SELECT ?"}, patterns(calls[len(calls)-1:]))
}

func TestMySQLCommit(t *testing.T) {
	t.Parallel()
	database{
		func(t *testing.T) (p *wire.Proxy, far, near *sql.DB) { return mysqlProxy(t, nil) },
		"INSERT INTO kept VALUES (?)",
		[]string{"START TRANSACTION", "PREPARE INSERT INTO kept VALUES (?)", "INSERT INTO kept VALUES (?)", "COMMIT"},
	}.cutCommit(t)
}

// database is a server behind a proxy.
type database struct {
	proxied func(t *testing.T) (p *wire.Proxy, far, near *sql.DB)
	insert  string
	calls   []string // that a transaction with the insert makes
}

// cutCommit cuts a COMMIT in each of the four ways; a session that is discarded is rolled back.
func (d database) cutCommit(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer bool
		how    func(*wire.Hold)
		failed bool
		rows   int
	}{
		{"held", false, (*wire.Hold).Pass, false, 1}, {"dropped", false, func(h *wire.Hold) { h.Drop(true) }, true, 0},
		{"answer held", true, (*wire.Hold).Pass, false, 1}, {"answer lost", true, func(h *wire.Hold) {
			h.Drop(true)
		}, true, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, far, near := d.proxied(t)
			mustExec(t, near, "CREATE TABLE kept (id INT PRIMARY KEY)")
			h := p.Add(wire.Rule{Match: is(d.calls[len(d.calls)-1]), Answer: c.answer})
			done := make(chan error, 1)
			go func() {
				tx, err := far.BeginTx(t.Context(), nil)
				if err == nil {
					if _, err = tx.ExecContext(t.Context(), d.insert, 1); err == nil {
						err = tx.Commit()
					}
				}
				done <- err
			}()
			reached(t, h)
			c.how(h)
			if err := <-done; (err != nil) != c.failed {
				t.Errorf("COMMIT = %v", err)
			}
			bounded := testkit.Within(t, enough)
			testkit.Must(t, p.Discard(bounded))
			n := -1
			testkit.Until(t, "the session has ended", func() bool {
				err := near.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM kept").Scan(&n)
				return err == nil && n == c.rows
			})
			var got []string
			for _, call := range p.Since(0) {
				if !call.Setup {
					got = append(got, call.Pattern)
				}
			}
			want(t, d.calls, got)
		})
	}
}

// What cannot be read ends the connection with a sentence that says what to do.
func TestMySQLRefuses(t *testing.T) {
	t.Parallel()
	p, far, _ := mysqlProxy(t, func(c *driver.Config) { _ = c.Apply(driver.EnableCompression(true)) })
	if err := far.PingContext(t.Context()); err == nil {
		t.Error("a compressed connection works")
	}
	if err := p.Err(); err == nil || !strings.Contains(err.Error(), "compress=false") {
		t.Errorf("Err() = %v", err)
	}
	p.Forget(0)
}
