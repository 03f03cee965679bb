package main

import (
	"context"
	"database/sql"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

type locked struct {
	locks *redis.Client
	db    *sql.DB
	ttl   time.Duration
}

// sell reads, checks and writes the stock under a lock, which keeps others out until its TTL is over.
func (s locked) sell(ctx context.Context, product, _ string) (order string, err error) {
	order = uuid.NewString()
	for !s.locks.SetNX(ctx, "lock:"+product, order, s.ttl).Val() && ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond)
	}
	defer s.locks.Del(ctx, "lock:"+product)
	var stock int
	err = s.db.QueryRowContext(ctx, "SELECT stock FROM products WHERE id = ?", product).Scan(&stock)
	if err != nil || stock < 1 {
		return "", err
	}
	_, err = s.db.ExecContext(ctx, "UPDATE products SET stock = ? WHERE id = ?", stock-1, product)
	if err == nil {
		_, err = s.db.ExecContext(ctx, "INSERT INTO orders (id, product) VALUES (?, ?)", order, product)
	}
	return order, err
}
