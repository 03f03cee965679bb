package handler

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
	"lastitem/internal/shop"
	"lastitem/internal/stock"
	"lastitem/judge"
	"lastitem/testkit"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// soldOnce is a ledger with an order in each store and one key; the older order is the one in SQL.
func soldOnce(int64) (shop.Ledger, error) {
	remaining := int64(9)
	order := func(i int64, key []byte) []ledger.Order {
		return []ledger.Order{{
			ID: fmt.Sprint("order-", i), ProductID: 101, Quantity: 1, Remaining: &remaining, Mode: "mutex", Replica: "2",
			Key: key, CreatedMicros: epoch.UnixMicro() + i,
		}}
	}
	var redis, sql ledger.Facts
	redis.Initial, redis.Stock, redis.Segments, redis.Orders = 10, 9, []int64{4, 5}, order(1, nil)
	sql.Initial, sql.Stock, sql.Orders = 10, 9, order(0, []byte("k\xff"))
	sql.Keys = []ledger.KeyRow{{Key: []byte("k\xff"), Status: 200, CreatedMicros: epoch.UnixMicro(), Mode: "mutex"}}
	redis.Totals.Orders, redis.Totals.Units, sql.Totals.Orders, sql.Totals.Units = 1, 1, 1, 1
	return shop.Ledger{Facts: map[stock.Store]ledger.Facts{stock.Redis: redis, stock.SQL: sql}}, nil
}

var wantOrders = func() []api.Order {
	nine := int64(9)
	return []api.Order{
		{OrderID: "order-0", ProductID: 101, Quantity: 1, Remaining: &nine, Mode: "mutex", Store: "sql", Replica: "2",
			Key: `k\xff`, CreatedAt: epoch},
		{OrderID: "order-1", ProductID: 101, Quantity: 1, Remaining: &nine, Mode: "mutex", Store: "redis", Replica: "2",
			CreatedAt: epoch.Add(time.Microsecond)},
	}
}()

func TestModes(t *testing.T) {
	t.Parallel()
	h := newHandler(t, &fakeShop{err: map[string]error{"mutex": errors.New("no Redis configured")}})
	var list api.Modes
	decode(t, ask(t, h, "GET", "/modes", "").body, &list)
	if len(list.Modes) != len(stock.Modes()) {
		t.Fatalf("%d modes, want %d", len(list.Modes), len(stock.Modes()))
	}
	for i, m := range stock.Modes() {
		got := list.Modes[i]
		holds := got.Holds != nil && fmt.Sprint(got.Holds) == fmt.Sprint(m.Holds)
		if got.Name != m.Name || !holds || got.Default != (m.Name == "lease-seq") || got.Available != (m.Name != "mutex") ||
			got.Doc != nil {
			t.Errorf("mode %d = %+v", i, got)
		}
		for _, s := range m.Stores {
			if n := len(got.Claims[api.Store(s)]); n != len(stock.Hazards) {
				t.Errorf("%s claims %d hazards on %s, want all %d", m.Name, n, s, len(stock.Hazards))
			}
			if got.Claims[api.Store(s)][api.Retry] != api.Outcomes(m.Claims[s].Retry) {
				t.Errorf("%s: claim for retry = %q, want %q", m.Name, got.Claims[api.Store(s)][api.Retry], m.Claims[s].Retry)
			}
		}
		var one api.Mode
		decode(t, ask(t, h, "GET", "/modes/"+m.Name, "").body, &one)
		if one.Doc == nil || one.Doc.En == "" || one.Doc.Zh == "" {
			t.Errorf("GET /modes/%s carries no essay", m.Name)
		}
		if one.Doc = nil; !cmp.Equal(one, got) {
			t.Errorf("GET /modes and /modes/%s differ: %s", m.Name, cmp.Diff(one, got))
		}
	}
	if why := list.Modes[slices.IndexFunc(list.Modes, func(m api.Mode) bool {
		return m.Name == "mutex"
	})].Why; why != "no Redis configured" {
		t.Errorf("why = %q", why)
	}
}

