package testenv_test

import (
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	consul "github.com/hashicorp/consul/api"
	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, testenv.IgnoreServers()) }

func TestRedisCleansItsPrefix(t *testing.T) {
	t.Parallel()
	var url, key string
	if !t.Run("user", func(t *testing.T) {
		r := testenv.Redis(t)
		url, key = r.URL, r.Prefix+"k"
		testkit.Must(t, r.Client.Set(t.Context(), key, "v", 0).Err())
	}) || url == "" {
		return
	}
	opt, err := redis.ParseURL(url)
	testkit.Must(t, err)
	c := redis.NewClient(opt)
	defer func() { _ = c.Close() }()
	if err := c.Get(t.Context(), key).Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("GET %s after the test = %v, want redis.Nil", key, err)
	}
}

func TestMySQLDropsItsDatabase(t *testing.T) {
	t.Parallel()
	var dsn string
	if !t.Run("user", func(t *testing.T) {
		own := testenv.MySQL(t)
		db := open(t, own)
		_, err := db.ExecContext(t.Context(), "CREATE TABLE x (id INT PRIMARY KEY)")
		testkit.Must(t, err)
		dsn = own
	}) || dsn == "" {
		return
	}
	if err := open(t, dsn).PingContext(t.Context()); err == nil || !strings.Contains(err.Error(), "1049") {
		t.Errorf("ping of the dropped database = %v, want error 1049", err)
	}
}

func open(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestMiniredisExpiresKeys(t *testing.T) {
	t.Parallel()
	r := testenv.Miniredis(t)
	key := r.Prefix + "k"
	testkit.Must(t, r.Client.Set(t.Context(), key, "v", 30*time.Millisecond).Err())
	if got := r.Client.Get(t.Context(), key).Val(); got != "v" {
		t.Fatalf("GET at once = %q, want v", got)
	}
	ctx := testkit.Within(t, 10*time.Second)
	for r.Client.Exists(ctx, key).Val() == 1 {
		time.Sleep(5 * time.Millisecond)
	}
	if ctx.Err() != nil {
		t.Error("the key did not expire within 10 s")
	}
}

// TestMissing runs the helper below in a copy of this binary that finds no server, with and without a requirement.
func TestMissing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ require, want string }{
		{"", "--- SKIP"},
		{"mysql,redis", "--- FAIL"},
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHelperNeedsRedis$", "-test.v")
		cmd.Env = append(os.Environ(), "SHOP_TEST_HELPER=1", "PATH="+t.TempDir(), testenv.EnvRedis+"=",
			testenv.EnvRequire+"="+c.require)
		out, _ := cmd.CombinedOutput()
		if _, err := os.Stat("/usr/local/bin/redis-server"); err == nil {
			t.Skip("redis-server is installed where it is always found")
		}
		if !strings.Contains(string(out), c.want) || !strings.Contains(string(out), "apt-get install redis-server") {
			t.Errorf("require %q: got %s\nwant %q and what to install", c.require, out, c.want)
		}
	}
}

func TestHelperNeedsRedis(t *testing.T) {
	if os.Getenv("SHOP_TEST_HELPER") == "" {
		t.Skip("run by TestMissing")
	}
	testenv.Redis(t)
}

func TestNginxAndSQLite(t *testing.T) {
	t.Parallel()
	if dsn := testenv.SQLite(t); !strings.HasPrefix(dsn, "sqlite:") ||
		!filepath.IsAbs(strings.TrimPrefix(dsn, "sqlite:")) {
		t.Errorf("SQLite() = %q, want sqlite: and an absolute path", dsn)
	}
	if path := testenv.Nginx(t); !filepath.IsAbs(path) {
		t.Errorf("Nginx() = %q, want an absolute path", path)
	}
}

// TestCoordinationCleansItsPrefix leaves something behind in each, and looks afterwards.
func TestCoordinationCleansItsPrefix(t *testing.T) {
	t.Parallel()
	left := map[string]func(t *testing.T) int{}
	t.Run("etcd", func(t *testing.T) {
		s := testenv.Etcd(t)
		_, err := s.EtcdClient(t).Put(t.Context(), s.Prefix+"k", "v")
		testkit.Must(t, err)
		left["etcd"] = func(t *testing.T) int {
			res, err := s.EtcdClient(t).Get(t.Context(), s.Prefix, clientv3.WithPrefix())
			testkit.Must(t, err)
			return len(res.Kvs)
		}
	})
	t.Run("zookeeper", func(t *testing.T) {
		s := testenv.ZooKeeper(t)
		c := s.ZooKeeperConn(t, time.Minute)
		for _, node := range []string{s.Prefix, s.Prefix + "/a", s.Prefix + "/a/b"} {
			_, err := c.Create(node, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
			testkit.Must(t, err)
		}
		left["zookeeper"] = func(t *testing.T) int {
			there, _, err := s.ZooKeeperConn(t, time.Minute).Exists(s.Prefix)
			if err != nil || there {
				t.Errorf("Exists(%s) = %v, %v", s.Prefix, there, err)
			}
			return 0
		}
	})
	t.Run("consul", func(t *testing.T) {
		s := testenv.Consul(t)
		_, err := s.ConsulClient(t).KV().Put(&consul.KVPair{Key: s.Prefix + "k"}, nil)
		testkit.Must(t, err)
		left["consul"] = func(t *testing.T) int {
			names, _, err := s.ConsulClient(t).KV().Keys(s.Prefix, "", nil)
			testkit.Must(t, err)
			return len(names)
		}
	})
	for name, count := range left {
		if n := count(t); n != 0 {
			t.Errorf("%s: %d keys are still there after the test", name, n)
		}
	}
}
