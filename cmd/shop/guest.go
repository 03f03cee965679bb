package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"lastitem/internal/backend"
)

// guest is a demo on servers that are the user's own: it touches its own keys and tables there, and takes away what it
// brought. Its keys have a prefix of their own; its tables are dropped unless they were there before.
type guest struct {
	prefix string
	redis  redis.UniversalClient // nil: not the user's
	sql    *gorm.DB              // nil: not the user's, or the tables were there before
	file   string                // SQLite file that was not there before
}

// newGuest looks at the user's servers before anything is started on them.
func newGuest(ctx context.Context, redisURL, dsn string) (*guest, error) {
	g := &guest{prefix: "lastitem:demo:" + strings.ToLower(rand.Text()[:10]) + ":"}
	if redisURL != "" {
		c, err := backend.OpenRedis(redisURL, 2)
		if err != nil {
			return nil, usage("--redis: %v", err)
		}
		g.redis = c
		if err := c.Ping(ctx).Err(); err != nil {
			return nil, errors.Join(fmt.Errorf("--redis %s: %w", backend.Redact(redisURL), err), c.Close())
		}
	}
	if dsn == "" {
		return g, nil
	}
	if file, ok := strings.CutPrefix(dsn, "sqlite:"); ok {
		if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
			g.file = file
			return g, nil
		}
	}
	db, err := backend.OpenSQL(dsn, 2)
	if err != nil {
		return nil, usage("--sql: %v", err)
	}
	ours, err := backend.Migrated(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("--sql %s: %w", backend.Redact(dsn), err)
	}
	if !ours {
		g.sql = db
	}
	return g, nil
}

// env is what the replicas must be told.
func (g *guest) env() []string { return []string{"SHOP_REDIS_PREFIX=" + g.prefix} }

// leave removes what the demo brought; the replicas have ended.
func (g *guest) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	var errs []error
	if g.redis != nil {
		errs = append(errs, g.dropKeys(ctx), g.redis.Close())
	}
	if g.sql != nil {
		errs = append(errs, backend.DropTables(ctx, g.sql))
	}
	if g.file != "" {
		for _, suffix := range []string{"", "-wal", "-shm"} {
			if err := os.Remove(g.file + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("clean up: %w (keys begin with %s)", err, g.prefix)
	}
	return nil
}

// dropKeys deletes every key under the prefix, on each master of a cluster.
func (g *guest) dropKeys(ctx context.Context) error {
	drop := func(ctx context.Context, c redis.UniversalClient) error {
		keys := c.Scan(ctx, 0, g.prefix+"*", 1000).Iterator()
		for keys.Next(ctx) {
			if err := c.Unlink(ctx, keys.Val()).Err(); err != nil {
				return err
			}
		}
		return keys.Err()
	}
	if cluster, ok := g.redis.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error { return drop(ctx, c) })
	}
	return drop(ctx, g.redis)
}
