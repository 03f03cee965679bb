package replica

import (
	"bufio"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lastitem/contract/api"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
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

// heldShop is a product of a replica, and the mode that sells it.
type heldShop struct {
	*testing.T
	r       *Replica
	mode    string
	product int
}

func (h heldShop) stock(units int, rules string) {
	h.Helper()
	path, body := fmt.Sprintf("/products/%d/stock", h.product), fmt.Sprintf(`{"stock":%d%s}`, units, rules)
	send(h.T, h.r, http.MethodPut, path, body, http.StatusOK)
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

// with is a body about the product.
func (h heldShop) with(fields string) string {
	return fmt.Sprintf(`{"product_id":%d,"wait_ms":20000%s}`, h.product, fields)
}

// deducts and reserves are says for the mode's own routes, with further fields of the body.
func (h heldShop) deducts(key, fields string, status int, parts ...string) string {
	h.Helper()
	return h.says("/deduct_stock/"+h.mode, key, h.with(fields), status, parts...)
}

func (h heldShop) reserves(key, fields string, status int, parts ...string) string {
	h.Helper()
	return h.says("/reserve_stock/"+h.mode, key, h.with(fields), status, parts...)
}

// hold holds units, and returns the path of the reservation.
func (h heldShop) hold(fields string) string {
	h.Helper()
	return "/reservations/" + h.read(h.reserves("", fields, http.StatusCreated, `"state":"held"`)).ReservationID
}

// read reads an answer about a reservation or a sale.
func (h heldShop) read(answer string) (r api.Reservation) {
	h.Helper()
	testkit.Must(h.T, json.Unmarshal([]byte(answer), &r))
	return r
}

// returns takes an order back.
func (h heldShop) returns(order, body string, status int, parts ...string) {
	h.Helper()
	h.says(fmt.Sprintf("/products/%d/orders/%s/return", h.product, order), "", body, status, parts...)
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
		const ann, longer, again = `,"buyer":"ann"`, `{"hold_ms":120000}`, `{"restock":true}`
		h.stock(3, `,"per_buyer":2`)
		a := h.hold(ann + `,"quantity":2`)
		h.reserves("", ann, http.StatusConflict, `"code":"limit_reached"`, `"happened":"no_for_now"`,
			`"requested":1`, `"per_buyer":2`)
		h.reserves("", `,"quantity":2`, http.StatusConflict, `"code":"sold_out"`, `"happened":"no_for_now"`)
		h.says(a+"/confirm", "", "", http.StatusBadRequest, `"refund":"unknown"`)
		first := h.says(a+"/confirm", "p1", "", http.StatusOK, `"state":"confirmed"`, `"refund":false`)
		if again := h.says(a+"/confirm", "p1", "", http.StatusOK); again != first {
			h.Errorf("the same payment again: %s, want %s", again, first)
		}
		h.says(a+"/confirm", "p2", "", http.StatusConflict, `"code":"reservation_confirmed"`, `"refund":true`)
		h.says(a+"/cancel", "", "", http.StatusConflict, `"code":"reservation_confirmed"`)
		h.left(1)

		if got := h.reserves("", ann, http.StatusConflict); strings.Contains(got, a[len("/reservations/"):]) {
			h.Errorf("limit_reached tells an id with which one may act: %s", got)
		}
		b := h.hold(`,"hold_ms":60000`)
		h.says(b+"/extend", "", longer, http.StatusOK, `"state":"held"`)
		h.says(b+"/confirm", "p1", "", http.StatusUnprocessableEntity, `"code":"idempotency_key_reused"`, `"refund":false`)
		h.says(b+"/cancel", "", "", http.StatusOK, `"state":"cancelled"`)
		h.says(b+"/cancel", "", "", http.StatusOK, `"state":"cancelled"`)
		h.says(b+"/confirm", "p3", "", http.StatusConflict, `"code":"reservation_cancelled"`, `"refund":true`)
		h.says(b+"/extend", "", longer, http.StatusConflict, `"code":"reservation_cancelled"`)
		h.left(1)

		order := h.read(first).OrderID
		h.returns(order, "", http.StatusBadRequest, `"field":"restock"`)
		h.returns(order, again, http.StatusOK, `"restock":true`)
		h.returns(order, `{"restock":false}`, http.StatusOK, `"restock":true`)
		h.left(3)
		h.reserves("", ann+`,"quantity":3`, http.StatusConflict, `"code":"limit_reached"`)
		h.hold(ann + `,"quantity":2`) // the limit has room again
		h.stock(3, "")
		h.returns(order, again, http.StatusNotFound, `"code":"unknown_order"`)
		h.says(a+"/confirm", "p1", "", http.StatusOK, order) // the payment's end outlives the order
		h.says(a+"/confirm", "p2", "", http.StatusConflict, `"code":"reservation_confirmed"`, `"refund":true`)
		h.says(a+"/cancel", "", "", http.StatusConflict, `"code":"reservation_confirmed"`)
		for _, id := range []string{"none", "sql-101-", "redis-x-01a21ee8-1141-76d6-af27-210506121a55",
			a[len("/reservations/"):len(a)-8] + "06121a55"} {
			path := "/reservations/" + id + "/confirm"
			h.says(path, "p", "", http.StatusNotFound, `"code":"unknown_reservation"`, `"refund":true`)
			h.says(path, "p1", "", http.StatusUnprocessableEntity, `"refund":false`) // it has an order
		}
		// what was answered with a refund stays one
		h.says(h.hold("")+"/confirm", "p", "", http.StatusUnprocessableEntity, `"refund":false`)
		h.stock(3, `,"segments":2`)
		h.reserves("", ann, http.StatusConflict, `"code":"hold_unsupported"`)
		h.says("/reserve_stock/lease-seq", "", "{}", http.StatusConflict, `"code":"hold_unsupported"`)
		h.left(3)
	})
}

