package wire_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/go-sql-driver/mysql"

	"lastitem/stack/wire"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// snapshot is a connection whose transaction sees the database as it is now; the test speaks its protocol from then on.
func snapshot(t *testing.T, dsn string) (server net.Conn) {
	t.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	testkit.Must(t, err)
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		server, err = new(net.Dialer).DialContext(ctx, network, addr)
		return server, err
	}
	connector, err := mysql.NewConnector(cfg)
	testkit.Must(t, err)
	c, err := connector.Connect(t.Context())
	testkit.Must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	for _, statement := range []string{"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
		"START TRANSACTION WITH CONSISTENT SNAPSHOT"} {
		_, err := c.(driver.ExecerContext).ExecContext(t.Context(), statement, nil)
		testkit.Must(t, err)
	}
	return server
}

// A plain read is answered by another connection, sent as text or prepared; what locks, belongs to the session or is
// part of a transaction goes to the server.
func TestMySQLInstead(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQL(t)
	p, far, near := mysqlProxyAt(t, dsn, nil)
	mustExec(t, near, "CREATE TABLE s (id INT PRIMARY KEY, n INT, word VARCHAR(9))", "INSERT INTO s VALUES (1, 5, NULL)")
	server := snapshot(t, dsn)
	mustExec(t, near, "UPDATE s SET n = 4")
	rule := p.Add(wire.Rule{Every: true, Instead: func(ask func(io.ReadWriter) ([]byte, error)) ([]byte, error) {
		return ask(server)
	}})
	c, err := far.Conn(t.Context())
	testkit.Must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	const read, before, now = "SELECT n, word FROM s WHERE id = 1", 5, 4
	check := func(want int, query string, args ...any) {
		t.Helper()
		var n int
		var word sql.NullString
		if err := c.QueryRowContext(t.Context(), query, args...).Scan(&n, &word); err != nil || n != want || word.Valid {
			t.Errorf("%s: %d, %v, %v, want %d", query, n, word, err, want)
		}
	}
	exec := func(statement string) {
		t.Helper()
		_, err := c.ExecContext(t.Context(), statement)
		testkit.Mustf(t, err, "%s", statement)
	}
	check(before, read)
	check(before, "SELECT n, word FROM s WHERE id = ?", 1)
	for _, kept := range []string{" FOR UPDATE", " LOCK IN SHARE MODE", " AND @@server_id >= 0",
		" AND CONNECTION_ID() > 0"} {
		check(now, read+kept)
	}
	exec("BEGIN")
	check(now, read)
	exec("COMMIT")
	exec("SET autocommit = 0")
	check(now, read)
	exec("COMMIT")
	exec("SET autocommit = 1")
	check(before, read)
	none := c.QueryRowContext(t.Context(), "SELECT n FROM s WHERE id = 9")
	var n int
	if err := none.Scan(&n); !errors.Is(err, sql.ErrNoRows) {
		t.Errorf("a read of no row: %d, %v", n, err)
	}
	err = c.QueryRowContext(t.Context(), "SELECT nothing FROM s").Scan(&n)
	if refused, ok := errors.AsType[*mysql.MySQLError](err); !ok || refused.Number != 1054 {
		t.Errorf("a read of no column: %v, want error 1054", err)
	}
	rule.Cancel()
	check(now, read)
	testkit.Must(t, p.Err())
}
