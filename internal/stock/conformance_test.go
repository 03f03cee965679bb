package stock_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lastitem/internal/stock"
	"lastitem/judge"
	"lastitem/testkit"
	"lastitem/testkit/stocktest"
	"lastitem/testkit/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// The embedded servers in the first tier, the real ones in the next.
func TestConformance(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Run("miniredis+sqlite", embedded)
	} else {
		t.Run("redis+mysql", func(t *testing.T) { shared(t, stocktest.Real) })
	}
}

func embedded(t *testing.T) {
	t.Parallel()
	stocktest.RunApart(t, func(t *testing.T) stocktest.Env { return withKafka(t, stocktest.Embedded(t)) }, stock.Modes())
}

// shared runs the suite on one set of servers for all modes.
func shared(t *testing.T, open func(*testing.T) stocktest.Env) {
	t.Parallel()
	stocktest.Run(t, withKafka(t, open(t)), stock.Modes())
}

func withKafka(t *testing.T, e stocktest.Env) stocktest.Env {
	t.Helper()
	e.Kafka = testenv.EmbeddedKafka(t).Seeds
	return e
}

// The modes that need more than Redis and SQL.
func TestConformanceOnServices(t *testing.T) {
	testenv.Slow(t, "starts etcd, ZooKeeper, Consul and five masters of Redis")
	t.Parallel()
	env, _ := stocktest.Real(t).WithServices(t).WithRedlock(t)
	stocktest.Run(t, env, needing(stock.NeedRedlock, stock.NeedZooKeeper, stock.NeedEtcd, stock.NeedConsul))
}

func TestConformanceOnKafka(t *testing.T) {
	testenv.Engines(t, "starts Apache Kafka")
	env := stocktest.Real(t)
	env.Kafka = testenv.Kafka(t, env.Prefix)
	stocktest.Run(t, env, needing(stock.NeedKafka))
}

// needing returns the modes that need one of the backends.
func needing(some ...stock.Backend) []stock.Mode {
	return slices.DeleteFunc(stock.Modes(), func(m stock.Mode) bool {
		return !slices.ContainsFunc(some, func(b stock.Backend) bool { return slices.Contains(m.Needs, b) })
	})
}

// On a Redis Cluster the products, and the segments of one, lie in several slots.
func TestConformanceElsewhere(t *testing.T) {
	testenv.Slow(t, "all modes on three more sets of servers")
	t.Parallel()
	t.Run("miniredis+sqlite", embedded)
	t.Run("redis+sqlite", func(t *testing.T) {
		shared(t, func(t *testing.T) stocktest.Env { return stocktest.On(testenv.Redis(t), testenv.SQLite(t)) })
	})
	t.Run("cluster", func(t *testing.T) { shared(t, stocktest.Cluster) })
}

// The guarded modes may share a product: each sees the writes of the other.
func TestGuardedModesMix(t *testing.T) {
	t.Parallel()
	for _, e := range stocktest.Envs {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			h := stocktest.Open(t, e.Open(t), 3, stock.Modes())
			const units, clients, each = 60, 9, 10
			product := h.Product(t, units, 0)
			var wg sync.WaitGroup
			for c := range clients {
				mode := []string{"lease-seq", "idempotent", "sql-atomic", "sql-version"}[c%4]
				wg.Go(func() {
					for i := range each {
						_, _ = h.Replicas[c%3].Deduct(t.Context(), mode, stock.SQL, product, 1, fmt.Sprintf("%d-%d", c, i))
					}
				})
			}
			wg.Wait()
			r := judge.Judge(judge.Input{Store: "sql", Ledger: h.Ledger(t, product)})
			if r.Verdict != judge.Exact {
				t.Errorf("several guarded modes on one product: %s\n%s", r.Verdict, r.Text("en"))
			}
		})
	}
}

// A key belongs to the store that keeps it. All modes on SQL share their keys; redis-lua has its own, so it may sell
// once more under the same key.
func TestKeysOfTheStoresAreApart(t *testing.T) {
	t.Parallel()
	h := stocktest.Open(t, stocktest.Embedded(t), 1, stock.Modes())
	product := h.Product(t, 5, 0)
	for _, c := range []struct {
		mode  string
		store stock.Store
		want  error
	}{
		{"redis-lua", stock.Redis, nil}, {"queue", stock.SQL, nil}, {"idempotent", stock.SQL, stock.ErrKeyReused},
	} {
		h.Replicas[0].Refuse(t, c.want, c.mode, c.store, product, 1, "k")
	}
	for _, s := range []stock.Store{stock.Redis, stock.SQL} {
		if got := h.Books(t, product, s); got.Stock != 4 || got.Sold != 1 {
			t.Errorf("%s: books = %+v, want one unit sold", s, got)
		}
	}
}

var update = flag.Bool("update", false, "write the golden files")

