package replica

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
	"lastitem/testkit/reservationtest"
	"lastitem/testkit/testenv"
)

// The life of a reservation over HTTP, on embedded servers: what SQL and Redis hold, with the same payments.
func TestLifeOverHTTP(t *testing.T) {
	t.Parallel()
	redis := testenv.Miniredis(t)
	playLives(t, Config{Redis: redis.URL, Prefix: redis.Prefix, SQL: testenv.SQLite(t)}, false,
		served{holds: "reserve-sql", sells: "reserve-sql", store: "sql"},
		served{holds: "reserve-redis", sells: "redis-lua", store: "redis"})
}

// The same on servers, with further modes that hold, and that sell what another one holds.
func TestLifeOverHTTPOnServers(t *testing.T) {
	t.Parallel()
	redis := testenv.Redis(t)
	playLives(t, Config{Redis: redis.URL, Prefix: redis.Prefix, SQL: testenv.MySQL(t)}, true,
		served{holds: "reserve-sql", sells: "queue", store: "sql"},
		served{holds: "reserve-sql", sells: "idempotent", store: "sql"},
		served{holds: "reserve-unit", sells: "reserve-unit", store: "sql"},
		served{holds: "reserve-check", sells: "reserve-check", store: "sql"},
		served{holds: "reserve-redis", sells: "reserve-redis", store: "redis"})
}

// playLives plays the table with pairs of modes; apart: pairs of one store do not have the same payments.
func playLives(t *testing.T, c Config, apart bool, pairs ...served) {
	c.Conns = 16
	r := startReplica(t, c)
	waitReady(t, r)
	for i, s := range pairs {
		t.Run(s.holds+" "+s.sells, func(t *testing.T) {
			t.Parallel()
			s.Handler = r
			seam := s.seam()
			if apart {
				seam.Key = fmt.Sprint(i, ".")
			}
			reservationtest.Play(t, seam, int64(1000+100*i))
			if s.holds != "reserve-check" { // it oversells
				t.Run("at once", func(t *testing.T) { reservationtest.New(t, seam, int64(1099+100*i)).Race() })
			}
		})
	}
}

// served is what a replica says about what some mode holds and another one sells.
type served struct {
	http.Handler
	holds, sells, store string
}

func (s served) seam() reservationtest.Seam {
	absolute := s
	absolute.sells = map[string]string{"sql": "unsafe-sql", "redis": "unsafe"}[s.store]
	seam := reservationtest.Seam{Changes: s, Store: s.store, Brief: 100 * time.Millisecond, Quiet: true,
		Reset: s.reset, Reserve: s.reserve, Overwrite: absolute.sell, Sweep: s.sweep, Book: s.book}
	seam.Sell = func(ctx context.Context, o ledger.Order) (ledger.Order, error) {
		sold, err := s.sell(ctx, o)
		if again, _ := s.sell(ctx, o); err == nil && again.ID != sold.ID {
			err = fmt.Errorf("its key is sold again, as %s", again.ID)
		}
		return sold, err
	}
	if s.sells == "buyer-check" { // which keeps no keys, and counts orders
		seam.Sell, seam.Uncounted = s.sell, true
	}
	if s.holds == "reserve-unit" || s.holds == "reserve-check" {
		seam.Lacks = []string{"overwrite"}
	}
	return seam
}

// problem is an answer that is no success.
type problem struct{ api.Problem }

// Error is the problem in the words of the table, if status, code, whether it happened, and what becomes of a payment
// are what they must be.
func (p problem) Error() string {
	said := fmt.Sprint(p.Status, " ", p.Code, " ", p.Happened, " ", p.Refund)
	word, ok := map[string]string{
		"404 unknown_reservation no ": "no reservation", "404 unknown_reservation no true": "no reservation",
		"404 unknown_order no ": "no order", "422 idempotency_key_reused no ": "key reused",
		"422 idempotency_key_reused no false": "payment reused", "409 hold_unsupported no ": "unsupported",
		"409 return_unsupported no ": "unsupported", "409 sold_out no_for_now ": "short", "409 sold_out no ": "short",
		"409 limit_reached no_for_now ": "limit",
	}[said]
	switch {
	case !ok:
		return said
	case word == "short" && p.Available != nil:
		return fmt.Sprint("short ", *p.Available)
	case word == "short":
		return "short ?"
	case word == "limit":
		return fmt.Sprint("limit ", p.PerBuyer)
	}
	return word
}

// ended is the state that a problem tells of a reservation.
func (p problem) ended() ledger.ReservationState {
	switch fmt.Sprint(p.Status, " ", p.Code) {
	case "409 reservation_confirmed":
		return ledger.Confirmed
	case "409 reservation_cancelled":
		return ledger.Cancelled
	case "410 reservation_expired":
		return ledger.ReservationState(p.State)
	}
	return ""
}

// ask sends a request, and reads the answer.
func (s served) ask(ctx context.Context, method, path string, key []byte, body string, answer any) (replayed bool,
	err error) {
	req := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer t0ken")
	req.Header.Set("Content-Type", "application/json")
	if key != nil {
		req.Header.Set("Idempotency-Key", string(key))
	}
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, req)
	if rec.Code < http.StatusBadRequest {
		return rec.Header().Get(api.HeaderReplayed) != "", json.Unmarshal(rec.Body.Bytes(), answer)
	}
	var p problem
	err = json.Unmarshal(rec.Body.Bytes(), &p.Problem)
	p.Status = rec.Code
	return false, errors.Join(err, p)
}

