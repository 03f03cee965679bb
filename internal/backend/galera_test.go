package backend_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"lastitem/contract/ledger"
	"lastitem/internal/backend"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// A node of Galera whose reads may be old is warned of, unless the address says that they wait. What is read for a
// judgement waits all the same.
func TestGaleraIsWarnedOf(t *testing.T) {
	testenv.Slow(t, "starts a node of Galera")
	nodes := testenv.Galera(t)
	dsn := nodes[1]
	db := open(t, dsn)
	testkit.NoError(t, "the node answers 1047 until it is ready", func() error {
		_, err := backend.Migrate(t.Context(), db)
		return err
	})
	for parameter, want := range map[string]bool{"": true, "?wsrep_sync_wait=1": false} {
		var log bytes.Buffer
		s := probing(t, backend.Config{SQL: dsn + parameter, Log: slog.New(slog.NewTextHandler(&log, nil))})
		becomes(t, s, "sql", false)
		s.StopProbes()
		if strings.Contains(log.String(), "oversells") != want {
			t.Errorf("%q: a warning: %t, want %t:\n%s", parameter, !want, want, &log)
		}
	}

	s := probing(t, backend.Config{SQL: dsn})
	becomes(t, s, "sql", false)
	s.StopProbes()
	testkit.Must(t, s.SQL.Reset(t.Context(), 1, 5, ledger.Rules{}))
	c, err := db.DB()
	testkit.Must(t, err)
	halt, err := c.Conn(t.Context())
	testkit.Must(t, err)
	_, err = halt.ExecContext(t.Context(), "FLUSH TABLES WITH READ LOCK") // the node applies nothing
	testkit.Must(t, err)
	exec(t, open(t, nodes[0]), "UPDATE product_stock SET stock = 4 WHERE id = 1")
	within, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if f, _, err := s.SQL.Snapshot(within, 1, ledger.Want{}); err == nil {
		t.Errorf("a node that lags behind by a commit says that %d are left", f.Stock)
	}
	_, err = halt.ExecContext(t.Context(), "UNLOCK TABLES")
	testkit.Must(t, errors.Join(err, halt.Close()))
	f, _, err := s.SQL.Snapshot(t.Context(), 1, ledger.Want{})
	testkit.Must(t, err)
	testkit.Is(t, f.Stock, 4, "units left")
}
