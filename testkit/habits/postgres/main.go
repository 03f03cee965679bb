// Postgres is a small service on PostgreSQL for a test of the fault lab: it reads, checks and writes or, mended, lets
// one transaction do all of it: postgres bare|mended PORT URL.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
)

type service struct{ db *sql.DB }

// bare trusts what it has read.
func (s service) bare(ctx context.Context, product, key string) (order string, err error) {
	var stock int
	err = s.db.QueryRowContext(ctx, `SELECT stock FROM "products" WHERE id = $1`, product).Scan(&stock)
	if err != nil || stock < 1 {
		return "", err
	}
	if _, err = s.db.ExecContext(ctx, `UPDATE "products" SET stock = $1 WHERE id = $2`, stock-1, product); err == nil {
		_, err = s.db.ExecContext(ctx, "INSERT INTO orders (id, product) VALUES ($1, $2)", key, product)
	}
	return key, err
}

// mended takes a unit by a statement that checks, in one transaction with the order, which a repeated key finds.
func (s service) mended(ctx context.Context, product, key string) (order string, err error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	made, err := tx.ExecContext(ctx, "INSERT INTO orders (id, product) VALUES ($1, $2) ON CONFLICT DO NOTHING", key,
		product)
	if err != nil {
		return "", err
	}
	if n, _ := made.RowsAffected(); n == 1 {
		var left int
		err = tx.QueryRowContext(ctx, `UPDATE "products" SET stock = stock - 1 WHERE id = $1 AND stock > 0 RETURNING stock`,
			product).Scan(&left)
		if errors.Is(err, sql.ErrNoRows) {
			return "", nil
		}
	}
	if err != nil {
		return "", err
	}
	return key, tx.Commit()
}

func main() {
	if len(os.Args) != 4 {
		log.Fatal("want bare|mended PORT URL")
	}
	db, err := sql.Open("pgx", os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	s := service{db}
	sell := s.bare
	if os.Args[1] == "mended" {
		sell = s.mended
	}
	http.HandleFunc("POST /buy/{product}", func(w http.ResponseWriter, r *http.Request) {
		switch order, err := sell(r.Context(), r.PathValue("product"), r.Header.Get("Idempotency-Key")); {
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		case order == "":
			http.Error(w, "sold out", http.StatusConflict)
		default:
			_, _ = fmt.Fprintf(w, "{\"order_id\": %q}\n", order)
		}
	})
	server := &http.Server{Addr: "127.0.0.1:" + os.Args[2], ReadHeaderTimeout: 5 * time.Second}
	log.Fatal(server.ListenAndServe())
}
