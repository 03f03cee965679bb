// A shop of three steps, as many are: a basket in a session, an address, and a checkout that redirects.
package main

import (
	"context"
	"flag"
	"log"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

type shop struct {
	db      *redis.Client
	guarded bool
}

// basket begins a session with a product in its basket.
func (s *shop) basket(w http.ResponseWriter, r *http.Request) {
	id := uuid.NewString()
	if err := s.db.HSet(r.Context(), "session:"+id, "product", r.PathValue("product")).Err(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	//nolint:gosec // it is on loopback, without TLS
	http.SetCookie(w, &http.Cookie{Name: "session", Value: id, Path: "/", HttpOnly: true})
}

func (s *shop) address(w http.ResponseWriter, r *http.Request) {
	if err := s.db.HSet(r.Context(), session(r), "address", r.FormValue("address")).Err(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// checkout sells what is in the basket, and redirects to the order or back to the basket.
func (s *shop) checkout(w http.ResponseWriter, r *http.Request) {
	product, order := s.db.HGet(r.Context(), session(r), "product").Val(), uuid.NewString()
	sell := s.sell
	if s.guarded {
		sell = s.sellGuarded
	}
	switch sold, err := sell(r.Context(), "stock:"+product, "orders:"+product, order); {
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case sold:
		http.Redirect(w, r, "/thanks/"+order, http.StatusSeeOther)
	default:
		http.Redirect(w, r, "/basket?sold-out", http.StatusSeeOther)
	}
}

// sell reads, checks and writes: another checkout may come in between.
func (s *shop) sell(ctx context.Context, stock, orders, order string) (bool, error) {
	left, err := s.db.Get(ctx, stock).Int()
	if err != nil || left < 1 {
		return false, err
	}
	if err := s.db.Set(ctx, stock, left-1, 0).Err(); err != nil {
		return false, err
	}
	return true, s.db.RPush(ctx, orders, order).Err()
}

var guard = redis.NewScript(`if tonumber(redis.call('GET', KEYS[1])) < 1 then return 0 end
redis.call('DECR', KEYS[1])
return redis.call('RPUSH', KEYS[2], ARGV[1])`)

func (s *shop) sellGuarded(ctx context.Context, stock, orders, order string) (bool, error) {
	n, err := guard.Run(ctx, s.db, []string{stock, orders}, order).Int()
	return n > 0, err
}

func session(r *http.Request) string {
	c, err := r.Cookie("session")
	if err != nil {
		return "session:none"
	}
	return "session:" + c.Value
}

func main() {
	addr := flag.String("listen", "127.0.0.1:8000", "")
	url := flag.String("redis", "redis://127.0.0.1:6379/0", "")
	guarded := flag.Bool("guarded", false, "check and sell in one script")
	flag.Parse()
	options, err := redis.ParseURL(*url)
	if err != nil {
		log.Fatal(err)
	}
	s := &shop{redis.NewClient(options), *guarded}
	http.HandleFunc("POST /basket/{product}", s.basket)
	http.HandleFunc("POST /address", s.address)
	http.HandleFunc("POST /checkout", s.checkout)
	server := &http.Server{Addr: *addr, ReadHeaderTimeout: 5 * time.Second}
	log.Fatal(server.ListenAndServe())
}
