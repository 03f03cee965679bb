package shop_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	my "github.com/go-sql-driver/mysql"
	"gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"lastitem/internal/shop"
	"lastitem/internal/stock"
	"lastitem/internal/stock/stocktest"
	"lastitem/internal/store"
)

// scripted is a MySQL that takes every statement, and answers its first COMMITs with these errors; the last one stays.
type scripted struct {
	driver.Conn
	commits []error
	sent    int // COMMITs
}

func (s *scripted) Connect(context.Context) (driver.Conn, error) { return s, nil }
func (s *scripted) Driver() driver.Driver                        { return nil }
func (s *scripted) Close() error                                 { return nil }

func (s *scripted) ExecContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	if !strings.HasPrefix(query, "COMMIT") {
		return taken{}, nil
	}
	s.sent++
	return taken{}, s.commits[min(s.sent, len(s.commits))-1]
}

// taken is the answer to a conditional update: one row, 7 left.
type taken struct{}

func (taken) LastInsertId() (int64, error) { return 7, nil }
func (taken) RowsAffected() (int64, error) { return 1, nil }

// A transaction that the database ended in favour of another one, at its COMMIT too, is tried again while its request may wait, and
// counted. One whose COMMIT was not answered never is.
func TestConflictsAreTriedAgain(t *testing.T) {
	t.Parallel()
	number := func(n uint16) error { return &my.MySQLError{Number: n, Message: "try restarting transaction"} }
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
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := &scripted{commits: c.commits}
				pool := sql.OpenDB(server)
				defer pool.Close()
				db, err := gorm.Open(mysql.New(mysql.Config{Conn: pool, SkipInitializeWithVersion: true}),
					&gorm.Config{SkipDefaultTransaction: true, DisableAutomaticPing: true, Logger: logger.Discard})
				if err != nil {
					t.Fatal(err)
				}
				s, err := store.NewSQL(db)
				if err != nil {
					t.Fatal(err)
				}
				repeated := 0
				sh, err := shop.New(shop.Backends{SQL: s}, shop.Options{Repeated: func(string) { repeated++ }}, stock.Modes())
				if err != nil {
					t.Fatal(err)
				}
				req := stocktest.Request(101, 1, "")
				req.Wait = c.wait
				began := time.Now()
				_, err = sh.Deduct(t.Context(), "sql-atomic", req)
				took := time.Since(began)
				if !errors.Is(err, c.want) || c.want == nil && err != nil {
					t.Errorf("Deduct() = %v, want %v", err, c.want)
				}
				if c.sent > 0 && server.sent != c.sent || c.sent == 0 && server.sent <= 10 {
					t.Errorf("%d COMMITs, want %d (0 = more than ten)", server.sent, c.sent)
				}
				if repeated != server.sent-1 {
					t.Errorf("%d repetitions counted, want %d", repeated, server.sent-1)
				}
				if c.sent == 0 && (took < c.wait || took > c.wait+time.Second) {
					t.Errorf("given up after %s, want after the wait of %s", took, c.wait)
				}
			})
		})
	}
}
