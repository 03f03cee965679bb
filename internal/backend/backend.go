// Package backend opens, pings and closes the clients of the stores. It is the only place that dials.
//
// [Open] takes addresses and never fails because a server is down: [Set.Check] says so later, and the modes that need it
// are unavailable until it answers.
package backend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"lastitem/internal/store"
)

// Config is where the backends are. An empty address leaves that backend out.
type Config struct {
	Redis string // redis://[:password@]host:port/db, a comma-separated list for a cluster
	SQL   string // user:password@tcp(host:port)/db (MySQL), mysql://..., or sqlite:/path/to/file.db
	// Prefix begins every Redis key.
	Prefix string
	// Conns bounds the connections to each backend.
	Conns int
	Log   *slog.Logger
}

// Set is the open backends. Nil fields are not configured.
type Set struct {
	Client redis.UniversalClient
	DB     *gorm.DB
	Redis  *store.Redis
	SQL    *store.SQL

	redisHealth, sqlHealth *health
}

// Open makes the clients and starts to ping. Only an address that cannot be read is an error.
func Open(cfg Config) (*Set, error) {
	s := &Set{}
	if err := errors.Join(s.openRedis(cfg), s.openSQL(cfg)); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Set) openRedis(cfg Config) error {
	if cfg.Redis == "" {
		return nil
	}
	c, err := OpenRedis(cfg.Redis, cfg.Conns)
	if err != nil {
		return err
	}
	s.Client, s.Redis = c, store.NewRedis(c, cfg.Prefix)
	probe, err := OpenRedis(cfg.Redis, 1)
	if err != nil {
		return err
	}
	s.redisHealth = watch(func(ctx context.Context) error { return probe.Ping(ctx).Err() }, probe.Close)
	return nil
}

func (s *Set) openSQL(cfg Config) error {
	if cfg.SQL == "" {
		return nil
	}
	db, err := OpenSQL(cfg.SQL, cfg.Conns)
	if err != nil {
		return err
	}
	s.DB = db
	if s.SQL, err = store.NewSQL(db); err != nil {
		return err
	}
	probe, err := OpenSQL(cfg.SQL, 1)
	if err != nil {
		return err
	}
	s.sqlHealth = watch(func(ctx context.Context) error {
		// The tables, not just the server: before the migrations have run there is nothing to deduct from.
		return probe.WithContext(ctx).Exec("SELECT 1 FROM product_stock WHERE id = 0").Error
	}, func() error { return closeSQL(probe) })
	return nil
}

// CheckRedis and CheckSQL say why a backend cannot be used, as of the last ping, which is a second old, or three where the server
// does not answer; nil when it can. They do not wait.
func (s *Set) CheckRedis() error { return s.redisHealth.check() }

// CheckSQL is [Set.CheckRedis] for the database and its tables.
func (s *Set) CheckSQL() error { return s.sqlHealth.check() }

// Ready pings what is configured and names what does not answer.
func (s *Set) Ready() error {
	var errs []error
	if err := s.CheckRedis(); err != nil {
		errs = append(errs, fmt.Errorf("redis: %w", err))
	}
	if err := s.CheckSQL(); err != nil {
		errs = append(errs, fmt.Errorf("sql: %w", err))
	}
	return errors.Join(errs...)
}

// Close closes the clients and ends the pings.
func (s *Set) Close() error {
	var errs []error
	s.redisHealth.close()
	s.sqlHealth.close()
	if s.Client != nil {
		errs = append(errs, s.Client.Close())
	}
	if s.DB != nil {
		errs = append(errs, closeSQL(s.DB))
	}
	return errors.Join(errs...)
}

func closeSQL(db *gorm.DB) error {
	pool, err := db.DB()
	if err != nil {
		return err
	}
	return pool.Close()
}

// Pool is one connection pool as it is now.
type Pool struct {
	Name        string
	Total, Idle int
	// Waits counts the times a caller had to wait for a connection, Waited is how long in all, and Timeouts counts the waits
	// that ended without one (Redis only: for SQL the request's own context ends them).
	Waits    uint64
	Waited   time.Duration
	Timeouts uint64
}

// Pools returns the state of each pool.
func (s *Set) Pools() []Pool {
	var all []Pool
	if s.Client != nil {
		p := s.Client.PoolStats()
		all = append(all, Pool{
			Name: "redis", Total: int(p.TotalConns), Idle: int(p.IdleConns),
			Waits: uint64(p.WaitCount), Waited: time.Duration(p.WaitDurationNs), Timeouts: uint64(p.Timeouts),
		})
	}
	if s.DB != nil {
		if db, err := s.DB.DB(); err == nil {
			p := db.Stats()
			all = append(all, Pool{
				Name: "sql", Total: p.OpenConnections, Idle: p.Idle,
				Waits: uint64(max(p.WaitCount, 0)), Waited: p.WaitDuration,
			})
		}
	}
	return all
}
