package target

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/testkit"
)

// An answer to a kind of request has one reading for every product.
func TestRead(t *testing.T) {
	t.Parallel()
	const (
		problem = api.ProblemType
		plain   = "application/json"
		made    = `{"reservation_id":"r","state":"held","expires_at":"2026-11-20T12:00:00Z"}`
		sold    = `{"order_id":"o","remaining":3}`
	)
	for _, tt := range []struct {
		name    string
		kind    judge.ReservationKind
		status  int
		content string
		body    string
		outcome judge.Outcome
		again   bool
		code    api.Code
	}{
		{"sold", "", 200, plain, sold, judge.OK, false, ""},
		{"sold, as created", "", 201, plain, sold, judge.OK, false, ""},
		{"sold, by another type", "", 200, "text/plain", sold, judge.OK, false, ""},
		{"in another order", "", 200, plain, ` { "remaining" : -1 , "x" : 1e3, "order_id":"o" } `, judge.OK, false, ""},
		{"no order", "", 200, plain, `{"remaining":3}`, judge.Unknown, true, "http_200"},
		{"an empty order", "", 200, plain, `{"order_id":""}`, judge.Unknown, true, "http_200"},
		{"another name", "", 200, plain, `{"ORDER_ID":"o"}`, judge.Unknown, true, "http_200"},
		{"accepted for later", "", 202, plain, sold, judge.Unknown, true, "http_202"},
		{"nothing", "", 200, plain, ``, judge.Unknown, true, CodeBadAnswer},
		{"null", "", 200, plain, ` null`, judge.Unknown, true, CodeBadAnswer},
		{"a list", "", 200, plain, `[]`, judge.Unknown, true, CodeBadAnswer},
		{"half an object", "", 200, plain, `{"order_id":"o"`, judge.Unknown, true, CodeBadAnswer},
		{"two orders", "", 200, plain, `{"order_id":"o","order_id":"p"}`, judge.Unknown, true, CodeBadAnswer},
		{"a number for an order", "", 200, plain, `{"order_id":1}`, judge.Unknown, true, CodeBadAnswer},
		{"half a unit", "", 200, plain, `{"order_id":"o","remaining":1.5}`, judge.Unknown, true, CodeBadAnswer},
		{"no UTF-8", "", 200, plain, "{\"order_id\":\"\xff\"}", judge.Unknown, true, CodeBadAnswer},
		{"sold out", "", 409, problem, `{"code":"sold_out"}`, judge.Refused, false, api.SoldOut},
		{"sold out, with a charset", "", 409, problem + "; charset=utf-8", `{"code":"sold_out"}`, judge.Refused, false,
			api.SoldOut},
		{"sold out, but no problem", "", 409, plain, `{"code":"sold_out"}`, judge.Unknown, true, "http_409"},
		{"sold out under a good status", "", 202, problem, `{"code":"sold_out"}`, judge.Unknown, true, "http_202"},
		{"a problem without a code", "", 409, problem, `{"title":"x"}`, judge.Unknown, true, "http_409"},
		{"a code that nobody knows", "", 409, problem, `{"code":"odd"}`, judge.Unknown, true, "http_409"},
		{"a problem that is none", "", 503, problem, `<html>`, judge.Unknown, true, CodeBadAnswer},
		{"a page", "", 502, "text/html", `<html>`, judge.Unknown, true, "http_502"},
		{"a redirect", "", 307, "", ``, judge.Unknown, true, "http_307"},
		{"held", judge.Reserve, 201, plain, made, judge.OK, false, ""},
		{"held, but nobody knows what", judge.Reserve, 201, plain, `{"state":"held"}`, judge.Unknown, true, "http_201"},
		{"held, as a page", judge.Reserve, 201, plain, `<html>`, judge.Unknown, true, CodeBadAnswer},
		{"paid", judge.Confirm, 200, plain, `{"reservation_id":"r","order_id":"o","refund":false}`, judge.OK, false, ""},
		{"paid, but no order", judge.Confirm, 200, plain, `{"reservation_id":"r"}`, judge.Unknown, true, "http_200"},
		{"cancelled", judge.Cancel, 200, plain, `{"reservation_id":"r","state":"cancelled"}`, judge.OK, false, ""},
		{"extended", judge.Extend, 200, plain, made, judge.OK, false, ""},
		{"returned", judge.Return, 200, plain, `{"order_id":"o","restock":true}`, judge.OK, false, ""},
		{"no such order", judge.Return, 404, problem, `{"code":"unknown_order"}`, judge.Declined, false, api.UnknownOrder},
		{"paid too late", judge.Confirm, 410, problem, `{"code":"reservation_expired","refund":true,"state":"expired"}`,
			judge.Refused, false, api.ReservationExpired},
		{"cancelled before", judge.Confirm, 409, problem, `{"code":"reservation_cancelled","refund":true}`, judge.Refused,
			false, api.ReservationCancelled},
		{"paid for nothing", judge.Confirm, 404, problem, `{"code":"unknown_reservation","refund":true}`, judge.Declined,
			false, api.UnknownReservation},
		{"not yet", judge.Confirm, 503, problem, `{"code":"contended","refund":"unknown"}`, judge.Declined, true,
			api.Contended},
		{"nobody knows", judge.Confirm, 504, problem, `{"code":"outcome_unknown","refund":"unknown"}`, judge.Unknown, true,
			api.OutcomeUnknown},
		{"a refund that is no word", judge.Confirm, 503, problem, `{"code":"contended","refund":"no"}`, judge.Unknown, true,
			CodeBadAnswer},
	} {
		r := ReplyOf(tt.status, http.Header{"Content-Type": {tt.content}})
		r.Body = []byte(tt.body)
		if got := Read(tt.kind, r); got.Outcome != tt.outcome || got.Again != tt.again || got.Code != tt.code {
			t.Errorf("%s: %s %q, again %t, want %s %q, %t", tt.name, got.Outcome, got.Code, got.Again, tt.outcome, tt.code,
				tt.again)
		}
	}
	for code, facts := range api.Codes {
		body, err := json.Marshal(api.NewProblem(code, "", ""))
		testkit.Must(t, err)
		got := Read("", Reply{Status: facts.Status, Problem: true, Body: body})
		refused := code == api.SoldOut || strings.HasPrefix(string(code), "reservation_")
		if got.Code != code || got.Again == (facts.Happened == api.No) || (got.Outcome == judge.Refused) != refused ||
			(got.Outcome == judge.Unknown) != (facts.Happened == api.Unknown) || got.Outcome == judge.OK {
			t.Errorf("%s: read as %+v", code, got)
		}
	}
}

