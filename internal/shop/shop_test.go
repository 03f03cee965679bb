package shop_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lastitem/contract/ledger"
	"lastitem/internal/backend"
	"lastitem/internal/idempotency"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/shop"
	"lastitem/internal/stock"
	"lastitem/testkit"
	"lastitem/testkit/stocktest"
	"lastitem/testkit/testenv"
)

// engine makes a lock engine for one test on a set of backends.
func engine(t *testing.T, set *backend.Set, o handoff.Options) *handoff.Engine {
	t.Helper()
	e, err := handoff.New(set.Client, o)
	testkit.Must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stocktest.Patience)
		defer cancel()
		testkit.Is(t, e.Close(ctx), nil, "engine: Close()")
	})
	return e
}

// opened returns a set of backends, with the tables if there is SQL.
func opened(t testing.TB, cfg backend.Config) *backend.Set {
	t.Helper()
	set, err := backend.Open(cfg)
	testkit.Must(t, err)
	t.Cleanup(func() { set.Close() })
	if cfg.SQL != "" {
		_, err := backend.Migrate(t.Context(), set.DB)
		testkit.Must(t, err)
	}
	return set
}

// on returns the Backends of a shop on set, without an engine.
func on(set *backend.Set, prefix string) shop.Backends {
	return shop.Backends{
		Redis: set.Redis, SQL: set.SQL, Lockers: stock.Lockers{Client: set.Client, Prefix: prefix, TTL: stocktest.Patience},
	}
}

// open returns a shop of all modes.
func open(t *testing.T, b shop.Backends) *shop.Shop {
	t.Helper()
	s, err := shop.New(b, shop.Options{}, stock.Modes())
	testkit.Must(t, err)
	return s
}

// New accepts a mode without an essay, and refuses one that cannot be served.
func TestNewChecksItsModes(t *testing.T) {
	t.Parallel()
	m := stock.Modes()[0]
	m.Name = "nobody"
	_, err := shop.New(shop.Backends{}, shop.Options{}, []stock.Mode{m})
	testkit.Is(t, err, nil, "New() without an essay")
	if _, err := shop.New(shop.Backends{}, shop.Options{}, []stock.Mode{m, m}); err == nil {
		t.Error("New() with a mode twice = nil, want an error")
	}
}

func TestUnavailableModes(t *testing.T) {
	t.Parallel()
	r := testenv.Miniredis(t)
	only := func(cfg backend.Config) shop.Backends {
		cfg.Prefix, cfg.Conns = r.Prefix, 2
		set := opened(t, cfg)
		b := on(set, r.Prefix)
		if set.Client != nil {
			b.Lockers.Engine = engine(t, set, handoff.Options{})
		}
		return b
	}
	both := only(backend.Config{Redis: r.URL, SQL: testenv.SQLite(t)})
	noEngine := both
	noEngine.Lockers.Engine = nil
	modes := stock.Modes()
	for i, m := range modes {
		if m.Name == "lua-lock" {
			modes[i].Needs = []stock.Backend{stock.NeedRedis, stock.NeedMySQL}
		}
	}
	for name, c := range map[string]struct {
		on  shop.Backends
		why map[string]string // "" = available
	}{
		"nothing": {shop.Backends{}, map[string]string{"noop": "", "unsafe": "SHOP_REDIS", "lease-seq": "SHOP_SQL"}},
		"redis": {only(backend.Config{Redis: r.URL}), map[string]string{"unsafe": "", "lease-seq": "SHOP_SQL",
			"lua-lock": "SHOP_SQL"}},
		"sqlite": {only(backend.Config{SQL: testenv.SQLite(t)}), map[string]string{"handoff": "SHOP_REDIS",
			"fencing-strict": "SHOP_REDIS", "idempotent": "", "lease-seq": ""}},
		"both": {both, map[string]string{"handoff": "", "lease-seq": "", "lua-lock": "InnoDB"}},
		"no engine": {noEngine, map[string]string{
			"watchdog": "", "fencing": "", "handoff": "lock engine", "fair": "lock engine", "rwlock": "lock engine",
			"global-lock": "lock engine",
			"segmented":   "lock engine", "lease-seq": "", "idempotent": "",
		}},
	} {
		shop, err := shop.New(c.on, shop.Options{}, modes)
		testkit.Must(t, err)
		if got := len(shop.Modes()); got != len(modes) {
			t.Errorf("%s: Modes() lists %d, want all %d", name, got, len(modes))
		}
		for mode, why := range c.why {
			s, err := shop.Mode(mode)
			if err != nil || s.Down || (s.Err == nil) != (why == "") || why != "" && !strings.Contains(s.Err.Error(), why) {
				t.Errorf("%s: Mode(%q) = %v, %v, want the reason %q", name, mode, s.Err, err, why)
			}
			if why == "" {
				continue
			}
			_, err = shop.Deduct(t.Context(), mode, stocktest.Request(1, 1, "k"))
			testkit.IsError(t, err, stock.ErrModeUnavailable, "%s: Deduct() by %s", name, mode)
		}
		if name != "redis" {
			continue
		}
		// a mode that can keep the count in two stores may have only one of them
		for _, mode := range []string{"mutex", "setnx"} {
			req := stocktest.Request(1, 1, "k")
			req.Store = stock.SQL
			_, err := shop.Deduct(t.Context(), mode, req)
			if !errors.Is(err, stock.ErrModeUnavailable) || !strings.Contains(err.Error(), "SHOP_SQL") {
				t.Errorf("Deduct() by %s with store sql = %v, want ErrModeUnavailable and what to set", mode, err)
			}
		}
	}
}

