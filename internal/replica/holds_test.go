package replica

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lastitem/internal/api"
	"lastitem/internal/testkit"
	"lastitem/internal/testkit/testenv"
)

// onHolds runs a test against each mode that holds exactly, on embedded servers.
func onHolds(t *testing.T, sweep time.Duration, test func(h heldShop)) {
	redis := testenv.Miniredis(t)
	r := startReplica(t, Config{Redis: redis.URL, Prefix: redis.Prefix, SQL: testenv.SQLite(t), Conns: 16, Sweep: sweep,
		Events: true})
	waitReady(t, r)
	for i, mode := range []string{"reserve-sql", "reserve-redis"} {
		t.Run(mode, func(t *testing.T) { test(heldShop{t, r, mode, 101 + i}) })
	}
}

type heldShop struct {
	*testing.T
	r       *Replica
	mode    string
	product int
}

func (h heldShop) stock(rules string) {
	h.Helper()
	send(h.T, h.r, http.MethodPut, fmt.Sprintf("/products/%d/stock", h.product), `{"stock":3`+rules+`}`, http.StatusOK)
}

// says sends a request and checks the status and what stands in the answer; it returns the whole.
func (h heldShop) says(path, key, body string, status int, parts ...string) string {
	h.Helper()
	got := sendKeyed(h.T, h.r, http.MethodPost, path, key, body, status)
	for _, part := range parts {
		if !strings.Contains(got, part) {
			h.Errorf("POST %s says %s, want %s in it", path, got, part)
		}
	}
	return got
}

// hold holds units, and returns the path of the reservation.
func (h heldShop) hold(fields string) string {
	h.Helper()
	var r api.Reservation
	body := fmt.Sprintf(`{"product_id":%d,%s}`, h.product, fields)
	got := h.says("/reserve_stock/"+h.mode, "", body, http.StatusCreated, `"state":"held"`)
	testkit.Must(h.T, json.Unmarshal([]byte(got), &r))
	return "/reservations/" + r.ReservationID
}

// left checks the stock, and that the judge finds nothing wrong.
func (h heldShop) left(want int) {
	h.Helper()
	store := strings.TrimPrefix(h.mode, "reserve-")
	path := fmt.Sprintf("/products/%d", h.product)
	got := send(h.T, h.r, http.MethodGet, path, "", http.StatusOK)
	if !strings.Contains(got, fmt.Sprintf(`%q:%d`, store, want)) {
		h.Errorf("%s, want %d left in %s", got, want, store)
	}
	if got := send(h.T, h.r, http.MethodGet, path+"/audit", "", http.StatusOK); strings.Contains(got, "BROKEN") {
		h.Errorf("the audit: %s", got)
	}
}

// ends reads how reservations of the product end, and how many, from GET /events.
func (h heldShop) ends() <-chan string {
	server := httptest.NewServer(h.r)
	h.Cleanup(server.Close)
	req, err := http.NewRequestWithContext(h.Context(), http.MethodGet, server.URL+"/events", nil)
	testkit.Must(h.T, err)
	req.Header.Set("Authorization", "Bearer t0ken")
	res, err := http.DefaultClient.Do(req)
	testkit.Must(h.T, err)
	h.Cleanup(func() { res.Body.Close() })
	lines, ends := bufio.NewScanner(res.Body), make(chan string, 9)
	lines.Scan() // the stream is open
	go func() {
		for lines.Scan() {
			var e api.Events
			data, _ := strings.CutPrefix(lines.Text(), "data: ")
			_ = json.Unmarshal([]byte(data), &e)
			for _, a := range e.Answers {
				if a.End != "" && a.Mode == h.mode && a.ProductID == int64(h.product) {
					ends <- fmt.Sprint(a.End, " ", a.Count)
				}
			}
		}
	}()
	return ends
}