// SQL and Redis do not share payments: each gives one the end that it has there.
func TestStoresDoNotSharePayments(t *testing.T) {
	t.Parallel()
	onHolds(t, 0, func(h heldShop) {
		h.stock(3, "")
		h.says(h.hold("")+"/confirm", "shared", "", http.StatusOK, `"refund":false`)
	})
}

// A product that is sold by absolute counts takes no holds and no returns until its stock is set again, and one that is
// held is not sold by absolute counts, nor after its units have come back.
func TestAbsoluteCountsRefuseHolds(t *testing.T) {
	t.Parallel()
	onHolds(t, 0, func(h heldShop) {
		absolute := h
		absolute.mode = map[string]string{"reserve-sql": "unsafe-sql", "reserve-redis": "unsafe"}[h.mode]
		h.stock(3, "")
		order := h.read(absolute.deducts("", "", http.StatusOK)).OrderID
		h.reserves("", "", http.StatusConflict, `"code":"hold_unsupported"`)
		h.returns(order, `{"restock":true}`, http.StatusConflict, `"code":"return_unsupported"`)
		h.left(2)
		h.stock(3, "")
		a := h.hold("")
		absolute.deducts("", "", http.StatusConflict, `"code":"hold_unsupported"`)
		h.left(2)
		h.deducts("", "", http.StatusOK, `"remaining":1`)
		h.says(a+"/cancel", "", "", http.StatusOK)
		absolute.deducts("", "", http.StatusConflict, `"code":"hold_unsupported"`)
		h.left(2)
		h.stock(3, "")
		absolute.deducts("", "", http.StatusOK)
	})
}

// A key holds once, also under another payload, which is refused; and the payload of the first time is answered. To a
// sale the buyer belongs to the payload as well.
func TestReserveKeyHoldsOnce(t *testing.T) {
	t.Parallel()
	onHolds(t, 0, func(h heldShop) {
		h.stock(3, "")
		first := h.reserves("key", "", http.StatusCreated)
		if again := h.reserves("key", "", http.StatusCreated); again != first {
			h.Errorf("the key again: %s, want %s", again, first)
		}
		h.reserves("key", `,"quantity":2`, http.StatusUnprocessableEntity)
		h.deducts("sale", `,"buyer":"ann"`, http.StatusOK)
		h.deducts("sale", `,"buyer":"ann"`, http.StatusOK)
		h.deducts("sale", `,"buyer":"bob"`, http.StatusUnprocessableEntity)
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
		h.stock(3, "")
		h.deducts("sale", "", http.StatusOK)
		for _, key := range []string{"sale", "hold"} {
			id := h.read(h.reserves("hold", "", http.StatusCreated)).ReservationID
			h.says("/reservations/"+id+"/confirm", key, "",
				map[string]int{"sale": http.StatusOK, "hold": http.StatusConflict}[key])
		}
		h.left(1)
	})
}

// A late payment waits for units that are free and locked, as a hold does: that is no reason for a refund.
func TestLatePaymentWaitsForUnits(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQL(t)
	r := startReplica(t, Config{SQL: dsn, Conns: 4})
	waitReady(t, r)
	h := heldShop{t, r, "reserve-unit", 500}
	h.stock(3, `,"units":true,"late":"rehold"`)
	a := h.hold(`,"hold_ms":100`)
	time.Sleep(150 * time.Millisecond)               // its deadline
	send(t, r, http.MethodGet, a, "", http.StatusOK) // which ends it
	db, err := sql.Open("mysql", dsn)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	tx, err := db.BeginTx(t.Context(), nil)
	testkit.Must(t, err)
	_, err = tx.ExecContext(t.Context(), "SELECT unit_id FROM unit WHERE product_id = 500 FOR UPDATE")
	testkit.Must(t, err)
	time.AfterFunc(300*time.Millisecond, func() { _ = tx.Rollback() })
	h.says(a+"/confirm", "p", "", http.StatusOK, `"state":"confirmed"`)
}

// A sweep gives the units of an overdue reservation back, and a payment that comes later is to be refunded. Each end of
// a reservation is told once, whatever is repeated.
func TestReservationsAreSwept(t *testing.T) {
	t.Parallel()
	onHolds(t, 20*time.Millisecond, func(h heldShop) {
		h.stock(3, "")
		ends := h.ends()
		for _, end := range []string{"/confirm", "/cancel"} {
			b := h.hold("")
			key := map[string]string{"/confirm": "paid"}[end]
			h.says(b+end, key, "", http.StatusOK)
			h.says(b+end, key, "", http.StatusOK)
		}
		h.stock(3, "")
		a := h.hold(`,"quantity":3,"hold_ms":100`)
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
