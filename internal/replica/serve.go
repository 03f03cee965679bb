package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"lastitem/internal/backend"
	"lastitem/internal/lock/handoff"
	"lastitem/say/text"
)

// Run logs the settings once they are checked, and runs a replica until ctx ends. Then it drains for as long as the
// settings say, unless the process got a SIGINT, lets the requests in flight finish, and returns nil.
func Run(ctx context.Context, c Config, o Options) error {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err == nil {
		if need := 3*c.Conns + 64; uint64(files.Cur) < uint64(need) { //nolint:unconvert // Redis, SQL and clients; not everywhere the same type
			o.Log.Warn("too few file descriptors for SHOP_CONNS: raise the limit (ulimit -n) or lower SHOP_CONNS", "limit",
				files.Cur, "want", need)
		}
	}
	r, err := New(c, o)
	if err != nil {
		return err
	}
	defer r.Close()
	c.log(o)
	return r.listenAndServe(ctx, c)
}

// writeTimeout ends a request together with its connection, from the last byte of the header to the last of the answer:
// wait_ms and hold_ms may be 30 s each, an audit a minute, and setting the stock takes three times SHOP_WORK_TIMEOUT,
// or a minute. A reader that does not take its answer is cut off by the handler well before.
func (c Config) writeTimeout() time.Duration { return 3*c.WorkTimeout + 75*time.Second }

func (r *Replica) listenAndServe(ctx context.Context, c Config) error {
	interrupted := Interrupts()
	defer signal.Stop(interrupted)
	applied, err := r.migrateFirst(ctx, c.FailFast)
	if err != nil {
		return err
	}
	l, err := Listen(c.Listen)
	if err != nil {
		return text.Of("listen on %s: %w (choose another with --listen or SHOP_LISTEN)").Errorf(c.Listen, err)
	}
	r.log.Info("listening", "on", l.Addr().String())
	go r.checkEngine(ctx)
	base, cut := context.WithCancel(context.Background())
	defer cut()
	srv := &http.Server{
		BaseContext:       func(net.Listener) context.Context { return base },
		Handler:           r,
		ConnState:         l.State,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      c.writeTimeout(),
		IdleTimeout:       120 * time.Second,
		ErrorLog:          slog.NewLogLogger(r.log.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 3)
	go func() { failed <- fmt.Errorf("serve: %w", srv.Serve(Problems(l, c.Replica))) }()
	go func() {
		if err := migrateUntilDone(ctx, r.log, r.Backends, applied); err != nil {
			failed <- err
		}
	}()
	if c.FailFast {
		go func() {
			if err := r.refused(ctx); err != nil {
				failed <- err
			}
		}()
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	r.Drain()
	return Drainer{Server: srv, Listener: l, Cut: cut, Interrupted: interrupted, Log: r.log}.Drain(c.Drain)
}

// checkEngine warns of what the lock engine would miss in Redis only when a lock is waited for. A Redis that is
// away is for the health checks to report.
func (r *Replica) checkEngine(ctx context.Context) {
	if r.engine == nil {
		return
	}
	if err := r.engine.Check(ctx); errors.Is(err, handoff.ErrRefused) {
		r.log.Warn("lock engine: Redis refuses what it needs", "err", err)
	}
}

// refused waits until the replica is ready, or until a backend refuses its account, which is the error.
func (r *Replica) refused(ctx context.Context) error {
	for {
		_, err := r.Backends.Ready(r.Backends.Backends(), nil)
		if err == nil || errors.Is(err, backend.ErrRights) {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// firstMigration is how long a replica waits for its tables before it listens.
const firstMigration = 20 * time.Second

// migrateFirst brings the tables up to date before the replica listens: a balancer without health checks sends it
// requests from then on, and in a rolling deploy they would meet the tables of the version before. It returns the
// migrations that it applied. The database of another version is an error; one that is away is waited for by
// migrateUntilDone, which also says what is wrong.
func (r *Replica) migrateFirst(ctx context.Context, failFast bool) ([]int, error) {
	if r.Backends.DB == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, firstMigration)
	defer cancel()
	applied, err := backend.Migrate(ctx, r.Backends.DB)
	if !errors.Is(err, backend.ErrOtherMigrations) && (!failFast || !errors.Is(err, backend.ErrRights)) {
		err = nil
	}
	return applied, err
}

// migrateUntilDone brings the tables up to date, however long the database takes to come up; until then the replica is
// not ready. It logs the migrations that were applied: those of all its tries, after the earlier ones. The error is
// that of a database of another version.
func migrateUntilDone(ctx context.Context, log *slog.Logger, set *backend.Set, earlier []int) error {
	if set.DB == nil {
		return nil
	}
	var last string
	for {
		applied, err := backend.Migrate(ctx, set.DB)
		earlier = append(earlier, applied...)
		switch {
		case err == nil:
			log.Info("tables up to date", "applied", earlier)
			return nil
		case errors.Is(err, backend.ErrOtherMigrations):
			return err
		case errors.Is(err, backend.ErrForeignTables):
			log.Error("migrate", "err", err)
			return nil
		}
		if why := err.Error(); why != last {
			log.Warn("migrate: trying again every second", "err", err)
			last = why
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}
