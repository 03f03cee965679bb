package plain

import (
	"context"
	"database/sql"
)

// Idempotent sells once for each key, however often the request comes: the key is the primary key of the order.
//
//	CREATE TABLE stock (product BIGINT PRIMARY KEY, units BIGINT NOT NULL CHECK (units >= 0));
//	CREATE TABLE sales (request VARBINARY(64) PRIMARY KEY, product BIGINT NOT NULL, quantity BIGINT NOT NULL);
//
// Traps: key, stock and order are one transaction; a key that is written before it, in a transaction of its own or in
// Redis, is lost with the first crash between the two. A refusal rolls the key back, so the same key may try again
// after a restock. The client makes the key, once for each purchase, and not for each attempt.
//
// The mode's contract is wider: it stores the whole answer, and a final refusal with it, and replays both byte for
// byte; its keys have up to 255 bytes. Here a repetition is told that it was sold, and no more.
func Idempotent(ctx context.Context, db *sql.DB, key string, product, quantity int64) error {
	if quantity < 1 {
		return ErrQuantity
	}
	if key == "" || len(key) > 64 { // a server that is not strict cuts a longer one, and two keys become one
		return ErrKey
	}
	return inTx(ctx, db, func(tx *sql.Tx) error {
		// Another request with this key waits here until the first has ended.
		_, err := tx.ExecContext(ctx, "INSERT INTO sales (request, product, quantity) VALUES (?, ?, ?)", key, product,
			quantity)
		if says(err, 1062) { // duplicate key: sold before
			return sameSale(ctx, tx, key, product, quantity)
		}
		if err != nil {
			return err
		}
		return take(ctx, tx, product, quantity)
	})
}

// sameSale says that the key was used for another purchase, if it was.
func sameSale(ctx context.Context, tx *sql.Tx, key string, product, quantity int64) error {
	var same bool
	err := tx.QueryRowContext(ctx, "SELECT product = ? AND quantity = ? FROM sales WHERE request = ?", product, quantity,
		key).Scan(&same)
	if err == nil && !same {
		err = ErrOtherSale
	}
	return err
}
