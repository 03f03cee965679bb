package shop_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"lastitem/internal/backend"
	"lastitem/internal/stock"
	"lastitem/internal/stock/stocktest"
	"lastitem/internal/testenv"
)

// leastRights reads from docs/servers.md the documented rights of the shop: the rules of a Redis user, with the shop's prefix, and the
// privileges of the MySQL accounts of 'shop migrate' and 'shop serve'.
func leastRights(t *testing.T) (acl, migrate, serve string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/servers.md")
	if err != nil {
		t.Fatal(err)
	}
	rights := regexp.MustCompile("(?s)```acl\n(.*?)\n```.*\\| `shop migrate` \\| `(.*?)` \\|\n\\| `shop serve` \\| `(.*?)` \\|").FindStringSubmatch(string(text))
	if rights == nil {
		t.Fatal("docs/servers.md: no rights found")
	}
	return rights[1], rights[2], rights[3]
}

// restricted is stocktest.Real with accounts that have only the documented rights.
func restricted(t *testing.T) stocktest.Env {
	acl, migrate, serve := leastRights(t)
	r, dsn := testenv.Redis(t), testenv.MySQL(t)
	db, err := backend.OpenSQL(testenv.MySQLUser(t, dsn, migrate), 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := backend.Migrate(t.Context(), db); err != nil {
		t.Fatalf("Migrate() = %v, want nil with %s", err, migrate)
	}
	if pool, err := db.DB(); err == nil {
		pool.Close()
	}
	e := stocktest.On(r, testenv.MySQLUser(t, dsn, serve))
	e.Redis = testenv.RedisUser(t, r, strings.Fields(strings.ReplaceAll(acl, "lastitem:", r.Prefix))...)
	return e
}

// The documented rights suffice: with them each mode sells to rivals on two replicas, and all reads work.
func TestLeastRights(t *testing.T) {
	t.Parallel()
	e := restricted(t)
	h := stocktest.Open(t, e, 2, stock.Modes())
	for _, m := range stock.Modes() {
		if m.Name == "kafka" || slices.ContainsFunc(m.Needs, elsewhere) {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			for _, s := range m.Stores {
				const rivals = 6
				product := h.Product(t, 50, m.Segments)
				var done sync.WaitGroup
				for i := range rivals {
					done.Go(func() {
						req := stocktest.Request(product, 1, fmt.Sprint("key ", product, i))
						req.Store, req.Wait = s, stocktest.Patience
						if _, err := h.Replicas[i%2].Shop.Deduct(t.Context(), m.Name, req); err != nil {
							t.Errorf("%s: Deduct() = %v, want nil", s, err)
						}
					})
				}
				done.Wait()
				if _, err := h.Replicas[0].Ledger(t.Context(), product); err != nil {
					t.Errorf("%s: Ledger() = %v, want nil", s, err)
				}
			}
		})
	}
}

// elsewhere says that a backend is neither Redis nor SQL.
func elsewhere(b stock.Backend) bool {
	return b != stock.NeedRedis && b != stock.NeedSQL && b != stock.NeedMySQL
}
