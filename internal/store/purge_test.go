package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"lastitem/internal/api"
	"lastitem/internal/audit"
	"lastitem/internal/idempotency"
	"lastitem/internal/store"
	"lastitem/internal/testenv"
	"lastitem/internal/testenv/wait"
)

const ago = 48 * time.Hour

var keepADay = store.Retention{Orders: 24 * time.Hour, Keys: 24 * time.Hour}

// aged returns an order of the given age.
func aged(id string, product, quantity int64, age time.Duration) store.Order {
	return store.Order{ID: id, ProductID: product, Quantity: quantity, Mode: "m", Replica: "r", CreatedMicros: time.Now().Add(-age).UnixMicro()}
}

// judged audits a store by its facts alone.
func judged(t *testing.T, in api.Store, product int64, f store.Facts) audit.Report {
	t.Helper()
	l := &api.Ledger{
		ProductID: product, Initial: map[api.Store]int64{in: f.Initial}, Stock: map[api.Store]int64{in: f.Stock},
		Purged: map[api.Store]api.Purged{in: api.Purged(f.Purged)},
	}
	for _, o := range f.Orders {
		l.Orders = append(l.Orders, api.Order{
			OrderID: o.ID, ProductID: o.ProductID, Quantity: o.Quantity, Remaining: o.Remaining, Mode: o.Mode, Store: in,
			Replica: o.Replica, Key: api.KeyText(o.Key), CreatedAt: o.CreatedAt(),
		})
	}
	for _, k := range f.Keys {
		l.Keys = append(l.Keys, api.KeyRow{Key: api.KeyText(k.Key), Status: k.Status})
	}
	return audit.Judge(audit.Input{Store: in, Ledger: l})
}

// books is a store that can be purged.
type books interface {
	Facts(ctx context.Context, product int64, orders bool) (store.Facts, error)
	Purge(ctx context.Context, keep store.Retention) (store.Purged, error)
}

// purgedTo purges as several replicas at once, and wants the given number of rows left and an exact audit.
func purgedTo(t *testing.T, b books, in api.Store, product int64, orders int, want store.Purged) store.Facts {
	t.Helper()
	var replicas sync.WaitGroup
	for range 3 {
		replicas.Go(func() {
			if _, err := b.Purge(t.Context(), keepADay); err != nil {
				t.Errorf("Purge() = %v, want nil", err)
			}
		})
	}
	replicas.Wait()
	f, err := b.Facts(t.Context(), product, true)
	if err != nil {
		t.Fatalf("Facts(%d): %v", product, err)
	}
	if len(f.Orders) != orders || f.Purged != want {
		t.Errorf("product %d: %d orders and %+v purged, want %d and %+v", product, len(f.Orders), f.Purged, orders, want)
	}
	if r := judged(t, in, product, f); r.Verdict != audit.Exact || len(r.Unchecked) < 2 {
		t.Errorf("audit across the purge:\n%s", r.Text("en"))
	}
	return f
}

// A mutant: the audit notices a purge that does not count the rows it removes.
func forgotten(t *testing.T, in api.Store, product int64, f store.Facts) {
	t.Helper()
	f.Purged = store.Purged{}
	if r := judged(t, in, product, f); r.Verdict != audit.Broken || r.Found != "L" {
		t.Errorf("audit of a purge that forgot to add:\n%s", r.Text("en"))
	}
}