// Every answer of the contract: what it is, and whether the payment must go back.
func TestReservations(t *testing.T) {
	t.Parallel()
	onHolds(t, 0, func(h heldShop) {
		h.stock(`,"per_buyer":2`)
		a := h.hold(`"quantity":2,"buyer":"ann"`)
		h.says("/reserve_stock/"+h.mode, "", fmt.Sprintf(`{"product_id":%d,"buyer":"ann"}`, h.product), http.StatusConflict,
			`"code":"limit_reached"`, `"happened":"no_for_now"`, strings.TrimPrefix(a, "/reservations/"))
		h.says("/reserve_stock/"+h.mode, "", fmt.Sprintf(`{"product_id":%d,"quantity":2}`, h.product), http.StatusConflict,
			`"code":"sold_out"`, `"happened":"no_for_now"`)
		h.says(a+"/confirm", "", "", http.StatusBadRequest, `"refund":"unknown"`)
		first := h.says(a+"/confirm", "p1", "", http.StatusOK, `"state":"confirmed"`, `"refund":false`)
		if again := h.says(a+"/confirm", "p1", "", http.StatusOK); again != first {
			h.Errorf("the same payment again: %s, want %s", again, first)
		}
		h.says(a+"/confirm", "p2", "", http.StatusConflict, `"code":"reservation_confirmed"`, `"refund":true`)
		h.says(a+"/cancel", "", "", http.StatusConflict, `"code":"reservation_confirmed"`)
		h.left(1)

		limit := fmt.Sprintf(`{"product_id":%d,"buyer":"ann"}`, h.product)
		h.says("/reserve_stock/"+h.mode, "", limit, http.StatusConflict,
			`"holders":["`+strings.TrimPrefix(a, "/reservations/"))

		b := h.hold(`"hold_ms":60000`)
		h.says(b+"/extend", "", `{"hold_ms":120000}`, http.StatusOK, `"state":"held"`)
		h.says(b+"/confirm", "p1", "", http.StatusUnprocessableEntity, `"code":"idempotency_key_reused"`, `"refund":false`)
		h.says(b+"/cancel", "", "", http.StatusOK, `"state":"cancelled"`)
		h.says(b+"/cancel", "", "", http.StatusOK, `"state":"cancelled"`)
		h.says(b+"/confirm", "p3", "", http.StatusConflict, `"code":"reservation_cancelled"`, `"refund":true`)
		h.says(b+"/extend", "", `{"hold_ms":120000}`, http.StatusConflict, `"code":"reservation_cancelled"`)
		h.left(1)

		var r api.Reservation
		testkit.Must(h.T, json.Unmarshal([]byte(first), &r))
		back := fmt.Sprintf("/products/%d/orders/%s/return", h.product, r.OrderID)
		h.says(back, "", "", http.StatusBadRequest, `"field":"restock"`)
		h.says(back, "", `{"restock":true}`, http.StatusOK, `"restock":true`)
		h.says(back, "", `{"restock":false}`, http.StatusOK, `"restock":true`)
		h.left(3)
		h.says("/reserve_stock/"+h.mode, "", strings.Replace(limit, "}", `,"quantity":3}`, 1), http.StatusConflict,
			`"code":"limit_reached"`, `"holders":[]`)
		h.hold(`"quantity":2,"buyer":"ann"`) // the limit has room again
		h.stock("")
		h.says(back, "", `{"restock":true}`, http.StatusNotFound, `"code":"unknown_order"`)
		h.says(a+"/confirm", "p1", "", http.StatusOK, r.OrderID) // the payment's end outlives the order
		h.says(a+"/confirm", "p2", "", http.StatusConflict, `"code":"reservation_confirmed"`, `"refund":true`)
		h.says(a+"/cancel", "", "", http.StatusConflict, `"code":"reservation_confirmed"`)
		unknown := []string{"none", "sql-101-", "redis-x-01a21ee8-1141-76d6-af27-210506121a55",
			a[len("/reservations/"):len(a)-8] + "06121a55"}
		for _, id := range unknown {
			path := "/reservations/" + id + "/confirm"
			h.says(path, "p", "", http.StatusNotFound, `"code":"unknown_reservation"`, `"refund":true`)
			h.says(path, "p1", "", http.StatusUnprocessableEntity, `"refund":false`) // it has an order
		}
		// what was answered with a refund stays one
		h.says(h.hold(`"quantity":1`)+"/confirm", "p", "", http.StatusUnprocessableEntity, `"refund":false`)
		h.stock(`,"segments":2`)
		h.says("/reserve_stock/"+h.mode, "", limit, http.StatusConflict, `"code":"hold_unsupported"`)
		h.says("/reserve_stock/lease-seq", "", "{}", http.StatusConflict, `"code":"hold_unsupported"`)
		h.left(3)
	})
}

// A product that is sold by absolute counts takes no holds and no returns until its stock is set again, and one that is
// held is not sold by absolute counts, nor after its units have come back.
func TestAbsoluteCountsRefuseHolds(t *testing.T) {
	t.Parallel()
	onHolds(t, 0, func(h heldShop) {
		absolute := "/deduct_stock/" + map[string]string{"reserve-sql": "unsafe-sql", "reserve-redis": "unsafe"}[h.mode]
		body := fmt.Sprintf(`{"product_id":%d}`, h.product)
		h.stock("")
		var d api.Deduction
		testkit.Must(h.T, json.Unmarshal([]byte(h.says(absolute, "", body, http.StatusOK)), &d))
		h.says("/reserve_stock/"+h.mode, "", body, http.StatusConflict, `"code":"hold_unsupported"`)
		back := fmt.Sprintf("/products/%d/orders/%s/return", h.product, d.OrderID)
		h.says(back, "", `{"restock":true}`, http.StatusConflict, `"code":"return_unsupported"`)
		h.left(2)
		h.stock("")
		a := h.hold(`"quantity":1`)
		h.says(absolute, "", body, http.StatusConflict, `"code":"hold_unsupported"`)
		h.left(2)
		h.says("/deduct_stock/"+h.mode, "", body, http.StatusOK, `"remaining":1`)
		h.says(a+"/cancel", "", "", http.StatusOK)
		h.says(absolute, "", body, http.StatusConflict, `"code":"hold_unsupported"`)
		h.left(2)
		h.stock("")
		h.says(absolute, "", body, http.StatusOK)
	})
}

