package backend_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/backend"
	"lastitem/internal/testenv"
	"lastitem/internal/testenv/wait"
)

func TestOpenRedis(t *testing.T) {
	t.Parallel()
	c, err := backend.OpenRedis("redis://user:pa%3Ass@127.0.0.1:7000/3", 7)
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	defer many.Close()
	cluster, ok := many.(*redis.ClusterClient)
	if !ok || len(cluster.Options().Addrs) != 2 || cluster.Options().MaxRetries > 0 {
		t.Errorf("OpenRedis(two addresses) = %T, want a cluster client of two without retries", many)
	}
}

func TestBadAddresses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ redis, sql, want string }{
		"redis: no scheme":           {"127.0.0.1:6379", "", "want redis://host:port/db"},
		"redis: scheme forgotten":    {":geheim@127.0.0.1:6379", "", "want redis://host:port/db"},
		"redis: other scheme":        {"http://:geheim@h:1", "", "http"},
		"redis: blank in the URL":    {"redis://:geheim@h h:6379", "", "not a URL"},
		"redis: slash in password":   {"redis://:geheim/x@h:6379", "", "not a URL"},
		"redis: no number":           {"redis://:geheim@h:6379/stock", "", `"stock"`},
		"redis: second is bad":       {"redis://h:6379,http://:geheim@h", "", "http"},
		"redis: unknown option":      {"redis://:geheim@h:6379/0?colour=red", "", "colour"},
		"redis: CA without TLS":      {"redis://:geheim@h:6379/0?tls_ca=ca.pem", "", "rediss://"},
		"redis: CA is not there":     {"rediss://:geheim@h:6379/0?tls_ca=/nowhere/ca.pem", "", "/nowhere/ca.pem"},
		"redis: CA is no CA":         {"rediss://:geheim@h:6379/0?tls_ca=open_test.go", "", "no certificate"},
		"redis: CA, and unverified":  {"rediss://:geheim@h:6379/0?skip_verify=true&tls_ca=open_test.go", "", "skip_verify"},
		"redis: certificate, no key": {"rediss://:geheim@h:6379/0?tls_cert=cert.pem", "", "go together"},
		"redis: only one with TLS":   {"rediss://h:6379/0,redis://:geheim@h:6380", "", "in one list"},
		"sentinel: CA without TLS":   {"redis://:geheim@h:26379/0?master_name=m&tls_ca=ca.pem", "", "rediss://"},
		"sql: CA without TLS":        {"", "root:geheim@tcp(h:3306)/shop?tls_ca=ca.pem", "tls=true"},
		"sql: CA, and unverified":    {"", "root:geheim@tcp(h:3306)/shop?tls=skip-verify&tls_ca=ca.pem", "tls=true"},
		"sql: CA is not there":       {"", "mysql://root:geheim@h/shop?tls=true&tls_ca=/nowhere/ca.pem", "/nowhere/ca.pem"},
		"sql: no slash":              {"", "root:geheim@tcp(h:3306)", "want user:password@tcp(host:port)/database"},
		"sql: no database":           {"", "root:geheim@tcp(h:3306)/", "names no database"},
		"sql: unknown network":       {"", "root:geheim@h:3306/shop", "want user:password@tcp(host:port)/database"},
		"sql: bad parameter":         {"", "root:geheim@tcp(h:3306)/shop?parseTime=maybe", "maybe"},
		"sql: stale reads":           {"", "root:geheim@tcp(h:3306)/shop?autocommit=0", "the shop needs 1"},
		"sql: any case":              {"", "mysql://root:geheim@h/shop?Completion_Type=1", "the shop needs 0"},
		"mysql URL: no database":     {"", "mysql://root:geheim@h:3306", "names no database"},
		"mysql URL: no host":         {"", "mysql:///shop", "not a URL"},
		"mysql URL: bad port":        {"", "mysql://root:geheim@h:x/shop", "not a URL"},
		"mysql URL: slash, password": {"", "mysql://root:geheim/x@h:3306/shop", "not a URL"},
		"mysql URL: bad parameter":   {"", "mysql://root:geheim@h/shop?parseTime=maybe", "maybe"},
	} {
		_, err := backend.Open(backend.Config{Redis: c.redis, SQL: c.sql, Conns: 1})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: Open() = %v, want %q in it", name, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: Open() = %v, which tells the password", name, err)
		}
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
	if err != nil {
		t.Fatalf("Open() = %v, want nil", err)
	}
	for _, name := range []string{"redis", "sql", "redlock", "zookeeper", "etcd", "consul"} {
		if set.Check(name) == nil {
			t.Errorf("Check(%s) = nil, want an error", name)
		}
	}
	if _, err := set.Ready(nil, nil); err == nil || !strings.Contains(err.Error(), "redis: ") || !strings.Contains(err.Error(), "sql: ") {
		t.Errorf("Ready() = %v, want both named", err)
	}
	if err := set.Close(); err != nil {
		t.Errorf("Close() = %v, want nil", err)
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

func TestOpenRefusesAddresses(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]backend.Config{
		"three or more":              {Redlock: "redis://127.0.0.1:1,redis://127.0.0.1:2"},
		"127.0.0.1:1 is named twice": {Redlock: "redis://127.0.0.1:1,redis://127.0.0.1:2,redis://:secret@127.0.0.1:1/5"},
		"want redis://":              {Redlock: "redis://127.0.0.1:1,redis://127.0.0.1:2,127.0.0.1:3"},
		"want host:port":             {ZooKeeper: "zk://127.0.0.1:2181"},
		"want http://":               {Etcd: "127.0.0.1:2379"},
		"has one address":            {Consul: "http://127.0.0.1:1,http://127.0.0.1:2"},
		"want http://host:po":        {Consul: "tcp://127.0.0.1:1"},
	} {
		cfg.Name = func(backend string) string { return "--" + backend }
		set, err := backend.Open(cfg)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "--") {
			t.Errorf("Open(%+v) = %v, want an error with %q", cfg, err, want)
		}
		if err == nil {
			_ = set.Close()
		}
	}
}

