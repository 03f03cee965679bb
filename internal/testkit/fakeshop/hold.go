package fakeshop

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"lastitem/internal/api"
)

// Flaw is what a shop does wrong with reservations.
type Flaw string

// The flaws.
const (
	ReleasesTwice Flaw = "an expired reservation gives its units back twice"
	LosesRelease  Flaw = "an expired reservation does not give its units back"
	RefundsOrder  Flaw = "a late payment is answered with a refund, and its order is kept"
)

// pageRows is how many reservations a page has.
const pageRows = 100

// holds are the reservations of one product.
type holds struct {
	initial, stock, perBuyer int64
	rows                     []*api.ReservationRow
	byID                     map[string]*api.ReservationRow
	byKey                    map[string]*api.ReservationRow
}

func (s *Shop) handleHolds(mux *http.ServeMux) {
	s.held = map[int64]*holds{}
	mux.HandleFunc("POST /reserve_stock/{mode}", s.reserve)
	mux.HandleFunc("POST /reservations/{id}/confirm", s.onHold((*Shop).confirm))
	mux.HandleFunc("POST /reservations/{id}/cancel", s.onHold((*Shop).cancel))
	mux.HandleFunc("GET /products/{id}/reservations", s.reservations)
}

func (s *Shop) setHolds(id int64, set api.SetStock) {
	s.held[id] = &holds{initial: set.Stock, stock: set.Stock, perBuyer: set.PerBuyer,
		byID: map[string]*api.ReservationRow{}, byKey: map[string]*api.ReservationRow{}}
}

// move changes the state of a reservation.
func (s *Shop) move(row *api.ReservationRow, to string) {
	e := api.ReservationEvent{Was: row.State, Now: to, DeadlineMicros: row.ExpiresMicros, Replica: row.Replica,
		AtMicros: s.now}
	if to == "expired" {
		e.CommittedMicros = s.now
	}
	row.State, row.ChangedMicros, row.Events = to, s.now, append(row.Events, e)
}

// sweep reads the store's clock, once per request, and expires what is overdue.
func (s *Shop) sweep(h *holds) {
	s.now = time.Now().Add(s.Clock).UnixMicro()
	for _, row := range h.rows {
		if row.State != "held" || s.now < row.ExpiresMicros {
			continue
		}
		s.move(row, "expired")
		switch s.Flaw {
		case ReleasesTwice:
			h.stock += 2 * row.Quantity
		case LosesRelease:
		default:
			h.stock += row.Quantity
		}
	}
}

func (s *Shop) reserve(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		ProductID int64  `json:"product_id"`
		Quantity  int64  `json:"quantity"`
		Buyer     string `json:"buyer"`
		HoldMS    int64  `json:"hold_ms"`
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		Refuse(w, api.InvalidRequest, err.Error())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held[asked.ProductID]
	s.sweep(h)
	s.served++
	replica := fmt.Sprintf("r%d", s.served%max(s.Replicas, 1)+1)
	w.Header().Set(api.HeaderReplica, replica)
	key := r.Header.Get(api.HeaderKey)
	if row := h.byKey[key]; row != nil {
		w.Header().Set(api.HeaderReplayed, "true")
		tell(w, http.StatusCreated, row)
		return
	}
	has := int64(0)
	for _, row := range h.rows {
		if row.Buyer == asked.Buyer && (row.State == "held" || row.State == "confirmed") {
			has += row.Quantity
		}
	}
	switch {
	case h.perBuyer > 0 && asked.Buyer != "" && has+asked.Quantity > h.perBuyer:
		refuse(w, http.StatusConflict, map[string]any{"code": "limit_reached"})
		return
	case h.stock < asked.Quantity:
		refuse(w, http.StatusConflict, map[string]any{"code": "sold_out"})
		return
	}
	h.stock -= asked.Quantity
	row := &api.ReservationRow{ReservationID: fmt.Sprintf("redis-%d-%d", asked.ProductID, len(h.rows)+1), Key: key,
		Mode: r.PathValue("mode"), Replica: replica, Buyer: asked.Buyer, Late: "refund", Quantity: asked.Quantity,
		ExpiresMicros: s.now + asked.HoldMS*1000, CreatedMicros: s.now}
	s.move(row, "held")
	h.rows, h.byID[row.ReservationID] = append(h.rows, row), row
	if key != "" {
		h.byKey[key] = row
	}
	tell(w, http.StatusCreated, row)
}