func TestPurgeRedis(t *testing.T) {
	onEachRedis(t, func(t *testing.T, r *store.Redis, s *testenv.RedisServer) {
		reset(t, r, 1, 1000, 0)
		reset(t, r, 2, 1000, 4) // segmented
		for product := int64(1); product <= 2; product++ {
			for i := range 450 { // three batches
				if err := r.Append(t.Context(), aged(fmt.Sprint(product, "old", i), product, 2, ago)); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.Append(t.Context(), aged(fmt.Sprint(product, "new"), product, 7, 0)); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Set(t.Context(), 1, 93); err != nil {
			t.Fatal(err)
		}
		if err := r.SetSegments(t.Context(), 2, map[int]int64{0: 93, 1: 0, 2: 0, 3: 0}, true); err != nil {
			t.Fatal(err)
		}
		f := purgedTo(t, r, api.Redis, 1, 1, store.Purged{Orders: 450, Units: 900})
		purgedTo(t, r, api.Redis, 2, 1, store.Purged{Orders: 450, Units: 900})
		forgotten(t, api.Redis, 1, f)

		// A replica of a version without purges sets the stock: it deletes only these keys.
		ctx, p := t.Context(), s.Prefix
		s.Client.Del(ctx, p+"orders:{1}", p+"answers:{1}")
		s.Client.Set(ctx, p+"stock:{1}", 9, 0)
		s.Client.Set(ctx, p+"initial:{1}", 9, 0)
		if f, err := r.Facts(ctx, 1, true); err != nil || f.Purged != (store.Purged{}) {
			t.Errorf("Facts() after a reset by the previous version = %+v, %v, want nothing purged", f, err)
		}
		if err := r.Append(ctx, aged("again", 1, 3, ago)); err != nil {
			t.Fatal(err)
		}
		if err := r.Set(ctx, 1, 6); err != nil {
			t.Fatal(err)
		}
		purgedTo(t, r, api.Redis, 1, 0, store.Purged{Orders: 1, Units: 3})
		reset(t, r, 1, 5, 0)
		if f, err := r.Facts(ctx, 1, true); err != nil || f.Purged != (store.Purged{}) {
			t.Errorf("Facts() after a reset = %+v, %v, want nothing purged", f, err)
		}
	})
}

// The answer to a sale is replayed for as long as it is kept, and then the key sells again.
func TestPurgeRedisAnswers(t *testing.T) {
	onEachRedis(t, func(t *testing.T, r *store.Redis, s *testenv.RedisServer) {
		reset(t, r, 1, 5, 0)
		r.KeepAnswers(time.Hour)
		keep := store.Retention{Keys: 24 * time.Hour}
		sell := func() store.Sold {
			got, err := r.Sell(t.Context(), sale("a", "k", 1))
			if err != nil {
				t.Fatalf("Sell() = %v", err)
			}
			return got
		}
		purge := func() {
			if _, err := r.Purge(t.Context(), keep); err != nil {
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
		keep.Keys = time.Millisecond
		s.Client.Del(t.Context(), claim) // as if it had expired
		wait.Until(t, "sale under a key after its retention", func() bool { purge(); return !sell().Earlier })
		wait.Until(t, "purged answer", func() bool {
			purge()
			f, err := r.Facts(t.Context(), 1, true)
			return err != nil || f.Purged.Keys > 0
		})
		f, err := r.Facts(t.Context(), 1, true)
		if err != nil || f.Stock != 3 || len(f.Orders) != 2 || f.Purged.Keys == 0 {
			t.Errorf("Facts() = %+v, %v, want two sales, and a purged answer", f, err)
		}
	})
}

// A purge moves young answers to answers-old: a key whose claim exists is replayed from there.
func TestPurgeRedisYoungAnswers(t *testing.T) {
	onEachRedis(t, func(t *testing.T, r *store.Redis, s *testenv.RedisServer) {
		reset(t, r, 1, 5, 0)
		if _, err := r.Sell(t.Context(), sale("a", "k", 1)); err != nil {
			t.Fatalf("Sell() = %v", err)
		}
		wait.Until(t, "older part of the answers", func() bool {
			if _, err := r.Purge(t.Context(), store.Retention{Keys: time.Millisecond}); err != nil {
				t.Fatalf("Purge() = %v", err)
			}
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

func TestPurgeSQL(t *testing.T) {
	onEachSQL(t, func(t *testing.T, s *store.SQL) {
		for product := int64(1); product <= 3; product++ {
			resetSQL(t, s, product, 1000, 0)
		}
		const one, cart, recent = 450, 10, 5
		answered := func(tx *store.Tx, key string, body string, micros int64, orders ...store.Order) error {
			if _, _, err := tx.ClaimKey([]byte(key), orders[0].ProductID, []byte(strings.Repeat("f", 32)), micros); err != nil {
				return err
			}
			for _, o := range orders {
				o.Key, o.CreatedMicros = []byte(key), micros
				if _, _, err := tx.Take(o.ProductID, o.Quantity); err != nil {
					return err
				}
				if err := tx.InsertOrder(o); err != nil {
					return err
				}
			}
			return tx.KeepAnswer([]byte(key), idempotency.Record{Status: 200, Body: []byte(body)})
		}
		do(t, s, func(tx *store.Tx) error {
			for i := range one + cart + recent {
				age := ago
				if i >= one+cart {
					age = 0
				}
				id := fmt.Sprintf("%04d", i)
				orders := []store.Order{aged(id, 1, 1, age)}
				body := "not JSON"
				if i >= one && i < one+cart {
					orders = append(orders, aged(id, 2, 3, age))
					body = `{"items":[{"product_id":1,"quantity":1},{"product_id":2,"quantity":3}],"order_id":"x"}`
				}
				if err := answered(tx, "k\xff"+id, body, orders[0].CreatedMicros, orders...); err != nil {
					return err
				}
			}
			return nil
		})
		f := purgedTo(t, s, api.SQL, 1, recent, store.Purged{Orders: one + cart, Units: one + cart, Keys: one + cart})
		if len(f.Keys) != recent {
			t.Errorf("%d keys, want %d", len(f.Keys), recent)
		}
		forgotten(t, api.SQL, 1, f)
		purgedTo(t, s, api.SQL, 2, 0, store.Purged{Orders: cart, Units: 3 * cart, Keys: cart})
		do(t, s, func(tx *store.Tx) error { // after its retention a key is new
			first, _, err := tx.ClaimKey([]byte("k\xff0000"), 1, []byte(strings.Repeat("g", 32)), time.Now().UnixMicro())
			if err == nil && !first {
				t.Error("ClaimKey() of a purged key says that it was there")
			}
			return err
		})
		resetSQL(t, s, 1, 9, 0)
		if f, err := s.Facts(t.Context(), 1, true); err != nil || f.Purged != (store.Purged{}) {
			t.Errorf("Facts() after a reset = %+v, %v, want nothing purged", f, err)
		}
	})
}

// Keys may be purged before their orders: then the orders have no stored answer, and the audit does not object, not even for carts.
func TestPurgeSQLKeysOnly(t *testing.T) {
	onEachSQL(t, func(t *testing.T, s *store.SQL) {
		resetSQL(t, s, 1, 9, 0)
		resetSQL(t, s, 2, 9, 0)
		old, now := time.Now().Add(-ago).UnixMicro(), time.Now().UnixMicro()
		for key, micros := range map[string]int64{"old": old, "new": now} {
			do(t, s, func(tx *store.Tx) error {
				if _, _, err := tx.ClaimKey([]byte(key), 1, []byte(strings.Repeat("f", 32)), micros); err != nil {
					return err
				}
				for product := int64(1); product <= 2; product++ {
					o := aged(key, product, 1, 0)
					o.Key = []byte(key)
					if _, _, err := tx.Take(product, 1); err != nil {
						return err
					}
					if err := tx.InsertOrder(o); err != nil {
						return err
					}
				}
				return tx.KeepAnswer([]byte(key), idempotency.Record{Status: 200, Body: []byte(`{"items":[{"product_id":1},{"product_id":2}],"order_id":"` + key + `"}`)})
			})
		}
		purgedTo(t, s, api.SQL, 1, 2, store.Purged{Keys: 1})
		purgedTo(t, s, api.SQL, 2, 2, store.Purged{Keys: 1})
	})
}

// Sales, repetitions and resets go on while several replicas purge, and the books still balance.
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
					_, err := s.Purge(ctx, store.Retention{Orders: time.Nanosecond, Keys: time.Nanosecond})
					if err != nil && !errors.Is(err, store.ErrConflict) && ctx.Err() == nil { // SQLite's queue is not fair: a conflict is tried again
						t.Errorf("Purge() = %v, want nil", err)
					}
				}
			})
		}
		purging.Go(func() {
			for ctx.Err() == nil {
				if err := s.Reset(ctx, 2, 5, 0); err != nil && !errors.Is(err, store.ErrConflict) && ctx.Err() == nil {
					t.Errorf("Reset() = %v, want nil", err)
				}
			}
		})
		for c := range clients {
			selling.Go(func() {
				for i := range each {
					id := fmt.Sprintf("%d-%d", c, i)
					sell := func(tx *store.Tx) error {
						o := aged(id, 1, 1, 0)
						if _, _, err := tx.ClaimKey([]byte(id), 1, []byte(strings.Repeat("f", 32)), o.CreatedMicros); err != nil {
							return err
						}
						if _, ok, err := tx.Take(1, 1); err != nil || !ok {
							return fmt.Errorf("Take() = %v, %w", ok, err)
						}
						if err := tx.InsertOrder(o); err != nil {
							return err
						}
						return tx.KeepAnswer([]byte(id), idempotency.Record{Status: 200, Body: []byte("{}")})
					}
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
		if _, err := s.Purge(t.Context(), store.Retention{Orders: time.Nanosecond, Keys: time.Nanosecond}); err != nil {
			t.Fatal(err)
		}
		f, err := s.Facts(t.Context(), 1, true)
		want := store.Purged{Orders: clients * each, Units: clients * each, Keys: clients * each}
		if err != nil || f.Stock != 0 || len(f.Orders) != 0 || f.Purged != want {
			t.Errorf("Facts() = %+v, %v, want all sold, and %+v purged", f, err, want)
		}
		if r := judged(t, api.SQL, 1, f); r.Verdict != audit.Exact {
			t.Errorf("audit across the purges:\n%s", r.Text("en"))
		}
	})
}

func TestPurgeEtcd(t *testing.T) {
	t.Parallel()
	e, _, _ := openEtcd(t)
	ctx := t.Context()
	if err := e.Reset(ctx, 1, 1000, 0); err != nil {
		t.Fatal(err)
	}
	left := int64(1000)
	write := func(o store.Order) {
		left -= o.Quantity
		if ok, err := e.Write(ctx, always, left, o); !ok || err != nil {
			t.Fatalf("Write() = %t, %v", ok, err)
		}
	}
	for i := range 250 { // three batches
		write(aged(fmt.Sprintf("0%03d", i), 1, 2, ago))
	}
	write(aged("1000", 1, 7, 0))
	f := purgedTo(t, e, api.Etcd, 1, 1, store.Purged{Orders: 250, Units: 500})
	forgotten(t, api.Etcd, 1, f)
	if err := e.Reset(ctx, 1, 9, 0); err != nil {
		t.Fatal(err)
	}
	if f, err := e.Facts(ctx, 1, true); err != nil || f.Purged != (store.Purged{}) {
		t.Errorf("Facts() after a reset = %+v, %v, want nothing purged", f, err)
	}
}

// A product with many orders is trimmed before it is reset: carts with other products stay, small products are left alone, and an audit adds
// up at any time. The run goes on if no reset follows, so what protects it from selling twice stays too: all keys, and the young orders of a log's
// requests without a key.
func TestTrimSQL(t *testing.T) {
	onEachSQL(t, func(t *testing.T, s *store.SQL) {
		for product := range int64(3) {
			if err := s.Reset(t.Context(), product+1, 100, 0); err != nil {
				t.Fatal(err)
			}
		}
		sell := func(key string, rows ...store.Order) {
			t.Helper()
			if err := s.Tx(t.Context(), store.ReadCommitted, func(tx *store.Tx) error {
				body := `{"order_id":"` + rows[0].ID + `"}`
				if len(rows) > 1 {
					body = fmt.Sprintf(`{"order_id":%q,"items":[{"product_id":%d},{"product_id":%d}]}`, rows[0].ID, rows[0].ProductID, rows[1].ProductID)
				}
				if key != "" {
					claim := idempotency.Claim{Key: []byte(key), Product: rows[0].ProductID, Fingerprint: make([]byte, 32), Mode: "m"}
					if _, _, err := claim.Once(tx, func() (idempotency.Answer, error) {
						return idempotency.Answer{Status: 200, Body: []byte(body)}, nil
					}); err != nil {
						return err
					}
				}
				for _, o := range rows {
					o.Key = []byte(key)
					if _, _, err := tx.Take(o.ProductID, o.Quantity); err != nil {
						return err
					}
					if err := tx.InsertOrder(o); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 40 {
			id := fmt.Sprint("order-", i)
			sell(fmt.Sprint("key-", i), aged(id, 1, 1, 0))
		}
		sell("cart", aged("cart", 1, 1, 0), aged("cart", 2, 1, 0))
		sell("", aged("small", 3, 1, 0))
		for id, c := range map[string]struct {
			key string
			age time.Duration
		}{"young": {"", 0}, "young-keyed": {"log", 0}, "old": {"", 2 * time.Hour}} {
			o := aged(id, 1, 1, c.age)
			o.Mode = "log"
			sell(c.key, o)
		}
		progress := 0
		how := store.Trimming{Batch: 1, Log: "log", Since: time.Now().Add(-time.Hour).UnixMicro(), Progress: func() { progress++ }}
		for product := range int64(3) {
			if err := s.Trim(t.Context(), product+1, how); err != nil {
				t.Fatal(err)
			}
		}
		if progress < 42 {
			t.Errorf("%d batches, want 42 and more", progress)
		}
		for product, want := range []struct {
			orders, keys int
			purged       store.Purged
		}{{2, 42, store.Purged{Orders: 42, Units: 42}}, {1, 1, store.Purged{}}, {1, 0, store.Purged{}}} {
			f, err := s.Facts(t.Context(), int64(product+1), true)
			if err != nil || len(f.Orders) != want.orders || len(f.Keys) != want.keys || f.Purged != want.purged {
				t.Errorf("product %d: %d orders, %d keys and %+v purged, %v, want %+v", product+1, len(f.Orders), len(f.Keys), f.Purged, err, want)
			}
			if r := judged(t, api.SQL, int64(product+1), f); r.Verdict != audit.Exact {
				t.Errorf("product %d: %s", product+1, r.Text("en"))
			}
		}
		if err := s.Reset(t.Context(), 1, 7, 0); err != nil {
			t.Fatal(err)
		}
		f, err := s.Facts(t.Context(), 1, true)
		if err != nil || f.Stock != 7 || len(f.Orders)+len(f.Keys) != 0 || f.Purged != (store.Purged{}) {
			t.Errorf("after a reset: %+v, %v, want 7 units and nothing else", f, err)
		}
	})
}

// The orders of etcd are trimmed as those of SQL are.
func TestTrimEtcd(t *testing.T) {
	t.Parallel()
	e, _, _ := openEtcd(t)
	if err := e.Reset(t.Context(), 1, 150, 0); err != nil {
		t.Fatal(err)
	}
	for i := range 150 {
		if _, err := e.Write(t.Context(), always, int64(149-i), aged(fmt.Sprintf("%03d", i), 1, 1, 0)); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Trim(t.Context(), 1, store.Trimming{Batch: 4, Progress: func() {}}); err != nil {
		t.Fatal(err)
	}
	if f, err := e.Facts(t.Context(), 1, true); err != nil || len(f.Orders) != 150 {
		t.Errorf("%d orders, %v, want all 150: they are fewer than fifty batches", len(f.Orders), err)
	}
	if err := e.Trim(t.Context(), 1, store.Trimming{Batch: 3, Progress: func() {}}); err != nil {
		t.Fatal(err)
	}
	f, err := e.Facts(t.Context(), 1, true)
	if err != nil || len(f.Orders) != 0 || f.Purged != (store.Purged{Orders: 150, Units: 150}) {
		t.Errorf("%d orders and %+v purged, %v, want all 150 purged", len(f.Orders), f.Purged, err)
	}
	if r := judged(t, api.Etcd, 1, f); r.Verdict != audit.Exact {
		t.Error(r.Text("en"))
	}
}
