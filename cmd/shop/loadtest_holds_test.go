package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lastitem/contract/api"
	"lastitem/internal/backend"
	"lastitem/internal/cli"
	"lastitem/internal/replica"
	"lastitem/judge"
	"lastitem/loadtest"
	"lastitem/loadtest/compare"
	"lastitem/loadtest/plan"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// spoil changes an answer of a shop about reservations.
type spoil func(shop http.Handler, path string, answer *httptest.ResponseRecorder)

// booked is a shop whose books of reservations are changed.
func booked(change func(book *api.Reservations)) spoil {
	return func(_ http.Handler, path string, answer *httptest.ResponseRecorder) {
		var book api.Reservations
		if strings.HasSuffix(path, "/reservations") && json.Unmarshal(answer.Body.Bytes(), &book) == nil {
			change(&book)
			answer.Body.Reset()
			_ = json.NewEncoder(answer.Body).Encode(book)
		}
	}
}

// counted is a shop whose books tell so many units more in stock than there are.
func counted(more int64) spoil { return booked(func(book *api.Reservations) { book.Stock += more }) }

// soldBeside is a shop that sells a unit of product 107 to somebody who reserved none, after every fortieth reserve.
func soldBeside() spoil {
	var reserves atomic.Int64
	return func(shop http.Handler, path string, _ *httptest.ResponseRecorder) {
		if strings.HasPrefix(path, "/reserve_stock/") && reserves.Add(1)%40 == 0 {
			sell := httptest.NewRequest(http.MethodPost, "http://localhost/deduct_stock/reserve-sql?product_id=107",
				http.NoBody)
			shop.ServeHTTP(httptest.NewRecorder(), sell)
		}
	}
}

// refunding is a shop that answers payments with a refund, and keeps the orders.
func refunding(_ http.Handler, path string, answer *httptest.ResponseRecorder) {
	if strings.HasSuffix(path, "/confirm") && answer.Code == http.StatusOK {
		answer.Code = http.StatusGone
		answer.Header().Set("Content-Type", api.ProblemType)
		answer.Body = bytes.NewBufferString(`{"code":"reservation_expired","refund":true,"state":"expired"}`)
	}
}

// reservingShop is two replicas on embedded servers, which are asked in turn and whose answers may be spoiled.
func reservingShop(t *testing.T, spoiled *spoil) (*loadtest.Control, map[string]api.Mode) {
	redis, sql := testenv.Miniredis(t), testenv.SQLite(t)
	var replicas []http.Handler
	for _, name := range []string{"1", "2"} {
		c, err := replica.Read(map[string]string{"SHOP_REPLICA": name, "SHOP_ADMIN_TOKEN": fakeToken, "SHOP_SQL": sql,
			"SHOP_REDIS": redis.URL, "SHOP_REDIS_PREFIX": redis.Prefix, "SHOP_SWEEP": "50ms", "SHOP_CONNS": "16"})
		testkit.Must(t, err)
		r, err := replica.New(c, replica.Options{Log: slog.New(slog.DiscardHandler)})
		testkit.Must(t, err)
		t.Cleanup(r.Close)
		_, err = backend.Migrate(t.Context(), r.Backends.DB)
		testkit.Must(t, err)
		testkit.NoError(t, "ready", func() error { _, err := r.Backends.Ready([]string{"redis", "sql"}, nil); return err })
		replicas = append(replicas, r)
	}
	var turn atomic.Int64
	server := testkit.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		shop := replicas[turn.Add(1)%2]
		shop.ServeHTTP(answer, r)
		if *spoiled != nil {
			(*spoiled)(shop, r.URL.Path, answer)
		}
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		w.Header().Del("Content-Length")
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	}))
	control, err := loadtest.NewControl(server.URL, fakeToken)
	testkit.Must(t, err)
	t.Cleanup(control.Close)
	control.Replicas = 2
	modes, err := control.Modes(t.Context())
	testkit.Must(t, err)
	byName := map[string]api.Mode{}
	for _, m := range modes {
		byName[m.Name] = m
	}
	return control, byName
}

