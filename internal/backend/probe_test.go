package backend_test

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/backend"
	"lastitem/internal/store"
	"lastitem/internal/store/sqldb"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// probing is a set that is closed with the test, and well.
func probing(t *testing.T, cfg backend.Config) *backend.Set {
	t.Helper()
	cfg.Conns, cfg.Health = 2, backend.Health{Every: 100 * time.Millisecond, Within: testenv.Still / 2}
	s, err := backend.Open(cfg)
	testkit.Must(t, err)
	testkit.Closes(t, s)
	return s
}

// becomes waits until a backend is up, or refuses.
func becomes(t *testing.T, s *backend.Set, name string, refuses bool) {
	t.Helper()
	testkit.NoError(t, fmt.Sprintf("%s refuses: %t", name, refuses), func() error {
		err := s.Down(name)
		if checked := s.Check(name); refuses && errors.Is(err, store.ErrRefused) || !refuses && err == nil && checked == nil {
			return nil
		}
		return fmt.Errorf("Down() = %s", fmt.Sprint(err))
	})
}

func client(t *testing.T, address string) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(address)
	testkit.Must(t, err)
	c := testkit.Closing(t, redis.NewClient(o))
	return c
}

func set(t *testing.T, c *redis.Client, setting, value string) {
	t.Helper()
	testkit.Must(t, c.ConfigSet(t.Context(), setting, value).Err())
}

// A Redis that answers PING and takes no write is down, and is up again when it takes one.
func TestRedisIsProbedByAWrite(t *testing.T) {
	t.Parallel()
	node := testenv.RedisNodes(t, 1)[0]
	c := client(t, node.URL)
	s := probing(t, backend.Config{Redis: node.URL, Prefix: "shop:"})
	becomes(t, s, "redis", false)
	for _, way := range []struct{ setting, bad, good string }{
		{"maxmemory", "1", "0"},
		{"replicaof", "127.0.0.1 1", "no one"},
		{"min-replicas-to-write", "1", "0"},
	} {
		change := func(value string) {
			if way.setting == "replicaof" {
				host, port, _ := strings.Cut(value, " ")
				testkit.Must(t, c.ReplicaOf(t.Context(), host, port).Err())
				return
			}
			set(t, c, way.setting, value)
		}
		change(way.bad)
		becomes(t, s, "redis", true)
		testkit.Is(t, c.Ping(t.Context()).Err(), nil, "%s: PING", way.setting)
		out, err := s.Ready(nil, nil)
		_, without := s.Ready(nil, []string{"redis"})
		if err == nil || !strings.HasPrefix(err.Error(), "redis: ") || len(out) != 1 || without != nil {
			t.Errorf("%s: Ready() = %q, %v, without redis %v", way.setting, out, err, without)
		}
		change(way.good)
		becomes(t, s, "redis", false)
	}
	if err := s.Client.Ping(t.Context()).Err(); err != nil { // over another connection than the probes'
		t.Fatal(err)
	}
	if p := s.Pools(); len(p) != 1 || p[0].Name != "redis" || p[0].Total < 1 || p[0].Total > 2 {
		t.Errorf("Pools() = %+v, want one with 1 or 2 connections", p)
	}
	if list := c.ClientList(t.Context()).Val(); !strings.Contains(list, "name=lastitem-health") {
		t.Errorf("CLIENT LIST: %s", list)
	}
	wantOnlyMark(t, c)
}

// wantOnlyMark wants the probes' key and no other, with an expiry. It is gone for a moment whenever it has expired,
// until the next probe.
func wantOnlyMark(t *testing.T, c *redis.Client) {
	t.Helper()
	var keys []string
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if keys = c.Keys(t.Context(), "*").Val(); len(keys) == 0 {
			continue
		}
		left := c.PTTL(t.Context(), keys[0]).Val()
		switch {
		case len(keys) != 1 || !strings.HasPrefix(keys[0], "shop:health:") || left == -1:
			t.Errorf("keys: %v, the first for %v, want the mark alone, with an expiry", keys, left)
			return
		case left > 0:
			return
		}
	}
	t.Errorf("keys: %v, want the mark", keys)
}

