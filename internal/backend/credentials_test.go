package backend_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"lastitem/internal/backend"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// What an address says is used, or the program does not start: no part of it is ignored. The error never tells the
// secret.
func TestAddressesAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct {
		config backend.Config
		want   string
	}{
		{backend.Config{Redis: "127.0.0.1:6379"}, "want redis://host:port/db"},
		{backend.Config{Redis: ":geheim@127.0.0.1:6379"}, "want redis://host:port/db"},
		{backend.Config{Redis: "http://:geheim@h:1"}, "http"},
		{backend.Config{Redis: "redis://:geheim@h h:6379"}, "not a URL"},
		{backend.Config{Redis: "redis://:geheim/x@h:6379"}, "not a URL"},
		{backend.Config{Redis: "redis://:geheim@h:6379/stock"}, `"stock"`},
		{backend.Config{Redis: "redis://h:6379,http://:geheim@h"}, "http"},
		{backend.Config{Redis: "redis://:geheim@h:6379/0?colour=red"}, "colour"},
		{backend.Config{Redis: "redis://:geheim@h:6379/0?tls_ca=ca.pem"}, "rediss://"},
		{backend.Config{Redis: "rediss://:geheim@h:6379/0?tls_ca=/nowhere/ca.pem"}, "/nowhere/ca.pem"},
		{backend.Config{Redis: "rediss://:geheim@h:6379/0?tls_ca=open_test.go"}, "no certificate"},
		{backend.Config{Redis: "rediss://:geheim@h:6379/0?skip_verify=true&tls_ca=open_test.go"}, "skip_verify"},
		{backend.Config{Redis: "rediss://:geheim@h:6379/0?tls_cert=cert.pem"}, "go together"},
		{backend.Config{Redis: "rediss://h:6379/0,redis://:geheim@h:6380"}, "in one list"},
		{backend.Config{Redis: "redis://:geheim@h:26379/0?master_name=m&tls_ca=ca.pem"}, "rediss://"},
		{backend.Config{Redis: "redis://:geheim@h/0?read_timeout=1s"}, `"read_timeout" is not used`},
		{backend.Config{Redis: "redis://h/0?password=geheim"}, `"password" is not used`},
		{backend.Config{Redis: "redis://h/0#geheim"}, "# is not used"},
		{backend.Config{Redis: "redis://:geheim@h:1/0,redis://h:2/0"}, "the same in the whole list"},
		{backend.Config{Redis: "redis://:geheim@h:1/1,redis://:geheim@h:2/1"}, "database 0 only"},
		{backend.Config{Redis: "sentinel://:geheim@h:26379/mymaster"}, "redis+sentinel://host:port,host:port/MASTER/db"},
		{backend.Config{Redis: "redis+sentinel://:geheim@h:26379"}, "no name of a master"},
		{backend.Config{Redis: "redis+sentinel://:geheim@h:26379/m/0?quorum=2"}, `"quorum" is not used`},
		{backend.Config{Redis: "redis+sentinel://:geheim@h:26379/m/0?password=geheim&sentinel_password=geheim"},
			"two passwords for the Sentinels"},
		{backend.Config{Redis: "redis+sentinel://h:26379/m/0?sentinel_username=ann"}, "without a password"},
		{backend.Config{Redis: "redis+sentinel://:geheim@h:26379/m/zero"}, `"zero"`},
		{backend.Config{SQL: "root:geheim@tcp(h:3306)/shop?tls_ca=ca.pem"}, "tls=true"},
		{backend.Config{SQL: "root:geheim@tcp(h:3306)/shop?tls=skip-verify&tls_ca=ca.pem"}, "tls=true"},
		{backend.Config{SQL: "mysql://root:geheim@h/shop?tls=true&tls_ca=/nowhere/ca.pem"}, "/nowhere/ca.pem"},
		{backend.Config{SQL: "root:geheim@tcp(h:3306)"}, "want user:password@tcp(host:port)/database"},
		{backend.Config{SQL: "root:geheim@tcp(h:3306)/"}, "names no database"},
		{backend.Config{SQL: "root:geheim@h:3306/shop"}, "want user:password@tcp(host:port)/database"},
		{backend.Config{SQL: "root:geheim@tcp(h:3306)/shop?parseTime=maybe"}, "maybe"},
		{backend.Config{SQL: "root:geheim@tcp(h:3306)/shop?autocommit=0"}, "the shop needs 1"},
		{backend.Config{SQL: "mysql://root:geheim@h/shop?Completion_Type=1"}, "the shop needs 0"},
		{backend.Config{SQL: "mysql://root:geheim@h:3306"}, "names no database"},
		{backend.Config{SQL: "mysql:///shop"}, "not a URL"},
		{backend.Config{SQL: "mysql://root:geheim@h:x/shop"}, "not a URL"},
		{backend.Config{SQL: "mysql://root:geheim/x@h:3306/shop"}, "not a URL"},
		{backend.Config{SQL: "mysql://root:geheim@h/shop?parseTime=maybe"}, "maybe"},
		{backend.Config{SQL: "sqlite:" + dir + "/a/b/shop.db"}, "there is no directory " + dir + "/a/b"},
		{backend.Config{SQL: "sqlite://" + dir}, "is a directory"},
		{backend.Config{SQL: "sqlite:"}, "want sqlite:/path/to/file.db"},
		{backend.Config{SQL: "sqlite::memory:"}, "want sqlite:/path/to/file.db"},
		{backend.Config{SQL: "sqlite:/dev/null/shop.db"}, "cannot be read or written"},
		{backend.Config{SQL: "u:geheim@tcp(h)/db?timeout=1s"}, "SHOP_DIAL_TIMEOUT"},
		{backend.Config{SQL: "u:geheim@tcp(h)/db?loc=Asia/Shanghai&readTimeout=1s"}, "SHOP_SQL_TIMEOUT"},
		{backend.Config{SQL: "mysql://u:geheim@h/db#x"}, "not a URL"},
		{backend.Config{SQL: "sqlite:/tmp/shop.db?_pragma=key(geheim)"}, "want sqlite:/path/to/file.db"},
		{backend.Config{Redlock: "redis://127.0.0.1:1,redis://127.0.0.1:2"}, "three or more"},
		{backend.Config{Redlock: "redis://127.0.0.1:1,redis://127.0.0.1:2,redis://:geheim@127.0.0.1:1/5"},
			"127.0.0.1:1 is named twice"},
		{backend.Config{Redlock: "redis://127.0.0.1:1,redis://127.0.0.1:2,127.0.0.1:3"}, "want redis://"},
		{backend.Config{ZooKeeper: "zk://127.0.0.1:2181"}, "want host:port"},
		{backend.Config{ZooKeeper: "u:geheim@h:2181"}, "no user, path or parameter"},
		{backend.Config{ZooKeeper: "h:2181/root"}, "no user, path or parameter"},
		{backend.Config{Etcd: "127.0.0.1:2379"}, "want http://"},
		{backend.Config{Etcd: "http://u:geheim@h:2379/v3"}, "with no path"},
		{backend.Config{Etcd: "http://u@h:2379"}, "want http://user:password@host:port"},
		{backend.Config{Etcd: "http://u:geheim@h:2379?x=geheim"}, "want http://host:port"},
		{backend.Config{Etcd: "http://u:geheim@h:1,http://h:2"}, "the same in the whole list"},
		{backend.Config{Etcd: "http://u:geheim@h:1,https://u:geheim@h:2"}, "the same in the whole list"},
		{backend.Config{Consul: "http://127.0.0.1:1,http://127.0.0.1:2"}, "has one address"},
		{backend.Config{Consul: "tcp://127.0.0.1:1"}, "want http://host:po"},
		{backend.Config{Consul: "http://u:geheim@h:8500"}, "CONSUL_HTTP_TOKEN"},
		{backend.Config{Consul: "http://h:8500?token=geheim"}, "want http://host:port"},
		{backend.Config{Kafka: "u@h:9092"}, "no user, path or parameter"},
		{backend.Config{Kafka: "h:9092?sasl=geheim"}, "no user, path or parameter"},
	} {
		c.config.Conns = 1
		s, err := backend.Open(c.config)
		if err == nil {
			_ = s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "geheim") ||
			strings.Contains(err.Error(), "memory (14)") { // as SQLite says it
			t.Errorf("Open(%+v) = %v, want an error with %q and no secret", c.config, err, c.want)
		}
	}
}

