// Package backend opens, probes and closes the clients of the stores. It is the only place that dials.
//
// [Open] takes addresses and never fails because a server is down: [Set.Check] says so later, and the modes that need
// it are unavailable until it answers.
package backend

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	consul "github.com/hashicorp/consul/api"
	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kgo"
	clientv3 "go.etcd.io/etcd/client/v3"
	"gorm.io/gorm"

	"lastitem/internal/store/etcddb"
	"lastitem/internal/store/redisdb"
	"lastitem/internal/store/sqldb"
)

// Config is where the backends are. An empty address leaves that backend out.
type Config struct {
	Redis string // redis://[:password@]host:port/db, a comma-separated list for a cluster
	SQL   string // user:password@tcp(host:port)/db (MySQL), mysql://..., or sqlite:/path/to/file.db

	Redlock   string // redis:// URLs of independent masters, comma-separated, at least three
	ZooKeeper string // host:port, several comma-separated
	Etcd      string // http://host:port, several comma-separated
	Consul    string // http://host:port
	Kafka     string // host:port, several comma-separated
	// Session is the time-out of the ZooKeeper session, which the server may round; 0 = 10 s.
	Session time.Duration

	// Prefix begins every key in Redis and etcd.
	Prefix string
	// Conns bounds the connections for requests to MySQL and to each Redis server. Group commits have a pool of their own
	// in MySQL, of 16 at most, and pipelines one in Redis, of 10 (the default of go-redis).
	Conns int
	// Patience bounds the waiting for servers, and Health says how they are probed.
	Patience Patience
	Health   Health
	// Purge says when answers are removed. Redis keeps an answer for Purge.Keep at least.
	Purge Purge
	// Name returns the setting that gave a backend's address, such as "SHOP_ETCD"; an error about the address begins with
	// it. nil = it does not.
	Name func(backend string) string
	// Log gets a line when a backend stops answering or refuses, and when it answers again; nil = nothing is logged.
	Log *slog.Logger
}

// pool returns the link that requests use.
func (cfg Config) pool() link { return link{conns: cfg.Conns, patience: cfg.Patience} }

// about begins an error about an address with the setting that gave the address.
func (cfg Config) about(backend string, err error) error {
	if err == nil || cfg.Name == nil {
		return err
	}
	return fmt.Errorf("%s: %w", cfg.Name(backend), err)
}

// Set is the open backends. Nil fields are not configured.
type Set struct {
	Client redis.UniversalClient
	DB     *gorm.DB
	Redis  *redisdb.Store
	SQL    *sqldb.Store

	// EtcdStore is the stock in etcd.
	EtcdStore *etcddb.Store

	Redlock   []Node
	ZooKeeper *zk.Conn
	Etcd      *clientv3.Client
	Consul    *consul.Client
	Kafka     func(...kgo.Opt) (*kgo.Client, error) // makes a client, which its caller closes

	log     *slog.Logger
	groups  *sql.DB // of group commits
	trips   *sql.DB // of deductions in one packet
	healths map[string]*health
	doors   map[string]*door // of the stores that bound their connections
	slots   reloader         // of the client
	masters *masters         // of the Redis Cluster; nil = Redis is none
	closing []func() error
	ending  func() error // of the purges, before the clients close; nil = there are none
}

// Node is one master of a Redlock.
type Node struct {
	Name   string // host:port
	Client redis.UniversalClient
}