// A key holds once, also under another payload, which is refused; and the payload of the first time is answered. To a
// sale the buyer belongs to the payload as well.
func TestReserveKeyHoldsOnce(t *testing.T) {
	t.Parallel()
	onHolds(t, 0, func(h heldShop) {
		h.stock("")
		ask := func(quantity, status int) string {
			body := fmt.Sprintf(`{"product_id":%d,"quantity":%d}`, h.product, quantity)
			return h.says("/reserve_stock/"+h.mode, "key", body, status)
		}
		first := ask(1, http.StatusCreated)
		if again := ask(1, http.StatusCreated); again != first {
			h.Errorf("the key again: %s, want %s", again, first)
		}
		ask(2, http.StatusUnprocessableEntity)
		sale := fmt.Sprintf(`{"product_id":%d,"buyer":"ann"}`, h.product)
		h.says("/deduct_stock/"+h.mode, "sale", sale, http.StatusOK)
		h.says("/deduct_stock/"+h.mode, "sale", sale, http.StatusOK)
		h.says("/deduct_stock/"+h.mode, "sale", strings.Replace(sale, "ann", "bob", 1), http.StatusUnprocessableEntity)
		path := fmt.Sprintf("/products/%d/reservations?cursor=caf%%C3%%A9&store=", h.product)
		if h.mode == "reserve-sql" {
			send(h.T, h.r, http.MethodGet, path+"sql", "", http.StatusBadRequest)
		}
		h.left(1)
	})
}

// A payment's id, the key of a hold and that of a sale may be the same text: none is taken for another, and the judge
// does not ask for the stored answer of a payment.
func TestPaymentIsNoKey(t *testing.T) {
	t.Parallel()
	onHolds(t, 0, func(h heldShop) {
		h.stock("")
		body := fmt.Sprintf(`{"product_id":%d}`, h.product)
		h.says("/deduct_stock/"+h.mode, "sale", body, http.StatusOK)
		for _, key := range []string{"sale", "hold"} {
			var r api.Reservation
			got := h.says("/reserve_stock/"+h.mode, "hold", body, http.StatusCreated)
			testkit.Must(h.T, json.Unmarshal([]byte(got), &r))
			h.says("/reservations/"+r.ReservationID+"/confirm", key, "",
				map[string]int{"sale": http.StatusOK, "hold": http.StatusConflict}[key])
		}
		h.left(1)
	})
}

// A sweep gives the units of an overdue reservation back, and a payment that comes later is to be refunded. Each end of
// a reservation is told once, whatever is repeated.
func TestReservationsAreSwept(t *testing.T) {
	t.Parallel()
	onHolds(t, 20*time.Millisecond, func(h heldShop) {
		h.stock("")
		ends := h.ends()
		for _, end := range []string{"/confirm", "/cancel"} {
			b := h.hold(`"quantity":1`)
			key := map[string]string{"/confirm": "paid"}[end]
			h.says(b+end, key, "", http.StatusOK)
			h.says(b+end, key, "", http.StatusOK)
		}
		h.stock("")
		a := h.hold(`"quantity":3,"hold_ms":100`)
		h.says(a+"/extend", "", `{"hold_ms":99}`, http.StatusBadRequest, `"field":"hold_ms"`)
		store := strings.TrimPrefix(h.mode, "reserve-")
		testkit.Until(h.T, "the units are back", func() bool {
			got := send(h.T, h.r, http.MethodGet, fmt.Sprintf("/products/%d", h.product), "", http.StatusOK)
			return strings.Contains(got, fmt.Sprintf(`%q:3`, store))
		})
		h.says(a+"/confirm", "late", "", http.StatusGone, `"state":"expired"`, `"refund":true`)
		h.says(a+"/confirm", "late", "", http.StatusGone, `"state":"expired"`, `"refund":true`)
		h.left(3)
		for _, want := range []string{"confirmed 1", "cancelled 1", "expired 1"} {
			if got := <-ends; got != want {
				h.Errorf("GET /events tells of %s, want %s", got, want)
			}
		}
	})
}
