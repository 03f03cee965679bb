package backend_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gorm.io/gorm"

	"lastitem/contract/ledger"
	"lastitem/internal/backend"
	"lastitem/internal/store/sqldb"
	"lastitem/say/text"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// dialects are the databases that the tests run on.
var dialects = []struct {
	name string
	dsn  func(testing.TB) string
}{
	{"mysql", testenv.MySQL},
	{"sqlite", testenv.SQLite},
}

func onEach(t *testing.T, test func(t *testing.T, dsn string)) {
	t.Parallel()
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			test(t, d.dsn(t))
		})
	}
}

// open returns a pool of its own.
func open(t *testing.T, dsn string) *gorm.DB {
	t.Helper()
	db, err := backend.OpenSQL(dsn, 4)
	testkit.Mustf(t, err, "OpenSQL")
	t.Cleanup(func() {
		if pool, err := db.DB(); err == nil {
			pool.Close()
		}
	})
	return db
}

// migrated returns a pool of its own on a database with its tables.
func migrated(t *testing.T, dsn string) *gorm.DB {
	t.Helper()
	db := open(t, dsn)
	_, err := backend.Migrate(t.Context(), db)
	testkit.Must(t, err)
	return db
}

func exec(t *testing.T, db *gorm.DB, statement string) {
	t.Helper()
	testkit.Mustf(t, db.WithContext(t.Context()).Exec(statement).Error, "%s", statement)
}

func TestMigrateAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		const processes = 8
		var mu sync.Mutex
		var applied []int
		var wg sync.WaitGroup
		for range processes {
			db := open(t, dsn)
			wg.Go(func() {
				numbers, err := backend.Migrate(t.Context(), db)
				testkit.Is(t, err, nil, "Migrate()")
				mu.Lock()
				applied = append(applied, numbers...)
				mu.Unlock()
			})
		}
		wg.Wait()
		db := open(t, dsn)
		all, err := backend.Migrations(db.Name())
		testkit.Must(t, err)
		var want []int
		for _, m := range all {
			want = append(want, m.Number)
		}
		slices.Sort(applied)
		testkit.Same(t, applied, want, "%d processes together applied", processes)
		if again, err := backend.Migrate(t.Context(), db); err != nil || len(again) > 0 {
			t.Errorf("Migrate() again = %v, %v, want none", again, err)
		}
		var recorded []int
		if err := db.Raw("SELECT number FROM lastitem_migrations ORDER BY number").Scan(&recorded).Error; err != nil ||
			!slices.Equal(recorded, want) {
			t.Errorf("recorded migrations = %v, %v, want %v", recorded, err, want)
		}
	})
}

func TestMigrateRefusesForeignTables(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		for _, table := range backend.Tables {
			db := open(t, dsn)
			exec(t, db, "CREATE TABLE "+table+" (theirs INT)")
			if applied, err := backend.Migrate(t.Context(), db); !errors.Is(err, backend.ErrForeignTables) || len(applied) > 0 {
				t.Errorf("Migrate() beside a foreign %s = %v, %v, want ErrForeignTables", table, applied, err)
			}
			if err := db.Exec("SELECT theirs FROM " + table).Error; err != nil {
				t.Errorf("the foreign %s afterwards: %v, want it untouched", table, err)
			}
			exec(t, db, "DROP TABLE "+table)
		}
		db := open(t, dsn)
		_, err := backend.Migrate(t.Context(), db)
		testkit.Is(t, err, nil, "Migrate() once they are gone")
		testkit.Is(t, backend.DropTables(t.Context(), db), nil, "DropTables()")
		for _, table := range append([]string{"lastitem_migrations"}, backend.Tables...) {
			if err := db.Exec("SELECT 1 FROM " + table).Error; err == nil {
				t.Errorf("%s is still there after DropTables()", table)
			}
		}
	})
}

// A replica that waits for another one's migration gives up with its context, and leaves nothing behind.
func TestMigrateCancelled(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		db := open(t, dsn)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := backend.Migrate(ctx, db); !errors.Is(err, context.Canceled) {
			t.Errorf("Migrate() with an ended context = %v, want context.Canceled", err)
		}
		if applied, err := backend.Migrate(t.Context(), db); err != nil || len(applied) == 0 {
			t.Errorf("Migrate() afterwards = %v, %v, want all", applied, err)
		}
	})
}

// The lock is the database's own: two databases of one server do not wait for each other, and a long name fits.
func TestMigrateLongDatabaseName(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQL(t)
	name := "t_" + strings.Repeat("x", 46) + fmt.Sprint(time.Now().UnixNano()%1e15)
	db := open(t, dsn)
	exec(t, db, "CREATE DATABASE "+name)
	t.Cleanup(func() { open(t, dsn).Exec("DROP DATABASE " + name) })
	start, end := strings.LastIndex(dsn, "/"), strings.LastIndex(dsn, "?")
	if end < start {
		end = len(dsn)
	}
	_, err := backend.Migrate(t.Context(), open(t, dsn[:start+1]+name+dsn[end:]))
	testkit.Is(t, err, nil, "Migrate() of a database with a name of %d characters", len(name))
}