// The claims are in the modes and once more in one file, so that nobody changes one by accident.
func TestClaims(t *testing.T) {
	t.Parallel()
	const golden = "testdata/claims.txt"
	text := testkit.Read(t, golden)
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
			row := m.Row(s)
			for i, o := range row {
				if o == "" {
					row[i] = "_"
				}
			}
			got.WriteString(m.Name + " " + string(s) + ": " + strings.Join(row, " ") + "\n")
		}
	}
	if *update {
		testkit.Must(t, os.WriteFile(golden, []byte(got.String()), 0o644))
		return
	}
	if diff := cmp.Diff(string(text), got.String()); diff != "" {
		t.Errorf("claims (-%s +modes; -update writes what the modes claim):\n%s", golden, diff)
	}
}

func TestModesAreValid(t *testing.T) {
	t.Parallel()
	testkit.Check(t, stock.Validate(stock.Modes()))
	for _, m := range stock.Modes() {
		d, err := m.Doc()
		if err != nil || len(d.En) < 200 || len(d.Zh) < 100 {
			t.Errorf("essay of %s: %d and %d bytes, %v, want both", m.Name, len(d.En), len(d.Zh), err)
		}
	}
}

// allExact is what a mode claims that nothing breaks and that holds nothing.
var allExact = stock.Claims{Threads: ".", Replicas: ".", Slow: ".", Late: ".", Pause: ".", Crash: ".", Failover: ".",
	Retry: ".", LateWrite: "."}

// but returns those claims with a change.
func but(change func(*stock.Claims)) stock.Claims {
	c := allExact
	change(&c)
	return c
}

func TestValidate(t *testing.T) {
	t.Parallel()
	claims := func(c stock.Claims) func(*stock.Mode) {
		return func(m *stock.Mode) { m.Claims = map[stock.Store]stock.Claims{stock.Redis: c} }
	}
	for name, c := range map[string]struct {
		change func(*stock.Mode)
		want   string
	}{
		"nothing":          {func(*stock.Mode) {}, ""},
		"camel case":       {func(m *stock.Mode) { m.Name = "luaLock" }, "kebab-case"},
		"no name":          {func(m *stock.Mode) { m.Name = "" }, "kebab-case"},
		"trailing dash":    {func(m *stock.Mode) { m.Name = "mutex-" }, "kebab-case"},
		"name taken":       {func(m *stock.Mode) { m.Name = "noop" }, "not unique"},
		"no essay":         {func(m *stock.Mode) { m.Name = "nobody" }, "nobody.md"},
		"no English title": {func(m *stock.Mode) { m.Title.En = "" }, "title or New"},
		"no Chinese title": {func(m *stock.Mode) { m.Title.Zh = "" }, "title or New"},
		"no New":           {func(m *stock.Mode) { m.New = nil }, "title or New"},
		"no claims":        {func(m *stock.Mode) { m.Claims = nil }, "claims for 0 stores, has 1"},
		"unclaimed store":  {func(m *stock.Mode) { m.Stores = []stock.Store{stock.SQL} }, "claims nothing for threads"},
		"one store too many": {func(m *stock.Mode) {
			m.Stores = append(m.Stores, stock.SQL)
		}, "claims for 1 stores, has 2"},
		"unknown letter": {claims(stock.Claims{Threads: "Q"}), `threads: "Q" is no outcome`},
		"letters out of order": {claims(stock.Claims{Threads: ".", Replicas: ".", Failover: "AO"}),
			`failover: "AO" is no outcome`},
		"exact and broken":    {claims(stock.Claims{Threads: ".O"}), "no outcome"},
		"nothing at threads":  {claims(stock.Claims{Replicas: "."}), "claims nothing for threads"},
		"nothing at replicas": {claims(stock.Claims{Threads: "."}), "claims nothing for replicas"},
		"on after threads": {claims(stock.Claims{Threads: "O", Replicas: "."}),
			"broken by threads and claims something for replicas"},
		"on after replicas": {claims(stock.Claims{Threads: ".", Replicas: "O", Retry: "D"}),
			"broken by concurrency alone and claims more"},
		"cannot happen": {claims(but(func(c *stock.Claims) { c.Slow, c.Failover = "–", "OLDXA" })), ""},
		"blank behind retry": {claims(but(func(c *stock.Claims) { c.Retry, c.LateWrite = "O", "" })),
			"claims nothing for late-write, though neither threads nor replicas break it"},
		"holds, and no expiry": {func(m *stock.Mode) { m.Reserves = true }, "claims nothing for expiry"},
		"holds nothing, and expires": {claims(but(func(c *stock.Claims) { c.Expiry = "." })),
			"holds nothing and claims something for expiry"},
		"broken, and holds nothing": {claims(stock.Claims{Threads: "O"}), ""},
	} {
		modes := []stock.Mode{named(t, "unsafe", nil), named(t, "noop", nil)}
		claims(allExact)(&modes[0])
		c.change(&modes[0])
		err := stock.Validate(modes)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: Validate() = %v, want %q", name, err, c.want)
		}
		served := err == nil || strings.HasPrefix(name, "no essay") // a missing essay stops no server
		if err := stock.Servable(modes); (err == nil) != served {
			t.Errorf("%s: Servable() = %v, want an error = %t", name, err, !served)
		}
	}
}
