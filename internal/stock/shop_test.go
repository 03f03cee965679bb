package stock_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lastitem/internal/backend"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/stock"
	"lastitem/internal/stock/stocktest"
	"lastitem/internal/testenv"
)

var update = flag.Bool("update", false, "write the golden files")

// The claims are in the modes and once more in one file, so that nobody changes one by accident.
func TestClaims(t *testing.T) {
	t.Parallel()
	const golden = "testdata/claims.txt"
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	var head []string // the comment
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			head = append(head, line)
		}
	}
	var got strings.Builder
	got.WriteString(strings.Join(head, ""))
	for _, m := range stock.Modes() {
		if len(m.Stores) == 0 {
			got.WriteString(m.Name + "\n")
		}
		for _, s := range m.Stores {
			row := m.Claims[s].Row()
			for i, o := range row {
				if o == "" {
					row[i] = "_"
				}
			}
			got.WriteString(m.Name + " " + string(s) + ": " + strings.Join(row, " ") + "\n")
		}
	}
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(text), got.String()); diff != "" {
		t.Errorf("claims (-%s +modes; -update writes what the modes claim):\n%s", golden, diff)
	}
}

func TestModesAreValid(t *testing.T) {
	t.Parallel()
	if err := stock.Validate(stock.Modes()); err != nil {
		t.Error(err)
	}
	for _, m := range stock.Modes() {
		d, err := m.Doc()
		if err != nil || len(d.En) < 200 || len(d.Zh) < 100 {
			t.Errorf("essay of %s: %d and %d bytes, %v, want both", m.Name, len(d.En), len(d.Zh), err)
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	exact := stock.Claims{Threads: ".", Replicas: "."}
	claims := func(c stock.Claims) func(*stock.Mode) {
		return func(m *stock.Mode) { m.Claims = map[stock.Store]stock.Claims{stock.Redis: c} }
	}
	for name, c := range map[string]struct {
		change func(*stock.Mode)
		want   string
	}{
		"nothing":              {func(*stock.Mode) {}, ""},
		"camel case":           {func(m *stock.Mode) { m.Name = "luaLock" }, "kebab-case"},
		"no name":              {func(m *stock.Mode) { m.Name = "" }, "kebab-case"},
		"trailing dash":        {func(m *stock.Mode) { m.Name = "mutex-" }, "kebab-case"},
		"name taken":           {func(m *stock.Mode) { m.Name = "noop" }, "not unique"},
		"no essay":             {func(m *stock.Mode) { m.Name = "nobody" }, "nobody.en.md"},
		"no English title":     {func(m *stock.Mode) { m.Title.En = "" }, "title or New"},
		"no Chinese title":     {func(m *stock.Mode) { m.Title.Zh = "" }, "title or New"},
		"no New":               {func(m *stock.Mode) { m.New = nil }, "title or New"},
		"no claims":            {func(m *stock.Mode) { m.Claims = nil }, "claims for 0 stores, has 1"},
		"unclaimed store":      {func(m *stock.Mode) { m.Stores = []stock.Store{stock.SQL} }, "claims nothing for threads"},
		"one store too many":   {func(m *stock.Mode) { m.Stores = append(m.Stores, stock.SQL) }, "claims for 1 stores, has 2"},
		"unknown letter":       {claims(stock.Claims{Threads: "Q"}), `threads: "Q" is no outcome`},
		"letters out of order": {claims(stock.Claims{Threads: ".", Replicas: ".", Failover: "AO"}), `failover: "AO" is no outcome`},
		"exact and broken":     {claims(stock.Claims{Threads: ".O"}), "no outcome"},
		"nothing at threads":   {claims(stock.Claims{Replicas: "."}), "claims nothing for threads"},
		"nothing at replicas":  {claims(stock.Claims{Threads: "."}), "claims nothing for replicas"},
		"on after threads":     {claims(stock.Claims{Threads: "O", Replicas: "."}), "broken by threads and claims something for replicas"},
		"on after replicas":    {claims(stock.Claims{Threads: ".", Replicas: "O", Retry: "D"}), "broken by concurrency alone and claims more"},
		"cannot happen":        {claims(stock.Claims{Threads: ".", Replicas: ".", Slow: "–", Failover: "OLDXA"}), ""},
	} {
		modes := stock.Modes()
		i := slices.IndexFunc(modes, func(m stock.Mode) bool { return m.Name == "unsafe" })
		claims(exact)(&modes[i])
		c.change(&modes[i])
		err := stock.Validate(modes)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: Validate() = %v, want %q", name, err, c.want)
		}
		served := err == nil || strings.HasPrefix(name, "no essay") // an essay that is missing stops no server
		if _, err := stock.NewShop(stock.Deps{}, modes); (err == nil) != served {
			t.Errorf("%s: NewShop() = %v, want an error = %t", name, err, !served)
		}
	}
}

// engine is a lock engine of the test's own on a set of backends.
func engine(t *testing.T, set *backend.Set, o handoff.Options) *handoff.Engine {
	t.Helper()
	e, err := handoff.New(set.Client, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stocktest.Patience)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			t.Errorf("engine: Close() = %v", err)
		}
	})
	return e
}