// Parameters whose other value the shop needs itself are named in the log.
func TestParametersOfTheShopAreNamed(t *testing.T) {
	t.Parallel()
	var log testkit.Log
	s, err := backend.Open(backend.Config{
		SQL: "u:geheim@tcp(127.0.0.1:1)/db?charset=gbk&parseTime=true&clientFoundRows=true", Conns: 1,
		Health: backend.Health{Every: -1}, Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	testkit.Must(t, err)
	_ = s.Close()
	if got := log.String(); strings.Count(got, "WARN") != 1 || !strings.Contains(got, "charset=gbk clientFoundRows=true") {
		t.Errorf("the log is %q, want a warning with both", got)
	}
}

// The servers and the Sentinels have users of their own, and an address in each of its forms leads to the master.
func TestSentinelCredentials(t *testing.T) {
	t.Parallel()
	master := testenv.RedisNodes(t, 1, "user shop on >geheim ~* &* +@all")[0]
	to, err := url.Parse(master.URL)
	testkit.Must(t, err)
	password, _ := to.User.Password()
	watch, err := url.Parse(testenv.RedisSentinel(t,
		fmt.Sprintf("sentinel monitor mymaster %s %s 1", to.Hostname(), to.Port()),
		fmt.Sprintf("sentinel auth-pass mymaster %q", password),
		"user app on >watching ~* &* +@all").URL)
	testkit.Must(t, err)
	for _, address := range []string{
		"redis+sentinel://shop:geheim@S/mymaster/0?sentinel_username=app&sentinel_password=watching",
		"redis+sentinel://shop:geheim@127.0.0.1:1,S/mymaster?sentinel_username=app&sentinel_password=watching",
		"redis://shop:geheim@S/0?master_name=mymaster&addr=127.0.0.1:1&sentinel_username=app&sentinel_password=watching",
		"redis://app:watching@S/0?master_name=mymaster&username=shop&password=geheim",
		"redis://S/0?master_name=mymaster&username=shop&password=geheim&sentinel_username=app&sentinel_password=watching",
	} {
		c, err := backend.OpenRedis(strings.Replace(address, "S/", watch.Host+"/", 1), 1)
		if err != nil {
			t.Errorf("OpenRedis(%s) = %v", address, err)
			continue
		}
		if user, err := c.Do(t.Context(), "ACL", "WHOAMI").Text(); user != "shop" || err != nil {
			t.Errorf("%s: the user is %q, %v, want shop", address, user, err)
		}
		_ = c.Close()
	}
}

// The user of the address signs in: for commands, and for the streams of leases and watches; with a wrong password etcd
// refuses.
func TestEtcdCredentials(t *testing.T) {
	t.Parallel()
	server := testenv.Own(t, "etcd").Etcd.Addr
	root, err := clientv3.New(clientv3.Config{Endpoints: []string{server}, DialTimeout: 10 * time.Second})
	testkit.Must(t, err)
	defer root.Close()
	ctx := t.Context()
	role := func(_ any, err error) {
		t.Helper()
		testkit.Must(t, err)
	}
	for _, user := range []string{"root", "shop"} {
		role(root.UserAdd(ctx, user, "geheim"))
		role(root.RoleAdd(ctx, user))
		role(root.UserGrantRole(ctx, user, user))
	}
	role(root.RoleGrantPermission(ctx, "shop", "lastitem:", "lastitem;", clientv3.PermissionType(clientv3.PermReadWrite)))
	role(root.AuthEnable(ctx))
	for user, works := range map[string]bool{"shop:geheim@": true, "shop:wrong@": false, "": false} {
		s, err := backend.Open(backend.Config{Etcd: "http://" + user + server, Prefix: "lastitem:", Conns: 1})
		testkit.Must(t, err)
		testkit.NoError(t, "etcd with "+user, func() error {
			if err := s.Check("etcd"); (err == nil) != works {
				return fmt.Errorf("with %q: %w", user, err)
			}
			return nil
		})
		if works {
			signedIn(ctx, t, s.Etcd)
		}
		_ = s.Close()
	}
}

func signedIn(ctx context.Context, t *testing.T, c *clientv3.Client) {
	t.Helper()
	seen := c.Watch(ctx, "lastitem:key")
	lease, err := c.Grant(ctx, 30)
	testkit.Must(t, err)
	_, err = c.KeepAliveOnce(ctx, lease.ID)
	testkit.Check(t, err)
	_, err = c.Put(ctx, "lastitem:key", "x", clientv3.WithLease(lease.ID))
	testkit.Check(t, err)
	if r := <-seen; r.Err() != nil || len(r.Events) == 0 {
		t.Errorf("the watch says %v, %v", r.Events, r.Err())
	}
}
