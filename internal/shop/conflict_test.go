package shop_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/go-sql-driver/mysql"
	"gorm.io/gorm"

	"lastitem/contract/ledger"
	"lastitem/internal/backend"
	"lastitem/internal/shop"
	"lastitem/internal/stock"
	"lastitem/internal/store/sqldb"
	"lastitem/testkit"
	"lastitem/testkit/stocktest"
)

// scripted is a MySQL that takes every statement, and answers its first COMMITs, and packets with one, with these
// errors; the last one stays. refusal is its answer to START TRANSACTION.
type scripted struct {
	driver.Conn
	refusal error
	commits []error
	galera  string // its wsrep_on; "" = it has none
	sent    int    // COMMITs
	packets int    // of several statements
}

func (s *scripted) Connect(context.Context) (driver.Conn, error) { return s, nil }
func (s *scripted) Driver() driver.Driver                        { return nil }
func (s *scripted) Close() error                                 { return nil }

func (s *scripted) ExecContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	if strings.Contains(query, ";") {
		s.packets++
	}
	switch {
	case strings.HasPrefix(query, "START"):
		return taken{}, s.refusal
	case !strings.HasSuffix(query, "COMMIT"):
		return taken{}, nil
	}
	s.sent++
	return taken{}, s.commits[min(s.sent, len(s.commits))-1]
}

func (s *scripted) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	return &variable{value: s.galera}, nil
}

// variable is a row of SHOW VARIABLES, once, if there is a value.
type variable struct{ value string }

func (*variable) Columns() []string { return []string{"Variable_name", "Value"} }
func (*variable) Close() error      { return nil }

func (v *variable) Next(row []driver.Value) error {
	if v.value == "" {
		return io.EOF
	}
	row[0], row[1], v.value = []byte("wsrep_on"), []byte(v.value), ""
	return nil
}

// taken is the answer to a conditional update: one row, 7 left.
type taken struct{}

func (taken) LastInsertId() (int64, error) { return 7, nil }
func (taken) RowsAffected() (int64, error) { return 1, nil }

// dialect is as much of MySQL's as the store asks of gorm.
type dialect struct {
	gorm.Dialector
	pool *sql.DB
}

func (dialect) Name() string                   { return "mysql" }
func (d dialect) Initialize(db *gorm.DB) error { db.ConnPool = d.pool; return nil }

// shop returns a shop on the database.
func (s *scripted) shop(t *testing.T, o shop.Options) (sh *shop.Shop, done func()) {
	t.Helper()
	pool := sql.OpenDB(s)
	db, err := gorm.Open(dialect{pool: pool}, &gorm.Config{DisableAutomaticPing: true})
	testkit.Must(t, err)
	rows, err := sqldb.New(db)
	testkit.Must(t, err)
	trips := sql.OpenDB(rows.TripSessions(s))
	rows.TripsOn(trips)
	if sh, err = shop.New(shop.Backends{SQL: rows}, o, stock.Modes()); err != nil {
		t.Fatal(err)
	}
	return sh, func() { _ = errors.Join(pool.Close(), trips.Close()) }
}

// number is an error of MySQL.
func number(n uint16) error { return &mysql.MySQLError{Number: n, Message: "as the server says"} }

// A transaction that the database ended in favour of another one, at its COMMIT too, is tried again while its request
// may wait, and counted. One whose COMMIT was not answered never is.
func TestConflictsAreTriedAgain(t *testing.T) {
	t.Parallel()
	lost := errors.New("unexpected EOF")
	for name, c := range map[string]struct {
		commits []error
		wait    time.Duration
		want    error
		sent    int // 0 = more than ten
	}{
		"1213, as Galera":   {[]error{number(1213), number(1213), nil}, 0, nil, 3},
		"1020":              {[]error{number(1020), nil}, 0, nil, 2},
		"1205":              {[]error{number(1205), nil}, 0, nil, 2},
		"9007, as TiDB":     {[]error{number(9007), number(8022), nil}, 0, nil, 3},
		"every time":        {[]error{number(1213)}, 0, stock.ErrContended, 10},
		"for a long time":   {[]error{number(1213)}, time.Minute, stock.ErrContended, 0},
		"the answer lost":   {[]error{lost}, time.Minute, stock.ErrUnknown, 1},
		"and lost later":    {[]error{number(1213), lost}, time.Minute, stock.ErrUnknown, 2},
		"refused, no rival": {[]error{number(1142)}, time.Minute, stock.ErrUnknown, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			server, repeated := &scripted{commits: c.commits}, 0
			sh, done := server.shop(t, shop.Options{Repeated: func(string) { repeated++ }})
			defer done()
			req := stocktest.Request(101, 1, "")
			req.Wait = c.wait
			began := time.Now()
			_, err := sh.Deduct(t.Context(), "sql-atomic", req)
			if took := time.Since(began); !errors.Is(err, c.want) || c.sent == 0 &&
				(took < c.wait || took > c.wait+time.Second) {
				t.Errorf("%s: Deduct() = %v after %s, want %v, if repeated after the wait of %s", name, err, took, c.want, c.wait)
			}
			if c.sent > 0 && server.sent != c.sent || server.sent < 11 && c.sent == 0 || repeated != server.sent-1 {
				t.Errorf("%s: %d COMMITs, %d repetitions counted, want %d (0 = more than ten)", name, server.sent, repeated, c.sent)
			}
		})
	}
}