func TestUnavailableModes(t *testing.T) {
	t.Parallel()
	r := testenv.Miniredis(t)
	only := func(cfg backend.Config) stock.Deps {
		cfg.Prefix, cfg.Conns = r.Prefix, 2
		set, err := backend.Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { set.Close() })
		deps := stock.Deps{Redis: set.Redis, SQL: set.SQL, Client: set.Client, Prefix: r.Prefix, LockTTL: stocktest.Patience}
		if set.Client != nil {
			deps.Engine = engine(t, set, handoff.Options{})
		}
		return deps
	}
	both := only(backend.Config{Redis: r.URL, SQL: testenv.SQLite(t)})
	noEngine := both
	noEngine.Engine = nil
	modes := stock.Modes()
	for i, m := range modes {
		if m.Name == "lua-lock" {
			modes[i].Needs = []stock.Backend{stock.NeedRedis, stock.NeedMySQL}
		}
	}
	for name, c := range map[string]struct {
		deps stock.Deps
		why  map[string]string // "" = available
	}{
		"nothing": {stock.Deps{}, map[string]string{"noop": "", "unsafe": "SHOP_REDIS", "lease-seq": "SHOP_REDIS"}},
		"redis":   {only(backend.Config{Redis: r.URL}), map[string]string{"unsafe": "", "lease-seq": "SHOP_SQL", "lua-lock": "SHOP_SQL"}},
		"sqlite":  {only(backend.Config{SQL: testenv.SQLite(t)}), map[string]string{"handoff": "SHOP_REDIS", "idempotent": "SHOP_REDIS"}},
		"both":    {both, map[string]string{"handoff": "", "lease-seq": "", "lua-lock": "InnoDB"}},
		"no engine": {noEngine, map[string]string{
			"watchdog": "", "fencing": "", "handoff": "lock engine", "fair": "lock engine", "rwlock": "lock engine", "global-lock": "lock engine",
			"segmented": "lock engine", "lease-seq": "lock engine", "idempotent": "lock engine",
		}},
	} {
		shop, err := stock.NewShop(c.deps, modes)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(shop.Modes()); got != len(modes) {
			t.Errorf("%s: Modes() lists %d, want all %d", name, got, len(modes))
		}
		for mode, why := range c.why {
			s, err := shop.Mode(mode)
			if err != nil || (s.Err == nil) != (why == "") || why != "" && !strings.Contains(s.Err.Error(), why) {
				t.Errorf("%s: Mode(%q) = %v, %v, want the reason %q", name, mode, s.Err, err, why)
			}
			if why == "" {
				continue
			}
			if _, err := shop.Deduct(t.Context(), mode, stocktest.Request(1, 1, "k")); !errors.Is(err, stock.ErrModeUnavailable) {
				t.Errorf("%s: Deduct() by %s = %v, want ErrModeUnavailable", name, mode, err)
			}
		}
	}
}