func TestProductByAMode(t *testing.T) {
	t.Parallel()
	want := `{"product_id":101,"stock":{"redis":5,"sql":6},"lease_seq":3,"segments":[2,3]}` + "\n"
	for _, query := range []string{"", "?mode=rwlock"} {
		a := ask(t, newHandler(t, &fakeShop{}), "GET", "/products/101"+query, "")
		if a.StatusCode != http.StatusOK || a.body != want {
			t.Errorf("%q = %d %s, want %s", query, a.StatusCode, a.body, want)
		}
	}
	for query, want := range map[string]time.Duration{
		"mode=rwlock": 3 * time.Second, "mode=rwlock&wait_ms=0": 0, "wait_ms=20&mode=rwlock": 20 * time.Millisecond,
	} {
		h := newHandler(t, &fakeShop{readLocked: func(mode string, wait time.Duration) error {
			if mode != "rwlock" || wait != want {
				t.Errorf("%s: reads by %q, waiting %v, want rwlock, %v", query, mode, wait, want)
			}
			return stock.ErrLockBusy
		}})
		if a := ask(t, h, "GET", "/products/101?"+query, ""); a.StatusCode != http.StatusServiceUnavailable ||
			problem(t, a).Code != api.LockBusy {
			t.Errorf("%s: a busy lock = %d %s", query, a.StatusCode, a.body)
		}
	}
}

func TestProductRefusesItsQuery(t *testing.T) {
	t.Parallel()
	shop, err := shop.New(shop.Backends{}, shop.Options{}, stock.Modes())
	testkit.Must(t, err)
	h := newHandler(t, shop)
	for query, want := range map[string]struct {
		status int
		code   api.Code
		field  string
	}{
		"mode=handoff":              {400, api.InvalidRequest, "mode"},
		"mode=noop":                 {400, api.InvalidRequest, "mode"},
		"mode=rw":                   {404, api.UnknownMode, ""},
		"mode=":                     {400, api.InvalidRequest, "mode"},
		"mode=rwlock&mode=rwlock":   {400, api.InvalidRequest, "mode"},
		"Mode=rwlock":               {400, api.InvalidRequest, "Mode"},
		"wait_ms=1":                 {400, api.InvalidRequest, "wait_ms"},
		"mode=rwlock&wait_ms=-1":    {400, api.InvalidRequest, "wait_ms"},
		"mode=rwlock&wait_ms=30001": {400, api.InvalidRequest, "wait_ms"},
		"mode=rwlock&store=redis":   {400, api.InvalidRequest, "store"},
		"mode=rwlock":               {503, api.ModeUnavailable, ""},
	} {
		a := ask(t, h, "GET", "/products/101?"+query, "")
		if p := problem(t, a); a.StatusCode != want.status || p.Code != want.code || p.Field != want.field {
			t.Errorf("%s = %d %s, want %+v", query, a.StatusCode, a.body, want)
		}
	}
}

func TestUnknownQueryIsRefused(t *testing.T) {
	t.Parallel()
	h := newHandler(t, &fakeShop{ledger: soldOnce})
	for _, path := range []string{"/modes", "/modes/mutex", "/products/101/orders", "/products/101/ledger",
		"/products/101/audit"} {
		for query, field := range map[string]string{"size=2": "size", "a&b": "a", "lang=zh&size=2": "size",
			"%zz=1": "query"} {
			if field == "size" && path != "/products/101/audit" { // it has no lang either
				field, _, _ = strings.Cut(query, "=")
			}
			a := ask(t, h, "GET", path+"?"+query, "")
			if p := problem(t, a); a.StatusCode != http.StatusBadRequest || p.Code != api.InvalidRequest || p.Field != field {
				t.Errorf("GET %s?%s = %d %s, want it to refuse %s", path, query, a.StatusCode, a.body, field)
			}
		}
		if a := ask(t, h, "GET", path+"?", ""); a.StatusCode != http.StatusOK {
			t.Errorf("GET %s? = %d %s", path, a.StatusCode, a.body)
		}
	}
	for _, lang := range []string{"", "xx", "ZH", "zh&lang=zh"} {
		a := ask(t, h, "GET", "/products/101/audit?lang="+lang, "")
		if p := problem(t, a); a.StatusCode != http.StatusBadRequest || p.Field != "lang" {
			t.Errorf("GET audit?lang=%s = %d %s", lang, a.StatusCode, a.body)
		}
	}
}

