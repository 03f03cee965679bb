package store_test

import (
	"context"
	"errors"
	"testing"

	"lastitem/internal/backend"
	"lastitem/internal/store"
	"lastitem/internal/testenv"
)

// A product whose count is gone while the rest of it is there is damaged. A reader that called it unknown would judge the other stores only.
func TestCountLost(t *testing.T) {
	t.Parallel()
	type facts func(context.Context, int64, bool) (store.Facts, error)
	type snapshot func(context.Context, int64, store.Want) (store.Facts, store.Position, error)
	check := func(t *testing.T, read facts, snap snapshot, lose func(product string) error) {
		t.Helper()
		const product = "7"
		if err := lose(product); err != nil {
			t.Fatal(err)
		}
		if read != nil {
			if _, err := read(t.Context(), 7, true); !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("Facts() of a product without its count = %v, want ErrUnavailable", err)
			}
			if _, err := read(t.Context(), 8, true); !errors.Is(err, store.ErrUnknownProduct) {
				t.Errorf("Facts() of a product that nobody made = %v, want ErrUnknownProduct", err)
			}
		}
		if _, _, err := snap(t.Context(), 7, store.Want{Orders: 10}); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("Snapshot() of a product without its count = %v, want ErrUnavailable", err)
		}
		if _, _, err := snap(t.Context(), 8, store.Want{Orders: 10}); !errors.Is(err, store.ErrUnknownProduct) {
			t.Errorf("Snapshot() of a product that nobody made = %v, want ErrUnknownProduct", err)
		}
	}
	for name, open := range map[string]func(testing.TB) *testenv.RedisServer{"redis": testenv.Redis, "miniredis": testenv.Miniredis} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			r := store.NewRedis(s.Client, s.Prefix)
			reset(t, r, 7, 5, 0)
			check(t, r.Facts, r.Snapshot, func(id string) error { return s.Client.Del(t.Context(), s.Prefix+"stock:{"+id+"}").Err() })
		})
	}
	for name, dsn := range map[string]func(testing.TB) string{"mysql": testenv.MySQL, "sqlite": testenv.SQLite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := dsn(t)
			s := openSQL(t, at)
			resetSQL(t, s, 7, 5, 0)
			o := someOrder("o1", 7)
			o.Fence = 1 // SQLite has no larger numbers than int64
			if err := inTx(t, s, func(tx *store.Tx) error { return tx.InsertOrder(o) }); err != nil {
				t.Fatal(err)
			}
			check(t, nil, s.Snapshot, func(id string) error {
				db, err := backend.OpenSQL(at, 1)
				if err != nil {
					return err
				}
				if pool, err := db.DB(); err == nil {
					defer pool.Close()
				}
				return db.Exec("DELETE FROM product_stock WHERE id = ?", id).Error
			})
		})
	}
	t.Run("etcd", func(t *testing.T) {
		t.Parallel()
		e, c, s := openEtcd(t)
		if err := e.Reset(t.Context(), 7, 5, 0); err != nil {
			t.Fatal(err)
		}
		check(t, e.Facts, e.Snapshot, func(id string) error {
			_, err := c.Delete(t.Context(), s.Prefix+"stock/"+id)
			return err
		})
	})
}
