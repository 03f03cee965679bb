package trace

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"

	"lastitem/say/text"
	"lastitem/stack/wire"
	"lastitem/stack/wire/codec"
)

// watchSQLite notes the statements of the replica when it hands them to SQLite. SQLite runs inside the replica: there
// is no wire, and no server's side.
func (t *Tracer) watchSQLite() {
	db := t.replica.Backends.DB
	db.Statement.ConnPool = notedPool{db.Statement.ConnPool, &t.recorder}
	t.notes = append(t.notes, text.Of("sql is embedded SQLite, which has no wire: its statements are noted as the "+
		"replica hands them over."))
}

// notedPool is a connection pool, or a transaction, whose statements are noted.
type notedPool struct {
	gorm.ConnPool
	r *wire.Recorder
}

func (p notedPool) note(began time.Time, statement string, args ...any) {
	p.r.Add(wire.Call{Server: "sql", Text: codec.SQLText(fill(statement, args)), Sent: began, Answered: time.Now()})
}

// ExecContext notes, and executes.
func (p notedPool) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	defer p.note(time.Now(), query, args...)
	return p.ConnPool.ExecContext(ctx, query, args...)
}

// QueryContext notes, and asks.
func (p notedPool) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	defer p.note(time.Now(), query, args...)
	return p.ConnPool.QueryContext(ctx, query, args...) //nolint:sqlclosecheck // whoever asked closes them
}

// QueryRowContext notes, and asks.
func (p notedPool) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	defer p.note(time.Now(), query, args...)
	return p.ConnPool.QueryRowContext(ctx, query, args...)
}

// BeginTx notes, and begins a transaction that notes.
func (p notedPool) BeginTx(ctx context.Context, o *sql.TxOptions) (gorm.ConnPool, error) {
	began := time.Now()
	beginner, ok := p.ConnPool.(gorm.TxBeginner)
	if !ok {
		return nil, gorm.ErrInvalidTransaction
	}
	tx, err := beginner.BeginTx(ctx, o)
	if err != nil {
		return nil, err
	}
	p.note(began, "BEGIN IMMEDIATE") // see _txlock in package backend
	return &notedTx{notedPool{tx, p.r}, tx}, nil
}

// GetDBConn gives gorm what its statistics are of.
func (p notedPool) GetDBConn() (*sql.DB, error) {
	if db, ok := p.ConnPool.(*sql.DB); ok {
		return db, nil
	}
	return nil, gorm.ErrInvalidDB
}

// notedTx is a transaction; its end is noted too.
type notedTx struct {
	notedPool
	tx gorm.TxCommitter
}

// Commit notes, and commits.
func (t *notedTx) Commit() error {
	defer t.note(time.Now(), "COMMIT")
	return t.tx.Commit()
}

// Rollback notes, and rolls back.
func (t *notedTx) Rollback() error {
	defer t.note(time.Now(), "ROLLBACK")
	return t.tx.Rollback()
}

// fill writes the arguments of a statement where they go.
func fill(statement string, args []any) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(statement, "?")
		b.WriteString(before)
		if !found || len(args) == 0 {
			return b.String()
		}
		b.WriteString(sqlValue(args[0]))
		statement, args = after, args[1:]
	}
}

func sqlValue(v any) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case []byte:
		if v == nil {
			return "NULL"
		}
		return "_binary" + sqlValue(string(v))
	case string:
		return "'" + strings.ReplaceAll(v, "'", "''") + "'"
	case *int64:
		if v == nil {
			return "NULL"
		}
		return fmt.Sprint(*v)
	}
	return fmt.Sprint(v)
}