// Of a Redlock most nodes must write.
func TestRedlockNeedsAMajorityThatWrites(t *testing.T) {
	t.Parallel()
	var addresses []string
	for _, n := range testenv.RedisNodes(t, 3) {
		addresses = append(addresses, n.URL)
	}
	s := probing(t, backend.Config{Redlock: strings.Join(addresses, ",")})
	becomes(t, s, "redlock", false)
	full := client(t, addresses[0])
	set(t, full, "maxmemory", "1")
	refused := regexp.MustCompile(`errorstat_OOM:count=([3-9]|[0-9]{2,})\b`)
	testkit.Until(t, "the full node has refused three probes", func() bool {
		return refused.MatchString(full.Info(t.Context(), "errorstats").Val())
	})
	testkit.Is(t, s.Check("redlock"), nil, "Check() with one of three full")
	set(t, client(t, addresses[1]), "maxmemory", "1")
	testkit.Until(t, "Check() sees that two of three are full", func() bool { return s.Check("redlock") != nil })
	set(t, client(t, addresses[0]), "maxmemory", "0")
	becomes(t, s, "redlock", false)
}

// A database that became read-only refuses the probe, and the probe writes nothing.
func TestMySQLIsProbedByAWrite(t *testing.T) {
	t.Parallel()
	own := testenv.Own(t, "mysql")
	admin := migrated(t, own.SQL.URL)
	do := func(statement string) { t.Helper(); exec(t, admin, statement) }
	do("CREATE USER plain@'%' IDENTIFIED BY 'plain'") // whoever administers a server may write to one that is read-only
	do("GRANT ALL ON lastitem.* TO plain@'%'")
	do("SET GLOBAL log_output = 'TABLE'")
	do("SET GLOBAL general_log = 1")
	s := probing(t, backend.Config{SQL: "plain:plain@tcp(" + own.SQL.Addr + ")/lastitem"})
	becomes(t, s, "sql", false)
	do("SET GLOBAL read_only = 1")
	becomes(t, s, "sql", true)
	if err := s.Check("sql"); !strings.Contains(err.Error(), "1290") {
		t.Errorf("Check() = %v, want error 1290", err)
	}
	testkit.Is(t, s.DB.WithContext(t.Context()).Exec("SELECT 1 FROM product_stock").Error, nil, "a read")
	do("SET GLOBAL read_only = 0")
	becomes(t, s, "sql", false)
	do("CREATE TRIGGER full BEFORE INSERT ON orders FOR EACH ROW SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114")
	becomes(t, s, "sql", true) // as by a table without room, which an UPDATE of no row does not meet
	do("DROP TRIGGER full")
	becomes(t, s, "sql", false)
	do("SET GLOBAL max_connections = 10")
	for range 10 {
		testkit.Dial(t, own.SQL.Addr)
	}
	noMoreClients(t, s, "sql", func() error {
		return s.SQL.GroupTx(t.Context(), func(*sqldb.Tx) error { return nil }) // of a pool that has none yet
	}, func() { do("SET GLOBAL max_connections = 100") })
	do("SET GLOBAL general_log = 0")
	var named int64
	admin.Raw("SELECT COUNT(*) FROM mysql.general_log WHERE argument LIKE '/* lastitem-health */%'").Scan(&named)
	if named == 0 {
		t.Error("no statement says that it is a probe")
	}
	do("DROP TABLE product_stock")
	becomes(t, s, "sql", true) // without its tables
}

// noMoreClients wants requests that find no connection to be refused, and the store in the list of what is out, though
// it is used by whoever has a connection.
func noMoreClients(t *testing.T, s *backend.Set, name string, request func() error, more func()) {
	t.Helper()
	for range 100 { // the answer of a server that closes the connection comes in time or does not
		if err := request(); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) {
			t.Fatalf("%s: a request without a connection: %v, want that it did not happen", name, err)
		}
	}
	out, err := s.Ready(nil, nil)
	if err != nil || len(out) != 1 || !strings.Contains(out[0], name+": ") || s.Check(name) != nil {
		t.Errorf("%s: Ready() = %q, %v, Check() = %v, want that it takes no new connections", name, out, err, s.Check(name))
	}
	more()
	testkit.NoError(t, name+" takes requests again", request)
	testkit.Is(t, s.Out(name), nil, "%s", name)
}