// The plan reserve finds a correct shop exact, also in an open loop and with a limit per buyer. Each changed answer
// shows by its letter, and so does each of the mutants that name this test.
func TestLoadtestReserves(t *testing.T) {
	t.Parallel()
	var spoiled spoil
	control, modes := reservingShop(t, &spoiled)
	named, _ := plan.Named("reserve")
	for i, tt := range []struct {
		mode  string
		open  bool
		spoil spoil
		found string
	}{
		{"reserve-sql", false, nil, ""}, {"reserve-redis", false, nil, ""}, {"reserve-redis", true, nil, ""},
		{"reserve-redis", false, counted(1), "O"}, {"reserve-redis", false, counted(-1), "L"},
		{"reserve-redis", false, refunding, "D"}, {"reserve-sql", true, soldBeside(), ""},
	} {
		plan := named[0]
		plan.VUs, plan.Requests, plan.Stock, plan.Warmup, plan.Product = 20, 500, 150, 10*time.Millisecond, int64(101+i)
		plan.Reserving.For = 400 * time.Millisecond // so that payments come in time on a busy machine too
		plan.Reserving.Scaled = false
		if tt.open {
			plan.VUs, plan.Requests, plan.Rate, plan.Duration = 0, 0, 400, time.Second
			plan.Reserving.Buyers = 100
			if tt.spoil == nil {
				plan.Reserving.PerBuyer = 1
			}
		}
		spoiled = tt.spoil
		res, err := loadtest.Run(t.Context(), control, modes[tt.mode], plan, nil)
		testkit.Must(t, err)
		v, h := res.Verdicts[0], *res.Holds
		orders, carts := seconds(res)
		switch exact := v.Verdict == judge.Exact && res.Finding == judge.Confirmed; {
		case tt.found != "":
			if !strings.Contains(v.Found, tt.found) {
				t.Errorf("%+v: %s %q, violations %q, missing %q, want %s", tt, v.Verdict, v.Found, v.Violations, v.Missing,
					tt.found)
			}
		case !exact || v.Sold+v.Final+v.WrittenOff != plan.Stock:
			t.Errorf("%+v: %s, %+v, want exact, and 150 in all", tt, res.Why, res.Verdicts)
		case tt.spoil != nil:
			if !strings.Contains(strings.Join(v.Unchecked, ""), "were ordered without a reservation") {
				t.Errorf("%+v: unchecked %q, want the orders without a reservation named", tt, v.Unchecked)
			}
		case tt.open && (h.Limited == 0 || h.Buyers+res.Dropped != 400):
			t.Errorf("%+v: figures %+v, %d dropped, want limits, 400 buyers", tt, h, res.Dropped)
		case !tt.open && (h.Buyers != 500 || int64(h.Sold) != res.Latency["accepted"].Count || h.Sold != v.Orders+orders ||
			h.Refused*h.Cancelled*h.Expired*h.Refunded*h.Doubled*h.Limited*h.Extended*h.Returned == 0 ||
			h.SalesPerSecond == 0 || (carts > 0) != modes[tt.mode].Cart):
			h.History = nil
			t.Errorf("%+v: figures %+v, %d and %d orders, %d carts, want some of each", tt, h, v.Orders, orders, carts)
		}
	}
	auditReserved(t, control, &spoiled)
}

// listed is a shop whose ledgers and books list other adjustments than there were.
func listed(change func([]api.Adjustment) []api.Adjustment) spoil {
	book := booked(func(book *api.Reservations) { book.Adjustments = change(book.Adjustments) })
	return func(shop http.Handler, path string, answer *httptest.ResponseRecorder) {
		book(shop, path, answer)
		var l api.Ledger
		if strings.HasSuffix(path, "/ledger") && json.Unmarshal(answer.Body.Bytes(), &l) == nil {
			for store, rows := range l.Adjustments {
				l.Adjustments[store] = change(rows)
			}
			answer.Body.Reset()
			_ = json.NewEncoder(answer.Body).Encode(l)
		}
	}
}

