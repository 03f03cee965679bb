package sqldb

import (
	"context"
	"database/sql"
	"errors"

	"lastitem/contract/ledger"
	"lastitem/internal/store"
)

// Row is a product's row as a plain read sees it. LeaseSeq and Version rise with every write.
type Row struct {
	Stock     int64
	LeaseSeq  uint64
	Version   uint64
	UpdatedAt string // when it was last written, in whole seconds by the database's clock
}

// readRow reads a row, and the query's further columns into more.
func readRow(row *sql.Row, product int64, more ...any) (Row, error) {
	var r Row
	var segments int
	err := row.Scan(append([]any{&r.Stock, &r.LeaseSeq, &r.Version, &r.UpdatedAt, &segments}, more...)...)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return Row{}, &ledger.ProductError{Err: store.ErrUnknownProduct, ProductID: product}
	case err != nil:
		return Row{}, statementError(err)
	case segments == noCounter:
		return Row{}, &ledger.ProductError{Err: store.ErrOtherWay, ProductID: product}
	case segments > 0:
		return Row{}, &ledger.ProductError{Err: store.ErrSegmented, ProductID: product}
	}
	return r, nil
}

// noCounter in the column segments says that the column way tells how the product is sold, and that modes refuse it
// which do not look there. Otherwise segments is their number, 0 = one counter.
const noCounter = -1

// columns says how a product is sold, in the columns way and segments.
func columns(s ledger.Sold, segments int) (way ledger.Sold, column int) {
	switch s {
	case ledger.InSegments:
		return ledger.Undecided, segments
	case ledger.PerBuyer:
		return ledger.Relatively, noCounter
	case ledger.Computed, ledger.InUnits:
		return s, noCounter
	}
	return s, 0
}

// soldAs reads it from there.
func soldAs(way ledger.Sold, segments int) ledger.Sold {
	switch {
	case segments > 0:
		return ledger.InSegments
	case segments == noCounter && way == ledger.Relatively:
		return ledger.PerBuyer
	}
	return way
}

// querier is a pool, a connection or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// eachRow has scan read each row of a query; of a packet of several, one scan reads the rows of each.
func eachRow(ctx context.Context, at querier, query string, args []any, scan ...func(*sql.Rows) error) error {
	rows, err := at.QueryContext(ctx, query, args...)
	if err != nil {
		return statementError(err)
	}
	defer func() { _ = rows.Close() }() // rows.Err below reports every error
	for _, one := range scan {
		for rows.Next() {
			if err := one(rows); err != nil {
				return statementError(err)
			}
		}
		rows.NextResultSet()
	}
	return statementError(rows.Err())
}

// allRows reads the rows of a query into a slice.
func allRows[T any](ctx context.Context, at querier, scan func(*sql.Rows, *T) error, query string,
	args ...any) (all []T, err error) {
	err = eachRow(ctx, at, query, args, func(rows *sql.Rows) error {
		var row T
		err := scan(rows, &row)
		all = append(all, row)
		return err
	})
	return all, err
}

// column scans rows of one column.
func column[T any](rows *sql.Rows, v *T) error { return rows.Scan(v) }

func scanAdjustment(rows *sql.Rows, a *ledger.Adjustment) error {
	return rows.Scan(&a.Delta, &a.Reason, &a.Key, &a.Initial, &a.Stock, &a.AtMicros)
}
