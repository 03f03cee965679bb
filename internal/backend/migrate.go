package backend

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"gorm.io/gorm"

	"lastitem/internal/sqlite"
	"lastitem/migrations"
	"lastitem/say/text"
)

// Migration is one numbered file of package migrations.
type Migration struct {
	Number int
	Name   string
	SQL    string
}

// migrationLock is the server-wide name under which one replica at a time migrates a database. MySQL bounds such names
// to 64 characters, as many as the database's own may have: hence the hash. It is computed here, since MySQL 9.6 and
// later have no SHA1().
func migrationLock(database string) string {
	sum := sha256.Sum256([]byte(database))
	return fmt.Sprintf("lastitem_migrate:%x", sum[:16])
}

// ErrForeignTables says that the database holds tables of our names that we did not make.
var ErrForeignTables = text.Of("backend: the database has tables of lastitem's names that lastitem did not make; " +
	"give it a database of its own").Errorf()

// ErrOtherMigrations says that the database records other migrations than those of this program.
var ErrOtherMigrations = text.Of("backend: the database is of another version of lastitem").Errorf()

// otherMigration names the first migration that differs, and says how to start over.
var otherMigration = text.Of("%w: it records migration %d, %s. To start over, without its data: drop the database " +
	"and create it empty; with SQLite, remove the file; with 'make up', run 'make down'")

// Migrate applies what is missing, in order, and returns the numbers it applied. Several replicas may call it at once:
// one goes first, the others wait for it (at most a minute) and find nothing to do.
func Migrate(ctx context.Context, db *gorm.DB) (applied []int, err error) {
	defer func() { err = explained(err) }()
	all, err := Migrations(db.Name())
	if err != nil {
		return nil, err
	}
	pool, err := db.DB()
	if err != nil {
		return nil, fmt.Errorf("backend: migrate: %w", err)
	}
	conn, err := pool.Conn(ctx) // one connection throughout: it is what holds the lock
	if err != nil {
		return nil, fmt.Errorf("backend: migrate: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if db.Name() == "mysql" {
		return migrateMySQL(ctx, conn, all)
	}
	return migrateSQLite(ctx, conn, all)
}

// migrateMySQL holds a named lock, since DDL commits by itself and no transaction could hold the others off.
func migrateMySQL(ctx context.Context, conn *sql.Conn, all []Migration) ([]int, error) {
	var database string
	if err := conn.QueryRowContext(ctx, "SELECT DATABASE()").Scan(&database); err != nil {
		return nil, fmt.Errorf("backend: migrate: %w", err)
	}
	var got sql.NullInt64
	if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, 60)", migrationLock(database)).Scan(&got); err != nil {
		return nil, fmt.Errorf("backend: migrate: %w", err)
	}
	if got.Int64 != 1 {
		return nil, text.Of("backend: migrate: another process has been migrating for a minute").Errorf()
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_, _ = conn.ExecContext(ctx, "DO RELEASE_LOCK(?)", migrationLock(database)) // closing the connection frees it too
	}()
	return applyMissing(ctx, conn, all)
}

// migrateSQLite runs in one transaction that holds the database's write lock. ctx does not end it: under a context that
// has ended, the driver may skip a statement and report success.
func migrateSQLite(ctx context.Context, conn *sql.Conn, all []Migration) ([]int, error) {
	ctx = context.WithoutCancel(ctx)
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return nil, fmt.Errorf("backend: migrate: %w", err)
	}
	applied, err := applyMissing(ctx, conn, all)
	if err == nil {
		_, err = conn.ExecContext(ctx, "COMMIT")
	}
	if err != nil {
		_, endErr := conn.ExecContext(ctx, "ROLLBACK")
		return nil, errors.Join(err, endErr)
	}
	return applied, nil
}

func applyMissing(ctx context.Context, conn *sql.Conn, all []Migration) (applied []int, err error) {
	there, err := has(ctx, conn, "lastitem_migrations")
	if err != nil {
		return nil, err
	}
	if !there {
		if err := createMigrationsTable(ctx, conn); err != nil {
			return nil, err
		}
	}
	done, err := countApplied(ctx, conn, all)
	if err != nil {
		return nil, err
	}
	for _, m := range all[done:] {
		for statement := range strings.SplitSeq(m.SQL, ";\n") {
			if strings.TrimSpace(statement) == "" {
				continue
			}
			if _, err := conn.ExecContext(ctx, statement); err != nil {
				return applied, fmt.Errorf("backend: migration %s: %w", m.Name, err)
			}
		}
		if _, err := conn.ExecContext(ctx, "INSERT INTO lastitem_migrations (number, name, applied_us) VALUES (?, ?, ?)",
			m.Number, m.Name, time.Now().UnixMicro()); err != nil {
			return applied, fmt.Errorf("backend: migration %s: %w", m.Name, err)
		}
		applied = append(applied, m.Number)
	}
	return applied, nil
}

