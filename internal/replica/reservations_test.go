package replica

import (
	"bufio"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"lastitem/contract/api"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// buyers asks a replica about a product whose reservations one mode makes.
type buyers struct {
	*testing.T
	*Replica
	mode    string
	product int64
}

// inBoth runs a test with a mode of each store, on embedded servers.
func inBoth(t *testing.T, sweep time.Duration, test func(b buyers)) {
	redis := testenv.Miniredis(t)
	r := startReplica(t, Config{Redis: redis.URL, Prefix: redis.Prefix, SQL: testenv.SQLite(t), Conns: 16, Sweep: sweep,
		Events: true})
	waitReady(t, r)
	for i, mode := range []string{"reserve-sql", "reserve-redis"} {
		t.Run(mode, func(t *testing.T) { test(buyers{t, r, mode, 101 + int64(i)}) })
	}
}

// stock sets the stock, with further fields of the body.
func (b buyers) stock(units int, rules string) {
	b.Helper()
	send(b.T, b, http.MethodPut, fmt.Sprintf("/products/%d/stock", b.product), fmt.Sprintf(`{"stock":%d%s}`, units, rules),
		http.StatusOK)
}

// says posts a request and checks the status and what stands in the answer; it returns the whole.
func (b buyers) says(path, key, body string, status int, parts ...string) string {
	b.Helper()
	got := sendKeyed(b.T, b, http.MethodPost, path, key, body, status)
	for _, part := range parts {
		if !strings.Contains(got, part) {
			b.Errorf("POST %s says %s, want %s in it", path, got, part)
		}
	}
	return got
}

// asks is says for a route of the mode, with further fields of the body.
func (b buyers) asks(verb, key, fields string, status int, parts ...string) string {
	b.Helper()
	return b.says("/"+verb+"_stock/"+b.mode, key, fmt.Sprintf(`{"product_id":%d%s}`, b.product, fields), status, parts...)
}

// hold holds units, and returns the path of the reservation.
func (b buyers) hold(fields string) string {
	b.Helper()
	var r api.Reservation
	testkit.Must(b.T, json.Unmarshal([]byte(b.asks("reserve", "", fields, http.StatusCreated)), &r))
	return "/reservations/" + r.ReservationID
}

// What the table of lives does not say about the answers: inputs that are refused, ids that nobody has, bytes that are
// the same, and that no answer tells an id to somebody who did not make it.
func TestAnswersAboutReservations(t *testing.T) {
	t.Parallel()
	inBoth(t, 0, func(b buyers) {
		const ann, paid = `,"buyer":"ann"`, http.StatusOK
		b.stock(3, `,"per_buyer":2`)
		a := b.hold(ann + `,"quantity":2`)
		got := b.asks("reserve", "", ann, http.StatusConflict, `"code":"limit_reached"`, `"requested":1`, `"per_buyer":2`)
		if strings.Contains(got, strings.TrimPrefix(a, "/reservations/")) {
			b.Errorf("limit_reached tells an id with which one may act: %s", got)
		}
		b.asks("reserve", "", `,"quantity":2`, http.StatusConflict, `"code":"sold_out"`, `"requested":2`)
		b.says(a+"/extend", "", `{"hold_ms":99}`, http.StatusBadRequest, `"field":"hold_ms"`)
		b.says(a+"/confirm", "", "", http.StatusBadRequest, `"refund":"unknown"`)
		first := b.says(a+"/confirm", "p1", "", paid, `"state":"confirmed"`, `"refund":false`)
		testkit.Is(b.T, b.says(a+"/confirm", "p1", "", paid), first, "the same payment again")
		var r api.Reservation
		testkit.Must(b.T, json.Unmarshal([]byte(first), &r))
		b.says(fmt.Sprintf("/products/%d/orders/%s/return", b.product, r.OrderID), "", "", http.StatusBadRequest,
			`"field":"restock"`)
		for _, id := range []string{"none", "sql-101-", "redis-x-01a21ee8-1141-76d6-af27-210506121a55",
			a[len("/reservations/"):len(a)-8] + "06121a55"} {
			path := "/reservations/" + id + "/confirm"
			b.says(path, "p", "", http.StatusNotFound, `"code":"unknown_reservation"`, `"refund":true`)
			b.says(path, "p1", "", http.StatusUnprocessableEntity, `"refund":false`) // it has an order
		}
		b.says("/reserve_stock/lease-seq", "", "{}", http.StatusConflict, `"code":"hold_unsupported"`)
		b.asks("deduct", "sale", ann, http.StatusConflict, `"code":"limit_reached"`) // which the key does not keep
		b.asks("deduct", "sale", `,"buyer":"bob"`, paid)
		b.asks("deduct", "sale", ann, http.StatusUnprocessableEntity) // the buyer belongs to the payload
		if b.mode == "reserve-sql" {
			path := fmt.Sprintf("/products/%d/reservations?cursor=caf%%C3%%A9&store=sql", b.product)
			send(b.T, b, http.MethodGet, path, "", http.StatusBadRequest)
		}
	})
}

// A late payment waits for units that are free and locked, as a hold does: that is no reason for a refund.
func TestLatePaymentWaitsForUnits(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQL(t)
	r := startReplica(t, Config{SQL: dsn, Conns: 4})
	waitReady(t, r)
	b := buyers{t, r, "reserve-unit", 500}
	b.stock(3, `,"units":true,"late":"rehold"`)
	a := b.hold(`,"hold_ms":100`)
	testkit.Until(t, "it has expired", func() bool {
		return strings.Contains(send(t, r, http.MethodGet, a, "", http.StatusOK), "expired")
	})
	db, err := sql.Open("mysql", dsn)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	tx, err := db.BeginTx(t.Context(), nil)
	testkit.Must(t, err)
	_, err = tx.ExecContext(t.Context(), "SELECT unit_id FROM unit WHERE product_id = 500 FOR UPDATE")
	testkit.Must(t, err)
	time.AfterFunc(300*time.Millisecond, func() { _ = tx.Rollback() })
	b.says(a+"/confirm", "p", "", http.StatusOK, `"state":"confirmed"`)
}

// The sweeper gives the units of an overdue reservation back, and a payment that comes later is to be refunded. Each
// end of a reservation is told once, whatever is repeated.
func TestReservationsAreSwept(t *testing.T) {
	t.Parallel()
	inBoth(t, 20*time.Millisecond, func(b buyers) {
		b.stock(3, "")
		ends := b.ends()
		for verb, key := range map[string]string{"/confirm": "paid", "/cancel": ""} {
			a := b.hold("")
			for range 2 {
				b.says(a+verb, key, "", http.StatusOK)
			}
		}
		b.stock(3, "")
		a := b.hold(`,"quantity":3,"hold_ms":100`)
		testkit.Until(b.T, "the units are back", func() bool {
			got := send(b.T, b, http.MethodGet, fmt.Sprintf("/products/%d", b.product), "", http.StatusOK)
			return strings.Contains(got, fmt.Sprintf(`%q:3`, strings.TrimPrefix(b.mode, "reserve-")))
		})
		for range 2 {
			b.says(a+"/confirm", "late", "", http.StatusGone, `"state":"expired"`, `"refund":true`)
		}
		told := map[string]bool{}
		for range 3 {
			told[<-ends] = true
		}
		testkit.Same(b.T, told, map[string]bool{"confirmed 1": true, "cancelled 1": true, "expired 1": true}, "GET /events")
	})
}

// ends reads how reservations of the product end, and how many, from GET /events.
func (b buyers) ends() <-chan string {
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, testkit.Serve(b, b).URL+"/events", nil)
	testkit.Must(b.T, err)
	req.Header.Set("Authorization", "Bearer t0ken")
	res, err := http.DefaultClient.Do(req)
	testkit.Must(b.T, err)
	b.Cleanup(func() { res.Body.Close() })
	lines, ends := bufio.NewScanner(res.Body), make(chan string, 9)
	lines.Scan() // the stream is open
	go func() {
		for lines.Scan() {
			var e api.Events
			data, _ := strings.CutPrefix(lines.Text(), "data: ")
			_ = json.Unmarshal([]byte(data), &e)
			for _, a := range e.Answers {
				if a.End != "" && a.Mode == b.mode && a.ProductID == b.product {
					ends <- fmt.Sprint(a.End, " ", a.Count)
				}
			}
		}
	}()
	return ends
}