// The judge is told of a deduction and of a reservation: a limit is declined for the one and refused for the other,
// since the judge asks of both refusals of a reserve whether they were justified.
func TestOps(t *testing.T) {
	t.Parallel()
	header := http.Header{"X-Replica": {"r2"}, "Idempotent-Replayed": {"TRUE"}, "Retry-After": {"120"},
		"Content-Type": {api.ProblemType}}
	limit := ReplyOf(409, header)
	limit.Body = []byte(`{"code":"limit_reached","product_id":7}`)
	said := Read(judge.Reserve, limit)
	if said.RetryAfter != 2*time.Minute || said.ProductID != 7 {
		t.Errorf("Read() = %+v, want what its header and its body say", said)
	}
	a := Ask{Kind: judge.Reserve, Product: 1, Quantity: 2, Buyer: "ann", Key: "k"}
	testkit.Same(t, a.Op(said), judge.Op{Outcome: judge.Declined, Code: api.LimitReached, ProductID: 1, Quantity: 2,
		Key: "k", Buyer: "ann", Replica: "r2", Replayed: true}, "Op()")
	testkit.Same(t, a.ReservationOp(said), judge.ReservationOp{Kind: judge.Reserve, Outcome: judge.Refused, Limit: true,
		Quantity: 2,
		Key:      "k", Buyer: "ann", Replayed: true}, "ReservationOp()")
	late := Answer{Outcome: judge.Refused, Code: api.ReservationExpired, Refund: api.RefundYes, State: StateExpired}
	testkit.Same(t, Ask{Kind: judge.Confirm, Reservation: "r", Key: "pay"}.ReservationOp(late),
		judge.ReservationOp{Kind: judge.Confirm,
			Outcome: judge.Refused, ReservationID: "r", Quantity: 1, PaymentID: "pay", Refund: true, Expired: true},
		"ReservationOp()")
	back := Answer{Outcome: judge.OK, OrderID: "o", Restock: true}
	testkit.Same(t, Ask{Kind: judge.Return, Reservation: "r", Order: "o"}.ReservationOp(back),
		judge.ReservationOp{Kind: judge.Return,
			Outcome: judge.OK, ReservationID: "r", Quantity: 1, OrderID: "o", Restock: true}, "ReservationOp()")
	for text, want := range map[string]time.Duration{"": 0, "0": 0, "1": time.Second, "Fri, 20 Nov 2026 12:00:00 GMT": 0,
		"-1": 0, "99999999999999999999": 0} {
		testkit.Is(t, RetryAfter(text), want, "RetryAfter(%q)", text)
	}
}