func TestOpenSQLiteSaysWhyNot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for dsn, want := range map[string]string{
		"sqlite:" + dir + "/a/b/shop.db": "there is no directory " + dir + "/a/b",
		"sqlite://" + dir:                "is a directory",
		"sqlite:":                        "want sqlite:/path/to/file.db",
		"sqlite::memory:":                "want sqlite:/path/to/file.db",
		"sqlite:/dev/null/shop.db":       "cannot be read or written",
	} {
		if db, err := backend.OpenSQL(dsn, 1); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "memory (14)") {
			t.Errorf("OpenSQL(%s) = %v, %v, want %q", dsn, db, err, want)
		}
	}
}

// Each service answers its check once it is up, and is closed with nothing left running.
func TestOpenServices(t *testing.T) {
	t.Parallel()
	var nodes []string
	for _, n := range testenv.RedisNodes(t, 3) {
		nodes = append(nodes, n.URL)
	}
	r, dsn := testenv.Redis(t), testenv.SQLite(t)
	migrated(t, dsn)
	set, err := backend.Open(backend.Config{
		Redis: r.URL, SQL: dsn, Prefix: r.Prefix, Conns: 2, Redlock: strings.Join(nodes, ","), ZooKeeper: testenv.ZooKeeper(t).Addr,
		Etcd: "http://" + testenv.Etcd(t).Addr, Consul: "http://" + testenv.Consul(t).Addr,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"redis", "sql", "redlock", "zookeeper", "etcd", "consul"} {
		wait.NoError(t, name+" is up", func() error { return set.Check(name) })
	}
	if err := set.Client.Ping(t.Context()).Err(); err != nil { // health has a connection of its own
		t.Fatal(err)
	}
	for _, p := range set.Pools() {
		if p.Total < 1 || p.Total > 2 {
			t.Errorf("pool %s has %d connections, want 1 or 2", p.Name, p.Total)
		}
	}
	if err := set.Close(); err != nil {
		t.Errorf("Close() = %v", err)
	}
}
