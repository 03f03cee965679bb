package backend_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"lastitem/contract/ledger"
	"lastitem/internal/backend"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// A database whose tables cannot be looked at is not one without them: a demo on it would drop them at its end.
func TestMigratedDoesNotGuess(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQL(t)
	db := migrated(t, dsn)
	if there, err := backend.Migrated(t.Context(), db); !there || err != nil {
		t.Errorf("Migrated() = %t, %v, want true, nil", there, err)
	}
	blind := open(t, testenv.MySQLUser(t, dsn, "CREATE, INSERT"))
	if there, err := backend.Migrated(t.Context(), blind); there || err == nil {
		t.Errorf("Migrated() by an account that may not read = %t, %v, want an error", there, err)
	}
	empty := open(t, testenv.SQLite(t))
	if there, err := backend.Migrated(t.Context(), empty); there || err != nil {
		t.Errorf("Migrated() of an empty file = %t, %v, want false, nil", there, err)
	}
}

// A ZooKeeper that grants no session as long as the locks trust theirs is not used, and the log says why, once.
func TestZooKeeperWithShorterSessions(t *testing.T) {
	t.Parallel()
	var log testkit.Log
	s := probing(t, backend.Config{
		ZooKeeper: testenv.ZooKeeper(t).Addr, Session: time.Hour, Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	testkit.Until(t, "the refusal is logged", func() bool { return strings.Contains(log.String(), "grants sessions of") })
	time.Sleep(2 * time.Second) // the client tries again every second
	if n := strings.Count(log.String(), "grants sessions of"); n != 1 || !strings.Contains(log.String(), "SHOP_LOCK_TTL") {
		t.Errorf("logged %d times, want once, with the setting:\n%s", n, log.String())
	}
	if err := s.Check("zookeeper"); err == nil {
		t.Error("Check = nil, want that it cannot be used")
	}
}

// A replica purges its stores by itself, on connections of their own.
func TestPurges(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		server := testenv.Redis(t)
		_, err := backend.Migrate(t.Context(), open(t, dsn))
		testkit.Must(t, err)
		s, err := backend.Open(backend.Config{
			Redis: server.URL, SQL: dsn, Prefix: server.Prefix, Conns: 4,
			Purge: backend.Purge{Every: 20 * time.Millisecond, Keep: time.Millisecond},
		})
		testkit.Must(t, err)
		t.Cleanup(func() {
			testkit.Is(t, s.Close(), nil, "Close()")
		})
		ctx := t.Context()
		answers, older := server.Prefix+"answers:{1}", server.Prefix+"answers-old:{1}"
		testkit.Must(t, s.Client.HSet(ctx, answers, "", "the run", "k", "an answer").Err())
		testkit.Must(t, s.SQL.Reset(ctx, 1, 2, ledger.Rules{}))
		if err := s.DB.WithContext(ctx).Exec(
			`INSERT INTO idempotent_log (idempotency_key, product_id, fingerprint, status, body, created_us)
			VALUES (?, 1, ?, 200, '{}', 1)`, []byte("k"), make([]byte, 32)).Error; err != nil {
			t.Fatal(err)
		}
		testkit.NoError(t, "both are purged", func() error {
			left, errR := s.Client.HKeys(ctx, answers).Result()
			old, errO := s.Client.Exists(ctx, older).Result()
			f, _, errQ := s.SQL.Snapshot(ctx, 1, ledger.Want{Keys: 1})
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