// A mode that can keep the count in two stores may have only one of them.
func TestUnavailableStore(t *testing.T) {
	t.Parallel()
	r := testenv.Miniredis(t)
	set, err := backend.Open(backend.Config{Redis: r.URL, Prefix: r.Prefix, Conns: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { set.Close() })
	shop, err := stock.NewShop(stock.Deps{Redis: set.Redis, Client: set.Client, Prefix: r.Prefix, LockTTL: stocktest.Patience}, stock.Modes())
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{"mutex", "lua-lock", "setnx"} {
		req := stocktest.Request(1, 1, "k")
		req.Store = stock.SQL
		if _, err := shop.Deduct(t.Context(), mode, req); !errors.Is(err, stock.ErrModeUnavailable) || !strings.Contains(err.Error(), "SHOP_SQL") {
			t.Errorf("Deduct() by %s with store sql = %v, want ErrModeUnavailable and what to set", mode, err)
		}
	}
}

// A store that is added to a running shop does not know the products that were set before. The refusal says which store it
// is, and setting the stock again mends it.
func TestStoreThatWasAddedLater(t *testing.T) {
	t.Parallel()
	r, dsn := testenv.Miniredis(t), testenv.SQLite(t)
	open := func(c backend.Config) *stock.Shop {
		set, err := backend.Open(c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { set.Close() })
		if c.SQL != "" {
			if _, err := backend.Migrate(t.Context(), set.DB); err != nil {
				t.Fatal(err)
			}
		}
		shop, err := stock.NewShop(stock.Deps{Redis: set.Redis, SQL: set.SQL, Client: set.Client, Prefix: r.Prefix, LockTTL: stocktest.Patience}, stock.Modes())
		if err != nil {
			t.Fatal(err)
		}
		return shop
	}
	before := open(backend.Config{Redis: r.URL, Prefix: r.Prefix, Conns: 2})
	if err := before.SetStock(t.Context(), 101, 5, 0); err != nil {
		t.Fatal(err)
	}
	after := open(backend.Config{Redis: r.URL, Prefix: r.Prefix, SQL: dsn, Conns: 2})
	req := stocktest.Request(101, 1, "")
	if _, err := after.Deduct(t.Context(), "redis-lua", req); err != nil {
		t.Errorf("Deduct() by redis-lua = %v, want a sale: Redis knows the product", err)
	}
	_, err := after.Deduct(t.Context(), "sql-atomic", req)
	if e, ok := errors.AsType[*stock.ProductError](err); !ok || !errors.Is(err, stock.ErrUnknownProduct) || e.Store != "sql" {
		t.Errorf("Deduct() by sql-atomic = %v, want ErrUnknownProduct that names the store sql", err)
	}
	if err := after.SetStock(t.Context(), 101, 5, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := after.Deduct(t.Context(), "sql-atomic", req); err != nil {
		t.Errorf("Deduct() by sql-atomic after the stock was set again = %v, want a sale", err)
	}
}

func TestCheckSaysWhatIsDown(t *testing.T) {
	t.Parallel()
	r := testenv.Miniredis(t)
	set, err := backend.Open(backend.Config{Redis: r.URL, SQL: testenv.SQLite(t), Conns: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { set.Close() })
	down := errors.New("no route to it")
	shop, err := stock.NewShop(stock.Deps{
		Redis: set.Redis, SQL: set.SQL, Client: set.Client, LockTTL: stocktest.Patience, Engine: engine(t, set, handoff.Options{}),
		Check: func(b stock.Backend) error {
			if b == stock.NeedSQL {
				return down
			}
			return nil
		},
	}, stock.Modes())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range shop.Modes() {
		if slices.Contains(s.Mode.Needs, stock.NeedKafka) { // not configured: that is said first
			continue
		}
		if want := slices.Contains(s.Mode.Needs, stock.NeedSQL); errors.Is(s.Err, down) != want {
			t.Errorf("%s: %v, want down: %t", s.Mode.Name, s.Err, want)
		}
	}
}

func TestDeductChecksItsRequest(t *testing.T) {
	t.Parallel()
	h := stocktest.Open(t, embeddedEnv(t), 1, stock.Modes())
	product := h.Product(t, 5, 0)
	item := stock.Item{ProductID: product, Quantity: 1}
	for name, c := range map[string]struct {
		mode string
		req  stock.Request
		want error
	}{
		"unknown mode":  {"lua_lock", stock.Request{Items: []stock.Item{item}}, stock.ErrUnknownMode},
		"no items":      {"unsafe", stock.Request{}, stock.ErrInvalid},
		"a cart":        {"unsafe", stock.Request{Items: []stock.Item{item, item}}, stock.ErrInvalid},
		"wrong store":   {"unsafe", stock.Request{Items: []stock.Item{item}, Store: stock.SQL}, stock.ErrInvalid},
		"other store":   {"segmented", stock.Request{Items: []stock.Item{item}, Store: stock.SQL}, stock.ErrInvalid},
		"redis for SQL": {"lease-seq", stock.Request{Items: []stock.Item{item}, Store: stock.Redis}, stock.ErrInvalid},
		"store of noop": {"noop", stock.Request{Items: []stock.Item{item}, Store: stock.Redis}, stock.ErrInvalid},
		"no key":        {"idempotent", stock.Request{Items: []stock.Item{item}}, stock.ErrKeyMissing},
		"default store": {"mutex", stock.Request{Items: []stock.Item{item}}, nil},
	} {
		if _, err := h.Replicas[0].Shop.Deduct(t.Context(), c.mode, c.req); !errors.Is(err, c.want) {
			t.Errorf("%s: Deduct() = %v, want %v", name, err, c.want)
		}
	}
	for mode, want := range map[string]string{"noop": "mode noop touches none", "mutex": "in redis or sql, not in etcd"} {
		_, err := h.Replicas[0].Shop.Deduct(t.Context(), mode, stock.Request{Items: []stock.Item{item}, Store: stock.Etcd})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s with store etcd: Deduct() = %v, want %q", mode, err, want)
		}
	}
	if got, want := h.Books(t, product, stock.Redis), (stocktest.Books{Initial: 5, Stock: 4, Sold: 1, Orders: 1}); got != want {
		t.Errorf("redis = %+v, want %+v", got, want)
	}
	if got, want := h.Books(t, product, stock.SQL), (stocktest.Books{Initial: 5, Stock: 5}); got != want {
		t.Errorf("sql = %+v, want %+v", got, want)
	}
}

func TestSetStockStartsAfresh(t *testing.T) {
	onEach(t, func(t *testing.T, h *stocktest.Harness) {
		product := h.Product(t, 5, 3)
		a := h.Replicas[0]
		if _, err := a.Deduct(t.Context(), "segmented", stock.Redis, product, 1, "k"); err != nil {
			t.Fatal(err)
		}
		c := a.Deps.Client
		for _, key := range []string{
			"lock:setnx:{%}", "lock:lua-lock:{%}", "lock:watchdog:{%}", "lock:handoff:{%}", "lock:handoff:{%}:queue", "lock:lease-seq:{%}:last",
			"lock:segmented:{%#2}", "lock:segmented:{%#2}:queue", "lock:handoff:{%}:fence",
			"lock:setnx-expire:{%}", "lock:lock-then-check:{%}", "lock:fair:{%}:queue", "lock:rwlock:{%}", "lock:rwlock:{%}:readers",
			"lock:fencing:{%}",
		} {
			key = a.Deps.Prefix + strings.ReplaceAll(key, "%", strconv.FormatInt(product, 10))
			if err := c.HSet(t.Context(), key, "somebody", 1).Err(); err != nil {
				t.Fatal(err)
			}
		}
		h.SetStock(t, product, 4, 0)
		keys := c.Keys(t.Context(), a.Deps.Prefix+"lock:*").Val()
		fences := slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return !strings.HasSuffix(k, ":fence") })
		if len(keys) > len(fences) || len(fences) != 2 { // that of the segment deducted from, and handoff's
			t.Errorf("locks after SetStock: %v, want none, and two fencing counters, which must not go back", keys)
		}
		for _, s := range []stock.Store{stock.Redis, stock.SQL} {
			if got, want := h.Books(t, product, s), (stocktest.Books{Initial: 4, Stock: 4}); got != want {
				t.Errorf("%s after SetStock = %+v, want %+v", s, got, want)
			}
		}
		if _, err := a.Ledger(t.Context(), product+1000); !errors.Is(err, stock.ErrUnknownProduct) {
			t.Errorf("Ledger() of a product that nobody made = %v, want ErrUnknownProduct", err)
		}
	})
}

