package replica

import (
	"slices"
	"strings"
	"testing"

	"lastitem/contract/ledger"
	"lastitem/internal/stock"
	"lastitem/testkit"
	"lastitem/testkit/reservationtest"
	"lastitem/testkit/testenv"
)

// A buyer gets as many units as the limit allows, however many requests come at once, and a return gives room. Every
// mode that knows no limit refuses the product.
func TestLimitPerBuyer(t *testing.T) {
	t.Parallel()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		limitPerBuyer(t, testenv.Miniredis(t), testenv.SQLite(t))
	})
	t.Run("servers", func(t *testing.T) {
		t.Parallel()
		limitPerBuyer(t, testenv.Redis(t), testenv.MySQL(t))
	})
}

func limitPerBuyer(t *testing.T, redis *testenv.RedisServer, sql string) {
	r := startReplica(t, Config{Redis: redis.URL, Prefix: redis.Prefix, SQL: sql, Conns: 16})
	waitReady(t, r)
	url, product, refused := testkit.Serve(t, r).URL, int64(100), 0
	for _, m := range stock.Modes() {
		if len(m.Stores) == 0 || slices.Contains(m.Stores, stock.Etcd) {
			continue
		}
		product++
		seam := serve(t, url, m.Name, m.Name, string(m.Stores[0]))
		if !m.PerBuyer && !m.Reserves {
			for _, in := range m.Stores {
				p := reservationtest.New(t, serve(t, url, m.Name, m.Name, string(in)), product)
				p.Begin(ledger.Rules{PerBuyer: 2})
				switch said := p.Do("sell ann 1"); said {
				case "limit_unsupported":
					refused++
				case "mode_unavailable":
				default:
					t.Errorf("%s in %s = %s, want limit_unsupported", m.Name, in, said)
				}
			}
			continue
		}
		if elsewhere := slices.Contains(m.Needs, stock.NeedMySQL); elsewhere && strings.HasSuffix(t.Name(), "embedded") {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			seam.Key, seam.Lacks = m.Name, []string{"hold", "brief", "overwrite"}
			if p := reservationtest.New(t, seam, product); m.Claims[m.Stores[0]].Threads != "B" {
				p.Begin(ledger.Rules{PerBuyer: 2})
				p.AtOnce(40, 0, map[string]int{"sold": 2, "limit_reached": 38}, "sell ann/# 1")
			}
			reservationtest.Play(t, seam, 1000*product)
		})
	}
	if refused < 20 {
		t.Errorf("%d modes refuse a product with a limit", refused)
	}
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