// adjustingNothing is a shop that answers an adjustment well that it has refused.
func adjustingNothing(_ http.Handler, path string, answer *httptest.ResponseRecorder) {
	if strings.HasSuffix(path, "/adjust") && answer.Code == http.StatusConflict {
		answer.Code = http.StatusOK
		answer.Header().Set("Content-Type", "application/json")
		answer.Body = bytes.NewBufferString(`{"product_id":1,"delta":-2}`)
	}
}

// While the stock is adjusted the modes that say so keep what they claim; an adjustment that is lost or not done, or
// whose key is there twice, shows.
func TestLoadtestAdjusts(t *testing.T) {
	t.Parallel()
	var spoiled spoil
	control, modes := reservingShop(t, &spoiled)
	lost := listed(func(rows []api.Adjustment) []api.Adjustment { return rows[:len(rows)-1] })
	twice := listed(func(rows []api.Adjustment) []api.Adjustment { return append(rows, rows[len(rows)-1]) })
	for i, tt := range []struct {
		mode   string
		spoil  spoil
		broken string
	}{
		{"sql-atomic", nil, ""}, {"redis-lua", nil, ""}, {"reserve-sql", nil, ""}, {"reserve-redis", nil, ""},
		{"redis-lua", lost, "answered that"}, {"reserve-redis", lost, "answered that"},
		{"redis-lua", twice, "a second time"}, {"redis-lua", adjustingNothing, "answered that"},
		{"reserve-redis", adjustingNothing, "answered that"},
	} {
		p := plan.Plan{VUs: 10, Requests: 150, Stock: 60, Product: int64(301 + i), Adjust: 0.3, Wait: time.Second}
		if modes[tt.mode].Reserves {
			p.Reserving = plan.Reserving{For: time.Minute, Pays: 0.8, Cancels: 0.2}
		}
		spoiled = tt.spoil
		res, err := loadtest.Run(t.Context(), control, modes[tt.mode], p, nil)
		testkit.Must(t, err)
		v := res.Verdicts[0]
		said := strings.Join(append(v.Violations, v.Consequences...), "; ")
		if exact := v.Verdict == judge.Exact && res.Finding == judge.Confirmed; exact != (tt.broken == "") ||
			!strings.Contains(said, tt.broken) || res.Codes["adjusted"] < 20 || len(v.Unchecked) > 0 && tt.broken == "" &&
			!modes[tt.mode].Reserves {
			t.Errorf("%s: %s %q %q, unchecked %q, codes %v, want %q", tt.mode, v.Verdict, v.Found, said, v.Unchecked, res.Codes,
				tt.broken)
		}
	}
}

// slow is a shop whose reserves are answered late.
func slow(by time.Duration) spoil {
	return func(_ http.Handler, path string, _ *httptest.ResponseRecorder) {
		if strings.HasPrefix(path, "/reserve_stock/") {
			time.Sleep(by)
		}
	}
}

// However long a reserve takes, the plan reserve decides. Times that are given stay, and the run says why it shows
// nothing.
func TestSlowReservesAreDecided(t *testing.T) {
	t.Parallel()
	run, plan := decided(t, 10*time.Millisecond, 150*time.Millisecond)
	plan.Reserving.Scaled = false
	res, err := run(t.Context(), plan)
	testkit.Must(t, err)
	if v := res.Verdicts[0]; v.Verdict != judge.Vacuous || res.Plan.Reserving.For != 100*time.Millisecond ||
		!strings.Contains(strings.Join(v.Missing, ""), "most holds ended before they could be paid: a reserve took ") {
		t.Errorf("%s %q, held for %v; want it vacuous with the reason, and the given hold", v.Verdict, v.Missing,
			res.Plan.Reserving.For)
	}
}

func TestVerySlowReservesAreDecided(t *testing.T) {
	testenv.Slow(t, "buyers wait for seconds")
	t.Parallel()
	decided(t, 900*time.Millisecond)
}

