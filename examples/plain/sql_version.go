package plain

import (
	"context"
	"database/sql"
	"errors"
)

// Version reads, works without a lock for as long as it takes, and writes only if nobody has written since.
//
//	CREATE TABLE stock (product BIGINT PRIMARY KEY, units BIGINT NOT NULL CHECK (units >= 0), version BIGINT NOT NULL);
//	CREATE TABLE orders (id BIGINT AUTO_INCREMENT PRIMARY KEY, product BIGINT NOT NULL, quantity BIGINT NOT NULL);
//
// Traps: every write of the row must raise the version, restocks too. A time is no version: two writes in one tick look
// alike. Read anew in each try, outside of a REPEATABLE READ transaction. To run out of tries is not to be sold out.
func Version(ctx context.Context, db *sql.DB, product, quantity int64) error {
	if quantity < 1 {
		return ErrQuantity
	}
	for range 20 {
		var units, version int64
		err := db.QueryRowContext(ctx, "SELECT units, version FROM stock WHERE product = ?", product).Scan(&units, &version)
		if errors.Is(err, sql.ErrNoRows) || err == nil && units < quantity {
			return ErrSoldOut
		}
		if err != nil {
			return err
		}
		err = inTx(ctx, db, func(tx *sql.Tx) error { return swap(ctx, tx, product, quantity, units-quantity, version) })
		if !errors.Is(err, ErrContended) {
			return err
		}
	}
	return ErrContended
}

// swap writes the computed count and the order, if the version is still the one that was read.
func swap(ctx context.Context, tx *sql.Tx, product, quantity, units, version int64) error {
	res, err := tx.ExecContext(ctx, "UPDATE stock SET units = ?, version = version + 1 WHERE product = ? AND version = ?",
		units, product, version)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, ErrContended)
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO orders (product, quantity) VALUES (?, ?)", product, quantity)
	return err
}
