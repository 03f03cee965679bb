package shop_test

import (
	"strconv"
	"testing"

	"lastitem/internal/stock"
	"lastitem/internal/stock/stocktest"
	"lastitem/internal/testenv"
)

// benchmark lets 64 clients deduct from one product that never runs out. If keyed is set, each request has a key of its own.
func benchmark(b *testing.B, env stocktest.Env, mode string, s stock.Store, keyed bool) {
	h := stocktest.Open(b, env, 1, stock.Modes())
	product := h.Product(b, 1<<40, 0)
	req := stock.Request{Items: []stock.Item{{ProductID: product, Quantity: 1}}, Store: s, Answer: stocktest.Answer}
	var n int64
	clients := make(chan struct{}, 64)
	b.ReportAllocs()
	for b.Loop() {
		clients <- struct{}{}
		if keyed {
			n++
			req.Key = strconv.AppendInt([]byte("order-"), n, 10)
		}
		go func(req stock.Request) {
			if _, err := h.Replicas[0].Shop.Deduct(b.Context(), mode, req); err != nil {
				b.Errorf("Deduct() = %v", err)
			}
			<-clients
		}(req)
	}
	for range cap(clients) {
		clients <- struct{}{}
	}
}

func BenchmarkRedisLua(b *testing.B) {
	r := testenv.Redis(b)
	benchmark(b, stocktest.Env{Redis: r.URL, Prefix: r.Prefix, SQL: testenv.SQLite(b)}, "redis-lua", stock.Redis, false)
}

func BenchmarkRedisLuaKeyed(b *testing.B) {
	r := testenv.Redis(b)
	benchmark(b, stocktest.Env{Redis: r.URL, Prefix: r.Prefix, SQL: testenv.SQLite(b)}, "redis-lua", stock.Redis, true)
}

func BenchmarkQueue(b *testing.B) {
	r := testenv.Redis(b)
	benchmark(b, stocktest.Env{Redis: r.URL, Prefix: r.Prefix, SQL: testenv.MySQL(b)}, "queue", stock.SQL, false)
}
