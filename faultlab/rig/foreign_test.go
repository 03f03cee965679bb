package rig

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/testkit"
)

// foreignService returns a valid description of a service.
func foreignService() Foreign {
	return Foreign{
		Serve: "app --port {{port}} --redis {{redis}} --mysql {{mysql_dsn}}", Request: "POST /buy?product={{product}}",
		OK: Meaning{Statuses: []int{200}}, Refused: Meaning{Statuses: []int{409}}, Declined: Meaning{Statuses: []int{423}},
		ResetSQL: []string{"UPDATE products SET stock = {{stock}} WHERE id = {{product}}"},
		Stock:    Source{SQL: "SELECT stock FROM products WHERE id = {{product}}"},
		Orders:   Source{Redis: "LRANGE orders:{{product}} 0 -1"},
	}
}

// The error about a wrong description names the option to change.
func TestForeignCheck(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		spoil func(f *Foreign)
		want  string // part of the error; "" = none
	}{
		"as it should be":        {func(*Foreign) {}, ""},
		"no command":             {func(f *Foreign) { f.Serve = " " }, "--serve"},
		"an open quote":          {func(f *Foreign) { f.Serve = "sh -c 'app {{port}} {{redis}}" }, "quote"},
		"an unknown placeholder": {func(f *Foreign) { f.Serve += " {{mongo}}" }, "unknown placeholder {{mongo}}"},
		"no port":                {func(f *Foreign) { f.Serve = "app {{redis}}" }, "{{port}}"},
		"the port in env": {func(f *Foreign) {
			f.Serve = "app {{redis}} {{mysql}}"
			f.Env = []string{"PORT={{port}}"}
		}, ""},
		"no server":              {func(f *Foreign) { f.Serve = "app {{port}}" }, "can stop only what passes"},
		"a bad env":              {func(f *Foreign) { f.Env = []string{"PORT"} }, "NAME=VALUE"},
		"no method":              {func(f *Foreign) { f.Request = "/buy" }, "METHOD PATH"},
		"no path":                {func(f *Foreign) { f.Request = "POST buy" }, "METHOD PATH"},
		"a bad header":           {func(f *Foreign) { f.Headers = []string{"Authorization"} }, "Name: value"},
		"no reset":               {func(f *Foreign) { f.ResetSQL = nil }, "--reset-sql"},
		"an empty command":       {func(f *Foreign) { f.ResetRedis = []string{" "} }, "want a Redis command"},
		"an open quote in Redis": {func(f *Foreign) { f.ResetRedis = []string{"DEL 'a"} }, "not closed"},
		"stock in a request":     {func(f *Foreign) { f.Request = "POST /buy/{{stock}}" }, "unknown placeholder {{stock}}"},
		"no stock":               {func(f *Foreign) { f.Stock = Source{} }, "--stock-sql"},
		"two stocks":             {func(f *Foreign) { f.Stock.URL = "/stock" }, "want one of them"},
		"no orders":              {func(f *Foreign) { f.Orders = Source{} }, "--orders-sql"},
		"a URL with a host":      {func(f *Foreign) { f.Orders = Source{URL: "http://x/orders"} }, "want a path"},
		"SQL without MySQL":      {func(f *Foreign) { f.Serve = "app {{port}} {{redis}}" }, "no {{mysql}}"},
		"Redis without Redis":    {func(f *Foreign) { f.Serve = "app {{port}} {{mysql}}" }, "no {{redis}}"},
		"a bad expression":       {func(f *Foreign) { f.OK.Body = "(" }, "--ok-body"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := foreignService()
			tt.spoil(&f)
			err := f.Check()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) ||
				strings.Contains(err.Error(), "%!")) {
				t.Errorf("Check() = %v, want %q", err, tt.want)
			}
		})
	}
}

