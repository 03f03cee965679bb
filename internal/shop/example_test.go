package shop_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"

	"lastitem/internal/backend"
	"lastitem/internal/shop"
	"lastitem/internal/stock"
)

// Selling the last two units of a product by one mode.
func ExampleShop_Deduct() {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	set, err := backend.Open(backend.Config{Redis: "redis://" + server.Addr(), Conns: 4})
	if err != nil {
		panic(err)
	}
	defer set.Close()
	s, err := shop.New(shop.Backends{
		Redis: set.Redis, Lockers: stock.Lockers{Client: set.Client, TTL: 10 * time.Second},
	}, shop.Options{Replica: "1"}, stock.Modes())
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	if err := s.SetStock(ctx, 101, 2, 0); err != nil {
		panic(err)
	}
	one := stock.Request{Items: []stock.Item{{ProductID: 101, Quantity: 1}}, Wait: time.Second}
	for range 3 {
		receipt, err := s.Deduct(ctx, "lua-lock", one)
		if errors.Is(err, stock.ErrSoldOut) {
			fmt.Println("sold out")
			continue
		}
		fmt.Println("left:", *receipt.Remaining)
	}
	// Output:
	// left: 1
	// left: 0
	// sold out
}