// A Redis with as many clients as it takes greets a further one with an error, and closes the connection.
func TestRedisTakesNoMoreClients(t *testing.T) {
	t.Parallel()
	node := testenv.RedisNodes(t, 1)[0]
	admin := client(t, node.URL)
	s := probing(t, backend.Config{Redis: node.URL, Prefix: "shop:"})
	becomes(t, s, "redis", false)
	set(t, admin, "maxclients", "1") // that of the test and that of the probe stay
	noMoreClients(t, s, "redis", func() error { return s.Redis.Set(t.Context(), 1, 1) },
		func() { set(t, admin, "maxclients", "1000") })
}

// A file of SQLite that takes no order is out; one that another connection writes is not.
func TestSQLiteIsProbedByAWrite(t *testing.T) {
	t.Parallel()
	dsn := testenv.SQLite(t)
	db := migrated(t, dsn)
	s := probing(t, backend.Config{SQL: dsn})
	becomes(t, s, "sql", false)
	exec(t, db, "CREATE TRIGGER refused BEFORE INSERT ON orders BEGIN SELECT RAISE(FAIL, 'no'); END")
	becomes(t, s, "sql", true)
	exec(t, db, "DROP TRIGGER refused")
	becomes(t, s, "sql", false)
	testkit.Must(t, s.SQL.Tx(t.Context(), sqldb.ReadCommitted, func(*sqldb.Tx) error {
		if err := s.Ask(t.Context(), "sql"); err != nil {
			t.Errorf("a probe beside a writer: %v", err)
		}
		return nil
	}))
	var orders int
	testkit.Must(t, db.Raw("SELECT COUNT(*) FROM orders").Row().Scan(&orders))
	testkit.Is(t, orders, 0, "orders that the probes left")
}

// The probes of the other services go through the log of a majority, as writes do, and change nothing.
func TestServicesAreProbedByAWrite(t *testing.T) {
	t.Parallel()
	own := testenv.Own(t, "etcd", "zookeeper", "consul")
	etcd := (&testenv.Coordination{Addr: own.Etcd.Addr}).EtcdClient(t)
	agent := (&testenv.Coordination{Addr: own.Consul.Addr}).ConsulClient(t)
	keeper := (&testenv.Coordination{Addr: own.ZooKeeper.Addr}).ZooKeeperConn(t, 10*time.Second)
	s := probing(t, backend.Config{Etcd: own.Etcd.URL, ZooKeeper: own.ZooKeeper.URL, Consul: own.Consul.URL,
		Prefix: "shop:"})
	const entries = 20 // in thirty seconds a service that nobody writes to has fewer
	for name, log := range map[string]func() (end int64, kept bool){
		"etcd": func() (int64, bool) {
			status, err := etcd.Status(t.Context(), own.Etcd.Addr)
			testkit.Must(t, err)
			return int64(status.RaftIndex), status.Header.Revision != 1
		},
		"consul": func() (int64, bool) {
			self, err := agent.Agent().Self()
			testkit.Must(t, err)
			keys, _, err := agent.KV().Keys("", "", nil)
			end, wrong := strconv.ParseInt(fmt.Sprint(self["Stats"]["raft"].(map[string]any)["last_log_index"]), 10, 64)
			return end, errors.Join(err, wrong) != nil || len(keys) > 0
		},
		"zookeeper": func() (int64, bool) {
			nodes, _, err := keeper.Children("/")
			testkit.Must(t, err)
			return lastOfZooKeeper(t, own.ZooKeeper.Addr), len(nodes) > 1 // its own
		},
	} {
		becomes(t, s, name, false)
		before, _ := log()
		testkit.Until(t, fmt.Sprintf("%d entries in the log of %s, which the probes write", entries, name), func() bool {
			after, kept := log()
			if kept {
				t.Fatalf("%s: a probe left something behind", name)
			}
			return after >= before+entries
		})
	}
}

// lastOfZooKeeper is the number of the last entry in the log of a ZooKeeper.
func lastOfZooKeeper(t *testing.T, addr string) (last int64) {
	t.Helper()
	c := testkit.Dial(t, addr)
	_, wrong := c.Write([]byte("srvr"))
	said, err := io.ReadAll(c)
	_, zxid, found := strings.Cut(string(said), "Zxid: ")
	if _, unread := fmt.Sscanf(zxid, "0x%x", &last); errors.Join(wrong, err, unread) != nil || !found {
		t.Fatalf("srvr: %q, %v", said, errors.Join(wrong, err, unread))
	}
	return last
}
