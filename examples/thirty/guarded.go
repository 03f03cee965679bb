package main

import (
	"context"
	"database/sql"
)

type guarded struct{ db *sql.DB }

// sell checks the stock and takes a unit in one statement. The order is written in the same transaction, and its id is
// the client's key, so that a repeated request finds it.
func (s guarded) sell(ctx context.Context, product, key string) (order string, err error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	r, err := tx.ExecContext(ctx, "INSERT IGNORE INTO orders (id, product) VALUES (?, ?)", key, product)
	if err == nil && rows(r) == 1 {
		r, err = tx.ExecContext(ctx, "UPDATE products SET stock = stock - 1 WHERE id = ? AND stock > 0", product)
		if err == nil && rows(r) == 0 {
			return "", nil
		}
	}
	if err != nil {
		return "", err
	}
	return key, tx.Commit()
}

func rows(r sql.Result) int64 {
	n, _ := r.RowsAffected() // this driver always knows it
	return n
}
