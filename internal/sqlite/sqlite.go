// Package sqlite opens a file of SQLite for gorm and says what an error of SQLite means, by its number. It is the only
// package that knows the driver. Start with [Connector] and [Dialector].
package sqlite

import (
	"database/sql"
	"database/sql/driver"
	"fmt"
	"net/url"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/callbacks"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
	"gorm.io/gorm/migrator"
	"gorm.io/gorm/schema"
	"modernc.org/sqlite"
)

// Every connection begins with these settings. A statement waits up to ten seconds for the write lock. Readers and the
// writer do not wait for each other (WAL). Writers queue for the one write lock from BEGIN on: a transaction that reads
// and then writes would fail if another had written in between.
const settings = "?_busy_timeout=10000&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_txlock=immediate"

// Connector makes connections to a file, which the first of them makes if it is missing; its directory must be there.
func Connector(file string) (driver.Connector, error) {
	c, err := sqlite.NewConnector("file:" + (&url.URL{Path: file}).EscapedPath() + settings)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	return c, nil
}

// Dialector is SQLite for gorm, on a pool of connections by [Connector]. [gorm.Open] opens the first connection, so it
// fails if the file cannot be opened. Raw statements, Exec and transactions work; models do not, since nothing here
// makes a table from a type.
type Dialector struct{ Pool *sql.DB }

// Name is the dialect: "sqlite".
func (Dialector) Name() string { return "sqlite" }

// Initialize gives db the pool.
func (d Dialector) Initialize(db *gorm.DB) error {
	callbacks.RegisterDefaultCallbacks(db, &callbacks.Config{})
	db.ConnPool = d.Pool
	return d.Pool.Ping()
}

// Migrator is gorm's own, which cannot read the schema of SQLite: the tables are those of package migrations.
func (d Dialector) Migrator(db *gorm.DB) gorm.Migrator {
	return migrator.Migrator{Config: migrator.Config{DB: db, Dialector: d}}
}

// DataTypeOf is the type of a field, as it is.
func (Dialector) DataTypeOf(f *schema.Field) string { return string(f.DataType) }

// DefaultValueOf is what an INSERT gives a field without a value.
func (Dialector) DefaultValueOf(*schema.Field) clause.Expression { return clause.Expr{SQL: "NULL"} }

// BindVarTo writes a parameter.
func (Dialector) BindVarTo(w clause.Writer, _ *gorm.Statement, _ any) { _ = w.WriteByte('?') }

// QuoteTo writes a name in quotes.
func (Dialector) QuoteTo(w clause.Writer, name string) {
	_, _ = w.WriteString(`"` + strings.ReplaceAll(name, `"`, `""`) + `"`)
}

// Explain writes a statement with its parameters, for a log.
func (Dialector) Explain(statement string, parameters ...any) string {
	return logger.ExplainSQL(statement, nil, `'`, parameters...)
}
