package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"lastitem/internal/backend"
	"lastitem/internal/localstack"
)

// guest is a demo on servers that are the user's own: it touches its own keys and tables there, and takes away what it
// brought. Its keys have a prefix of their own; its tables are dropped unless they were there before. The keeper does that
// too, in case the demo does not live to.
type guest struct {
	Prefix string
	Own    ownServers // SQL is "" too where the tables were there before
	File   string     // SQLite file that was not there before
	Root   bool       // ZooKeeper's zooKeeperRoot was not there before
}

// newGuest looks at the user's servers before anything is started on them.
func newGuest(ctx context.Context, own ownServers) (*guest, error) {
	g := &guest{Prefix: "lastitem:demo:" + strings.ToLower(rand.Text()[:10]) + ":", Own: own}
	g.Own.SQL = ""
	if own.Redis != "" {
		c, err := backend.OpenRedis(own.Redis, 2)
		if err != nil {
			return nil, usage("--redis: %v", err)
		}
		defer func() { _ = c.Close() }()
		if err := c.Ping(ctx).Err(); err != nil {
			return nil, fmt.Errorf("--redis %s: %w", backend.Redact(own.Redis), err)
		}
	}
	if err := errors.Join(g.lookAtExtras(ctx), g.lookAtKafka(ctx)); err != nil || own.SQL == "" {
		return g, err
	}
	file, err := backend.SQLiteFile(own.SQL)
	if err != nil {
		return nil, usage("--sql: %v", err)
	}
	if _, err := os.Stat(file); file != "" && errors.Is(err, os.ErrNotExist) {
		g.File = file
		return g, nil
	}
	db, err := backend.OpenSQL(own.SQL, 2)
	if err != nil {
		return nil, usage("--sql: %v", err)
	}
	if pool, err := db.DB(); err == nil {
		defer func() { _ = pool.Close() }()
	}
	ours, err := backend.Migrated(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("--sql %s: %w", backend.Redact(own.SQL), err)
	}
	if !ours {
		g.Own.SQL = own.SQL
	}
	return g, nil
}

// envGuest carries a guest to the keeper's farewell; not by argument, since addresses hold passwords.
const envGuest = "SHOP_GUEST"

// options adds what a stack must know to be a guest.
func (g *guest) options(o localstack.Options) (localstack.Options, error) {
	text, err := json.Marshal(g)
	if err != nil {
		return o, err
	}
	o.Env = append(o.Env, "SHOP_REDIS_PREFIX="+g.Prefix)
	o.Farewell, o.FarewellEnv = []string{"guest-leave"}, []string{envGuest + "=" + string(text)}
	return o, nil
}

// newGuestLeave is the keeper's farewell.
func newGuestLeave() *cobra.Command {
	return &cobra.Command{
		Use: "guest-leave", Hidden: true, Args: arguments(0, 0),
		Short: "Remove what a demo left on the user's servers",
		RunE: run(func(cmd *cobra.Command, _ []string) error {
			var g guest
			if err := json.Unmarshal([]byte(os.Getenv(envGuest)), &g); err != nil || g.Prefix == "" {
				return usage("%s: not a guest: %v", envGuest, err)
			}
			return g.leave(cmd.Context())
		}),
	}
}

// leave removes what the demo brought; the replicas have ended.
func (g *guest) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	var errs []error
	if g.Own.Redis != "" {
		c, err := backend.OpenRedis(g.Own.Redis, 2)
		if err == nil {
			err = errors.Join(g.dropKeys(ctx, c), c.Close())
		}
		errs = append(errs, err)
	}
	errs = append(errs, g.leaveExtras(ctx), g.leaveKafka(ctx))
	if g.Own.SQL != "" {
		db, err := backend.OpenSQL(g.Own.SQL, 2)
		if err == nil {
			err = backend.DropTables(ctx, db)
		}
		errs = append(errs, err)
	}
	if g.File != "" {
		for _, suffix := range []string{"", "-wal", "-shm"} {
			if err := os.Remove(g.File + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("clean up: %w (keys begin with %s)", err, g.Prefix)
	}
	return nil
}

// dropKeys deletes every key under the prefix, on each master of a cluster.
func (g *guest) dropKeys(ctx context.Context, c redis.UniversalClient) error {
	drop := func(ctx context.Context, c redis.UniversalClient) error {
		keys := c.Scan(ctx, 0, g.Prefix+"*", 1000).Iterator()
		for keys.Next(ctx) {
			if err := c.Unlink(ctx, keys.Val()).Err(); err != nil {
				return err
			}
		}
		return keys.Err()
	}
	if cluster, ok := c.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error { return drop(ctx, c) })
	}
	return drop(ctx, c)
}
