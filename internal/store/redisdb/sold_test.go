package redisdb_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"lastitem/contract/ledger"
	"lastitem/internal/store/redisdb"
	"lastitem/testkit/storetest"
	"lastitem/testkit/testenv"
)

func TestRedisActsOnProducts(t *testing.T) {
	onEachRedis(t, func(t *testing.T, r *redisdb.Store, _ *testenv.RedisServer) {
		holds := redisdb.NewReservations(r, time.Hour)
		storetest.Counter{
			Reader: r, Sold: []ledger.Sold{ledger.Undecided, ledger.Absolutely, ledger.Relatively, ledger.PerBuyer,
				ledger.InSegments},
			Reset: func(product int64, rules ledger.Rules) error { return r.Reset(t.Context(), product, 9, rules, noKeys) },
			Order: func(o ledger.Order) error { return r.Append(t.Context(), o) },
			Acts: map[ledger.Act]func(int64) error{
				ledger.Overwrite: func(product int64) error {
					n, err := r.Read(t.Context(), product)
					if err != nil {
						return err
					}
					o := storetest.SomeOrder("absolute", product)
					o.Way = ledger.Absolutely
					return errors.Join(r.Set(t.Context(), product, n-1), r.Append(t.Context(), o))
				},
				ledger.Sell: func(product int64) error {
					_, err := r.Sell(t.Context(), sale("sold", "", product))
					return err
				},
				ledger.Reserve: func(product int64) error {
					h := ledger.Reservation{ID: fmt.Sprint("redis-", product, "-", time.Now().UnixNano()), Mode: "m", Replica: "r",
						Items: []ledger.ReservationItem{{ProductID: product, Quantity: 1}}}
					_, _, _, err := holds.Reserve(t.Context(), h, time.Minute)
					return err
				},
				ledger.AdjustUnmarked: func(product int64) error {
					_, _, err := holds.Adjust(t.Context(), product, ledger.Adjustment{Delta: 3, Key: []byte("k")}, false, unlocked)
					return err
				},
				ledger.Return: func(product int64) error {
					_, _, err := holds.Return(t.Context(), product, fmt.Sprint("o", product), true, ledger.Part{})
					return err
				},
			},
		}.Every(t)
	})
}