// onHold looks the reservation up, and expires what is overdue.
func (s *Shop) onHold(do func(*Shop, http.ResponseWriter, *http.Request, *holds,
	*api.ReservationRow)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, h := range s.held {
			if row := h.byID[r.PathValue("id")]; row != nil {
				s.sweep(h)
				w.Header().Set(api.HeaderReplica, row.Replica)
				do(s, w, r, h, row)
				return
			}
		}
		refuse(w, http.StatusNotFound, map[string]any{"code": "not_found", "refund": true})
	}
}

func (s *Shop) confirm(w http.ResponseWriter, r *http.Request, h *holds, row *api.ReservationRow) {
	payment := r.Header.Get(api.HeaderKey)
	for _, p := range row.Payments {
		if p.Payment == payment && p.OrderID != "" && row.State == "confirmed" {
			w.Header().Set(api.HeaderReplayed, "true")
			tell(w, http.StatusOK, row)
			return
		}
	}
	order := "o-" + row.ReservationID
	paid := api.ReservationPaid{Payment: payment, OrderID: order, AtMicros: s.now}
	if row.State == "held" {
		s.move(row, "confirmed")
		row.Orders = append(row.Orders, api.ReservationOrder{OrderID: order, Payment: payment, Quantity: row.Quantity})
		row.Payments = append(row.Payments, paid)
		tell(w, http.StatusOK, row)
		return
	}
	status := http.StatusConflict
	if row.State == "expired" {
		status = http.StatusGone
	}
	switch known := slices.ContainsFunc(row.Payments, func(p api.ReservationPaid) bool { return p.Payment == payment }); {
	case known:
	case s.Flaw == RefundsOrder && h.stock >= row.Quantity:
		h.stock -= row.Quantity
		row.Orders = append(row.Orders, api.ReservationOrder{OrderID: order, Payment: payment, Quantity: row.Quantity})
		row.Payments = append(row.Payments, paid)
	default:
		paid.OrderID = ""
		row.Payments = append(row.Payments, paid)
	}
	refuse(w, status, map[string]any{"code": "reservation_" + row.State, "refund": true, "state": row.State})
}

func (s *Shop) cancel(w http.ResponseWriter, _ *http.Request, h *holds, row *api.ReservationRow) {
	switch row.State {
	case "held":
		s.move(row, "cancelled")
		h.stock += row.Quantity
	case "confirmed":
		refuse(w, http.StatusConflict, map[string]any{"code": "reservation_confirmed", "state": row.State})
		return
	}
	tell(w, http.StatusOK, row)
}

// reservations is the judge's book, in pages.
func (s *Shop) reservations(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := productOf(r)
	h := s.held[id]
	s.sweep(h)
	book := api.Reservations{ProductID: id, Store: api.Redis, AsOfMicros: s.now, Initial: h.initial, Stock: h.stock,
		PerBuyer: h.perBuyer, Run: 1, BuyerUnits: map[string]int64{}}
	for _, row := range h.rows {
		if row.State == "held" {
			book.Held += row.Quantity
		}
		for _, o := range row.Orders {
			book.Ordered += o.Quantity
		}
		if h.perBuyer > 0 && (row.State == "held" || row.State == "confirmed") {
			book.BuyerUnits[row.Buyer] += row.Quantity
		}
	}
	from, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
	to := min(from+pageRows, len(h.rows))
	for _, row := range h.rows[from:to] {
		book.Rows = append(book.Rows, *row)
	}
	if to < len(h.rows) {
		book.NextCursor = strconv.Itoa(to)
	}
	Send(w, book)
}

// tell answers with a reservation.
func tell(w http.ResponseWriter, status int, row *api.ReservationRow) {
	body := api.Reservation{ReservationID: row.ReservationID, State: row.State, Mode: row.Mode, Buyer: row.Buyer,
		ExpiresAt: time.UnixMicro(row.ExpiresMicros)}
	if len(row.Orders) > 0 {
		body.OrderID, body.Refund = row.Orders[0].OrderID, api.RefundNo
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func refuse(w http.ResponseWriter, status int, body map[string]any) {
	w.Header().Set("Content-Type", api.ProblemType)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