// What a server says to a packet that ends with COMMIT is a refusal, unless COMMIT may end in this way. A node of
// Galera gets no packets, since it may end a transaction in the middle of one.
func TestPackets(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		galera        string
		commits       []error
		want          error
		sent, packets int
	}{
		"a trigger's 1644":        {"", []error{number(1644)}, stock.ErrRefused, 1, 1},
		"1114, the table is full": {"", []error{number(1114)}, stock.ErrRefused, 1, 1},
		"1142, no right":          {"OFF", []error{number(1142)}, stock.ErrForbidden, 1, 1},
		"1180, of COMMIT":         {"", []error{number(1180)}, stock.ErrUnknown, 1, 1},
		"2013, of a proxy":        {"OFF", []error{number(2013)}, stock.ErrUnknown, 1, 1},
		"the answer lost":         {"", []error{errors.New("unexpected EOF")}, stock.ErrUnknown, 1, 1},
		"Galera":                  {"ON", []error{number(1213), nil}, nil, 2, 0},
	} {
		server := &scripted{commits: c.commits, galera: c.galera}
		sh, done := server.shop(t, shop.Options{})
		t.Cleanup(done)
		_, err := sh.Deduct(t.Context(), "sql-one-trip", stocktest.Request(101, 1, ""))
		if !errors.Is(err, c.want) || errors.Is(err, stock.ErrUnknown) != errors.Is(c.want, stock.ErrUnknown) {
			t.Errorf("%s: Deduct() = %v, want %v", name, err, c.want)
		}
		if server.sent != c.sent || server.packets != c.packets {
			t.Errorf("%s: %d COMMITs, %d packets, want %d and %d", name, server.sent, server.packets, c.sent, c.packets)
		}
	}
}

// A refusal by a server is told from silence, and one that stays from one that may pass: of a deduction, and of the
// setting of a stock, which then sets no other store.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err                error
		refused, forbidden bool
	}{
		"1142": {number(1142), true, true}, "1568": {number(1568), true, true}, "1146": {number(1146), true, true},
		"1040": {number(1040), true, false}, "1290": {number(1290), true, false},
		"silence": {errors.New("i/o timeout"), false, false},
	} {
		sh, done := (&scripted{refusal: c.err}).shop(t, shop.Options{})
		t.Cleanup(done)
		_, err := sh.Deduct(t.Context(), "sql-atomic", stocktest.Request(101, 1, ""))
		for what, err := range map[string]error{"Deduct": err, "SetStock": sh.SetStock(t.Context(), 101, 5, ledger.Rules{})} {
			if errors.Is(err, stock.ErrRefused) != c.refused || errors.Is(err, stock.ErrForbidden) != c.forbidden ||
				errors.Is(err, stock.ErrUnknown) ||
				!errors.Is(err, stock.ErrUnavailable) || !strings.Contains(err.Error(), c.err.Error()) {
				t.Errorf("%s: %s() = %v, want ErrUnavailable, ErrRefused: %t, ErrForbidden: %t", name, what, err, c.refused,
					c.forbidden)
			}
		}
	}
}

// A lock's Redis that refuses has answered too.
func TestRefusalsOfALock(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	sh := open(t, on(opened(t, backend.Config{Redis: "redis://" + server.Addr(), Conns: 2}), ""))
	for answer, forbidden := range map[string]bool{"MISCONF Redis is configured to save RDB snapshots": false,
		"NOPERM User shop has no permissions": true} {
		server.SetError(answer)
		req := stocktest.Request(101, 1, "")
		req.Store = stock.Redis
		_, err := sh.Deduct(t.Context(), "lua-lock", req)
		if !errors.Is(err, stock.ErrLockUnavailable) || !errors.Is(err, stock.ErrRefused) ||
			errors.Is(err, stock.ErrForbidden) != forbidden {
			t.Errorf("%s: Deduct() = %v, want ErrLockUnavailable and ErrRefused, ErrForbidden: %t", answer, err, forbidden)
		}
	}
}