// countApplied returns how many of the migrations the database records. They must be the first ones, by number and
// name; else the error is [ErrOtherMigrations].
func countApplied(ctx context.Context, conn *sql.Conn, all []Migration) (n int, err error) {
	rows, err := conn.QueryContext(ctx, "SELECT number, name FROM lastitem_migrations ORDER BY number")
	if err != nil {
		return 0, fmt.Errorf("backend: migrate: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for ; rows.Next(); n++ {
		var m Migration
		if err := rows.Scan(&m.Number, &m.Name); err != nil {
			return 0, fmt.Errorf("backend: migrate: %w", err)
		}
		if n == len(all) || m.Number != all[n].Number || m.Name != all[n].Name {
			return 0, otherMigration.Errorf(ErrOtherMigrations, m.Number, m.Name)
		}
	}
	return n, rows.Err()
}

func createMigrationsTable(ctx context.Context, conn *sql.Conn) error {
	if err := foreign(ctx, conn); err != nil {
		return err
	}
	_, err := conn.ExecContext(ctx, "CREATE TABLE lastitem_migrations (number INT NOT NULL PRIMARY KEY, name "+
		"VARCHAR(255) NOT NULL, applied_us BIGINT NOT NULL)")
	if err != nil {
		return fmt.Errorf("backend: migrate: %w", err)
	}
	return nil
}

// Migrated says whether the database holds lastitem's tables. An error means that this could not be found out, for
// instance because the database does not answer, or [ErrForeignTables] or [ErrOtherMigrations].
func Migrated(ctx context.Context, db *gorm.DB) (done bool, err error) {
	defer func() { err = explained(err) }()
	all, err := Migrations(db.Name())
	if err != nil {
		return false, err
	}
	pool, err := db.DB()
	if err != nil {
		return false, fmt.Errorf("backend: %w", err)
	}
	conn, err := pool.Conn(ctx)
	if err != nil {
		return false, fmt.Errorf("backend: %w", err)
	}
	defer func() { _ = conn.Close() }()
	there, err := has(ctx, conn, "lastitem_migrations")
	switch {
	case err != nil:
		return false, err
	case !there:
		return false, foreign(ctx, conn)
	}
	_, err = countApplied(ctx, conn, all)
	return err == nil, err
}

// errNotMigrated is the error of a database whose migrations have not all run.
var errNotMigrated = errors.New("backend: the migrations have not all been applied yet")

// upToDate is nil when the last migration of this binary has been applied.
func upToDate(ctx context.Context, db *gorm.DB) error {
	all, err := Migrations(db.Name())
	if err != nil {
		return err
	}
	var n int
	err = db.WithContext(ctx).Raw("SELECT COUNT(*) FROM lastitem_migrations WHERE number = ?",
		all[len(all)-1].Number).Row().Scan(&n)
	if err == nil && n == 0 {
		err = errNotMigrated
	}
	return err
}

// erNoSuchTable is MySQL's error number for a table that does not exist.
const erNoSuchTable = 1146

// has says whether there is a table. An error, such as a time-out or a lack of rights, says neither that there is one
// nor that there is none: a caller that took it for the latter might drop the tables later, as if it had made them.
func has(ctx context.Context, conn *sql.Conn, table string) (bool, error) {
	var one int
	err := conn.QueryRowContext(ctx, "SELECT 1 FROM "+table+" LIMIT 1").Scan(&one)
	var my *mysql.MySQLError
	switch {
	case err == nil, errors.Is(err, sql.ErrNoRows):
		return true, nil
	case errors.As(err, &my) && my.Number == erNoSuchTable, sqlite.NoTable(err):
		return false, nil
	}
	return false, fmt.Errorf("backend: look for the table %s: %w", table, err)
}

// foreign returns ErrForeignTables when a table of ours is there that no migration made.
func foreign(ctx context.Context, conn *sql.Conn) error {
	for _, table := range Tables {
		there, err := has(ctx, conn, table)
		if err != nil {
			return err
		}
		if there {
			return fmt.Errorf("%w: %s", ErrForeignTables, table)
		}
	}
	return nil
}

// Tables are the tables that the migrations make, besides lastitem_migrations.
var Tables = []string{"product_stock", "orders", "idempotent_log", "record_lock", "reservation", "reservation_item",
	"reservation_event", "payment", "buyer_units", "unit", "adjustment", "order_return", "received",
	"reconciliation"}

// Migrations lists the migrations of a dialect ("mysql" or "sqlite") in order.
func Migrations(dialect string) ([]Migration, error) {
	files, err := fs.Glob(migrations.Files, dialect+"/*.sql")
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("backend: no migrations for %q: %w", dialect, err)
	}
	all := make([]Migration, len(files)) // Glob sorts, and the numbers have leading zeros
	for i, file := range files {
		said, err := migrations.Files.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("backend: migration %s: %w", file, err)
		}
		name := path.Base(file)
		number, err := strconv.Atoi(strings.SplitN(name, "_", 2)[0])
		if err != nil {
			return nil, fmt.Errorf("backend: migration %s has no number: %w", file, err)
		}
		all[i] = Migration{Number: number, Name: name, SQL: string(said) + "\n"}
	}
	return all, nil
}

// DropTables removes everything that Migrate made.
func DropTables(ctx context.Context, db *gorm.DB) error {
	var errs []error
	for _, table := range append([]string{"lastitem_migrations"}, Tables...) {
		errs = append(errs, db.WithContext(ctx).Exec("DROP TABLE IF EXISTS "+table).Error)
	}
	return errors.Join(errs...)
}