// A store that is added to a running shop does not know products that were set before. The refusal names the store;
// setting the stock again repairs it.
func TestStoreThatWasAddedLater(t *testing.T) {
	t.Parallel()
	r, dsn := testenv.Miniredis(t), testenv.SQLite(t)
	start := func(c backend.Config) *shop.Shop {
		set := opened(t, c)
		return open(t, on(set, r.Prefix))
	}
	before := start(backend.Config{Redis: r.URL, Prefix: r.Prefix, Conns: 2})
	testkit.Must(t, before.SetStock(t.Context(), 101, 5, ledger.Rules{}))
	after := start(backend.Config{Redis: r.URL, Prefix: r.Prefix, SQL: dsn, Conns: 2})
	req := stocktest.Request(101, 1, "")
	if _, err := after.Deduct(t.Context(), "redis-lua", req); err != nil {
		t.Errorf("Deduct() by redis-lua = %v, want a sale: Redis knows the product", err)
	}
	_, err := after.Deduct(t.Context(), "sql-atomic", req)
	if e, ok := errors.AsType[*ledger.ProductError](err); !ok || !errors.Is(err, stock.ErrUnknownProduct) ||
		e.Store != "sql" {
		t.Errorf("Deduct() by sql-atomic = %v, want ErrUnknownProduct that names the store sql", err)
	}
	testkit.Must(t, after.SetStock(t.Context(), 101, 5, ledger.Rules{}))
	if _, err := after.Deduct(t.Context(), "sql-atomic", req); err != nil {
		t.Errorf("Deduct() by sql-atomic after the stock was set again = %v, want a sale", err)
	}
}

// If one store was set and another was not, the answer does not say that nothing happened.
func TestSetStockInPart(t *testing.T) {
	t.Parallel()
	dsn := testenv.SQLite(t)
	for name, c := range map[string]struct {
		sql     string
		unknown bool
	}{"the only store": {"", false}, "one of two stores": {dsn, true}} {
		set := opened(t, backend.Config{Redis: "redis://127.0.0.1:1", SQL: c.sql, Conns: 2})
		b := shop.Backends{Redis: set.Redis, SQL: set.SQL}
		s, err := shop.New(b, shop.Options{}, nil)
		testkit.Must(t, err)
		if err := s.SetStock(t.Context(), 101, 5, ledger.Rules{}); !errors.Is(err, stock.ErrUnavailable) ||
			errors.Is(err, stock.ErrUnknown) != c.unknown {
			t.Errorf("%s: SetStock() = %v, want ErrUnavailable, and ErrUnknown: %t", name, err, c.unknown)
		}
	}
}

