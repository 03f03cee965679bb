package replica

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"lastitem/internal/backend"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// The log names the migrations that were applied before the replica listened.
func TestMigrationsAreLogged(t *testing.T) {
	t.Parallel()
	var log testkit.Log
	c := Config{Replica: "1", SQL: testenv.SQLite(t), DefaultMode: "noop", LockTTL: time.Second, Conns: 2}
	r, err := New(c, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	testkit.Must(t, err)
	t.Cleanup(r.Close)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.listenAndServe(ctx, Config{Listen: "127.0.0.1:0"}) }()
	testkit.Until(t, "the tables are up to date", func() bool {
		return strings.Contains(log.String(), "tables up to date")
	})
	if !strings.Contains(log.String(), `"tables up to date" applied="[1 2 3 4 5 6]"`) {
		t.Errorf("%s, want the numbers of the migrations", &log)
	}
	stop()
	testkit.Is(t, <-ended, nil, "listenAndServe()")
}

// A replica whose database is of another version ends, before it listens and afterwards.
func TestReplicaOfAnotherVersionEnds(t *testing.T) {
	t.Parallel()
	r := openReplica(t)
	testkit.Must(t, r.Backends.DB.Exec("UPDATE lastitem_migrations SET name = '0001_stock.sql'").Error)
	testkit.IsError(t, r.listenAndServe(t.Context(), Config{Listen: "not an address"}), backend.ErrOtherMigrations,
		"listenAndServe()")
	testkit.IsError(t, migrateUntilDone(t.Context(), r.log, r.Backends, nil), backend.ErrOtherMigrations,
		"migrateUntilDone()")
}

// With SHOP_FAIL_FAST a replica whose account is refused ends, and says where the rights are documented; otherwise it
// goes on trying.
func TestFailFast(t *testing.T) {
	t.Parallel()
	redis := miniredis.RunT(t)
	redis.RequireAuth("right")
	c := Config{Redis: "redis://:wrong@" + redis.Addr(), SQL: testenv.SQLite(t), HealthWithin: testenv.Still,
		Listen: "127.0.0.1:0"}
	for _, failFast := range []bool{true, false} {
		c.FailFast = failFast
		r := startReplica(t, c)
		ctx, end := context.WithCancel(t.Context())
		if !failFast {
			testkit.Until(t, "refused", func() bool { return errors.Is(r.Backends.Check("redis"), backend.ErrRights) })
			end()
		}
		err := r.listenAndServe(ctx, c)
		end()
		if errors.Is(err, backend.ErrRights) != failFast || !failFast && err != nil {
			t.Errorf("fail fast %t: listenAndServe() = %v", failFast, err)
		}
	}
}

// A replica that Ctrl-C ends does not drain: nobody waits for that at a terminal, and the keeper of a local stack ends
// its replicas so. It does not run beside other tests, since all replicas of the process get the signal.
func TestInterruptedReplicaDoesNotDrain(t *testing.T) {
	r := openReplica(t)
	addr := testkit.FreePort(t)
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt) // as in main
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- r.listenAndServe(ctx, Config{Listen: addr, Drain: 10 * time.Minute})
	}()
	testkit.Until(t, "an answer", func() bool {
		res, err := http.Get("http://" + addr + "/healthz")
		if err == nil {
			_ = res.Body.Close()
		}
		return err == nil
	})
	testkit.Must(t, syscall.Kill(os.Getpid(), syscall.SIGINT))
	select {
	case err := <-ended:
		testkit.Is(t, err, nil, "listenAndServe()")
	case <-time.After(testenv.Still):
		t.Error("the replica drains after Ctrl-C")
	}
}

// A draining replica accepts, answers and ends each connection, and says that it is not ready; then it refuses.
func TestDrainingReplica(t *testing.T) {
	t.Parallel()
	r := openReplica(t)
	addr := testkit.FreePort(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- r.listenAndServe(ctx, Config{Listen: addr, Drain: 5 * time.Second})
	}()
	status := func(path string) (int, bool, error) {
		res, err := http.Get("http://" + addr + path)
		if err != nil {
			return 0, false, err
		}
		defer func() { _ = res.Body.Close() }()
		_, err = io.Copy(io.Discard, res.Body)
		return res.StatusCode, res.Close, err
	}
	testkit.Until(t, "an answer", func() bool { _, _, err := status("/healthz"); return err == nil })
	if got, last, err := status("/healthz"); got != http.StatusOK || last || err != nil {
		t.Errorf("before: %d, closing %t, %v, want 200 on a connection that stays", got, last, err)
	}
	stop()
	testkit.Until(t, "503 on a connection that ends", func() bool {
		got, last, err := status("/readyz")
		if err != nil {
			t.Fatalf("GET /readyz of a draining replica: %v, want 503", err)
		}
		return last && got == http.StatusServiceUnavailable
	})
	if got, last, err := status("/healthz"); got != http.StatusOK || !last || err != nil {
		t.Errorf("while draining: %d, closing %t, %v, want 200 and Connection: close", got, last, err)
	}
	testkit.Is(t, <-ended, nil, "listenAndServe()")
	if _, _, err := status("/healthz"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after: %v, want a refused connection", err)
	}
}