// Each kind of request is one call, with the fields that it needs and no others.
func TestCall(t *testing.T) {
	t.Parallel()
	shop := Shop{Token: "t"}
	a := Ask{Mode: "m", Store: api.SQL, Product: 7, Quantity: 2, Buyer: "ann", Key: "k", For: time.Second,
		Reservation: "r/1", Order: "o", Restock: true}
	plain := a
	plain.For, plain.Wait, plain.Quantity = 0, -1, 0
	for _, tt := range []struct {
		ask  Ask
		kind judge.ReservationKind
		want string
	}{
		{a, "", `POST /deduct_stock/m k application/json ` +
			`{"product_id":7,"quantity":2,"wait_ms":0,"store":"sql","buyer":"ann","hold_ms":1000} []`},
		{plain, "", `POST /deduct_stock/m k application/json {"product_id":7,"store":"sql","buyer":"ann"} []`},
		{a, judge.Reserve, `POST /reserve_stock/m k application/json ` +
			`{"product_id":7,"quantity":2,"wait_ms":0,"buyer":"ann","hold_ms":1000} []`},
		{Ask{Mode: "m", Product: 7, Second: 8, Quantity: 2}, judge.Reserve, `POST /reserve_stock/m  application/json ` +
			`{"items":[{"product_id":7,"quantity":2},{"product_id":8,"quantity":2}],"wait_ms":0} []`},
		{a, judge.Confirm, `POST /reservations/r%2F1/confirm k   []`},
		{a, judge.Cancel, `POST /reservations/r%2F1/cancel    []`},
		{a, judge.Extend, `POST /reservations/r%2F1/extend k application/json {"hold_ms":1000} []`},
		{a, judge.Return, `POST /products/7/orders/o/return  application/json {"restock":true} [[Authorization Bearer t]]`},
	} {
		tt.ask.Kind = tt.kind
		c := shop.Call(tt.ask)
		got := c.Method + " " + c.Path + " " + c.Key + " " + c.ContentType + " " + string(c.Body) + " "
		for i, h := range c.Headers {
			got += strings.Repeat(" ", i) + "[[" + h[0] + " " + h[1] + "]]"
		}
		if c.Headers == nil {
			got += "[]"
		}
		testkit.Is(t, got, tt.want, "%s", tt.kind)
	}
	for want, m := range map[string]api.Mode{`{"stock":5}`: {}, `{"stock":5,"segments":3}`: {Segments: 3},
		`{"stock":5,"units":true}`: {Units: true}} {
		testkit.Is(t, string(encoded(m.Setting(5))), want, "the setting of a mode")
	}
	query := a.Call().InQuery()
	if query.Path != "/deduct_stock/m?buyer=ann&hold_ms=1000&product_id=7&quantity=2&store=sql&wait_ms=0" ||
		query.Body != nil || query.ContentType != "" || query.Key != "k" {
		t.Errorf("InQuery() = %+v", query)
	}
}