// decided checks that the plan reserve decides about a shop whose reserves take so long. It returns the plan, and how
// to run it on the last of these shops.
func decided(t *testing.T, delays ...time.Duration) (func(context.Context, plan.Plan) (loadtest.Result, error),
	plan.Plan) {
	var spoiled spoil
	control, modes := reservingShop(t, &spoiled)
	mode := modes["reserve-redis"]
	run := func(ctx context.Context, p plan.Plan) (loadtest.Result, error) {
		return loadtest.Run(ctx, control, mode, p, nil)
	}
	named, _ := plan.Named("reserve")
	p := named[0]
	p.VUs, p.Requests, p.Stock, p.Warmup = 16, 60, 10, 10*time.Millisecond
	for _, took := range delays {
		spoiled = slow(took)
		c, err := compare.Modes(t.Context(), compare.Comparing{Modes: []api.Mode{mode}, Plans: []plan.Plan{p},
			Run: func(ctx context.Context, _ api.Mode, p plan.Plan, _ func(loadtest.Progress)) (loadtest.Result, error) {
				return run(ctx, p)
			}})
		testkit.Must(t, err)
		if s := c.Summaries[0]; c.ExitCode() != cli.ExitOK || s.Holds.Took < took || s.Holds.Reserving.For < 4*took {
			t.Errorf("%v: exit code %d, %s %v, figures %+v; want it decided, and holds of four reserves", took, c.ExitCode(),
				s.Verdict, s.Why, s.Holds)
		}
	}
	return run, p
}

// seconds counts the orders of the second product alone, and the reservations that hold both.
func seconds(res loadtest.Result) (orders, carts int) {
	first := map[string]bool{}
	for _, op := range res.Holds.History[res.Plan.Product] {
		first[op.ReservationID] = op.ReservationID != ""
	}
	seen := map[string]bool{}
	for product, ops := range res.Holds.History {
		for _, op := range ops {
			switch again := seen[string(op.Kind)+op.ReservationID]; {
			case product == res.Plan.Product || again || op.Outcome != judge.OK:
				continue
			case op.Kind == judge.Confirm && !first[op.ReservationID]:
				orders++
			case op.Kind == judge.Reserve && first[op.ReservationID]:
				carts++
			}
			seen[string(op.Kind)+op.ReservationID] = true
		}
	}
	return orders, carts
}

// auditReserved checks that an audit of what the first run has left looks at the reservations too.
func auditReserved(t *testing.T, control *loadtest.Control, spoiled *spoil) {
	for name, tt := range map[string]struct {
		spoil spoil
		want  judge.Verdict
		says  string
	}{
		"a hold more": {booked(func(book *api.Reservations) {
			book.Held, book.Initial = book.Held+2, book.Initial+2 // whatever is left of the stock
			book.Adjustments[0].Delta += 2
			if book.SweepMS != 50 {
				t.Errorf("sweep_ms is %d, want 50", book.SweepMS)
			}
			book.Rows = append(book.Rows, api.ReservationRow{ReservationID: "more", State: "held", Quantity: 2,
				ExpiresMicros: 1 << 60, Events: []api.ReservationEvent{{Now: "held", DeadlineMicros: 1 << 60}}})
		}), judge.Exact, "besides     2 units are held, "},
		"a payment with two ends": {booked(func(book *api.Reservations) {
			for i, row := range book.Rows {
				for _, o := range row.Orders {
					row.Payments = append(row.Payments, api.ReservationPaid{Payment: o.Payment})
					book.Rows[i] = row
				}
			}
		}), judge.Broken, "two ends"},
		"not to be read": {booked(func(book *api.Reservations) { book.Held++ }), judge.Exact, "were not judged"},
	} {
		*spoiled = tt.spoil
		reports, err := judgeRunning(t.Context(), control.Shop, 101, api.SQL, "en")
		testkit.Must(t, err)
		if r := reports[0]; r.Verdict != tt.want || !strings.Contains(r.Text("en"), tt.says) {
			t.Errorf("%s: want %s and %q, got\n%s", name, tt.want, tt.says, r.Text("en"))
		}
	}
}