// The ledger has what the orders have, and the segments and keys besides.
func TestOrdersAndLedgerOfAllStoresByTime(t *testing.T) {
	t.Parallel()
	h := newHandler(t, &fakeShop{ledger: soldOnce})
	want := api.Ledger{
		ProductID: 101, Orders: wantOrders,
		Initial: map[api.Store]int64{"redis": 10, "sql": 10},
		Stock:   map[api.Store]int64{"redis": 9, "sql": 9},
		Totals:  map[api.Store]api.Totals{"redis": {Orders: 1, Units: 1}, "sql": {Orders: 1, Units: 1}},
	}
	for _, path := range []string{"orders", "ledger"} {
		var got api.Ledger // api.Orders has fewer fields of the same names
		decode(t, ask(t, h, "GET", "/products/101/"+path, "").body, &got)
		if since := time.Since(got.AsOf); since < 0 || since > time.Minute {
			t.Errorf("as_of = %v", got.AsOf)
		}
		got.AsOf = time.Time{}
		if path == "ledger" {
			want.Segments, want.Keys = []int64{4, 5}, []api.KeyRow{{Key: `k\xff`, Status: 200, CreatedAt: epoch, Mode: "mutex"}}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", path, d)
		}
	}
	empty := ask(t, newHandler(t, &fakeShop{}), "GET", "/products/101/orders", "")
	if want := `"orders":[]}` + "\n"; !strings.HasSuffix(empty.body, want) {
		t.Errorf("no orders = %s, want it to end with %s", empty.body, want)
	}
}

func TestAStoreThatCannotBeRead(t *testing.T) {
	t.Parallel()
	half := func(id int64) (shop.Ledger, error) {
		l, _ := soldOnce(id)
		delete(l.Facts, stock.SQL)
		l.Unavailable = map[stock.Store]error{stock.SQL: fmt.Errorf("secret: %w", stock.ErrUnavailable)}
		return l, nil
	}
	h := newHandler(t, &fakeShop{ledger: half})
	var l api.Ledger
	a := ask(t, h, "GET", "/products/101/ledger", "")
	decode(t, a.body, &l)
	if _, there := l.Stock["sql"]; there || l.Unavailable["sql"] != string(api.BackendUnavailable) ||
		strings.Contains(a.body, "secret") {
		t.Errorf("ledger = %s", a.body)
	}
	var j audits
	decode(t, ask(t, h, "GET", "/products/101/audit", "").body, &j)
	for _, r := range j.Reports {
		if r.Store == "sql" && r.Verdict != judge.Inconclusive {
			t.Errorf("verdict on the store that cannot be read = %s", r.Verdict)
		}
	}
	if a := ask(t, h, "GET", "/products/101/orders", ""); problem(t, a).Code != api.BackendUnavailable {
		t.Errorf("orders = %s", a.body)
	}
	none := func(id int64) (shop.Ledger, error) {
		l, _ := half(id)
		l.Facts = nil
		return l, nil
	}
	for _, path := range []string{"ledger", "orders", "audit"} {
		a := ask(t, newHandler(t, &fakeShop{ledger: none}), "GET", "/products/101/"+path, "")
		if problem(t, a).Code != api.BackendUnavailable {
			t.Errorf("%s with no store = %s", path, a.body)
		}
	}
}

func TestAudit(t *testing.T) {
	t.Parallel()
	var got audits
	decode(t, ask(t, newHandler(t, &fakeShop{ledger: soldOnce}), "GET", "/products/101/audit?lang=zh", "").body, &got)
	if got.ProductID != 101 || len(got.Reports) != 2 || got.Reports[0].Store != "redis" || got.Reports[1].Store != "sql" {
		t.Errorf("audit = %+v", got)
	}
	testkit.Is(t, got.Verdict, judge.Overall(got.Reports), "verdict")
}