// A command line is split as a shell splits it, and its placeholders are filled in after that.
func TestForeignArgv(t *testing.T) {
	t.Parallel()
	f := foreignService()
	f.Serve = `app --port {{port}} --dsn "{{mysql_dsn}}" 'a b' c\ d ""  {{ttl_ms}} {{redis_password}} ` +
		`{{mysql_host}}:{{mysql_port}}/{{mysql_database}}`
	l := Launch{TTL: 600 * time.Millisecond, URLs: map[string]string{"SHOP_REDIS": "redis://default:pw@127.0.0.1:2/0",
		"SHOP_SQL": "me:secret word@tcp(127.0.0.1:3)/lane_0"}}
	got := f.argv(l, "127.0.0.1:1")
	want := []string{"app", "--port", "1", "--dsn", "me:secret word@tcp(127.0.0.1:3)/lane_0", "a b", "c d", "", "600",
		"pw", "127.0.0.1:3/lane_0"}
	testkit.Same(t, got, want, "argv")
}

// The headers of the description reach the service, Host included.
func TestForeignHeaders(t *testing.T) {
	t.Parallel()
	got := make(chan *http.Request, 1)
	s := testkit.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r }))
	f := foreignService()
	f.Headers = []string{"host: shop.example", "X-Key: k-{{key}}"}
	_, _, err := f.answerOf(t.Context(), s.URL, Ask{Product: 7, Key: "a"})
	testkit.Must(t, err)
	if r := <-got; r.Host != "shop.example" || r.Header.Get("X-Key") != "k-a" || r.RequestURI != "/buy?product=7" {
		t.Errorf("the service was asked %s %s of %q, X-Key %q", r.Method, r.RequestURI, r.Host, r.Header.Get("X-Key"))
	}
}

// The status classifies an answer; a meaning with an expression for the body is tried first.
func TestForeignAnswer(t *testing.T) {
	t.Parallel()
	f := foreignService()
	always200 := foreignService()
	always200.OK.Body, always200.OrderID = `"code": ?0`, "/data/no"
	always200.Refused = Meaning{Statuses: []int{200}, Body: "sold out"}
	always200.Declined = Meaning{Statuses: []int{200}}
	tests := map[string]struct {
		f      Foreign
		status int
		body   string
		want   judge.Op
	}{
		"sold":          {f, 200, `{"order_id":17}`, judge.Op{Outcome: judge.OK, OrderID: "17"}},
		"sold, no JSON": {f, 200, `thanks`, judge.Op{Outcome: judge.OK}},
		"sold out":      {f, 409, ``, judge.Op{Outcome: judge.Refused, Code: api.SoldOut}},
		"busy":          {f, 423, ``, judge.Op{Outcome: judge.Declined, Code: api.LockBusy}},
		"an error":      {f, 500, ``, judge.Op{Outcome: judge.Unknown}},
		"200 sold":      {always200, 200, `{"code":0,"data":{"no":"a1"}}`, judge.Op{Outcome: judge.OK, OrderID: "a1"}},
		"200 sold out": {always200, 200, `{"code":7,"message":"sold out"}`,
			judge.Op{Outcome: judge.Refused, Code: api.SoldOut}},
		"200 anything":    {always200, 200, `{"code":9}`, judge.Op{Outcome: judge.Declined, Code: api.LockBusy}},
		"200 without one": {always200, 200, `{"code":0}`, judge.Op{Outcome: judge.OK}},
	}
	for name, tt := range tests {
		got := tt.f.answer(&http.Response{StatusCode: tt.status, Header: http.Header{}}, []byte(tt.body))
		testkit.Same(t, got, tt.want, "%s", name)
	}
}

// Orders are read from JSON objects, from plain texts, and from a part of a JSON document.
func TestRows(t *testing.T) {
	t.Parallel()
	body := `{"data":{"orders":[{"orderId":7,"qty":2.00,"key":"k","x":null},"plain"],"stock":12}}`
	found, err := pick([]byte(body), "/data/orders")
	testkit.Must(t, err)
	rows := rowsIn(found, scalar(found))
	want := []row{{"orderid": "7", "qty": "2.00", "key": "k"}, {"": "plain"}}
	testkit.Same(t, rows, want, "rows")
	o, err := rows[0].order(1)
	plain, plainErr := rows[1].order(1)
	if err != nil || plainErr != nil || o.OrderID != "7" || o.Quantity != 2 || o.Key != "k" || plain.OrderID != "plain" ||
		plain.Quantity != 1 {
		t.Errorf("orders = %+v, %v, %+v, %v", o, err, plain, plainErr)
	}
	if o, err := (row{"id": "7", "qty": "many"}).order(1); err == nil {
		t.Errorf("an order of many units = %+v, want an error", o)
	}
	stock, err := pick([]byte(body), "data/stock")
	if err != nil || scalar(stock) != "12" {
		t.Errorf("pick(data/stock) = %s, %v", stock, err)
	}
	if _, err := pick([]byte(body), "/data/nothing"); err == nil {
		t.Error("pick found /data/nothing")
	}
	if n, err := total([]row{{"": "3"}, {"": "4"}}); n != 7 || err != nil {
		t.Errorf("total(3, 4) = %d, %v", n, err)
	}
	for _, bad := range [][]row{nil, {{"": ""}}, {{"": "many"}}} {
		if n, err := total(bad); err == nil {
			t.Errorf("total(%v) = %d, want an error", bad, n)
		}
	}
}

