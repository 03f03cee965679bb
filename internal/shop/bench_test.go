package shop_test

import (
	"context"
	"strconv"
	"testing"

	"lastitem/internal/shop"
	"lastitem/internal/stock"
	"lastitem/testkit"
	"lastitem/testkit/stocktest"
	"lastitem/testkit/testenv"
)

// The cost of the deadline for a request: a goroutine and a timer.
func BenchmarkDeadline(b *testing.B) {
	s := as(b, shop.Options{}, func(context.Context, stock.Request) (stock.Receipt, error) { return stock.Receipt{}, nil })
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_, err := s.Deduct(b.Context(), "mutex", stocktest.Request(101, 1, ""))
			testkit.Check(b, err)
		}
	})
}

// BenchmarkSQLite lets 64 clients buy on the embedded database, each its own product: by a mode with one conditional
// statement, and by one that reads and then writes in a transaction. Decision 6 compares drivers by it.
func BenchmarkSQLite(b *testing.B) {
	for _, mode := range []string{"sql-atomic", "sql-version"} {
		b.Run(mode, func(b *testing.B) {
			h := stocktest.Open(b, stocktest.On(testenv.Miniredis(b), testenv.SQLite(b)), 1, stock.Modes())
			clients := make(chan int64, 64)
			for range cap(clients) {
				clients <- h.Product(b, 1<<40, 0)
			}
			b.ReportAllocs()
			for b.Loop() {
				product := <-clients
				req := stock.Request{Items: []stock.Item{{ProductID: product, Quantity: 1}}, Store: stock.SQL,
					Answer: stocktest.Answer}
				go func() {
					_, err := h.Replicas[0].Shop.Deduct(b.Context(), mode, req)
					testkit.Is(b, err, nil, "Deduct()")
					clients <- product
				}()
			}
			for range cap(clients) {
				<-clients
			}
		})
	}
}

// benchmark lets 64 clients deduct from one product that never runs out. If keyed is set, each request has a key of its
// own.
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
			_, err := h.Replicas[0].Shop.Deduct(b.Context(), mode, req)
			testkit.Is(b, err, nil, "Deduct()")
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