// What a database records must be the first of this program's migrations, by number and name; else nothing is changed,
// and the error says how to start over.
func TestMigrateRefusesAnotherVersion(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		db := migrated(t, dsn)
		for differs, record := range map[string][2]string{
			"another name": {"UPDATE lastitem_migrations SET name = '0001_stock.sql' WHERE number = 1",
				"migration 1, 0001_stock.sql"},
			"a gap":    {"UPDATE lastitem_migrations SET number = 2 WHERE number = 1", "migration 2, 0001_tables.sql"},
			"one more": {"INSERT INTO lastitem_migrations VALUES (1000, '1000_later.sql', 0)", "migration 1000, 1000_later.sql"},
		} {
			exec(t, db, "DELETE FROM lastitem_migrations")
			exec(t, db, "INSERT INTO lastitem_migrations VALUES (1, '0001_tables.sql', 0)")
			if there, err := backend.Migrated(t.Context(), db); !there || err != nil {
				t.Fatalf("Migrated() = %t, %v, want true, nil", there, err)
			}
			exec(t, db, record[0])
			applied, err := backend.Migrate(t.Context(), db)
			if !errors.Is(err, backend.ErrOtherMigrations) || len(applied) > 0 {
				t.Fatalf("Migrate() with %s = %v, %v, want ErrOtherMigrations", differs, applied, err)
			}
			for lang, advice := range map[string]string{"en": "To start over", "zh": "要从头开始"} {
				if said := text.ErrorIn(lang, err); !strings.Contains(said, advice) ||
					lang == "en" && !strings.Contains(said, record[1]) {
					t.Errorf("Migrate() with %s says %q, want %q and %q", differs, said, record[1], advice)
				}
			}
			if there, err := backend.Migrated(t.Context(), db); there || !errors.Is(err, backend.ErrOtherMigrations) {
				t.Errorf("Migrated() with %s = %t, %v, want ErrOtherMigrations", differs, there, err)
			}
		}
	})
}

// A database is ready when the last of the migrations has been applied, not the first: a mode wants all of its tables
// and columns.
func TestNotReadyBeforeTheLastMigration(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		db := migrated(t, dsn)
		last := "(SELECT * FROM (SELECT MAX(number) FROM lastitem_migrations) AS numbers)"
		exec(t, db, "UPDATE lastitem_migrations SET number = number + 1000 WHERE number = "+last)
		set, err := backend.Open(backend.Config{SQL: dsn, Conns: 1, Health: backend.Health{Every: 10 * time.Millisecond}})
		testkit.Must(t, err)
		t.Cleanup(func() { set.Close() })
		until := func(want string) {
			t.Helper()
			testkit.Until(t, want+" in Check(sql)", func() bool { return strings.Contains(fmt.Sprint(set.Check("sql")), want) })
		}
		until("not all been applied")
		exec(t, db, "UPDATE lastitem_migrations SET number = number - 1000 WHERE number > 1000")
		until("<nil>")
	})
}

func TestDialectsAgree(t *testing.T) {
	t.Parallel()
	tables := map[string][]string{}
	numbers := map[string][]int{}
	for _, d := range dialects {
		all, err := backend.Migrations(d.name)
		testkit.Must(t, err)
		for i, m := range all {
			numbers[d.name] = append(numbers[d.name], m.Number)
			if m.Number != i+1 || !strings.HasPrefix(m.Name, fmt.Sprintf("%04d_", m.Number)) {
				t.Errorf("%s: migration %d is %d, %s, want no gaps and four digits", d.name, i+1, m.Number, m.Name)
			}
			for line := range strings.Lines(m.SQL) {
				if rest, ok := strings.CutPrefix(line, "CREATE TABLE IF NOT EXISTS "); ok {
					tables[d.name] = append(tables[d.name], strings.Fields(rest)[0])
				}
			}
		}
	}
	if diff := cmp.Diff(numbers["mysql"], numbers["sqlite"]); diff != "" {
		t.Errorf("numbers (-mysql +sqlite):\n%s", diff)
	}
	for name, got := range tables {
		if diff := cmp.Diff(backend.Tables, got); diff != "" {
			t.Errorf("tables of %s (-Tables +migrations):\n%s", name, diff)
		}
	}
	if _, err := backend.Migrations("oracle"); err == nil {
		t.Error("Migrations(oracle) = nil, want an error")
	}
}

// Writers of three processes read and then write in one transaction: none of them may fail.
func TestConcurrentWriters(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		first := migrated(t, dsn)
		const processes, writers, times = 3, 3, 8
		s, err := sqldb.New(first)
		testkit.Must(t, err)
		testkit.Must(t, s.Reset(t.Context(), 1, processes*writers*times, ledger.Rules{}))
		var wg sync.WaitGroup
		for range processes {
			s, err := sqldb.New(open(t, dsn))
			testkit.Must(t, err)
			for range writers {
				wg.Go(func() {
					for range times {
						err := s.Tx(t.Context(), sqldb.ReadCommitted, func(tx *sqldb.Tx) error {
							if _, err := tx.Read(1); err != nil {
								return err
							}
							_, _, err := tx.Take(1, 1)
							return err
						})
						testkit.Is(t, err, nil, "Tx()")
					}
				})
			}
		}
		wg.Wait()
		if row, err := s.Read(t.Context(), 1); err != nil || row.Stock != 0 {
			t.Errorf("stock = %d, %v, want 0", row.Stock, err)
		}
	})
}

func TestConnectionsAreUTF8(t *testing.T) {
	t.Parallel()
	db := open(t, testenv.MySQL(t))
	var client, connection string
	testkit.Must(t, db.Raw("SELECT @@character_set_client, @@character_set_connection").Row().Scan(&client, &connection))
	if client != "utf8mb4" || connection != "utf8mb4" {
		t.Errorf("character sets = %s, %s, want utf8mb4", client, connection)
	}
}
