package loadtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
	"time"

	"lastitem/internal/api"
)

// fakeShop implements the API in memory, with one Redis, one counter per product, and a given number of pretended replicas.
type fakeShop struct {
	replicas int
	modes    []api.Mode
	broken   map[string]bool // modes that deduct without a lock
	fail     func(w http.ResponseWriter, r *http.Request) bool

	mu       sync.Mutex
	products map[int64]*fakeProduct
	served   int
	puts     []string
}

// fakeProduct is one product of a fakeShop.
type fakeProduct struct {
	initial, stock int64
	orders         []api.Order
}

const testToken = "let me in"

// open starts the shop and returns its control.
func (s *fakeShop) open(t *testing.T) *Control {
	t.Helper()
	s.products = map[int64]*fakeProduct{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /deduct_stock/{mode}", s.deduct)
	mux.HandleFunc("GET /modes", func(w http.ResponseWriter, _ *http.Request) { send(w, api.Modes{Modes: s.modes}) })
	mux.HandleFunc("GET /modes/{mode}", s.mode)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { send(w, map[string]string{"status": "ready"}) })
	mux.HandleFunc("PUT /products/{id}/stock", s.setStock)
	mux.HandleFunc("GET /products/{id}/ledger", s.ledger)
	mux.HandleFunc("GET /products/{id}", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		id := productOf(r)
		send(w, api.Product{ProductID: id, Stock: map[api.Store]int64{api.Redis: s.products[id].stock}})
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	c, err := NewControl(server.URL+"/", testToken)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	c.Replicas = s.replicas
	return c
}

func send(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

func refuse(w http.ResponseWriter, code api.Code, detail string) {
	w.Header().Set("Content-Type", api.ProblemType)
	w.WriteHeader(api.Codes[code].Status)
	_ = json.NewEncoder(w).Encode(api.NewProblem(code, detail, ""))
}

func productOf(r *http.Request) (id int64) {
	_, _ = fmt.Sscan(r.PathValue("id"), &id)
	return id
}

func (s *fakeShop) mode(w http.ResponseWriter, r *http.Request) {
	for _, m := range s.modes {
		if m.Name == r.PathValue("mode") {
			send(w, m)
			return
		}
	}
	refuse(w, api.UnknownMode, "no such mode")
}

func (s *fakeShop) setStock(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer "+testToken {
		refuse(w, api.Unauthorized, "wrong token")
		return
	}
	var body api.SetStock
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		refuse(w, api.InvalidRequest, err.Error())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.products[productOf(r)] = &fakeProduct{initial: body.Stock, stock: body.Stock}
	s.puts = append(s.puts, fmt.Sprintf("%d: %d in %d", productOf(r), body.Stock, body.Segments))
	send(w, api.Product{})
}

func (s *fakeShop) ledger(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.products[productOf(r)]
	if p == nil {
		refuse(w, api.UnknownProduct, "no such product")
		return
	}
	send(w, api.Ledger{
		ProductID: productOf(r), Orders: p.orders, Keys: []api.KeyRow{},
		Initial: map[api.Store]int64{api.Redis: p.initial}, Stock: map[api.Store]int64{api.Redis: p.stock},
	})
}

// deduct reads, checks and writes: in one critical section, or in two for a broken mode.
func (s *fakeShop) deduct(w http.ResponseWriter, r *http.Request) {
	var req deductRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		refuse(w, api.InvalidRequest, err.Error())
		return
	}
	if s.fail != nil && s.fail(w, r) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served++
	replica := fmt.Sprintf("r%d", s.served%max(s.replicas, 1)+1)
	w.Header().Set(api.HeaderReplica, replica)
	order, left := s.take(r.PathValue("mode"), replica, req)
	if order == "" {
		refuse(w, api.SoldOut, "sold out")
		return
	}
	send(w, api.Deduction{Mode: r.PathValue("mode"), ProductID: req.ProductID, Quantity: req.Quantity, OrderID: order, Remaining: &left})
}

// take deducts with s locked; "" when sold out.
func (s *fakeShop) take(mode, replica string, req deductRequest) (order string, left int64) {
	p := s.products[req.ProductID]
	stock := p.stock
	if s.broken[mode] {
		s.mu.Unlock() // another request may read the same count now
		runtime.Gosched()
		time.Sleep(time.Millisecond)
		s.mu.Lock()
	}
	if stock < req.Quantity {
		return "", 0
	}
	p.stock = stock - req.Quantity
	left = p.stock
	order = fmt.Sprintf("o-%d", len(p.orders)+1)
	p.orders = append(p.orders, api.Order{
		OrderID: order, ProductID: req.ProductID, Quantity: req.Quantity, Remaining: &left, Mode: mode, Store: api.Redis,
		Replica: replica, CreatedAt: time.Now(),
	})
	return order, left
}

// shopMode builds a mode with its claim at threads and replicas.
func shopMode(name string, claim api.Outcomes) api.Mode {
	return api.Mode{
		Name: name, Stores: []api.Store{api.Redis}, Available: true,
		Claims: map[api.Store]map[api.Hazard]api.Outcomes{api.Redis: {api.Threads: claim, api.Replicas: claim, api.Retry: "D"}},
	}
}
