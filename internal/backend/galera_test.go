package backend_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"lastitem/internal/backend"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// A node of Galera whose reads may be old is warned of, unless the address says that they wait.
func TestGaleraIsWarnedOf(t *testing.T) {
	testenv.Slow(t, "starts a node of Galera")
	dsn := testenv.Galera(t)[1]
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
}
