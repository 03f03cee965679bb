package target

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
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
		"a product without name": {func(f *Foreign) { f.Products = []string{"a", ""} }, "--products a,"},
		"a setup with a port": {func(f *Foreign) { f.SetupCmd = []string{"migrate {{port}}"} },
			"unknown placeholder {{port}}"},
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
		"PostgreSQL":             {func(f *Foreign) { f.Serve = "app {{port}} {{redis}} {{postgres}}" }, ""},
		"two databases":          {func(f *Foreign) { f.Serve += " {{postgres_host}}" }, "exclude each other"},
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

// The address of a database is a DSN or a URL; a mistake in one names the option, and tells no password.
func TestForeignDatabase(t *testing.T) {
	t.Parallel()
	f := foreignService()
	for address, want := range map[string]string{
		"postgres://u:secret@127.0.0.1:1/db?sslmode=none": "--sql: want postgres://user",
		"postgresql://u:secret@127.0.0.1:1/db":            "--redis: want", // which comes next
		"mysql://u:secret@127.0.0.1:1/db":                 "--redis: want",
		"u:secret@127.0.0.1:1":                            "invalid DSN",
	} {
		_, err := f.At("http://127.0.0.1:1", "", address)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("At(%s) = %v, want %q", address, err, want)
		}
	}
}

