package backend_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"
	"gorm.io/gorm"

	"lastitem/contract/ledger"
	"lastitem/internal/backend"
	"lastitem/internal/store"
	"lastitem/internal/store/sqldb"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// address is where a database is found: a name, or a proxy, that a failover points at another server. Connections that
// are open stay.
type address struct {
	net.Listener
	to atomic.Pointer[string]
}

func newAddress(t *testing.T) *address {
	t.Helper()
	l := testkit.Listen(t)
	a := &address{Listener: l}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", *a.to.Load())
			if err != nil {
				_ = near.Close()
				continue
			}
			for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
				open.Go(func() {
					_, _ = io.Copy(pair[0], pair[1])
					_ = pair[0].Close()
				})
			}
		}
	})
	t.Cleanup(func() { _ = l.Close(); open.Wait() })
	return a
}

// lead leads connections from now on to a server.
func (a *address) lead(to string) { a.to.Store(&to) }

// parsed reads a DSN.
func parsed(t *testing.T, dsn string) *mysql.Config {
	t.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	testkit.Must(t, err)
	return cfg
}

// primaries are servers that know nothing of each other, as a primary and its promoted replica soon do, each with ten
// units of product 1, by an account that read_only stops, as it does not stop those that may do anything.
func primaries(t *testing.T, n int) (dsns []string, admins []*gorm.DB) {
	t.Helper()
	dsns = testenv.MySQLNodes(t, n)
	for i, dsn := range dsns {
		admin := open(t, dsn)
		dsns[i], admins = prepared(t, admin, dsn), append(admins, admin)
	}
	return dsns, admins
}

// prepared makes the tables, the units and the account, and returns its DSN.
func prepared(t *testing.T, admin *gorm.DB, dsn string) string {
	t.Helper()
	_, err := backend.Migrate(t.Context(), admin)
	testkit.Must(t, err)
	exec(t, admin, "CREATE USER 'app'@'127.0.0.1' IDENTIFIED BY 'secret'")
	exec(t, admin, "GRANT SELECT, INSERT, UPDATE, DELETE ON lastitem.* TO 'app'@'127.0.0.1'")
	exec(t, admin, "INSERT INTO product_stock (id, initial, stock) VALUES (1, 10, 10)")
	cfg := parsed(t, dsn)
	cfg.User, cfg.Passwd = "app", "secret"
	return cfg.FormatDSN()
}

func stockOf(t *testing.T, db *gorm.DB) (stock int) {
	t.Helper()
	testkit.Must(t, db.Raw("SELECT stock FROM product_stock WHERE id = 1").Scan(&stock).Error)
	return stock
}

// transactions are the two ways in which the store writes.
func transactions(s *sqldb.Store) map[string]func(context.Context, func(*sqldb.Tx) error) error {
	return map[string]func(context.Context, func(*sqldb.Tx) error) error{
		"Tx": func(ctx context.Context, body func(*sqldb.Tx) error) error {
			return s.Tx(ctx, sqldb.ReadCommitted, body)
		},
		"GroupTx": s.GroupTx,
	}
}

// take takes a unit of product 1, or two, and does something before COMMIT.
func take(before func()) func(*sqldb.Tx) error {
	return func(tx *sqldb.Tx) error {
		_, ok, err := tx.Take(1, 1)
		if err == nil && !ok {
			err = errors.New("not in stock")
		}
		if before != nil {
			before()
		}
		return err
	}
}

// The primary becomes a replica: what it refuses has not happened, and says so, even at COMMIT; and from then on the
// new primary is written to, by all connections.
func TestFailoverToTheNewPrimary(t *testing.T) {
	t.Parallel()
	dsns, admins := primaries(t, 2)
	front := newAddress(t)
	cfg := parsed(t, dsns[0])
	cfg.Addr = front.Addr().String()
	for _, name := range []string{"Tx", "GroupTx"} { // one after the other: read_only is the server's
		for _, at := range []string{"the statement", "COMMIT"} {
			t.Run(name+"/"+at, func(t *testing.T) {
				front.lead(parsed(t, dsns[0]).Addr)
				for _, admin := range admins {
					exec(t, admin, "SET GLOBAL read_only = 0")
					exec(t, admin, "UPDATE product_stock SET stock = 10 WHERE id = 1")
				}
				const conns = 4
				set, err := backend.Open(backend.Config{SQL: cfg.FormatDSN(), Conns: conns})
				testkit.Must(t, err)
				t.Cleanup(func() { set.Close() })
				tx := transactions(set.SQL)[name]
				warm(t, tx, conns)

				demote := func() {
					exec(t, admins[0], "SET GLOBAL read_only = 1")
					front.lead(parsed(t, dsns[1]).Addr)
				}
				body := take(demote)
				if at != "COMMIT" {
					demote()
					body = take(nil)
				}
				err = tx(t.Context(), body)
				if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) {
					t.Errorf("refused at %s = %v, want ErrUnavailable: nothing happened", at, err)
				}
				for range conns {
					if err := tx(t.Context(), take(nil)); err != nil {
						t.Errorf("afterwards = %v, want nil, on the new primary", err)
					}
				}
				if a, b := stockOf(t, admins[0]), stockOf(t, admins[1]); a != 10-conns || b != 10-conns {
					t.Errorf("stocks = %d and %d, want %d and %d", a, b, 10-conns, 10-conns)
				}
			})
		}
	}
}

