package backend_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/backend"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

func TestOpenRedis(t *testing.T) {
	t.Parallel()
	c, err := backend.OpenRedis("redis://user:pa%3Ass@127.0.0.1:7000/3", 7)
	testkit.Must(t, err)
	defer c.Close()
	one, ok := c.(*redis.Client)
	if !ok {
		t.Fatalf("OpenRedis(one address) = %T, want *redis.Client", c)
	}
	o := one.Options()
	if o.Addr != "127.0.0.1:7000" || o.Username != "user" || o.Password != "pa:ss" || o.DB != 3 || o.PoolSize != 7 {
		t.Errorf("options = %s %s %s %d %d, want what the URL says", o.Addr, o.Username, o.Password, o.DB, o.PoolSize)
	}
	if o.MaxRetries > 0 || !o.ContextTimeoutEnabled {
		t.Errorf("MaxRetries = %d, ContextTimeoutEnabled = %t, want none and true", o.MaxRetries, o.ContextTimeoutEnabled)
	}
	many, err := backend.OpenRedis("redis://127.0.0.1:7000, redis://127.0.0.1:7001", 7)
	testkit.Must(t, err)
	defer many.Close()
	cluster, ok := many.(*redis.ClusterClient)
	if !ok || len(cluster.Options().Addrs) != 2 || cluster.Options().MaxRetries > 0 {
		t.Errorf("OpenRedis(two addresses) = %T, want a cluster client of two without retries", many)
	}
}

// A server that is down is no error of Open, but of the checks.
func TestOpenWithoutServers(t *testing.T) {
	t.Parallel()
	set, err := backend.Open(backend.Config{
		Redis: "redis://127.0.0.1:1/0", SQL: "root:x@tcp(127.0.0.1:1)/shop", Conns: 1,
		Redlock:   "redis://127.0.0.1:1,redis://127.0.0.1:2,redis://127.0.0.1:3",
		ZooKeeper: "no.such.host.invalid:2181,127.0.0.1:1", Etcd: "http://127.0.0.1:1", Consul: "http://127.0.0.1:1",
	})
	testkit.Mustf(t, err, "Open()")
	for _, name := range []string{"redis", "sql", "redlock", "zookeeper", "etcd", "consul"} {
		if set.Check(name) == nil {
			t.Errorf("Check(%s) = nil, want an error", name)
		}
	}
	if _, err := set.Ready(nil, nil); err == nil || !strings.Contains(err.Error(), "redis: ") ||
		!strings.Contains(err.Error(), "sql: ") {
		t.Errorf("Ready() = %v, want both named", err)
	}
	testkit.Is(t, set.Close(), nil, "Close()")
	for _, c := range []backend.Config{
		{SQL: "u:p@tcp(127.0.0.1:1)/db?charset=utf8mb4&parseTime=True&loc=Asia/Shanghai&clientFoundRows=false"},
		{SQL: "mysql://u:p@127.0.0.1:1/db?autocommit=1"}, {Etcd: "http://shop:geheim@127.0.0.1:1"},
	} {
		c.Conns = 1
		if s, err := backend.Open(c); err != nil || s.Close() != nil {
			t.Errorf("Open(%+v) = %v, want it to open", c, err)
		}
	}
	nothing, err := backend.Open(backend.Config{})
	_, none := nothing.Ready(nil, nil)
	if err != nil || none != nil || nothing.Close() != nil || len(nothing.Pools()) != 0 {
		t.Errorf("Open(nothing) = %+v, %v, want a set that is ready", nothing, err)
	}
}

// Many processes open a new SQLite file at once, as the replicas of a stack do: all of them must get in.
func TestOpenNewSQLiteAtOnce(t *testing.T) {
	t.Parallel()
	for range 20 {
		dsn := testenv.SQLite(t)
		begin := make(chan struct{})
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				<-begin
				db, err := backend.OpenSQL(dsn, 2)
				if err == nil {
					err = db.Exec("CREATE TABLE IF NOT EXISTS t (x INTEGER)").Error
				}
				if err != nil {
					t.Errorf("a new file opened by eight at once: %v", err)
					return
				}
				pool, _ := db.DB()
				_ = pool.Close()
			})
		}
		close(begin)
		wg.Wait()
	}
}
