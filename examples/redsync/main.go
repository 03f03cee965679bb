// A flash sale: redsync with go-redis around the sale, stock and orders in MySQL.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"log"
	"net/http"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	_ "github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
)

var (
	errSoldOut = errors.New("sold out")
	errChanged = errors.New("the version has changed")
)

type shop struct {
	locks   *redsync.Redsync
	expiry  time.Duration
	db      *sql.DB
	guarded bool
}

func main() {
	addr := flag.String("listen", "127.0.0.1:8080", "where to listen")
	redisURL := flag.String("redis", "redis://127.0.0.1:6379/0", "URL of Redis")
	dsn := flag.String("mysql", "root@tcp(127.0.0.1:3306)/shop", "DSN of MySQL")
	expiry := flag.Duration("lock-expiry", 8*time.Second, "expiry of the lock")
	guarded := flag.Bool("guarded", false, "write only if the version is still the one that was read")
	flag.Parse()

	opts, err := redis.ParseURL(*redisURL)
	if err != nil {
		log.Fatal(err)
	}
	db, err := sql.Open("mysql", *dsn)
	if err != nil {
		log.Fatal(err)
	}
	s := &shop{locks: redsync.New(goredis.NewPool(redis.NewClient(opts))), expiry: *expiry, db: db, guarded: *guarded}
	http.HandleFunc("POST /buy", s.buy)
	server := &http.Server{Addr: *addr, ReadHeaderTimeout: 5 * time.Second}
	log.Fatal(server.ListenAndServe())
}

func (s *shop) buy(w http.ResponseWriter, r *http.Request) {
	product := r.URL.Query().Get("product")
	mutex := s.locks.NewMutex("lock:product:"+product, redsync.WithExpiry(s.expiry))
	if err := mutex.LockContext(r.Context()); err != nil {
		http.Error(w, "busy", http.StatusLocked)
		return
	}
	defer func() {
		if _, err := mutex.Unlock(); err != nil {
			log.Printf("unlock product %s: %v", product, err)
		}
	}()
	id, err := s.sell(r.Context(), product)
	switch {
	case errors.Is(err, errSoldOut):
		http.Error(w, err.Error(), http.StatusConflict)
	case errors.Is(err, errChanged):
		http.Error(w, err.Error(), http.StatusLocked)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		_ = json.NewEncoder(w).Encode(map[string]int64{"order_id": id})
	}
}

// sell reads, checks and writes the stock; only the lock keeps other requests out.
func (s *shop) sell(ctx context.Context, product string) (id int64, err error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback()
	var stock, version int
	if err := tx.QueryRowContext(ctx, "SELECT stock, version FROM products WHERE id = ?", product).Scan(&stock,
		&version); err != nil {
		return 0, err
	}
	if stock < 1 {
		return 0, errSoldOut
	}
	if err := s.write(ctx, tx, product, stock-1, version); err != nil {
		return 0, err
	}
	res, err := tx.ExecContext(ctx, "INSERT INTO orders (product_id) VALUES (?)", product)
	if err != nil {
		return 0, err
	}
	if id, err = res.LastInsertId(); err != nil {
		return 0, err
	}
	return id, tx.Commit()
}

// write sets the stock: unconditionally or, if guarded, only if the version is still the one that was read.
func (s *shop) write(ctx context.Context, tx *sql.Tx, product string, stock, version int) error {
	if !s.guarded {
		_, err := tx.ExecContext(ctx, "UPDATE products SET stock = ? WHERE id = ?", stock, product)
		return err
	}
	res, err := tx.ExecContext(ctx, "UPDATE products SET stock = ?, version = version + 1 WHERE id = ? AND version = ?",
		stock, product, version)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, errChanged)
	}
	return nil
}