// An order that repeats a key after the key's retention is a new request's, and one that repeats it earlier charges
// twice.
func TestAuditKnowsTheRetentionOfKeys(t *testing.T) {
	t.Parallel()
	twice := func(id int64) (shop.Ledger, error) {
		l, _ := soldOnce(id)
		sql, eight := l.Facts[stock.SQL], int64(8)
		again := sql.Orders[0]
		again.ID, again.Remaining, again.CreatedMicros = "order-2", &eight, again.CreatedMicros+time.Hour.Microseconds()
		sql.Orders, sql.Stock, sql.Totals.Orders, sql.Totals.Units = append(sql.Orders, again), 8, 2, 2
		l.Facts[stock.SQL] = sql
		return l, nil
	}
	for keep, want := range map[time.Duration]judge.Verdict{0: judge.Broken, 24 * time.Hour: judge.Broken,
		time.Hour: judge.Exact, time.Minute: judge.Exact} {
		h := newHandler(t, &fakeShop{ledger: twice, keepKeys: keep})
		var got audits
		decode(t, ask(t, h, "GET", "/products/101/audit", "").body, &got)
		testkit.Is(t, got.Verdict, want, "keys kept for %s: verdict", keep)
		var l api.Ledger
		decode(t, ask(t, h, "GET", "/products/101/ledger", "").body, &l)
		if l.KeepKeysMS != keep.Milliseconds() {
			t.Errorf("keys kept for %s: keep_keys_ms = %d", keep, l.KeepKeysMS)
		}
		if r := judge.Overall(judge.OfLedger(&l, "en")); r != want {
			t.Errorf("keys kept for %s: the ledger is %s, want %s", keep, r, want)
		}
	}
}

// Units that were taken, and whose order is not written yet, look lost: an audit reads them again. It does not wait for
// ever, nor where something else is wrong.
func TestAuditOfASaleUnderWay(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		reads int64 // without the order; the next has it; -1: one unit is always without its order
		sold  int64 // units of the order
		want  judge.Verdict
		again bool
	}{
		{"written at once", 0, 1, judge.Exact, false},
		{"written later", 2, 1, judge.Exact, true},
		{"never written", math.MaxInt64, 1, judge.Broken, true},
		{"oversold", 0, 2, judge.Broken, false},
		{"always another", -1, 1, judge.Inconclusive, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reads := int64(0)
				h := newHandler(t, &fakeShop{ledger: func(id int64) (shop.Ledger, error) {
					f := ledger.Facts{Initial: 5, Stock: 4}
					switch reads++; {
					case test.reads < 0: // at each look one more is taken, and an order less written
						f = ledger.Facts{Initial: 1000, Stock: 999 - reads}
						f.Orders = []ledger.Order{{ID: "a", ProductID: id, Quantity: reads, Mode: "lua-lock", Replica: "1"}}
					case reads > test.reads:
						left := int64(4)
						f.Orders = []ledger.Order{{ID: "a", ProductID: id, Quantity: test.sold, Remaining: &left, Mode: "lua-lock",
							Replica: "1"}}
					}
					return shop.Ledger{Facts: map[stock.Store]ledger.Facts{stock.Redis: f}}, nil
				}})
				var got audits
				began := time.Now()
				decode(t, ask(t, h, "GET", "/products/101/audit", "").body, &got)
				if took := time.Since(began); got.Verdict != test.want || (reads > 1) != test.again || took > 2*time.Second {
					t.Errorf("verdict %s after %d reads in %s, want %s: %+v", got.Verdict, reads, took, test.want, got.Reports)
				}
			})
		})
	}
}

func TestUnknownProduct(t *testing.T) {
	t.Parallel()
	h := newHandler(t, &fakeShop{
		product: func(int64) (shop.Product, error) { return shop.Product{}, stock.ErrUnknownProduct },
		ledger:  func(int64) (shop.Ledger, error) { return shop.Ledger{}, stock.ErrUnknownProduct },
	})
	for _, path := range []string{"", "/orders", "/ledger", "/audit"} {
		a := ask(t, h, "GET", "/products/102"+path, "")
		if p := problem(t, a); p.Code != api.UnknownProduct || p.Instance != "/products/102"+path {
			t.Errorf("GET /products/102%s = %s", path, a.body)
		}
	}
}

