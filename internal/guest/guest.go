// Package guest lets a stack run on servers that are the user's own. Start with [New]: it looks at the servers before
// anything is started on them, and [Guest.Leave] takes away what the stack brought.
package guest

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

	"lastitem/internal/backend"
	"lastitem/say/redact"
	"lastitem/say/text"
	"lastitem/stack"
)

// OwnServers are the servers that the user gives to a stack instead of having it start some, as addresses; "" = start
// one.
type OwnServers struct {
	Redis, SQL                              string
	Redlock, Etcd, ZooKeeper, Consul, Kafka string
}

// AddTo adds the servers to the parts of a stack.
func (s OwnServers) AddTo(o stack.Options) stack.Options {
	o.Redis, o.SQL = s.Redis, s.SQL
	o.Redlock, o.Etcd, o.ZooKeeper, o.Consul, o.Kafka = s.Redlock, s.Etcd, s.ZooKeeper, s.Consul, s.Kafka
	return o
}

// AddressError is the error of an address that cannot be one, as a flag gave it; an error of a server that does not
// answer is none.
type AddressError struct{ err error }

// Error implements error.
func (e *AddressError) Error() string { return e.err.Error() }

// Unwrap returns the error of the parser.
func (e *AddressError) Unwrap() error { return e.err }

func badAddress(format string, args ...any) error { return &AddressError{fmt.Errorf(format, args...)} }

// Guest is a stack on servers that are the user's own: it touches its own keys and tables there, and takes away what it
// brought. Its keys have a prefix of their own; its tables are dropped unless they were there before. The keeper does
// that too, in case the stack does not live to.
type Guest struct {
	Prefix string
	Own    OwnServers // SQL is "" too where the tables were there before
	File   string     // SQLite file that was not there before
	Root   bool       // ZooKeeper's [backend.ZooKeeperRoot] was not there before
}

// New looks at the user's servers before anything is started on them.
func New(ctx context.Context, own OwnServers) (*Guest, error) {
	g := &Guest{Prefix: "lastitem:demo:" + strings.ToLower(rand.Text()[:10]) + ":", Own: own}
	g.Own.SQL = ""
	if own.Redis != "" {
		c, err := backend.OpenRedis(own.Redis, 2)
		if err != nil {
			return nil, badAddress("--redis: %w", err)
		}
		defer func() { _ = c.Close() }()
		if err := c.Ping(ctx).Err(); err != nil {
			return nil, fmt.Errorf("--redis %s: %w", redact.Address(own.Redis), err)
		}
	}
	if err := errors.Join(g.lookAtExtras(ctx), g.lookAtKafka(ctx)); err != nil || own.SQL == "" {
		return g, err
	}
	file, err := backend.SQLiteFile(own.SQL)
	if err != nil {
		return nil, badAddress("--sql: %w", err)
	}
	if _, err := os.Stat(file); file != "" && errors.Is(err, os.ErrNotExist) {
		g.File = file
		return g, nil
	}
	db, err := backend.OpenSQL(own.SQL, 2)
	if err != nil {
		return nil, badAddress("--sql: %w", err)
	}
	if pool, err := db.DB(); err == nil {
		defer func() { _ = pool.Close() }()
	}
	ours, err := backend.Migrated(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("--sql %s: %w", redact.Address(own.SQL), err)
	}
	if !ours {
		g.Own.SQL = own.SQL
	}
	return g, nil
}

// Env carries a guest to the keeper's last command; not by argument, since addresses hold passwords.
const Env = "SHOP_GUEST"

// AddTo adds what a stack must know to be a guest.
func (g *Guest) AddTo(o stack.Options) (stack.Options, error) {
	said, err := json.Marshal(g)
	if err != nil {
		return o, err
	}
	o.Env = append(o.Env, "SHOP_REDIS_PREFIX="+g.Prefix)
	o.LastCommand, o.LastCommandEnv = []string{"guest-leave"}, []string{Env + "=" + string(said)}
	return o, nil
}

// FromEnvironment is the guest whose time is over, in the process that the keeper starts then.
func FromEnvironment() (*Guest, error) {
	var g Guest
	err := json.Unmarshal([]byte(os.Getenv(Env)), &g)
	if err == nil && g.Prefix == "" {
		err = errors.New("it has no prefix")
	}
	if err != nil {
		return nil, badAddress("%s: not a guest: %w", Env, err)
	}
	return &g, nil
}

// Leave removes what the stack brought; the replicas have ended.
func (g *Guest) Leave(ctx context.Context) error {
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
		return text.Of("clean up: %w (keys begin with %s)").Errorf(err, g.Prefix)
	}
	return nil
}

// dropKeys deletes every key under the prefix, on each master of a cluster.
func (g *Guest) dropKeys(ctx context.Context, c redis.UniversalClient) error {
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