// An answer without an order id gets an order that no other answer names; if there is none, the judge must find the
// order missing.
func TestNamed(t *testing.T) {
	t.Parallel()
	ok := func(id, key string) judge.Op { return judge.Op{Outcome: judge.OK, OrderID: id, Key: key} }
	rows := []api.Order{{OrderID: "a"}, {OrderID: "b"}}
	got := Named([]judge.Op{ok("", "1"), ok("a", "2"), ok("a", "2"), ok("", "3"), {Outcome: judge.Unknown}}, rows)
	var ids []string
	for _, op := range got {
		ids = append(ids, op.OrderID)
	}
	testkit.Same(t, ids, []string{"b", "a", "a", "none (answer 4)", ""}, "ids")
	if got[1].Replayed || !got[2].Replayed {
		t.Errorf("the second answer to a key is a replay, the first is none: %v, %v", got[1].Replayed, got[2].Replayed)
	}
	keyed := Named([]judge.Op{ok("", "2"), ok("", "1")}, []api.Order{{OrderID: "a", Key: "1"}, {OrderID: "b", Key: "2"}})
	if keyed[0].OrderID != "b" || keyed[1].OrderID != "a" {
		t.Errorf("by key: %s, %s, want b, a", keyed[0].OrderID, keyed[1].OrderID)
	}
}

// A repeated request was sold twice if its two answers name two orders or, without keys and names, if there are more
// orders than customers. A replay of the same order is one order.
func TestSoldTwice(t *testing.T) {
	t.Parallel()
	is := func(outcome judge.Outcome, id, key string) judge.Op {
		return judge.Op{Outcome: outcome, OrderID: id, Key: key}
	}
	ok := func(id, key string) judge.Op { return is(judge.OK, id, key) }
	for name, c := range map[string]struct {
		seen      []judge.Op
		orders    int
		two, more bool
	}{
		"sold twice":      {[]judge.Op{ok("", "1"), ok("", "1"), ok("", "2")}, 3, false, true},
		"the same order":  {[]judge.Op{ok("", "1"), ok("", "1"), ok("", "2")}, 2, false, false},
		"no answer":       {[]judge.Op{is(judge.Unknown, "", "1"), ok("", "1"), ok("", "2")}, 3, false, true},
		"nobody repeated": {[]judge.Op{ok("", "1"), ok("", "2")}, 3, false, false},
		"busy":            {[]judge.Op{is(judge.Declined, "", "1"), ok("", "1"), ok("", "2")}, 2, false, false},
		"two orders":      {[]judge.Op{ok("a", "1"), ok("c", "2"), ok("b", "1")}, 2, true, false},
		"a replay":        {[]judge.Op{ok("a", "1"), ok("a", "1"), ok("b", "2")}, 2, false, false},
		"one has no id":   {[]judge.Op{ok("", "1"), ok("b", "1")}, 1, false, false},
		"no keys":         {[]judge.Op{ok("a", ""), ok("b", "")}, 1, false, false},
		"one unknown":     {[]judge.Op{is(judge.Unknown, "a", "1"), ok("b", "1")}, 1, false, false},
	} {
		if two, more := soldTwice(c.seen), moreThanCustomers(c.seen, make([]api.Order, c.orders)); two != c.two ||
			more != c.more {
			t.Errorf("%s: two orders %t, more than customers %t, want %t, %t", name, two, more, c.two, c.more)
		}
	}
}