func TestSetStock(t *testing.T) {
	t.Parallel()
	var got []string
	shop := &fakeShop{setStock: func(id, units int64, segments int) error {
		got = append(got, fmt.Sprint(id, units, segments))
		return nil
	}}
	h := newHandler(t, shop)
	bearer := []string{"Authorization", "Bearer " + adminToken, "Content-Type", "application/json"}
	for body, want := range map[string]string{
		`{"stock":5000}`:                           "7 5000 0",
		`{"stock":0,"segments":10}`:                "7 0 10",
		`{"segments" : 1000 , "stock":1000000000}`: "7 1000000000 1000",
	} {
		got = nil
		a := ask(t, h, "PUT", "/products/7/stock", body, bearer...)
		if a.StatusCode != http.StatusOK || !slices.Equal(got, []string{want}) ||
			!strings.Contains(a.body, `"stock":{"redis":5,"sql":6}`) {
			t.Errorf("PUT %s = %d %s, set %v, want %s", body, a.StatusCode, a.body, got, want)
		}
	}
	got = nil
	for body, field := range map[string]string{
		``: "stock", `{}`: "stock", `{"segments":1}`: "stock", `{"stock":-1}`: "stock", `{"stock":1000000001}`: "stock",
		`{"stock":1.0}`: "stock", `{"stock":"5"}`: "stock", `{"stock":null}`: "stock", `{"stock":5,"stock":5}`: "stock",
		`{"stock":5,"segments":-1}`: "segments", `{"stock":5,"segments":1001}`: "segments", `{"stock":5,"Stock":5}`: "Stock",
		`[5]`: "body", `5`: "body", `{"stock":5}{}`: "body",
	} {
		a := ask(t, h, "PUT", "/products/7/stock", body, bearer...)
		if p := problem(t, a); p.Code != api.InvalidRequest || p.Field != field {
			t.Errorf("PUT %s = %s, want field %s", body, a.body, field)
		}
	}
	for _, query := range []string{"stock=5", "segments=2", "stock=5&segments=2", "nope=1", "%"} {
		for _, body := range []string{"", `{"stock":5}`, `{"segments":2}`} {
			a := ask(t, h, "PUT", "/products/7/stock?"+query, body, bearer...)
			if p := problem(t, a); p.Code != api.InvalidRequest || p.Field != "query" {
				t.Errorf("PUT ?%s %s = %s, want field query", query, body, a.body)
			}
		}
	}
	if len(got) > 0 {
		t.Errorf("refused input set %v", got)
	}
}

// A store that failed after another may have been set does not make it an answer that nothing happened.
// An adjustment needs a key; a refusal for want of free units is one for now.
func TestAdjust(t *testing.T) {
	t.Parallel()
	var got string
	shop := &fakeShop{adjust: func(id int64, at stock.Store, a ledger.Adjustment) (shop.Adjusted, error) {
		got = fmt.Sprint(id, " ", at, " ", a.Delta, " ", a.Reason, " ", string(a.Key))
		switch {
		case len(a.Key) == 0:
			return shop.Adjusted{}, stock.ErrKeyMissing
		case a.Delta < -5:
			return shop.Adjusted{}, &stock.SoldOutError{ProductID: id, Requested: -a.Delta, Available: 5}
		}
		a.Initial, a.Stock = 9+a.Delta, 5+a.Delta
		return shop.Adjusted{Left: map[stock.Store]ledger.Adjustment{"sql": a}, Replay: a.Delta == 2}, nil
	}}
	h := newHandler(t, shop)
	for _, c := range []struct{ key, body, got, answer string }{
		{"k", `{"delta":-5,"reason":"lost","store":"sql"}`, "7 sql -5 lost k",
			`{"product_id":7,"delta":-5,"reason":"lost","initial":{"sql":4},"stock":{"sql":0}}`},
		{"k", `{"delta":2}`, "7  2  k", `{"product_id":7,"delta":2,"initial":{"sql":11},"stock":{"sql":7}}`},
		{"k", `{"delta":-6}`, "7  -6  k", `"code":"sold_out","happened":"no_for_now"`},
		{"", `{"delta":1}`, "7  1  ", `an adjustment needs an Idempotency-Key`},
		{"k", `{"delta":0}`, "", `"field":"delta"`}, {"k", `{}`, "", `"field":"delta"`},
		{"k", `{"delta":1000000001}`, "", `"field":"delta"`}, {"k", `{"delta":1,"store":"mysql"}`, "", `"field":"store"`},
		{"k", `{"delta":1,"reason":"` + strings.Repeat("x", 201) + `"}`, "", `"field":"reason"`},
	} {
		headers := []string{"Authorization", "Bearer " + adminToken, "Content-Type", "application/json"}
		if got = ""; c.key != "" {
			headers = append(headers, "Idempotency-Key", c.key)
		}
		a := ask(t, h, "POST", "/products/7/adjust", c.body, headers...)
		replayed := a.Header.Get(api.HeaderReplayed) != ""
		if got != c.got || !strings.Contains(a.body, c.answer) || replayed != strings.Contains(c.got, "7  2 ") {
			t.Errorf("POST %s = %d %s, asked %q, replayed %t, want %s, %q", c.body, a.StatusCode, a.body, got, replayed,
				c.answer, c.got)
		}
	}
}