// If an adjustment was made in one store, and another has too few free units, no repetition says that nothing happened.
// Once there are enough it is done, and done once.
func TestAdjustInPart(t *testing.T) {
	t.Parallel()
	r := testenv.Miniredis(t)
	set := opened(t, backend.Config{Redis: r.URL, Prefix: r.Prefix, SQL: testenv.SQLite(t), Conns: 2})
	s := open(t, on(set, r.Prefix))
	testkit.Must(t, s.SetStock(t.Context(), 101, 5, ledger.Rules{}))
	for _, c := range []struct {
		key   string
		at    stock.Store
		delta int64
		want  error
	}{
		{"a", "", -6, stock.ErrSoldOut}, {"k", stock.Redis, -3, nil}, {"b", stock.SQL, -4, nil},
		{"k", "", -3, stock.ErrUnknown}, {"k", "", -3, stock.ErrUnknown}, {"c", "", -2, stock.ErrSoldOut},
		{"d", stock.SQL, 4, nil}, {"k", "", -3, nil}, {"k", "", -3, nil},
	} {
		_, err := s.Adjust(t.Context(), 101, c.at, ledger.Adjustment{Key: []byte(c.key), Delta: c.delta})
		testkit.IsError(t, err, c.want, "%s: %+d in the store %q", c.key, c.delta, c.at)
	}
	p, err := s.Product(t.Context(), 101)
	testkit.Must(t, err)
	testkit.Same(t, p.Stock, map[stock.Store]int64{stock.Redis: 2, stock.SQL: 2}, "the stock")
}

func TestCheckSaysWhatIsDown(t *testing.T) {
	t.Parallel()
	r := testenv.Miniredis(t)
	set := opened(t, backend.Config{Redis: r.URL, SQL: testenv.SQLite(t), Conns: 2})
	down := errors.New("no route to it")
	b := on(set, "")
	b.Lockers.Engine = engine(t, set, handoff.Options{})
	b.Check = func(b stock.Backend) error {
		if b == stock.NeedSQL {
			return down
		}
		return nil
	}
	shop := open(t, b)
	for _, s := range shop.Modes() {
		if slices.Contains(s.Mode.Needs, stock.NeedKafka) { // Kafka is not configured, which is reported first
			continue
		}
		if s.Mode.Tickets { // they wait for SQL
			if s.Err != nil || !errors.Is(s.Late, down) {
				t.Errorf("%s: %v, late: %v, want late: %v", s.Mode.Name, s.Err, s.Late, down)
			}
			continue
		}
		if want := slices.Contains(s.Mode.Needs, stock.NeedSQL); errors.Is(s.Err, down) != want || s.Down != want {
			t.Errorf("%s: %v, down: %t, want down: %t", s.Mode.Name, s.Err, s.Down, want)
		}
	}
}

func TestDeductChecksItsRequest(t *testing.T) {
	t.Parallel()
	h := stocktest.Open(t, stocktest.Embedded(t), 1, stock.Modes())
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
		"none of one":   {"mutex", stock.Request{Items: []stock.Item{{ProductID: product}}}, stock.ErrInvalid},
		"too much": {"mutex", stock.Request{Items: []stock.Item{{ProductID: product, Quantity: stock.MaxQuantity + 1}}},
			stock.ErrInvalid},
		"too many": {"sql-atomic", stock.Request{Items: make([]stock.Item, stock.MaxItems+1)}, stock.ErrInvalid},
		"a long key": {"idempotent", stock.Request{Items: []stock.Item{item}, Key: make([]byte, idempotency.MaxKey+1)},
			stock.ErrInvalid},
		"default store": {"mutex", stock.Request{Items: []stock.Item{item}}, nil},
		"two lines":     {"redis-lua", stock.Request{Items: []stock.Item{item, item}}, nil},
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
	h.WantBooks(t, product, stock.Redis, stocktest.Books{Initial: 5, Stock: 2, Sold: 3, Orders: 2})
	h.WantBooks(t, product, stock.SQL, stocktest.Books{Initial: 5, Stock: 5})
}