// warm sells a unit on each connection of a pool, at the same time.
func warm(t *testing.T, tx func(context.Context, func(*sqldb.Tx) error) error, conns int) {
	t.Helper()
	var in, done sync.WaitGroup
	in.Add(conns)
	for range conns {
		done.Go(func() {
			err := tx(t.Context(), func(tx *sqldb.Tx) error {
				in.Done()
				in.Wait() // all have a connection
				return take(nil)(tx)
			})
			testkit.Is(t, err, nil, "on the old primary")
		})
	}
	done.Wait()
}

// The numbers by which servers say that they take no writes, whatever made them so.
func TestReadOnlyServers(t *testing.T) {
	t.Parallel()
	dsns, admins := primaries(t, 1)
	dsn, admin := dsns[0], admins[0]
	for _, c := range []struct {
		number     uint16
		make, undo []string // the first statement that the server knows
	}{
		{1290, []string{"SET GLOBAL read_only = 1"}, []string{"SET GLOBAL read_only = 0"}},
		{1792, either("SET GLOBAL %s = 1"), either("SET GLOBAL %s = 0")},
		{1836, []string{signal}, []string{"DROP TRIGGER no_writes"}},
	} {
		first(t, admin, c.make)
		s, pool := refused(t, dsn, c.number)
		first(t, admin, c.undo)
		pool.SetMaxIdleConns(0) // sessions of a server that was read-only may stay so
		testkit.Is(t, s.Tx(t.Context(), sqldb.ReadCommitted, take(nil)), nil,
			"%d: Tx() on a server that takes writes again", c.number)
	}
	if stock := stockOf(t, admin); stock != 7 {
		t.Errorf("stock = %d, want 7: three taken, nothing of what was refused", stock)
	}
}

// A server that is started on its data with --innodb-read-only, which cannot be set while it runs.
func TestServerStartedReadOnly(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	before := testenv.MySQLOn(t, data)
	cfg := parsed(t, prepared(t, open(t, before.SQL.URL), before.SQL.URL))
	exec(t, open(t, before.SQL.URL), "SHUTDOWN") // in order: one that cannot write cannot recover either
	<-before.Done()
	if err := before.Close(); err != nil {
		t.Logf("the first server: %v", err)
	}
	after := testenv.MySQLOn(t, data, "--innodb-read-only=1")
	cfg.Addr = after.SQL.Addr
	refused(t, cfg.FormatDSN(), 1036, 1015) // MariaDB, MySQL
	set := probing(t, backend.Config{SQL: cfg.FormatDSN()})
	becomes(t, set, "sql", true)
	testkit.Is(t, stockOf(t, set.DB), 10, "stock")
}

// refused wants of a server that it refuses a write by one of the numbers, that this means "nothing happened" to the
// store, and that the connection is used no more.
func refused(t *testing.T, dsn string, numbers ...uint16) (*sqldb.Store, *sql.DB) {
	t.Helper()
	plain, err := sql.Open("mysql", dsn) // which is told the number
	testkit.Must(t, err)
	defer plain.Close()
	var number *mysql.MySQLError
	_, err = plain.ExecContext(t.Context(), "UPDATE product_stock SET stock = stock - 1 WHERE id = 1")
	if !errors.As(err, &number) || !slices.Contains(numbers, number.Number) {
		t.Errorf("UPDATE = %v, want error %d", err, numbers)
	}
	s, err := sqldb.New(open(t, dsn))
	testkit.Must(t, err)
	pool, err := s.DB().DB()
	testkit.Must(t, err)
	pool.SetMaxOpenConns(1)
	before := connection(t, pool)
	testkit.IsError(t, s.Tx(t.Context(), sqldb.ReadCommitted, take(nil)), store.ErrUnavailable, "%d: Tx()", numbers)
	testkit.IsError(t, s.Reset(t.Context(), 1, 7, ledger.Rules{}), store.ErrUnavailable, "%d: Reset()", numbers)
	if after := connection(t, pool); after == before {
		t.Errorf("%d: connection %d is still in use, want a new one", numbers, after)
	}
	return s, pool
}

// signal makes a server refuse as one does that is being upgraded.
const signal = `CREATE TRIGGER no_writes BEFORE UPDATE ON product_stock FOR EACH ROW
	SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1836, MESSAGE_TEXT = 'Running in read-only mode'`

// either is a statement about the variable that MySQL and newer MariaDBs call one way and older MariaDBs the other.
func either(statement string) []string {
	return []string{fmt.Sprintf(statement, "transaction_read_only"), fmt.Sprintf(statement, "tx_read_only")}
}

// first executes the first of the statements that the server knows.
func first(t *testing.T, db *gorm.DB, statements []string) {
	t.Helper()
	var errs error
	for _, s := range statements {
		err := db.Exec(s).Error
		if err == nil {
			return
		}
		errs = errors.Join(errs, err)
	}
	t.Fatal(errs)
}

func connection(t *testing.T, pool *sql.DB) (id int64) {
	t.Helper()
	testkit.Must(t, pool.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id))
	return id
}
