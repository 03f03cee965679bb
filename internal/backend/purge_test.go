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
		answers, older := server.Prefix+"answers:{1}", server.Prefix+"answers-old:{1}"
		if err := s.Client.HSet(ctx, answers, "", "the run", "k", "an answer").Err(); err != nil {
			t.Fatal(err)
		}
		if err := s.SQL.Reset(ctx, 1, 2, 0); err != nil {
			t.Fatal(err)
		}
		if err := s.SQL.Tx(ctx, store.ReadCommitted, func(tx *store.Tx) error {
			_, _, err := tx.ClaimKey([]byte("k"), 1, make([]byte, 32), time.Now().UnixMicro())
			return err
		}); err != nil {
			t.Fatal(err)
		}
		wait.NoError(t, "both are purged", func() error {
			left, errR := s.Client.HKeys(ctx, answers).Result()
			old, errO := s.Client.Exists(ctx, older).Result()
			f, errQ := s.SQL.Facts(ctx, 1, true)
			err := errors.Join(errR, errO, errQ)
			if err == nil && len(left) == 1 && old+int64(len(f.Keys)) == 0 { // the name of the run stays
				return nil
			}
			return fmt.Errorf("Redis holds %q, and older answers: %d; SQL %d keys; %w", left, old, len(f.Keys), err)
		})
		if clients := s.Client.ClientList(ctx).Val(); !strings.Contains(clients, "name=lastitem-purge") {
			t.Errorf("no connection is named after the purge:\n%s", clients)
		}
	})
}