// Open makes the clients and starts the probes. Only an address that cannot be read is an error.
func Open(cfg Config) (*Set, error) {
	s := &Set{log: cfg.Log, healths: map[string]*health{}, doors: map[string]*door{"redis": {}, "sql": {}}}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	err := errors.Join(
		cfg.about("redis", s.openRedis(cfg)), cfg.about("sql", s.openSQL(cfg)), cfg.about("redlock", s.openRedlock(cfg)),
		cfg.about("zookeeper", s.openZooKeeper(cfg)), cfg.about("etcd", s.openEtcd(cfg)),
		cfg.about("consul", s.openConsul(cfg)),
		cfg.about("kafka", s.openKafka(cfg)),
	)
	if err == nil {
		err = s.startPurges(cfg)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Set) openRedis(cfg Config) error {
	if cfg.Redis == "" {
		return nil
	}
	l := cfg.pool()
	l.slots, l.door = &s.slots, s.doors["redis"]
	c, err := openRedis(cfg.Redis, l)
	if err != nil {
		return err
	}
	s.Client, s.Redis = c, redisdb.New(c, cfg.Prefix)
	s.Redis.KeepAnswers(cfg.Purge.Keep)
	return s.probeRedis(cfg)
}

func (s *Set) openSQL(cfg Config) error {
	if cfg.SQL == "" {
		return nil
	}
	l := cfg.pool()
	l.door = s.doors["sql"]
	db, err := openSQL(cfg.SQL, l)
	if err != nil {
		return err
	}
	if own, _ := ignoredSQL(cfg.SQL); len(own) > 0 {
		s.log.Warn("the shop needs other values of parameters in the SQL address, and uses those", "without", own)
	}
	s.DB = db
	if s.SQL, err = sqldb.New(db); err != nil {
		return err
	}
	s.SQL.AnswersWithin(cfg.Patience.orDefault().SQL)
	s.SQL.CommitsWithin(cfg.Patience.orDefault().Settle)
	if s.SQL.MySQL() {
		if s.groups, s.trips, err = openPools(s.SQL, cfg.SQL, l); err != nil {
			return err
		}
		s.closing = append(s.closing, s.groups.Close, s.trips.Close)
		s.SQL.GroupsOn(s.groups)
		s.SQL.TripsOn(s.trips)
	}
	return s.probeSQL(cfg)
}

// Check says why a backend ("redis", "sql", "redlock", "zookeeper", "etcd", "consul", "kafka") cannot be used, as of
// the last probe; nil when it can, or is not configured. It does not wait. An error that wraps [store.ErrRefused] is an
// answer of the server. Every backend but Kafka is asked to write: each master of a cluster, of which one
// must, and the nodes of a Redlock, of which a majority must.
func (s *Set) Check(name string) error {
	if s.some(name) {
		return nil
	}
	return s.healths[name].check()
}

// Out is [Set.Check], but not nil while any master of a cluster is out, or a server takes no new connections: then the
// requests that have one are served.
func (s *Set) Out(name string) error { return cmp.Or(s.healths[name].check(), s.doors[name].refuses()) }

// some says that masters of the cluster are out, and not all.
func (s *Set) some(name string) bool {
	return name == "redis" && s.masters != nil && s.masters.out.Load() != nil && !s.masters.every.Load()
}

// Down is [Set.Check] for a caller that is about to send a request about products: it is nil also until the first probe
// has ended. In a cluster it asks about the masters of these products.
func (s *Set) Down(name string, products ...int64) error {
	if name == "redis" && s.masters != nil && s.masters.out.Load() != nil {
		if len(*s.masters.out.Load()) == 0 {
			return nil
		}
		keys := make([]string, len(products))
		for i, p := range products {
			keys[i] = s.Redis.CountKey(p)
		}
		return s.masters.down(keys...)
	}
	if err := s.Check(name); !errors.Is(err, errNotAsked) {
		return err
	}
	return nil
}

// Ask probes a backend now, over the connection of its probes; nil if it is not configured, or never probed.
func (s *Set) Ask(ctx context.Context, name string) error {
	h := s.healths[name]
	if h == nil {
		return nil
	}
	return h.probe.ask(ctx)
}

// Backends names the backends that are configured, sorted.
func (s *Set) Backends() []string { return slices.Sorted(maps.Keys(s.healths)) }

// Ready lists what is out: the backends, and the masters of a cluster. Its error says why the replica should get no
// requests: a store has not been asked yet, one of needs cannot be used, or none of the stores can. The backends in
// without are ignored.
func (s *Set) Ready(needs, without []string) (out []string, err error) {
	var errs, idle []error
	usable := false
	for _, name := range s.Backends() {
		if slices.Contains(without, name) {
			continue
		}
		if why := s.Out(name); why != nil {
			for line := range strings.SplitSeq(why.Error(), "\n") {
				out = append(out, name+": "+line)
			}
		}
		why := s.Check(name)
		store := slices.Contains(stores, name)
		switch {
		case why == nil:
			usable = usable || store
		case slices.Contains(needs, name) || store && errors.Is(why, errNotAsked):
			errs = append(errs, fmt.Errorf("%s: %w", name, why))
		case store:
			idle = append(idle, fmt.Errorf("%s: %w", name, why))
		}
	}
	if !usable {
		errs = append(errs, idle...)
	}
	return out, errors.Join(errs...)
}

// stores are the backends that keep stock: without any nothing can be served.
var stores = []string{"redis", "sql", "etcd"}

// StopProbes ends the probes, and so their writes. [Set.Check] goes on returning what the last ones found.
func (s *Set) StopProbes() {
	for _, h := range s.healths {
		h.close()
	}
}

// Close closes the clients and ends the probes.
func (s *Set) Close() error {
	var errs []error
	if s.ending != nil {
		errs = append(errs, s.ending())
	}
	s.StopProbes()
	if s.Client != nil {
		errs = append(errs, s.Client.Close())
	}
	if s.DB != nil {
		errs = append(errs, closeSQL(s.DB))
	}
	for _, f := range s.closing {
		errs = append(errs, f())
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
	// Waits counts the times a caller had to wait for a connection, Waited is how long in all, and Timeouts counts the
	// waits that ended without one (Redis only: for SQL the request's own context ends them).
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
			all = append(all, poolOf("sql", db))
		}
	}
	if s.groups != nil {
		all = append(all, poolOf("sql_groups", s.groups), poolOf("sql_trips", s.trips))
	}
	return all
}

func poolOf(name string, db *sql.DB) Pool {
	p := db.Stats()
	return Pool{Name: name, Total: p.OpenConnections, Idle: p.Idle, Waits: uint64(max(p.WaitCount, 0)),
		Waited: p.WaitDuration}
}