func TestTicketsAndReconcile(t *testing.T) {
	t.Parallel()
	look := ledger.TicketLook{Run: 3, Initial: 9, Book: 5, Front: 4, InFlight: 4, Settled: 1, Passed: 2, Corrected: -1,
		Journal: -1, Generation: 2, OldestMS: 70}
	h := newHandler(t, &fakeShop{
		tickets: func(_ int64, after string) ([]ledger.TicketEnd, string, ledger.TicketLook, error) {
			if after != "" {
				return nil, "", ledger.TicketLook{}, &stock.InvalidError{Field: "after", Why: after}
			}
			return []ledger.TicketEnd{{ID: "u", State: ledger.TicketSold, Quantity: 2, OrderID: "u", Key: []byte("k"),
				Deliveries: 1}}, "sold/u", look, nil
		},
		reconcile: func(id int64, repair bool) (ledger.Reconciled, error) {
			if id == 8 {
				return ledger.Reconciled{}, &stock.ReconcileError{ProductID: id, Why: "no"}
			}
			return ledger.Reconciled{TicketLook: look, Repaired: map[bool]int64{true: -2}[repair]}, nil
		},
	})
	for _, c := range []struct{ method, path, body, want string }{
		{"GET", "/products/7/tickets", "", `{"product_id":7,"run":3,"initial":9,"front":4,"in_flight":4,"settled":1,` +
			`"book":5,"passed":2,"corrected":-1,"journal":-1,"generation":2,"oldest_ms":70,"tickets":[{"id":"u",` +
			`"state":"sold","quantity":2,"order_id":"u","idempotency_key":"k","deliveries":1}],"next":"sold/u"}`},
		{"GET", "/products/7/tickets?after=sold/u", "", `"detail":"after: sold/u"`},
		{"POST", "/products/7/reconcile", "", `{"product_id":7,"drift":-2,"leaked":-2,"forgotten":0,"front":4,` +
			`"in_flight":4,"book":5,"oldest_ms":70,"repaired":0,"generation":2}`},
		{"POST", "/products/7/reconcile", `{"repair":true}`, `"repaired":-2`},
		{"POST", "/products/7/reconcile?repair=true", "", `"repaired":-2`},
		{"POST", "/products/8/reconcile", "", `"detail":"product 8: no"`},
	} {
		a := ask(t, h, c.method, c.path, c.body, "Authorization", "Bearer "+adminToken, "Content-Type", "application/json")
		if !strings.Contains(a.body, c.want) {
			t.Errorf("%s %s = %d %s, want %s", c.method, c.path, a.StatusCode, a.body, c.want)
		}
	}
}

func TestSetStockInPart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set, read error
		code      api.Code
	}{
		"no store was set":        {stock.ErrUnavailable, nil, api.BackendUnavailable},
		"some were set":           {fmt.Errorf("%w: %w", stock.ErrUnknown, stock.ErrUnavailable), nil, api.OutcomeUnknown},
		"set, and cannot be read": {nil, stock.ErrUnavailable, api.OutcomeUnknown},
		"an error nobody foresaw": {errors.New("?"), nil, api.Internal},
	} {
		h := newHandler(t, &fakeShop{
			setStock: func(int64, int64, int) error { return c.set },
			product:  func(int64) (shop.Product, error) { return shop.Product{}, c.read },
		})
		a := ask(t, h, "PUT", "/products/7/stock", `{"stock":5}`, "Authorization", "Bearer "+adminToken, "Content-Type",
			"application/json")
		p := problem(t, a)
		if partly := strings.Contains(p.Detail, "some stores may have been set"); p.Code != c.code ||
			partly != (c.code == api.OutcomeUnknown) {
			t.Errorf("%s: %d %s, want %s", name, a.StatusCode, a.body, c.code)
		}
	}
}

