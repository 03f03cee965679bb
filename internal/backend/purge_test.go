package backend_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"lastitem/internal/backend"
	"lastitem/internal/store"
	"lastitem/internal/testenv"
	"lastitem/internal/testenv/wait"
)

// Two replicas purge their stores by themselves, on connections of their own, and what goes is counted once.
func TestPurges(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		server := testenv.Redis(t)
		if _, err := backend.Migrate(t.Context(), open(t, dsn)); err != nil {
			t.Fatal(err)
		}
		cfg := backend.Config{
			Redis: server.URL, SQL: dsn, Prefix: server.Prefix, Conns: 4,
			Purge: backend.Purge{Every: 20 * time.Millisecond, Keep: store.Retention{Orders: time.Hour, Keys: time.Hour}},
		}
		var sets []*backend.Set
		for range 2 {
			s, err := backend.Open(cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Errorf("Close() = %v", err)
				}
			})
			sets = append(sets, s)
		}
		s, ctx := sets[0], t.Context()
		old := store.Order{ID: "old", ProductID: 1, Quantity: 2, Mode: "m", CreatedMicros: time.Now().Add(-2 * time.Hour).UnixMicro()}
		if err := s.Redis.Reset(ctx, 1, 2, 0, func(int) []string { return nil }); err != nil {
			t.Fatal(err)
		}
		if err := s.Redis.Append(ctx, old); err != nil {
			t.Fatal(err)
		}
		if err := s.SQL.Reset(ctx, 1, 2, 0); err != nil {
			t.Fatal(err)
		}
		if err := s.SQL.Tx(ctx, store.ReadCommitted, func(tx *store.Tx) error { return tx.InsertOrder(old) }); err != nil {
			t.Fatal(err)
		}
		want := store.Purged{Orders: 1, Units: 2}
		wait.NoError(t, "both are purged", func() error {
			r, errR := s.Redis.Facts(ctx, 1, true)
			q, errQ := s.SQL.Facts(ctx, 1, true)
			if errR == nil && errQ == nil && r.Purged == want && q.Purged == want && len(r.Orders)+len(q.Orders) == 0 {
				return nil
			}
			return fmt.Errorf("Redis holds %+v, SQL %+v (%s), want %+v purged", r, q, fmt.Sprint(errors.Join(errR, errQ)), want)
		})
		if clients := s.Client.ClientList(ctx).Val(); !strings.Contains(clients, "name=lastitem-purge") {
			t.Errorf("no connection is named after the purge:\n%s", clients)
		}
	})
}
