// Package habits has a shop in memory with the habits of real shops, right ones and wrong ones: how they say that they
// sold, how they list their orders, when they write them. It is for tests of verdicts on services that are not ours.
package habits

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// order is a row as the shop lists it.
type order map[string]any

// Shop sells products by POST /buy/{product} {"n":1,"key":"k"}. POST /reset/{product}/{stock} sets the stock, and GET
// /stock/{product} and GET /orders/{product} show it and the orders. POST /cancel/{product}/{order} and POST
// /ship/{product}/{order} end an order.
type Shop struct {
	Habit string

	mu      sync.Mutex
	stock   map[string]int64
	orders  map[string][]order
	cached  map[string]int64
	keys    map[string]order
	busy    map[string]chan bool // by key, when another request with it was turned away
	asked   int64
	names   map[string]any // the ids of the orders by what the answers call them
	ended   int64          // orders that were cancelled
	ending  map[any]int    // by order, how many requests have found it, to cancel or to ship it
	refused bool
	bought  time.Time // when the last order was written
	counted time.Time // when a shop that counts late has counted its stock
	last    int64
	key     string // of the request that sells
}

// New returns a shop with a habit: see the cases of its methods. "" sells right and plainly.
func New(habit string) *Shop { return &Shop{Habit: habit} }

// Handler serves the shop.
func (s *Shop) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /reset/{product}/{stock}", s.reset)
	mux.HandleFunc("POST /buy/{product}", s.buy)
	mux.HandleFunc("POST /cancel/{product}/{order}", s.cancel)
	mux.HandleFunc("POST /ship/{product}/{order}", s.ship)
	mux.HandleFunc("GET /stock/{product}", s.left)
	mux.HandleFunc("GET /orders/{product}", s.list)
	return mux
}