// The headers of the description reach the service, Host included. A body that is valid JSON has that type, any other
// is a form; a header may say otherwise.
func TestForeignHeaders(t *testing.T) {
	t.Parallel()
	got := make(chan *http.Request, 1)
	s := testkit.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r }))
	f := foreignService()
	for _, tt := range [][3]string{{`POST /buy {"id":{{product}}}`, "", "application/json"}, {`POST /buy [7`, "",
		"application/x-www-form-urlencoded"}, {"POST /buy id=7", "content-type: text/plain", "text/plain"}} {
		d := Foreign{Request: tt[0], Headers: []string{tt[1]}}
		call, err := d.Caller()
		testkit.Must(t, err)
		testkit.Is(t, call(Ask{Product: 7}).ContentType, tt[2], "the type of the body of %s", tt[0])
	}
	f.Headers = []string{"host: shop.example", "X-Key: k-{{key}}"}
	call, err := f.Caller()
	testkit.Must(t, err)
	_, err = call(Ask{Product: 7, Key: "a"}).Send(t.Context(), http.DefaultClient, s.URL)
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
		want   Answer
	}{
		"sold":          {f, 200, `{"order_id":17}`, Answer{Outcome: judge.OK, OrderID: "17"}},
		"sold, no JSON": {f, 200, `thanks`, Answer{Outcome: judge.OK}},
		"sold out":      {f, 409, ``, Answer{Outcome: judge.Refused, Code: api.SoldOut}},
		"busy":          {f, 423, ``, Answer{Outcome: judge.Declined, Code: api.LockBusy}},
		"an error":      {f, 500, ``, Answer{Outcome: judge.Unknown, Code: "http_500"}},
		"200 sold":      {always200, 200, `{"code":0,"data":{"no":"a1"}}`, Answer{Outcome: judge.OK, OrderID: "a1"}},
		"200 sold out": {always200, 200, `{"code":7,"message":"sold out"}`,
			Answer{Outcome: judge.Refused, Code: api.SoldOut}},
		"200 anything":    {always200, 200, `{"code":9}`, Answer{Outcome: judge.Declined, Code: api.LockBusy}},
		"200 without one": {always200, 200, `{"code":0}`, Answer{Outcome: judge.OK}},
	}
	for name, tt := range tests {
		tt.want.Again = tt.want.Outcome == judge.Declined || tt.want.Outcome == judge.Unknown
		testkit.Same(t, tt.f.Read(Reply{Status: tt.status, Body: []byte(tt.body)}), tt.want, "%s", name)
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
	o, err := rows[0].order(1, IDNames)
	plain, plainErr := rows[1].order(1, IDNames)
	if err != nil || plainErr != nil || o.OrderID != "7" || o.Quantity != 2 || o.Key != "k" || plain.OrderID != "plain" ||
		plain.Quantity != 1 {
		t.Errorf("orders = %+v, %v, %+v, %v", o, err, plain, plainErr)
	}
	if o, err := (row{"id": "7", "qty": "many"}).order(1, IDNames); err == nil {
		t.Errorf("an order of many units = %+v, want an error", o)
	}
	stock, err := pick([]byte(body), "data/stock")
	if err != nil || scalar(stock) != "12" {
		t.Errorf("pick(data/stock) = %s, %v", stock, err)
	}
	if _, err := pick([]byte(body), "/data/nothing"); err == nil {
		t.Error("pick found /data/nothing")
	}
	if n, _, err := total([]row{{"": "3"}, {"": "4"}}); n != 7 || err != nil {
		t.Errorf("total(3, 4) = %d, %v", n, err)
	}
	for _, bad := range [][]row{nil, {{"": ""}}, {{"": "many"}}} {
		if n, _, err := total(bad); err == nil {
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

// Of two requests with one key that are both refused, in whatever order they were called, one was in progress.
func TestInProgress(t *testing.T) {
	t.Parallel()
	for _, calls := range [][2]int64{{1, 2}, {2, 1}} {
		ops := []judge.Op{{Key: "k", Outcome: judge.Refused, Call: calls[0], Return: 3},
			{Key: "k", Outcome: judge.Refused, Call: calls[1], Return: 4}}
		testkit.Is(t, InProgress(ops), 1, "busy of the calls at %v", calls)
	}
}

// The examples' scripts give --serve the path of a program as one word, whatever is in it.
func TestExamplesQuoteTheirPrograms(t *testing.T) {
	t.Parallel()
	const program = "/a user's/.cache/bin/program"
	shop := filepath.Join(t.TempDir(), "shop")
	syscall.ForkLock.RLock() // a child would hold the file open, and it could not be executed: https://go.dev/issue/22315
	err := os.WriteFile(shop, []byte("#!/bin/sh\nwhile [ \"$1\" != --serve ]; do shift; done; printf %s \"$2\""), 0o755)
	syscall.ForkLock.RUnlock()
	testkit.Must(t, err)
	for name, variable := range map[string]string{"redsync": "EXAMPLE", "redisson": "JAVA"} {
		cmd := exec.CommandContext(t.Context(), "../examples/"+name+"/explore")
		cmd.Env = append(os.Environ(), "SHOP="+shop, variable+"="+program)
		line, err := cmd.Output()
		testkit.Mustf(t, err, "%s/explore", name)
		if words, err := splitWords(string(line)); err != nil || words[0] != program {
			t.Errorf("%s/explore starts %q (%v), want %q", name, words, err, program)
		}
	}
}

// A list of a service whose address ends with a path is read to its end, however its pages name the next one.
func TestPagesBelowAPath(t *testing.T) {
	t.Parallel()
	for _, next := range []string{"/v1/orders?page=2", "?page=2", "http://inside/v1/orders?page=2", "/orders?page=2"} {
		s := testkit.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(map[bool]int{true: http.StatusOK, false: http.StatusNotFound}[r.URL.Path == "/v1/orders"])
			more := map[string]string{"": next}[r.FormValue("page")]
			_, _ = fmt.Fprintf(w, `{"items": ["o%s"], "next": %q}`, r.FormValue("page"), more)
		}))
		f := &Foreign{Request: "POST /buy", Orders: Source{URL: "/orders#/items"}}
		remote, err := f.At(s.URL+"/v1/", "", "")
		testkit.Must(t, err)
		l, err := remote.list(t.Context(), f.Orders, "orders", 1)
		testkit.Mustf(t, err, "next %s", next)
		testkit.Is(t, len(l.rows), 2, "rows, next %s", next)
	}
}

// A reset that takes longer than it may names the option. Stock may be the difference of two numbers of an answer.
func TestRemoteResetsAndReads(t *testing.T) {
	t.Parallel()
	done := make(chan struct{})
	s := testkit.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			<-done
		}
		_, _ = w.Write([]byte(`{"on":{"a":7,"b":5},"out":4}`))
	}))
	defer close(done)
	f := &Foreign{Request: "POST /buy", ResetURL: []string{"POST /reset"}, ResetWithin: 50 * time.Millisecond,
		Stock: Source{URL: "/stock#/on/a+/on/b-/out"}}
	r, err := f.At(s.URL, "", "")
	testkit.Must(t, err)
	if _, err := r.Prepare(t.Context(), 7, 5); err == nil || !strings.Contains(err.Error(), "than 50ms: --reset-within") {
		t.Errorf("Prepare() = %v, want --reset-within", err)
	}
	l, err := r.Ledger(t.Context(), 7, 9)
	testkit.Must(t, err)
	testkit.Is(t, l.Stock[ForeignStore], int64(8), "stock")
}