// Wrong tokens are answered 429 once there are too many; the right one passes all the while, or anybody could lock it
// out.
func TestWrongTokensAreLimited(t *testing.T) {
	t.Parallel()
	h := newHandler(t, &fakeShop{setStock: func(int64, int64, int) error { return errors.New("it was set") }})
	put := func(token string) answer {
		return ask(t, h, "PUT", "/products/101/stock", `{"stock":1}`, "Authorization", "Bearer "+token, "Content-Type",
			"application/json")
	}
	codes := map[api.Code]int{}
	for range 3 * tokenBurst {
		a := put("wrong")
		p := problem(t, a)
		codes[p.Code]++
		if p.Code == api.RateLimited && (a.StatusCode != http.StatusTooManyRequests || p.Happened != api.NoForNow ||
			a.Header.Get("Retry-After") == "") {
			t.Fatalf("too many wrong tokens = %d, Retry-After %q, %s", a.StatusCode, a.Header.Get("Retry-After"), a.body)
		}
		if p := problem(t, put(adminToken)); p.Code != api.Internal {
			t.Fatalf("the right token beside wrong ones = %s, want it to reach the shop", p.Code)
		}
	}
	if p := problem(t, ask(t, h, "PUT", "/products/101/stock", `{"stock":1}`, "Content-Type",
		"application/json")); p.Code != api.Unauthorized {
		t.Errorf("no token after too many wrong ones = %s, want %s: it is no guess", p.Code, api.Unauthorized)
	}
	if codes[api.Unauthorized] < tokenBurst || codes[api.RateLimited] == 0 || len(codes) != 2 {
		t.Errorf("%d wrong tokens = %v, want %d unauthorized and the rest rate_limited", 3*tokenBurst, codes, tokenBurst)
	}
}

// The bucket fills again, up to its burst and no further.
func TestTokenBucketRefills(t *testing.T) {
	t.Parallel()
	var b bucket
	now := time.Unix(1e9, 0)
	drain := func() (n int) {
		for b.take(now) {
			n++
		}
		return n
	}
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{0, tokenBurst}, {0, 0}, {tokenRefill, 1}, {3 * tokenRefill, 3}, {time.Hour, tokenBurst}} {
		now = now.Add(step.after)
		if got := drain(); got != step.want {
			t.Errorf("%v later %d were let through, want %d", step.after, got, step.want)
		}
	}
}

func TestSetStockNeedsTheToken(t *testing.T) {
	t.Parallel()
	shop := &fakeShop{setStock: func(int64, int64, int) error { return errors.New("it was set") }}
	put := func(h *Handler, authorization ...string) answer {
		headers := []string{"Content-Type", "application/json"}
		for _, a := range authorization {
			headers = append(headers, "Authorization", a)
		}
		return ask(t, h, "PUT", "/products/101/stock", `{"stock":1}`, headers...)
	}
	with, without := newHandler(t, shop), newHandler(t, shop, func(o *Options) { o.AdminToken = "" })
	for _, c := range [][]string{
		{}, {""}, {"Bearer"}, {"Bearer "}, {"Bearer wrong"}, {"Basic " + adminToken}, {adminToken},
		{"Bearer " + adminToken + "x"},
		{"Bearer " + adminToken, "Bearer " + adminToken},
	} {
		a := put(with, c...)
		if problem(t, a).Code != api.Unauthorized || a.Header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("Authorization %q = %d %s", c, a.StatusCode, a.body)
		}
		if a := put(without, c...); !strings.Contains(problem(t, a).Detail, "no admin token is configured") {
			t.Errorf("Authorization %q without a token configured = %s", c, a.body)
		}
	}
	if a := put(with, "bearer "+adminToken); problem(t, a).Code != api.Internal {
		t.Errorf("the right token = %s, want it to reach the shop", a.body)
	}
}

// A mounted secret often ends with a line break, which no header can carry.
func TestTokenWithBlanks(t *testing.T) {
	t.Parallel()
	h := newHandler(t, &fakeShop{}, func(o *Options) { o.AdminToken = "\t" + adminToken + " \n" })
	if a := ask(t, h, "PUT", "/products/101/stock", `{"stock":1}`, "Content-Type", "application/json", "Authorization",
		"Bearer "+adminToken); a.StatusCode != http.StatusOK {
		t.Errorf("the token without its blanks = %d %s, want 200", a.StatusCode, a.body)
	}
	h = newHandler(t, &fakeShop{}, func(o *Options) { o.AdminToken = "\n" })
	if a := ask(t, h, "PUT", "/products/101/stock", `{"stock":1}`, "Content-Type", "application/json", "Authorization",
		"Bearer "); a.StatusCode != http.StatusUnauthorized {
		t.Errorf("a token of blanks = %d %s, want that there is none", a.StatusCode, a.body)
	}
}
