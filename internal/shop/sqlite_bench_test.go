package shop_test

import (
	"testing"

	"lastitem/internal/stock"
	"lastitem/internal/stock/stocktest"
	"lastitem/internal/testenv"
)

// BenchmarkSQLite lets 64 clients buy on the embedded database, each its own product: by a mode with one conditional statement, and by
// one that reads and then writes in a transaction. Decision 6 compares drivers by it.
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
				req := stock.Request{Items: []stock.Item{{ProductID: product, Quantity: 1}}, Store: stock.SQL, Answer: stocktest.Answer}
				go func() {
					if _, err := h.Replicas[0].Shop.Deduct(b.Context(), mode, req); err != nil {
						b.Errorf("Deduct() = %v", err)
					}
					clients <- product
				}()
			}
			for range cap(clients) {
				<-clients
			}
		})
	}
}
