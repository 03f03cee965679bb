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

// Open makes the clients. Only an address that cannot be read is an error.
func Open(cfg Config) (*Set, error) {
	s := &Set{}
	if cfg.Redis != "" {
		c, err := OpenRedis(cfg.Redis, cfg.Conns)
		if err != nil {
			return nil, err
		}
		s.Client, s.Redis = c, store.NewRedis(c, cfg.Prefix)
		s.redisHealth = watch(func(ctx context.Context) error { return c.Ping(ctx).Err() })
	}
	if cfg.SQL != "" {
		db, err := OpenSQL(cfg.SQL, cfg.Conns)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.DB = db
		if s.SQL, err = store.NewSQL(db); err != nil {
			return nil, errors.Join(err, s.Close())
		}
		// The tables, not just the server: before the migrations have run there is nothing to deduct from.
		s.sqlHealth = watch(func(ctx context.Context) error {
			return db.WithContext(ctx).Exec("SELECT 1 FROM product_stock WHERE id = 0").Error
		})
	}
	return s, nil
}

// CheckRedis and CheckSQL say why a backend cannot be used, as of a ping at most a second ago; nil when it can.
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
		db, err := s.DB.DB()
		if err == nil {
			err = db.Close()
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
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