func TestLedgerNamesWhatIsDown(t *testing.T) {
	t.Parallel()
	e := embeddedEnv(t)
	product := stocktest.Open(t, e, 1, stock.Modes()).Product(t, 5, 0)
	set, err := backend.Open(backend.Config{Redis: "redis://127.0.0.1:1/0", SQL: e.SQL, Conns: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { set.Close() })
	shop, err := stock.NewShop(stock.Deps{
		Redis: set.Redis, SQL: set.SQL, Client: set.Client, LockTTL: stocktest.Patience, Engine: engine(t, set, handoff.Options{}),
	}, stock.Modes())
	if err != nil {
		t.Fatal(err)
	}
	l, err := shop.Ledger(t.Context(), product)
	if err != nil || !errors.Is(l.Unavailable[stock.Redis], stock.ErrUnavailable) || l.Facts[stock.SQL].Stock != 5 {
		t.Errorf("Ledger() without Redis = %+v, %v, want SQL's facts and Redis unavailable", l, err)
	}
	for mode, want := range map[string]error{
		"unsafe": stock.ErrUnavailable, "setnx": stock.ErrLockUnavailable, "handoff": stock.ErrLockUnavailable, "idempotent": stock.ErrLockUnavailable,
	} {
		if _, err := shop.Deduct(t.Context(), mode, stocktest.Request(product, 1, "k")); !errors.Is(err, want) {
			t.Errorf("%s without Redis: Deduct() = %v, want %v", mode, err, want)
		}
	}
}
