package gear

import (
	"context"
	"fmt"
	"strconv"

	"lastitem/stack"
)

// fenceKey is the key of the fencing counter of the lane's product. Its value is the last token that was granted.
func (s *Set) fenceKey() string {
	return fmt.Sprintf("%sfencing:{%d}:fence", s.prefix(), s.Product())
}

// SetFence sets the fencing counter of the lane's product in its own Redis, and the highest token that the product's
// row has seen.
func (s *Set) SetFence(ctx context.Context, token int64) error {
	err := s.SQL.exec(ctx, "UPDATE product_stock SET fence = ? WHERE id = ?", token, s.Product())
	if err != nil {
		return err
	}
	_, err = s.Own.Tell(ctx, stack.Redis, "SET", s.fenceKey(), strconv.FormatInt(token, 10))
	return err
}

// WriteFence writes to the product's row with the token that was granted last, as its holder would. Then the row has
// seen that token, and the stock is unchanged. It returns ErrNothing if no token was granted, the row has seen a higher
// one, or another transaction has locked the row.
func (s *Set) WriteFence(ctx context.Context) error {
	to := s.linkTo(stack.Redis)
	text, err := redisDo(ctx, to.addr, passwordOf(to.url), "GET", s.fenceKey())
	if err != nil {
		return err
	}
	token, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return ErrNothing
	}
	rows, err := s.SQL.LockRows(ctx, "product_stock")
	if err != nil {
		return err
	}
	res, err := rows.tx.ExecContext(ctx, "UPDATE product_stock SET fence = ?, version = version + 1 WHERE id = ? AND "+
		"fence <= ?", token, s.Product(), token)
	if err != nil {
		rows.Unlock()
		return fmt.Errorf("faultlab: %w", err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		rows.Unlock()
		return ErrNothing
	}
	return rows.tx.Commit()
}