// change posts a change of a reservation.
func (s served) change(ctx context.Context, id, verb string, key []byte, body string) (e ledger.Ended, err error) {
	var a api.Reservation
	e.Replay, err = s.ask(ctx, http.MethodPost, "/reservations/"+id+"/"+verb, key, body, &a)
	if p, ok := errors.AsType[problem](err); ok && p.ended() != "" {
		return ledger.Ended{Reservation: ledger.Reservation{State: p.ended()}, Refund: p.Refund == api.RefundYes}, nil
	}
	e.Reservation, e.Refund = reservation(a), a.Refund == api.RefundYes
	if key != nil {
		e.OrderID = a.OrderID
	}
	return e, err
}

func reservation(a api.Reservation) ledger.Reservation {
	return ledger.Reservation{ID: a.ReservationID, State: ledger.ReservationState(a.State),
		ExpiresMicros: a.ExpiresAt.UnixMicro()}
}

func (s served) Confirm(ctx context.Context, id, _, _ string, payment []byte) (ledger.Ended, error) {
	return s.change(ctx, id, "confirm", payment, "")
}

func (s served) Cancel(ctx context.Context, id, _ string) (ledger.Ended, error) {
	return s.change(ctx, id, "cancel", nil, "")
}

func (s served) Extend(ctx context.Context, id, _ string, hold time.Duration) (ledger.Ended, error) {
	return s.change(ctx, id, "extend", nil, fmt.Sprintf(`{"hold_ms":%d}`, hold.Milliseconds()))
}

func (s served) ReadReservation(ctx context.Context, id, _ string) (ledger.Reservation, error) {
	var a api.Reservation
	_, err := s.ask(ctx, http.MethodGet, "/reservations/"+id, nil, "", &a)
	return reservation(a), err
}

func (s served) Return(ctx context.Context, product int64, order string, restock bool) (int64, bool, error) {
	var a api.Returned
	path, body := fmt.Sprintf("/products/%d/orders/%s/return", product, order), fmt.Sprintf(`{"restock":%t}`, restock)
	_, err := s.ask(ctx, http.MethodPost, path, nil, body, &a)
	return a.Quantity, a.Restock, err
}

func (s served) reset(ctx context.Context, product, stock int64, rules ledger.Rules) error {
	body := map[string]any{"stock": stock, "segments": rules.Segments}
	if rules.PerBuyer > 0 {
		body["per_buyer"] = rules.PerBuyer
	}
	if rules.Late != "" {
		body["late"] = rules.Late
	}
	if rules.Segments == 0 && s.holds == "reserve-unit" {
		body["units"] = true
	}
	_, err := s.ask(ctx, http.MethodPut, fmt.Sprintf("/products/%d/stock", product), nil, encode(body), new(any))
	return err
}

func encode(body any) string {
	b, _ := json.Marshal(body)
	return string(b)
}

func (s served) reserve(ctx context.Context, r ledger.Reservation, hold time.Duration) (made ledger.Reservation,
	left *int64, earlier bool, err error) {
	var a api.Reservation
	body := map[string]any{"product_id": r.Items[0].ProductID, "quantity": r.Items[0].Quantity, "buyer": r.Buyer,
		"hold_ms": hold.Milliseconds(), "wait_ms": 20_000}
	if r.Buyer == "" {
		delete(body, "buyer")
	}
	earlier, err = s.ask(ctx, http.MethodPost, "/reserve_stock/"+s.holds, r.Key, encode(body), &a)
	return reservation(a), a.Remaining, earlier, err
}

func (s served) sell(ctx context.Context, o ledger.Order) (ledger.Order, error) {
	var a api.Reservation // its fields are those of a sale
	body := map[string]any{"product_id": o.ProductID, "quantity": o.Quantity, "store": s.store, "wait_ms": 20_000}
	if o.Buyer != "" {
		body["buyer"] = o.Buyer
	}
	_, err := s.ask(ctx, http.MethodPost, "/deduct_stock/"+s.sells, o.Key, encode(body), &a)
	o.ID, o.Remaining = a.OrderID, a.Remaining
	return o, err
}

// sweep reads what is overdue, which ends it: the replica sweeps when it likes.
func (s served) sweep(ctx context.Context, product int64) (n int, err error) {
	book, err := s.book(ctx, product)
	if err != nil {
		return 0, err
	}
	for _, row := range book.Rows {
		if row.State == string(ledger.Held) && book.AsOfMicros >= row.ExpiresMicros {
			n++
			_, one := s.ReadReservation(ctx, row.ReservationID, "")
			err = errors.Join(err, one)
		}
	}
	return n, err
}

// book reads the reservations, and asks for the audit as well: it is of the ledger, which has their orders.
func (s served) book(ctx context.Context, product int64) (*api.Reservations, error) {
	book, audit, path := new(api.Reservations), json.RawMessage{}, fmt.Sprintf("/products/%d/", product)
	_, err := s.ask(ctx, http.MethodGet, path+"reservations?store="+s.store, nil, "", book)
	if err == nil && book.Overdue == 0 {
		_, err = s.ask(ctx, http.MethodGet, path+"audit", nil, "", &audit)
	}
	if strings.Contains(string(audit), "BROKEN") {
		err = errors.New(string(audit))
	}
	return book, err
}
