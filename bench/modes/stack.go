package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	_ "github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"lastitem/contract/api"
	"lastitem/loadtest"
	"lastitem/stack"
	"lastitem/stack/wire"
)

// replicas behind nginx.
const replicas = 3

// A site is the target of a load, and the processes behind it.
type site struct {
	control *loadtest.Control
	modes   []api.Mode

	shops, edge []int            // process ids
	stores      map[string][]int // process ids by backend
}

// sites has all sites. The far one is opened when first needed.
type sites struct {
	options options
	log     func(format string, args ...any)
	stack   *stack.Stack

	direct, balanced, far *site

	farStack *stack.Stack
	delays   []*wire.Proxy
}

// openSites starts the servers and the replicas.
func openSites(ctx context.Context, o options, log func(format string, args ...any)) (*sites, error) {
	running, err := stack.Start(ctx, stack.Options{
		Replicas: replicas, Backend: o.backend, Binary: o.shop, Log: log,
		RedisConf: redisConf(o), SQLConf: sqlConf(o),
	})
	if err != nil {
		return nil, err
	}
	all := &sites{options: o, log: log, stack: running}
	if all.direct, err = newSite(ctx, running, running, running.Replicas[0].URL, 1); err == nil {
		all.balanced, err = newSite(ctx, running, running, running.URL, replicas)
	}
	if err != nil {
		return nil, errors.Join(err, all.close())
	}
	return all, nil
}

// redisConf makes Redis durable. It disables the rewrite of the append-only file, which would slow down only one mode.
func redisConf(o options) []string {
	return []string{"appendonly yes", "appendfsync " + o.fsync, "auto-aof-rewrite-percentage 0"}
}

// sqlConf makes SQL durable: innodb_flush_log_at_trx_commit is always 1.
func sqlConf(o options) []string {
	conf := []string{"--innodb-buffer-pool-size=256M"}
	if o.binlog {
		conf = append(conf, "--log-bin=bin", "--server-id=1", "--sync-binlog=1")
	}
	return conf
}

// newSite returns the site of a stack at address; the stores may belong to another stack.
func newSite(ctx context.Context, running, stores *stack.Stack, address string, count int) (*site, error) {
	control, err := loadtest.NewControl(address, running.Token)
	if err != nil {
		return nil, err
	}
	control.Replicas = count
	s := &site{control: control, edge: pids(running.Balancer), shops: pids(running.Replicas...), stores: map[string][]int{
		"redis": pids(stores.Redis), "sql": pids(stores.SQL), "mysql": pids(stores.SQL), "redlock": pids(stores.Redlock...),
		"etcd": pids(stores.Etcd), "zookeeper": pids(stores.ZooKeeper), "consul": pids(stores.Consul),
		"kafka": pids(stores.Kafka),
	}}
	s.modes, err = control.Modes(ctx)
	return s, err
}

// behind returns the processes of the backends that a mode needs. Other backends may be busy for other reasons, and are
// not counted.
func (s *site) behind(m api.Mode) []int {
	var all []int
	for _, need := range m.Needs {
		all = append(all, s.stores[need]...)
	}
	slices.Sort(all)
	return slices.Compact(all) // sql and mysql are one
}

// pids returns the process ids of services, without those that are not processes.
func pids(services ...stack.Service) (all []int) {
	for _, s := range services {
		if s.PID > 0 {
			all = append(all, s.PID)
		}
	}
	return all
}

// of returns the site of a scenario.
func (all *sites) of(ctx context.Context, s scenario) (*site, error) {
	switch {
	case s.far:
		return all.openFar(ctx)
	case s.balanced:
		return all.balanced, nil
	}
	return all.direct, nil
}

// openFar starts a replica with a delay between it and its servers.
func (all *sites) openFar(ctx context.Context) (*site, error) {
	if all.far != nil {
		return all.far, nil
	}
	far := map[string]string{}
	for _, server := range []stack.Service{all.stack.Redis, all.stack.SQL} {
		if far[server.Name] = server.URL; server.Addr == "" { // SQLite is a file
			continue
		}
		p, err := wire.NewDelayed(server.Name, server.Addr, wire.Raw, distance)
		if err != nil {
			return nil, err
		}
		all.delays = append(all.delays, p)
		far[server.Name] = strings.Replace(server.URL, server.Addr, p.Addr, 1)
	}
	var err error
	all.farStack, err = stack.Start(ctx, stack.Options{
		Replicas: 1, Backend: all.options.backend, Binary: all.options.shop,
		Only:  []string{stack.Redis, stack.MySQL},
		Redis: far[all.stack.Redis.Name], SQL: far[all.stack.SQL.Name],
	})
	if err != nil {
		return nil, err
	}
	all.far, err = newSite(ctx, all.farStack, all.stack, all.farStack.Replicas[0].URL, 1)
	return all.far, err
}

// close ends all started processes.
func (all *sites) close() error {
	var err error
	if all.farStack != nil {
		err = all.farStack.Close()
	}
	for _, p := range all.delays {
		p.Close()
	}
	for _, s := range []*site{all.direct, all.balanced, all.far} {
		if s != nil {
			s.control.Close()
		}
	}
	return errors.Join(err, all.stack.Close())
}

// died returns a channel that is closed when a part of the first stack has ended by itself.
func (all *sites) died() <-chan struct{} { return all.stack.Done() }

// durability asks the servers for their durability settings.
func (all *sites) durability(ctx context.Context) []string {
	said := []string{redisDurability(ctx, all.stack.Redis), sqlDurability(ctx, all.stack.SQL)}
	for _, s := range []stack.Service{all.stack.Etcd, all.stack.ZooKeeper, all.stack.Consul, all.stack.Kafka} {
		if s.URL != "" {
			said = append(said, s.Kind+", as it is by default")
		}
	}
	return said
}

func redisDurability(ctx context.Context, s stack.Service) string {
	o, err := redis.ParseURL(s.URL)
	if err != nil {
		return fmt.Sprintf("%s: %v", s.Kind, err)
	}
	client := redis.NewClient(o)
	defer func() { _ = client.Close() }()
	var said []string
	for _, name := range []string{"appendonly", "appendfsync"} {
		values, err := client.ConfigGet(ctx, name).Result()
		if err != nil {
			return fmt.Sprintf("%s: settings unknown: %v", s.Kind, err)
		}
		said = append(said, name+"="+values[name])
	}
	return s.Kind + ": " + strings.Join(said, ", ")
}

func sqlDurability(ctx context.Context, s stack.Service) string {
	if strings.HasPrefix(s.URL, "sqlite:") {
		return s.Kind
	}
	db, err := sql.Open("mysql", s.URL)
	if err != nil {
		return fmt.Sprintf("%s: %v", s.Kind, err)
	}
	defer func() { _ = db.Close() }()
	var said []string
	for _, name := range []string{"innodb_flush_log_at_trx_commit", "log_bin", "sync_binlog"} {
		var value string
		if err := db.QueryRowContext(ctx, "SELECT @@"+name).Scan(&value); err != nil {
			return fmt.Sprintf("%s: settings unknown: %v", s.Kind, err)
		}
		said = append(said, name+"="+value)
	}
	return s.Kind + ": " + strings.Join(said, ", ")
}
