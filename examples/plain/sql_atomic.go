package plain

import (
	"context"
	"database/sql"
)

// Atomic checks and takes in one statement, and inserts the order in the same transaction.
//
//	CREATE TABLE stock (product BIGINT PRIMARY KEY, units BIGINT NOT NULL CHECK (units >= 0));
//	CREATE TABLE orders (id BIGINT AUTO_INCREMENT PRIMARY KEY, product BIGINT NOT NULL, quantity BIGINT NOT NULL);
//
// Traps: an UPDATE that matches no row is no error, so look at the affected rows. Write units >= ?, not units > 0.
// A client that repeats its request buys twice: see Idempotent.
func Atomic(ctx context.Context, db *sql.DB, product, quantity int64) error {
	if quantity < 1 {
		return ErrQuantity
	}
	return inTx(ctx, db, func(tx *sql.Tx) error {
		if err := take(ctx, tx, product, quantity); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO orders (product, quantity) VALUES (?, ?)", product, quantity)
		return err
	})
}

// take is the conditional update.
func take(ctx context.Context, tx *sql.Tx, product, quantity int64) error {
	res, err := tx.ExecContext(ctx, "UPDATE stock SET units = units - ? WHERE product = ? AND units >= ?", quantity,
		product, quantity)
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err == nil && n == 0 {
		err = ErrSoldOut // or there is no such product
	}
	return err
}
