package sqldb_test

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
	"lastitem/internal/store/sqldb"
	"lastitem/testkit"
	"lastitem/testkit/storetest"
)

// sellKeyed sells one unit of product 1 under a key that was created at micros.
func sellKeyed(tx *sqldb.Tx, key string, micros int64) error {
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
	onEachSQL(t, func(t *testing.T, s *sqldb.Store) {
		const old, young = 450, 5 // three batches
		resetSQL(t, s, 1, 1000, 0)
		do(t, s, func(tx *sqldb.Tx) (err error) {
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
		f, err := storetest.Whole(t, s, 1)
		if err != nil || len(f.Orders) != old+young || len(f.Keys) != young {
			t.Errorf("%d orders and %d keys, %v, want %d and %d", len(f.Orders), len(f.Keys), err, old+young, young)
		}
		do(t, s, func(tx *sqldb.Tx) error { // after its retention a key is new
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
	onEachSQL(t, func(t *testing.T, s *sqldb.Store) {
		const most, surplus, step = 50_000, 450, 1000
		now := time.Now()
		keep := func(head string, count, status int, age time.Duration) {
			t.Helper()
			var answers []sqldb.KeyedAnswer
			for i := range count {
				answers = append(answers, sqldb.KeyedAnswer{
					Key: fmt.Appendf(nil, "%s-%d", head, i), Answer: idempotency.Record{Fingerprint: make([]byte, 32), Status: status,
						Body: []byte("{}")},
				})
			}
			do(t, s, func(tx *sqldb.Tx) error {
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
	onEachSQL(t, func(t *testing.T, s *sqldb.Store) {
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
					sell := func(tx *sqldb.Tx) error { return sellKeyed(tx, fmt.Sprintf("%d-%d", c, i), time.Now().UnixMicro()) }
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
		f, err := storetest.Whole(t, s, 1)
		if err != nil || f.Stock != 0 || len(f.Orders) != clients*each || len(f.Keys) != 0 {
			t.Errorf("%d left, %d orders, %d keys, %v, want 0, %d and 0", f.Stock, len(f.Orders), len(f.Keys), err, clients*each)
		}
	})
}