func TestSetStockStartsAfresh(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		product := h.Product(t, 5, 3)
		a := h.Replicas[0]
		a.Sell(t, "segmented", stock.Redis, product, 1, "k")
		c := a.Backends.Lockers.Client
		for _, key := range []string{
			"lock:setnx:{%}", "lock:lua-lock:{%}", "lock:watchdog:{%}", "lock:handoff:{%}", "lock:handoff:{%}:queue",
			"lock:lease-seq:{%}:last",
			"lock:segmented:{%#2}", "lock:segmented:{%#2}:queue", "lock:handoff:{%}:fence",
			"lock:setnx-expire:{%}", "lock:lock-then-check:{%}", "lock:fair:{%}:queue", "lock:rwlock:{%}",
			"lock:rwlock:{%}:readers",
			"lock:fencing:{%}",
		} {
			key = a.Backends.Lockers.Prefix + strings.ReplaceAll(key, "%", strconv.FormatInt(product, 10))
			testkit.Must(t, c.HSet(t.Context(), key, "somebody", 1).Err())
		}
		h.SetStock(t, product, 4, 0)
		keys := c.Keys(t.Context(), a.Backends.Lockers.Prefix+"lock:*").Val()
		fences := slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return !strings.HasSuffix(k, ":fence") })
		if len(keys) > len(fences) || len(fences) != 2 { // of the segment that was deducted from, and of handoff
			t.Errorf("locks after SetStock: %v, want none, and two fencing counters, which must not go back", keys)
		}
		for _, s := range []stock.Store{stock.Redis, stock.SQL} {
			h.WantBooks(t, product, s, stocktest.Books{Initial: 4, Stock: 4})
		}
		_, err := a.Ledger(t.Context(), product+1000)
		testkit.IsError(t, err, stock.ErrUnknownProduct, "Ledger() of a product that nobody made")
	})
}

func TestLedgerNamesWhatIsDown(t *testing.T) {
	t.Parallel()
	e := stocktest.Embedded(t)
	product := stocktest.Open(t, e, 1, stock.Modes()).Product(t, 5, 0)
	set := opened(t, backend.Config{Redis: "redis://127.0.0.1:1/0", SQL: e.SQL, Conns: 2})
	b := on(set, "")
	b.Lockers.Engine = engine(t, set, handoff.Options{})
	s := open(t, b)
	l, err := s.Page(t.Context(), product, shop.Page{Limit: 1})
	if err != nil || !errors.Is(l.Unavailable[stock.Redis], stock.ErrUnavailable) || l.Facts[stock.SQL].Stock != 5 {
		t.Errorf("Page() without Redis = %+v, %v, want SQL's facts and Redis unavailable", l, err)
	}
	for mode, want := range map[string]error{
		"unsafe": stock.ErrUnavailable, "setnx": stock.ErrLockUnavailable, "handoff": stock.ErrLockUnavailable,
		"idempotent": nil, "lease-seq": nil,
	} {
		if _, err := s.Deduct(t.Context(), mode, stocktest.Request(product, 1, "k")); !errors.Is(err, want) {
			t.Errorf("%s without Redis: Deduct() = %v, want %v", mode, err, want)
		}
	}
}

func TestReadLockedChecksItsMode(t *testing.T) {
	t.Parallel()
	h := stocktest.Open(t, stocktest.Embedded(t), 1, stock.Modes())
	r, product := h.Replicas[0], h.Product(t, 5, 0)
	never := func(context.Context) error { t.Error("read"); return nil }
	for mode, want := range map[string]error{"handoff": stock.ErrInvalid, "noop": stock.ErrInvalid,
		"rw": stock.ErrUnknownMode} {
		if err := r.ReadLocked(t.Context(), mode, product, 0, never); !errors.Is(err, want) {
			t.Errorf("ReadLocked() by %s = %v, want %v", mode, err, want)
		}
	}
	without := open(t, shop.Backends{})
	testkit.IsError(t, without.ReadLocked(t.Context(), "rwlock", product, 0, never), stock.ErrModeUnavailable,
		"ReadLocked() without Redis")
	refused := errors.New("refused")
	if err := r.ReadLocked(t.Context(), "rwlock", product, 0, func(context.Context) error {
		return refused
	}); !errors.Is(err, refused) {
		t.Errorf("ReadLocked() = %v, want the error of the read", err)
	}
	testkit.Is(t, r.ReadLocked(t.Context(), "rwlock", product, 0, func(context.Context) error { return nil }), nil,
		"ReadLocked() after one that failed")
}
