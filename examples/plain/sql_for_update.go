package plain

import (
	"context"
	"database/sql"
	"errors"
)

// ForUpdate locks the row with its read, so that anything may be computed from what it read.
//
//	CREATE TABLE stock (product BIGINT PRIMARY KEY, units BIGINT NOT NULL CHECK (units >= 0));
//	CREATE TABLE orders (id BIGINT AUTO_INCREMENT PRIMARY KEY, product BIGINT NOT NULL, quantity BIGINT NOT NULL);
//
// Traps: the locking read must be the first read of the transaction, and find its row by the primary key, or it locks
// every row it looks at. Every waiting request keeps a connection of the pool: call no other service meanwhile. Lock
// several rows in the order of their keys.
func ForUpdate(ctx context.Context, db *sql.DB, product, quantity int64) error {
	if quantity < 1 {
		return ErrQuantity
	}
	return inTx(ctx, db, func(tx *sql.Tx) error {
		var units int64
		err := tx.QueryRowContext(ctx, "SELECT units FROM stock WHERE product = ? FOR UPDATE", product).Scan(&units)
		if errors.Is(err, sql.ErrNoRows) || err == nil && units < quantity {
			return ErrSoldOut
		}
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE stock SET units = ? WHERE product = ?", units-quantity, product)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO orders (product, quantity) VALUES (?, ?)", product, quantity)
		return err
	})
}
