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
	"lastitem/contract/ledger"
	"lastitem/testkit"
	"lastitem/testkit/reservationtest"
	"lastitem/testkit/testenv"
)

// inBoth runs a test of product 101 or 102 with a mode of each store, on embedded servers.
func inBoth(t *testing.T, sweep time.Duration, test func(t *testing.T, r *Replica, p *reservationtest.Player)) {
	redis := testenv.Miniredis(t)
	r := startReplica(t, Config{Redis: redis.URL, Prefix: redis.Prefix, SQL: testenv.SQLite(t), Conns: 16, Sweep: sweep,
		Events: true})
	waitReady(t, r)
	url := testkit.Serve(t, r).URL
	for i, store := range []string{"sql", "redis"} {
		t.Run(store, func(t *testing.T) {
			seam := serve(t, url, "reserve-"+store, "reserve-"+store, store)
			test(t, r, reservationtest.New(t, seam, 101+int64(i)))
		})
	}
}

// What the table of lives does not say about the answers: inputs that are refused, ids that nobody has, bytes that are
// the same, and that no answer tells an id to somebody who did not make it.
func TestAnswersAboutReservations(t *testing.T) {
	t.Parallel()
	inBoth(t, 0, func(t *testing.T, r *Replica, p *reservationtest.Player) {
		says := func(path, key, body string, status int, parts ...string) string {
			t.Helper()
			got := sendKeyed(t, r, http.MethodPost, path, key, body, status)
			for _, part := range parts {
				if !strings.Contains(got, part) {
					t.Errorf("POST %s says %s, want %s in it", path, got, part)
				}
			}
			return got
		}
		product := fmt.Sprintf(`{"product_id":%d`, p.Product)
		ann, reserve, deduct := product+`,"buyer":"ann"}`, "/reserve_stock/reserve-"+p.Store, "/deduct_stock/reserve-"+p.Store
		p.Begin(ledger.Rules{PerBuyer: 2})
		p.Say("hold ann/1 2 = held 3")
		a := "/reservations/" + p.ID("ann/1")
		got := says(reserve, "", ann, http.StatusConflict, `"code":"limit_reached"`, `"requested":1`,
			`"happened":"no_for_now"`)
		if strings.Contains(got, p.ID("ann/1")) {
			t.Errorf("limit_reached tells an id with which one may act: %s", got)
		}
		says(reserve, "", product+`,"quantity":4}`, http.StatusConflict, `"code":"sold_out"`, `"requested":4`,
			`"happened":"no_for_now"`)
		says(a+"/extend", "", `{"hold_ms":99}`, http.StatusBadRequest, `"field":"hold_ms"`)
		says(a+"/confirm", "", "", http.StatusBadRequest, `"refund":"unknown"`)
		first := says(a+"/confirm", "p1", "", http.StatusOK, `"state":"confirmed"`, `"refund":false`)
		testkit.Is(t, says(a+"/confirm", "p1", "", http.StatusOK), first, "the same payment again")
		says(fmt.Sprintf("/products/%d/orders/%s/return", p.Product, p.ID("")), "", "", http.StatusBadRequest,
			`"field":"restock"`)
		for _, id := range []string{"none", "sql-101-", "redis-x-01a21ee8-1141-76d6-af27-210506121a55", p.ID("none")} {
			path := "/reservations/" + id + "/confirm"
			says(path, "p", "", http.StatusNotFound, `"code":"unknown_reservation"`, `"refund":true`)
			says(path, "p1", "", http.StatusUnprocessableEntity, `"refund":false`) // it has an order
		}
		says("/reserve_stock/lease-seq", "", "{}", http.StatusConflict, `"code":"hold_unsupported"`)
		says(deduct, "sale", ann, http.StatusConflict, `"code":"limit_reached"`) // which the key does not keep
		says(deduct, "sale", product+`,"buyer":"bob"}`, http.StatusOK)
		says(deduct, "sale", ann, http.StatusUnprocessableEntity) // the buyer belongs to the payload
		if p.Store == "sql" {
			send(t, r, http.MethodGet, "/products/101/reservations?cursor=caf%C3%A9&store=sql", "", http.StatusBadRequest)
		}
	})
}

// A late payment waits for units that are free and locked, as a hold does: that is no reason for a refund.
func TestLatePaymentWaitsForUnits(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQL(t)
	r := startReplica(t, Config{SQL: dsn, Conns: 4})
	waitReady(t, r)
	p := reservationtest.New(t, serve(t, testkit.Serve(t, r).URL, "reserve-unit", "", "sql"), 500)
	p.Begin(ledger.Rules{Late: ledger.LateRehold})
	p.Say("brief a 1 = held 4; late a = ; read a = expired")
	db, err := sql.Open("mysql", dsn)
	testkit.Must(t, err)
	tx, err := testkit.Closing(t, db).BeginTx(t.Context(), nil)
	testkit.Must(t, err)
	_, err = tx.ExecContext(t.Context(), "SELECT unit_id FROM unit WHERE product_id = 500 FOR UPDATE")
	testkit.Must(t, err)
	time.AfterFunc(300*time.Millisecond, func() { _ = tx.Rollback() })
	p.Say("confirm a p = confirmed op")
}

// The sweeper gives the units of an overdue reservation back, and a payment that comes later is to be refunded. Each
// end of a reservation is told once by GET /events, whatever is repeated.
func TestReservationsAreSwept(t *testing.T) {
	t.Parallel()
	inBoth(t, 20*time.Millisecond, func(t *testing.T, r *Replica, p *reservationtest.Player) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, testkit.Serve(t, r).URL+"/events", nil)
		testkit.Must(t, err)
		req.Header.Set("Authorization", "Bearer t0ken")
		res, err := http.DefaultClient.Do(req)
		testkit.Must(t, err)
		defer res.Body.Close()
		lines := bufio.NewScanner(res.Body)
		lines.Scan() // the stream is open
		p.Say(`reset = ; hold a 1 = held 4; confirm a p = confirmed op; confirm a p = confirmed op replay
			hold b 1 = held 3; cancel b = cancelled; cancel b = cancelled; brief c 4 = held 0`)
		testkit.Until(t, "the units are back", func() bool {
			book, err := p.Book(t.Context(), p.Product)
			return err == nil && book.Stock == 4
		})
		p.Say("confirm c late = expired refund; confirm c late = expired refund")
		told := ""
		for strings.Count(told, " ") < 3 && lines.Scan() {
			var e api.Events
			data, _ := strings.CutPrefix(lines.Text(), "data: ")
			_ = json.Unmarshal([]byte(data), &e)
			for _, a := range e.Answers {
				if a.End != "" && a.ProductID == p.Product {
					told += fmt.Sprint(a.End, a.Count, " ")
				}
			}
		}
		testkit.Is(t, told, "confirmed1 cancelled1 expired1 ", "GET /events")
	})
}

// A returned sale that did not count for the limit gives nothing back to it, and a hold does not count itself.
func TestUncountedSalesGiveNothingBack(t *testing.T) {
	t.Parallel()
	r := startReplica(t, Config{SQL: testenv.SQLite(t), Conns: 4})
	waitReady(t, r)
	p := reservationtest.New(t, serve(t, testkit.Serve(t, r).URL, "reserve-sql", "buyer-check", "sql"), 400)
	p.Begin(ledger.Rules{PerBuyer: 2})
	p.Say(`hold ann/1 1 = held 4; cancel ann/1 = cancelled; sell ann/2 2 = sold 3; restock ann/2 = 2 true
		hold ann/3 2 = held 3; hold ann/4 1 = limit_reached 2`)
}
