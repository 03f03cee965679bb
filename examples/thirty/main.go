// Thirty is the service of docs/lab-anybody.md: it sells under a lock or, with -guarded, by a statement that checks.
package main

import (
	"database/sql"
	"flag"
	"fmt"
	"log"
	"net/http"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
)

func main() {
	addr := flag.String("listen", "127.0.0.1:9000", "")
	url := flag.String("redis", "redis://127.0.0.1:6379/0", "")
	dsn := flag.String("mysql", "root@tcp(127.0.0.1:3306)/shop", "")
	ttl := flag.Duration("ttl", 10*time.Second, "of the lock")
	guard := flag.Bool("guarded", false, "sell as guarded.go does, not as locked.go")
	flag.Parse()
	options, err := redis.ParseURL(*url)
	if err != nil {
		log.Fatal(err)
	}
	db, err := sql.Open("mysql", *dsn)
	if err != nil {
		log.Fatal(err)
	}
	sell := locked{redis.NewClient(options), db, *ttl}.sell
	if *guard {
		sell = guarded{db}.sell
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
	server := &http.Server{Addr: *addr, ReadHeaderTimeout: 5 * time.Second}
	log.Fatal(server.ListenAndServe())
}
