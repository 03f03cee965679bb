package shop_test

import (
	"context"
	"testing"

	"lastitem/internal/shop"
	"lastitem/internal/stock"
	"lastitem/internal/stock/stocktest"
)

// The cost of the deadline for a request: a goroutine and a timer.
func BenchmarkDeadline(b *testing.B) {
	s := as(b, shop.Options{}, func(context.Context, stock.Request) (stock.Receipt, error) { return stock.Receipt{}, nil })
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := s.Deduct(b.Context(), "mutex", stocktest.Request(101, 1, "")); err != nil {
				b.Error(err)
			}
		}
	})
}
