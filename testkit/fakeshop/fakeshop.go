// Package fakeshop has a shop in memory, for tests of its clients.
package fakeshop

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"lastitem/contract/api"
)

// Token is the admin token.
const Token = "let me in"

// Shop implements the API, with one Redis, one counter per product, and a given number of pretended replicas.
type Shop struct {
	Replicas int
	Modes    []api.Mode
	Broken   map[string]bool // modes that never take a unit off the shelf: they sell the first one again and again
	// Fail is called before a deduction; it returns true if it has answered.
	Fail func(w http.ResponseWriter, r *http.Request) bool
	// Together makes the first request for a product, after its stock was set, wait for a second one: a run that has both
	// is never vacuous because a busy machine served one client after the other.
	Together bool

	met      map[int64]chan struct{} // by product; closed by the second request
	mu       sync.Mutex
	products map[int64]*api.Ledger
	served   int
	puts     []string
}

// Start starts the shop and returns its address.
func (s *Shop) Start(t *testing.T) string {
	t.Helper()
	s.products = map[int64]*api.Ledger{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /deduct_stock/{mode}", s.deduct)
	mux.HandleFunc("GET /modes", func(w http.ResponseWriter, _ *http.Request) { Send(w, api.Modes{Modes: s.Modes}) })
	mux.HandleFunc("GET /modes/{mode}", func(w http.ResponseWriter, _ *http.Request) {
		Refuse(w, api.UnknownMode, "no such mode")
	})
	mux.HandleFunc("PUT /products/{id}/stock", s.setStock)
	mux.HandleFunc("GET /products/{id}/ledger", s.read(func(l *api.Ledger) any { return l }))
	mux.HandleFunc("GET /products/{id}", s.read(func(l *api.Ledger) any {
		return api.Product{ProductID: l.ProductID, Stock: l.Stock}
	}))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// Send answers with JSON.
func Send(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

// Refuse answers with a problem.
func Refuse(w http.ResponseWriter, code api.Code, detail string) {
	w.Header().Set("Content-Type", api.ProblemType)
	w.WriteHeader(api.Codes[code].Status)
	_ = json.NewEncoder(w).Encode(api.NewProblem(code, detail, ""))
}

func productOf(r *http.Request) int64 {
	id, _ := strconv.ParseInt(r.PathValue("id"), 10, 64)
	return id
}

func (s *Shop) setStock(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer "+Token {
		Refuse(w, api.Unauthorized, "wrong token")
		return
	}
	var body api.SetStock
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		Refuse(w, api.InvalidRequest, err.Error())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id := productOf(r)
	s.products[id] = &api.Ledger{
		ProductID: id, Orders: []api.Order{}, Keys: []api.KeyRow{},
		Initial: map[api.Store]int64{api.Redis: body.Stock}, Stock: map[api.Store]int64{api.Redis: body.Stock},
	}
	delete(s.met, id)
	s.puts = append(s.puts, fmt.Sprintf("%d: %d in %d", id, body.Stock, body.Segments))
	Send(w, api.Product{})
}

// read answers with what of finds in the ledger of the product.
func (s *Shop) read(of func(l *api.Ledger) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if l := s.products[productOf(r)]; l != nil {
			Send(w, of(l))
		} else {
			Refuse(w, api.UnknownProduct, "no such product")
		}
	}
}

func (s *Shop) deduct(w http.ResponseWriter, r *http.Request) {
	var asked api.Deduction
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		Refuse(w, api.InvalidRequest, err.Error())
		return
	}
	if s.Fail != nil && s.Fail(w, r) {
		return
	}
	if s.Together {
		s.meet(r.Context(), asked.ProductID)
	}
	asked.Mode = r.PathValue("mode")
	replica, sold := s.Sell(&asked)
	w.Header().Set(api.HeaderReplica, replica)
	if sold {
		Send(w, asked)
	} else {
		Refuse(w, api.SoldOut, "sold out")
	}
}

// meet returns when two requests for a product are here, or the client has left.
func (s *Shop) meet(ctx context.Context, product int64) {
	s.mu.Lock()
	second, first := s.met[product]
	switch {
	case !first:
		if s.met == nil {
			s.met = map[int64]chan struct{}{}
		}
		second = make(chan struct{})
		s.met[product] = second
	case second != nil:
		close(second)
		s.met[product] = nil
	}
	s.mu.Unlock()
	if !first {
		select {
		case <-second:
		case <-ctx.Done():
		}
	}
}

// Sell deducts what was asked for, and completes it, unless it is sold out. Each replica gets its turn.
func (s *Shop) Sell(d *api.Deduction) (replica string, sold bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served++
	replica = fmt.Sprintf("r%d", s.served%max(s.Replicas, 1)+1)
	l := s.products[d.ProductID]
	left := l.Initial[api.Redis] - d.Quantity
	if !s.Broken[d.Mode] {
		if left = l.Stock[api.Redis] - d.Quantity; left < 0 {
			return replica, false
		}
		l.Stock[api.Redis] = left
	}
	d.OrderID, d.Remaining = fmt.Sprintf("o-%d", len(l.Orders)+1), &left
	l.Orders = append(l.Orders, api.Order{
		OrderID: d.OrderID, ProductID: d.ProductID, Quantity: d.Quantity, Remaining: &left, Mode: d.Mode, Store: api.Redis,
		Replica: replica, CreatedAt: time.Now(),
	})
	return replica, true
}

// Puts are the stocks that were set: product, units and segments.
func (s *Shop) Puts() []string { return s.puts }

// Orders are those of a product.
func (s *Shop) Orders(product int64) []api.Order { return s.products[product].Orders }
