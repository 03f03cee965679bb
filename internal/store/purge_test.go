package store_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"lastitem/contract/ledger"
	"lastitem/internal/idempotency"
	"lastitem/internal/store"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// The answer to a sale is replayed for as long as it is kept, and then the key sells again.
func TestPurgeRedis(t *testing.T) {
	onEachRedis(t, func(t *testing.T, r *store.Redis, s *testenv.RedisServer) {
		reset(t, r, 1, 5, 0)
		r.KeepAnswers(time.Hour)
		keep := 24 * time.Hour
		sell := func() store.Sold {
			got, err := r.Sell(t.Context(), sale("a", "k", 1))
			testkit.Mustf(t, err, "Sell()")
			return got
		}
		purged := int64(0)
		purge := func() {
			gone, err := r.Purge(t.Context(), keep)
			if purged += gone; err != nil {
				t.Fatalf("Purge() = %v", err)
			}
		}
		sell()
		purge()
		purge()
		if got := sell(); !got.Earlier {
			t.Errorf("Sell() within the retention = %+v, want the earlier answer", got)
		}
		claim := s.Prefix + "key:k"
		if left := s.Client.PTTL(t.Context(), claim).Val(); left <= 0 || left > time.Hour {
			t.Errorf("the claim ends in %s, want it within the hour for which answers are kept", left)
		}
		keep = time.Millisecond
		s.Client.Del(t.Context(), claim) // as if it had expired
		testkit.Until(t, "sale under a key after its retention", func() bool { purge(); return !sell().Earlier })
		testkit.Until(t, "purged answer", func() bool { purge(); return purged > 0 })
		f, err := whole(t, r, 1)
		if err != nil || f.Stock != 3 || len(f.Orders) != 2 {
			t.Errorf("Facts() = %+v, %v, want two sales", f, err)
		}
		reset(t, r, 1, 5, 0)
		if left := s.Client.Keys(t.Context(), s.Prefix+"answers*").Val(); len(left) > 0 {
			t.Errorf("after a reset: %q, want nothing", left)
		}
	})
}

// A purge moves young answers to answers-old: a key whose claim exists is replayed from there.
func TestPurgeRedisYoungAnswers(t *testing.T) {
	onEachRedis(t, func(t *testing.T, r *store.Redis, s *testenv.RedisServer) {
		reset(t, r, 1, 5, 0)
		_, err := r.Sell(t.Context(), sale("a", "k", 1))
		testkit.Mustf(t, err, "Sell()")
		testkit.Until(t, "older part of the answers", func() bool {
			_, err := r.Purge(t.Context(), time.Millisecond)
			testkit.Mustf(t, err, "Purge()")
			return s.Client.HExists(t.Context(), s.Prefix+"answers-old:{1}", "k").Val()
		})
		if got, err := r.Sell(t.Context(), sale("b", "k", 1)); err != nil || !got.Earlier {
			t.Errorf("Sell() with a key in answers-old = %+v, %v, want the earlier answer", got, err)
		}
		s.Client.Del(t.Context(), s.Prefix+"key:k") // as if it had expired
		if got, err := r.Sell(t.Context(), sale("c", "k", 1)); err != nil || got.Earlier {
			t.Errorf("Sell() with a key whose claim has expired = %+v, %v, want a sale", got, err)
		}
	})
}

// sellKeyed sells one unit of product 1 under a key that was created at micros.
func sellKeyed(tx *store.Tx, key string, micros int64) error {
	if _, _, err := tx.ClaimKey([]byte(key), 1, []byte(strings.Repeat("f", 32)), micros); err != nil {
		return err
	}
	if _, ok, err := tx.Take(1, 1); err != nil || !ok {
		return fmt.Errorf("Take() = %v, %w", ok, err)
	}
	if err := tx.InsertOrder(ledger.Order{ID: key, ProductID: 1, Quantity: 1, Mode: "m", Replica: "r",
		CreatedMicros: micros}); err != nil {
		return err
	}
	return tx.KeepAnswer([]byte(key), idempotency.Record{Status: 200, Body: []byte("{}")})
}

