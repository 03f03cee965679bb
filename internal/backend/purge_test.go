package backend_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lastitem/internal/backend"
	"lastitem/internal/idempotency"
	"lastitem/internal/store"
	"lastitem/internal/testenv"
	"lastitem/internal/testenv/wait"
)

// A replica purges its stores by itself, on connections of their own.
func TestPurges(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		server := testenv.Redis(t)
		if _, err := backend.Migrate(t.Context(), open(t, dsn)); err != nil {
			t.Fatal(err)
		}
		s, err := backend.Open(backend.Config{
			Redis: server.URL, SQL: dsn, Prefix: server.Prefix, Conns: 4,
			Purge: backend.Purge{Every: 20 * time.Millisecond, Keep: time.Millisecond},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Errorf("Close() = %v", err)
			}
		})
		ctx := t.Context()
		if err := s.Redis.Reset(ctx, 1, 2, 0, func(int) []string { return nil }); err != nil {
			t.Fatal(err)
		}
		if err := s.SQL.Reset(ctx, 1, 2, 0); err != nil {
			t.Fatal(err)
		}
		answer := idempotency.Template{Status: 200, Pieces: []string{"", ""}}
		if _, err := s.Redis.Sell(ctx, store.Sale{
			Orders: []store.Order{{ID: "o", ProductID: 1, Quantity: 1}}, Key: []byte("k"), Fingerprint: make([]byte, 32),
			Sold: func() idempotency.Template { return answer }, Refused: func(int) idempotency.Template { return answer },
		}); err != nil {
			t.Fatal(err)
		}
		if err := s.SQL.Tx(ctx, store.ReadCommitted, func(tx *store.Tx) error {
			if _, _, err := tx.ClaimKey([]byte("k"), 1, make([]byte, 32), time.Now().UnixMicro()); err != nil {
				return err
			}
			return tx.KeepAnswer([]byte("k"), idempotency.Record{Status: 200, Body: []byte("{}")})
		}); err != nil {
			t.Fatal(err)
		}
		wait.NoError(t, "both are purged", func() error {
			n, err := s.Client.Exists(ctx, server.Prefix+"answers-old:{1}").Result()
			if err != nil {
				return err
			}
			answers, err := s.Client.HLen(ctx, server.Prefix+"answers:{1}").Result()
			if err != nil {
				return err
			}
			f, err := s.SQL.Facts(ctx, 1, true)
			if err == nil && n == 0 && answers == 1 && len(f.Keys) == 0 { // the name of the run stays
				return nil
			}
			return fmt.Errorf("Redis holds %d fields, older ones %d, SQL %d keys, %v", answers, n, len(f.Keys), err)
		})
		if clients := s.Client.ClientList(ctx).Val(); !strings.Contains(clients, "name=lastitem-purge") {
			t.Errorf("no connection is named after the purge:\n%s", clients)
		}
	})
}