func send(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func (s *Shop) reset(w http.ResponseWriter, r *http.Request) {
	if s.Habit == "redirects resets" {
		http.Redirect(w, r, "/login", http.StatusFound)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counted = time.Time{}
	p := r.PathValue("product")
	if s.stock == nil {
		s.stock, s.orders, s.cached = map[string]int64{}, map[string][]order{}, map[string]int64{}
		s.keys, s.busy, s.names = map[string]order{}, map[string]chan bool{}, map[string]any{}
		s.ending = map[any]int{}
	}
	s.stock[p], _ = strconv.ParseInt(r.PathValue("stock"), 10, 64)
	s.orders[p] = nil
	delete(s.cached, p)
	s.asked, s.refused = 0, false
	send(w, http.StatusOK, order{"ok": true})
}

func (s *Shop) buy(w http.ResponseWriter, r *http.Request) {
	var in struct {
		N   int64  `json:"n"`
		Key string `json:"key"`
	}
	if json.NewDecoder(r.Body).Decode(&in) != nil || in.N < 1 {
		send(w, http.StatusBadRequest, order{"error": "bad request"})
		return
	}
	p := r.PathValue("product")
	s.mu.Lock()
	s.asked++
	asked := s.asked
	s.mu.Unlock()
	if asked == 2 {
		s.meet()
	}
	switch s.Habit {
	case "cart":
		send(w, http.StatusOK, order{"cart": 1})
	case "GraphQL errors":
		send(w, http.StatusOK, order{"errors": []order{{"message": "Cannot query field buy"}}})
	case "nothing but 500":
		send(w, http.StatusInternalServerError, order{"error": "Access denied"})
	case "reads, checks, writes", "loses updates":
		s.naive(w, p, in.N)
	case "says 202 and writes later", "says 202 to all", "a worker that oversells":
		s.queue(w, p, in.N)
	default:
		s.sell(w, p, in.N, in.Key, asked)
	}
}

// meet waits for the third purchase, so that two are in flight however busy the machine is; for a second at most, since
// a buyer who comes alone may be the only one.
func (s *Shop) meet() {
	for range 1000 {
		s.mu.Lock()
		met := s.asked > 2
		s.mu.Unlock()
		if met {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// naive reads, checks and writes, and others do so in between.
func (s *Shop) naive(w http.ResponseWriter, p string, n int64) {
	s.mu.Lock()
	left := s.stock[p]
	s.mu.Unlock()
	time.Sleep(time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	if left < n {
		send(w, http.StatusConflict, order{"message": "out of stock"})
		return
	}
	if s.stock[p] = left - n; s.Habit == "reads, checks, writes" {
		send(w, http.StatusCreated, s.write(p, n))
		return
	}
	s.write(p, n)
	send(w, http.StatusCreated, order{"ok": true})
}

// queue answers at once, and a worker sells later.
func (s *Shop) queue(w http.ResponseWriter, p string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Habit == "says 202 and writes later" && !s.take(p, n) {
		send(w, http.StatusConflict, order{"message": "out of stock"})
		return
	}
	go func() {
		time.Sleep(150 * time.Millisecond)
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case s.Habit == "says 202 and writes later" || s.take(p, n):
			s.write(p, n)
		case s.Habit == "a worker that oversells" && len(s.orders[p]) < 55:
			s.write(p, n)
		}
	}()
	send(w, http.StatusAccepted, order{"queued": true})
}

// take takes units from the stock; false = there are not so many. The shop is locked.
func (s *Shop) take(p string, n int64) bool {
	if s.stock[p] < n {
		return false
	}
	s.stock[p] -= n
	return true
}

// write writes an order. The shop is locked.
func (s *Shop) write(p string, n int64) order {
	s.last++
	o := order{"id": s.last, "qty": n, "product_id": p, "status": "paid"}
	switch s.Habit {
	case "one line":
		o = order{"id": s.last, "line_items": []order{{"sku": p, "quantity": n}}}
	case "lines":
		o = order{"id": s.last, "line_items": []order{{"sku": p, "quantity": n}, {"sku": "gift", "quantity": 1}}}
	case "voided payments":
		o["payment"] = order{"state": "paid", "id": s.last}
	case "no quantity":
		o = order{"id": s.last}
	case "wrong quantity":
		o["qty"] = n + 1
	case "one id for two":
		o["id"] = (s.last + 1) / 2
	}
	if s.Habit == "one order for five" && len(s.orders[p]) > 0 {
		if last := s.orders[p][len(s.orders[p])-1]; last["qty"].(int64) < 5 {
			last["qty"] = last["qty"].(int64) + n
			return order{"order_id": last["id"]}
		}
	}
	s.orders[p], s.bought = append(s.orders[p], o), time.Now()
	if s.Habit == "returns" && s.last%10 == 0 {
		s.stock[p] += n
		s.orders[p] = append(s.orders[p], order{"id": fmt.Sprint("r", s.last), "qty": -n, "product_id": p, "status": "paid"})
	}
	if s.Habit == "all products in one list" && s.last%10 == 0 {
		s.orders[p] = append(s.orders[p], order{"id": fmt.Sprint("x", s.last), "qty": 1, "product_id": "8"})
	}
	name := s.named(p, o, n)
	s.names[fmt.Sprint(name)] = o["id"]
	return order{"order_id": name}
}

// named is how an answer names an order.
func (s *Shop) named(p string, o order, n int64) any {
	switch s.Habit {
	case "numbers of its own":
		o["key"] = fmt.Sprint("wc_order_", s.last)
		return fmt.Sprintf("ORD-%06d", s.last)
	case "numbers with a check digit":
		return fmt.Sprintf("20261130-%05d-%d", s.last*7919%100_000, (9*s.last+7)%10)
	case "tells another's order":
		o["reference"] = s.key
		return s.last + map[int64]int64{4: 1, 5: -1}[s.last%10]
	case "padded numbers":
		return fmt.Sprintf("%02d", s.last)
	case "counts from one each run":
		return len(s.orders[p])
	case "one name for all":
		return "PENDING"
	case "numbers that come again":
		o["order_id"] = s.last%20 + 1
		return o["order_id"]
	case "numbers of other rows":
		if o["number"] = fmt.Sprintf("ORD-%06d", s.last); len(s.orders[p]) > 1 && s.last%20 == 7 {
			o["number"] = s.orders[p][0]["number"]
		}
		return fmt.Sprintf("ORD-%06d", s.last)
	case "shows orders by their payments":
		if s.last%10 == 0 {
			s.orders[p] = append(s.orders[p], o)
		}
	case "rows without ids":
		delete(o, "id")
	case "a row for each place":
		o["qty"], o["order_id"] = int64(1), s.last
		delete(o, "id")
		for range n - 1 {
			s.orders[p] = append(s.orders[p], order{"order_id": s.last, "qty": 1})
		}
	case "refunds have rows":
		if s.last%10 == 0 {
			s.stock[p] += n
			s.orders[p] = append(s.orders[p], order{"id": fmt.Sprint("r", s.last), "refund_of": s.last})
		}
	}
	return o["id"]
}

// sell is one purchase under a lock.
func (s *Shop) sell(w http.ResponseWriter, p string, n int64, key string, asked int64) {
	s.mu.Lock()
	if s.Habit == "in progress" {
		if !s.claim(w, p, n, key) {
			return
		}
	}
	defer s.mu.Unlock()
	if s.Habit == "never looks" {
		s.stock[p] -= n
		send(w, http.StatusCreated, s.write(p, n))
		return
	}
	s.key = key
	switch left := s.stock[p]; {
	case s.Habit == "keeps five back" && left < n+5:
		s.refuse(w, p, n)
		return
	case s.Habit == "sells what is left" && left > 0:
		n = min(n, left)
	case s.Habit == "backorders" && left < n && left > -10:
		s.stock[p] -= n
		o := s.write(p, n)
		s.orders[p][len(s.orders[p])-1]["backordered"] = true
		send(w, http.StatusCreated, o)
		return
	}
	if !s.take(p, n) {
		s.refuse(w, p, n)
		return
	}
	switch s.Habit {
	case "sells a key again":
		o := s.write(p, n)
		send(w, map[bool]int{true: http.StatusInternalServerError, false: http.StatusCreated}[asked%10 == 0], o)
	case "fails while it holds":
		if asked%10 == 0 {
			s.hold(p, n)
			send(w, http.StatusPaymentRequired, order{"message": "the card was declined"})
			return
		}
		send(w, http.StatusCreated, s.write(p, n))
	case "one buyer, one order":
		if len(s.orders[p]) > 0 {
			s.stock[p] += n
		} else {
			s.write(p, n)
		}
		send(w, http.StatusCreated, order{"ok": true})
	case "leaks":
		if asked%10 == 0 {
			send(w, http.StatusConflict, order{"message": "payment failed"})
			return
		}
		send(w, http.StatusCreated, s.write(p, n))
	case "forgets orders":
		if asked%10 == 0 {
			s.last++
			s.stock[p] += n
			send(w, http.StatusCreated, order{"order_id": s.last})
			return
		}
		send(w, http.StatusCreated, s.write(p, n))
	case "sells and forgets":
		if asked%10 == 0 {
			s.last++
			send(w, http.StatusCreated, order{"order_id": s.last})
			return
		}
		send(w, http.StatusCreated, s.write(p, n))
	case "equal requests are one":
		if asked%2 == 0 {
			s.stock[p] += n
			send(w, http.StatusCreated, order{"order_id": s.last})
			return
		}
		send(w, http.StatusCreated, s.write(p, n))
	case "turns rivals away", "refuses what is there", "says busy as it says sold out":
		if every := map[bool]int64{true: 2, false: 10}[s.Habit == "turns rivals away"]; asked%every == 0 {
			said := map[bool]string{true: "out of stock", false: "busy, try again"}[s.Habit == "refuses what is there"]
			s.stock[p] += n
			send(w, http.StatusConflict, order{"title": "Conflict", "detail": said})
			return
		}
		send(w, http.StatusCreated, s.write(p, n))
	case "sells and refuses":
		if o := s.write(p, n); asked%10 != 0 {
			send(w, http.StatusCreated, o)
			return
		}
		send(w, http.StatusConflict, order{"message": "out of stock"})
	case "two orders for one":
		if s.write(p, n); asked%10 == 0 {
			s.write(p, n)
		}
		send(w, http.StatusCreated, order{"ok": true})
	case "200 and a flag", "200 and a flag, oversold":
		o := s.write(p, n)
		send(w, http.StatusOK, order{"ok": true, "order_id": o["order_id"]})
	case "200 and errors":
		o := s.write(p, n)
		send(w, http.StatusOK, order{"data": order{"buy": order{"code": o["order_id"]}}})
	case "redirects":
		w.Header().Set("Location", fmt.Sprint("/order/", s.write(p, n)["order_id"]))
		w.WriteHeader(http.StatusSeeOther)
	case "says 202":
		send(w, http.StatusAccepted, s.write(p, n))
	case "one text for all":
		s.write(p, n)
		_, _ = w.Write([]byte("thank you"))
	default:
		send(w, http.StatusCreated, s.write(p, n))
	}
}

// hold keeps units that were taken until somebody was refused, and puts them back. The shop is locked.
func (s *Shop) hold(p string, n int64) {
	for i := 0; !s.refused && len(s.orders[p]) > 0 && i < 100; i++ { // the purchase that is tried comes alone
		s.mu.Unlock()
		time.Sleep(5 * time.Millisecond)
		s.mu.Lock()
	}
	s.stock[p] += n
}

// refuse says that a product is sold out. The shop is locked.
func (s *Shop) refuse(w http.ResponseWriter, p string, n int64) {
	s.refused = true
	switch s.Habit {
	case "voided payments":
		s.write(p, n)
		s.orders[p][len(s.orders[p])-1]["payment"] = order{"state": "voided", "id": s.last}
		send(w, http.StatusConflict, order{"message": "out of stock"})
	case "cancelled rows", "waitlisted rows":
		s.write(p, n)
		s.orders[p][len(s.orders[p])-1]["status"], _, _ = strings.Cut(s.Habit, " ")
		send(w, http.StatusConflict, order{"message": "out of stock"})
	case "turns rivals away", "refuses what is there", "says busy as it says sold out":
		send(w, http.StatusConflict, order{"title": "Conflict", "detail": "out of stock"})
	case "counts below zero":
		s.stock[p] -= n
		send(w, http.StatusConflict, order{"message": "out of stock"})
	case "200 and a flag":
		send(w, http.StatusOK, order{"ok": false, "order_id": nil})
	case "200 and a flag, oversold", "sells to all":
		o := s.write(p, n)
		send(w, map[string]int{"sells to all": 201}[s.Habit]|map[string]int{"200 and a flag, oversold": 200}[s.Habit],
			order{"ok": true, "order_id": o["order_id"]})
	case "200 and errors":
		send(w, http.StatusOK, order{"errors": []order{{"message": "INSUFFICIENT_STOCK"}}, "data": nil})
	case "redirects":
		w.Header().Set("Location", "/soldout")
		w.WriteHeader(http.StatusSeeOther)
	case "one text for all":
		_, _ = w.Write([]byte("thank you"))
	default:
		send(w, http.StatusConflict, order{"message": "out of stock"})
	}
}

// expire deletes orders that were not paid.
func (s *Shop) expire(p string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.orders[p] = slices.DeleteFunc(s.orders[p], func(o order) bool {
		expires := o["id"].(int64)%10 == 0
		s.stock[p] += map[bool]int64{true: 1}[expires]
		return expires
	})
}

// claim takes a key, as the draft of the header Idempotency-Key has it: one that is in progress is answered 409, and
// the first waits for that. It unlocks the shop if it has answered.
func (s *Shop) claim(w http.ResponseWriter, p string, n int64, key string) (mine bool) {
	switch {
	case s.busy[key] != nil:
		select {
		case s.busy[key] <- true:
		default: // another was turned away before
		}
		s.mu.Unlock()
		send(w, http.StatusConflict, order{"message": "a request with this key is in progress"})
		return false
	case s.keys[key] != nil:
		s.mu.Unlock()
		send(w, http.StatusCreated, s.keys[key])
		return false
	}
	turnedAway := make(chan bool, 1)
	s.busy[key] = turnedAway
	s.mu.Unlock()
	select {
	case <-turnedAway:
	case <-time.After(time.Second): // the purchase that is tried comes once
	}
	s.mu.Lock()
	delete(s.busy, key)
	if s.stock[p] >= n {
		s.keys[key] = order{"order_id": s.last + 1}
	}
	return true
}

// cancel puts the units of an order back, and takes it from the list, if it is neither cancelled nor shipped.
func (s *Shop) cancel(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := r.PathValue("product")
	at := slices.IndexFunc(s.orders[p], func(o order) bool {
		return o["id"] == s.names[r.PathValue("order")] && o["shipped"] == nil
	})
	if at < 0 {
		send(w, http.StatusConflict, order{"message": "it cannot be cancelled any more"})
		return
	}
	o := s.orders[p][at]
	s.ended++
	second := s.ended%2 == 0
	s.race(o)
	if s.Habit != "says cancelled" || !second {
		s.orders[p] = slices.DeleteFunc(s.orders[p], func(x order) bool { return x["id"] == o["id"] })
	}
	switch back := func() { s.stock[p] += o["qty"].(int64) }; {
	case second && (s.Habit == "says cancelled" || s.Habit == "cancels without the units"):
	case s.Habit == "puts units back later":
		time.AfterFunc(100*time.Millisecond, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			back()
		})
	default:
		back()
	}
	send(w, http.StatusOK, order{"ok": true})
}

// race waits in a shop that reads before it cancels until a second request has found the same order, for 200 ms at
// most, since most orders are cancelled once. The shop is locked.
func (s *Shop) race(o order) {
	s.ending[o["id"]]++
	for i := 0; s.Habit == "reads, then cancels" && s.ending[o["id"]] < 2 && i < 200; i++ {
		s.mu.Unlock()
		time.Sleep(time.Millisecond)
		s.mu.Lock()
	}
}

// ship marks an order.
func (s *Shop) ship(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.orders[r.PathValue("product")] {
		if o["id"] == s.names[r.PathValue("order")] {
			s.race(o)
			o["shipped"] = true
			send(w, http.StatusOK, order{"ok": true})
			return
		}
	}
	send(w, http.StatusConflict, order{"message": "it was cancelled"})
}

func (s *Shop) left(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := r.PathValue("product")
	n := s.stock[p]
	switch s.Habit {
	case "cached stock":
		if old, known := s.cached[p]; known {
			n = old
			w.Header().Set("Age", "7")
		}
		s.cached[p] = n
		send(w, http.StatusOK, order{"qty": n})
	case "counts late":
		if time.Since(s.counted) >= 300*time.Millisecond {
			s.cached[p], s.counted = n, time.Now()
		}
		send(w, http.StatusOK, order{"qty": s.cached[p]})
	case "decimals":
		send(w, http.StatusOK, order{"qty": fmt.Sprintf("%d.0000", n)})
	case "byte order mark":
		_, _ = fmt.Fprintf(w, "\ufeff{\"qty\": %d}", n)
	case "a place below zero":
		send(w, http.StatusOK, order{"qty": []int64{n - 2, 2}})
	case "allocates":
		send(w, http.StatusOK, order{"qty": []int64{400, 200}, "allocated": 600 - n})
	case "parts":
		send(w, http.StatusOK, order{"qty": []int64{n / 2, n - n/2}})
	default:
		send(w, http.StatusOK, order{"qty": n})
	}
}

func (s *Shop) list(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.orders[r.PathValue("product")]
	const size = 20
	page, _ := strconv.Atoi(r.URL.Query().Get("page"))
	from := min(max(0, page-1)*size, len(all))
	shown, more := all[from:min(from+size, len(all))], from+size < len(all)
	next := fmt.Sprintf("%s?page=%d", r.URL.Path, max(1, page)+1)
	if shown == nil {
		shown = []order{}
	}
	switch s.Habit {
	case "pages by Link":
		if more {
			w.Header().Set("Link", fmt.Sprintf("<http://shop.example%s>; rel=\"next\"", next))
		}
		send(w, http.StatusOK, shown)
	case "pages by next":
		body := order{"items": shown, "next": nil}
		if more {
			body["next"] = next
		}
		send(w, http.StatusOK, body)
	case "a cursor":
		body := order{"items": shown, "next": nil}
		if more {
			body["next"] = strings.Repeat("c", page+2)
		}
		send(w, http.StatusOK, body)
	case "a total":
		send(w, http.StatusOK, order{"items": shown, "total_count": len(all)})
	case "unpaid orders expire":
		if p := r.PathValue("product"); len(all) > 1 && s.cached[p] == 0 { // the load is over, and the books are read
			s.cached[p] = 1
			time.AfterFunc(200*time.Millisecond, func() { s.expire(p) })
		}
		send(w, http.StatusOK, order{"items": append([]order{}, all...)})
	case "one short list":
		send(w, http.StatusOK, order{"items": append([]order{}, all[max(0, len(all)-37):]...)})
	case "a total around it":
		send(w, http.StatusOK, order{"items": shown, "data": order{"list": shown, "total": len(all)}})
	case "a page number":
		body := order{"items": shown, "nextPage": 0}
		if more {
			body["nextPage"] = max(1, page) + 1
		}
		send(w, http.StatusOK, body)
	case "a cursor that includes":
		from = min(max(0, page-1)*(size-1), len(all))
		body := order{"items": append([]order{}, all[from:min(from+size, len(all))]...)}
		if from+size < len(all) {
			body["_links"] = order{"next": order{"href": next}}
		}
		send(w, http.StatusOK, body)
	case "one full page":
		send(w, http.StatusOK, order{"items": shown})
	case "more to come":
		send(w, http.StatusOK, order{"items": shown, "has_more": more})
	case "lists late":
		if time.Since(s.bought) < 250*time.Millisecond {
			all = nil
		}
		send(w, http.StatusOK, order{"items": append([]order{}, all...)})
	case "a sum":
		send(w, http.StatusOK, order{"items": append([]order{}, all...), "total": 1999 * len(all)})
	default:
		send(w, http.StatusOK, order{"items": append([]order{}, all...)})
	}
}