// Several replicas purge at once: each old key goes, and is counted once; young keys and all orders stay.
func TestPurgeSQL(t *testing.T) {
	onEachSQL(t, func(t *testing.T, s *store.SQL) {
		const old, young = 450, 5 // three batches
		resetSQL(t, s, 1, 1000, 0)
		do(t, s, func(tx *store.Tx) (err error) {
			for i := range old + young {
				age := 48 * time.Hour
				if i >= old {
					age = 0
				}
				err = errors.Join(err, sellKeyed(tx, fmt.Sprintf("%04d", i), time.Now().Add(-age).UnixMicro()))
			}
			return err
		})
		gone := make(chan int64, 3)
		for range cap(gone) {
			go func() {
				n, err := s.Purge(t.Context(), 24*time.Hour)
				testkit.Is(t, err, nil, "Purge()")
				gone <- n
			}()
		}
		if n := <-gone + <-gone + <-gone; n != old {
			t.Errorf("%d keys were purged, want %d", n, old)
		}
		f, err := whole(t, s, 1)
		if err != nil || len(f.Orders) != old+young || len(f.Keys) != young {
			t.Errorf("%d orders and %d keys, %v, want %d and %d", len(f.Orders), len(f.Keys), err, old+young, young)
		}
		do(t, s, func(tx *store.Tx) error { // after its retention a key is new
			first, _, err := tx.ClaimKey([]byte("0000"), 1, []byte(strings.Repeat("g", 32)), time.Now().UnixMicro())
			if err == nil && !first {
				t.Error("ClaimKey() of a purged key says that it was there")
			}
			return err
		})
	})
}

// Of refusals only young ones stay, and of these the newest of all products; a sale of any age stays.
func TestPurgeRefusals(t *testing.T) {
	onEachSQL(t, func(t *testing.T, s *store.SQL) {
		const most, surplus, step = 50_000, 450, 1000
		now := time.Now()
		keep := func(head string, count, status int, age time.Duration) {
			t.Helper()
			var answers []store.KeyedAnswer
			for i := range count {
				answers = append(answers, store.KeyedAnswer{
					Key: fmt.Appendf(nil, "%s-%d", head, i), Answer: idempotency.Record{Fingerprint: make([]byte, 32), Status: status,
						Body: []byte("{}")},
				})
			}
			do(t, s, func(tx *store.Tx) error {
				_, err := tx.InsertAnswers(int64(count), now.Add(-age).UnixMicro(), answers)
				return err
			})
		}
		keep("sale", 5, http.StatusOK, time.Hour)
		keep("old", 300, http.StatusConflict, 11*time.Minute)
		keep("surplus", surplus, http.StatusConflict, time.Minute)
		for i := range most / step {
			keep(fmt.Sprint("newest", i), step, http.StatusConflict, time.Second)
		}
		for _, want := range []int64{300 + surplus, 0} {
			if gone, err := s.PurgeRefusals(t.Context(), 0); err != nil || gone != want {
				t.Errorf("PurgeRefusals() = %d, %v, want %d", gone, err, want)
			}
		}
		left, err := s.Answers(t.Context(), [][]byte{[]byte("sale-0"), []byte("old-0"), []byte("surplus-0"),
			[]byte("newest0-0")})
		if _, sale := left["sale-0"]; err != nil || len(left) != 2 || !sale {
			t.Errorf("Answers() = %v, %v, want those of sale-0 and newest0-0", left, err)
		}
	})
}

// Sales and resets go on while several replicas purge, and no order is lost.
func TestPurgeSQLUnderLoad(t *testing.T) {
	onEachSQL(t, func(t *testing.T, s *store.SQL) {
		const clients, each = 4, 60
		resetSQL(t, s, 1, clients*each, 0)
		resetSQL(t, s, 2, 5, 0)
		ctx, cancel := context.WithCancel(t.Context())
		var purging, selling sync.WaitGroup
		for range 2 {
			purging.Go(func() {
				for ctx.Err() == nil { // everything is old at once
					_, err := s.Purge(ctx, time.Nanosecond)
					// SQLite's queue is not fair: a conflict is tried again
					if err != nil && !errors.Is(err, store.ErrConflict) && ctx.Err() == nil {
						t.Errorf("Purge() = %v, want nil", err)
					}
				}
			})
		}
		purging.Go(func() {
			for ctx.Err() == nil {
				if err := s.Reset(ctx, 2, 5, ledger.Rules{}); err != nil && !errors.Is(err, store.ErrConflict) && ctx.Err() == nil {
					t.Errorf("Reset() = %v, want nil", err)
				}
			}
		})
		for c := range clients {
			selling.Go(func() {
				for i := range each {
					sell := func(tx *store.Tx) error { return sellKeyed(tx, fmt.Sprintf("%d-%d", c, i), time.Now().UnixMicro()) }
					err := inTx(t, s, sell)
					for errors.Is(err, store.ErrConflict) {
						err = inTx(t, s, sell)
					}
					if err != nil {
						t.Errorf("Tx() = %v, want nil", err)
						return
					}
				}
			})
		}
		selling.Wait()
		cancel()
		purging.Wait()
		_, err := s.Purge(t.Context(), time.Nanosecond)
		testkit.Must(t, err)
		f, err := whole(t, s, 1)
		if err != nil || f.Stock != 0 || len(f.Orders) != clients*each || len(f.Keys) != 0 {
			t.Errorf("%d left, %d orders, %d keys, %v, want 0, %d and 0", f.Stock, len(f.Orders), len(f.Keys), err, clients*each)
		}
	})
}
