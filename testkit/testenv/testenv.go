// Package testenv gives a test what it says it needs: a Redis, a MySQL, an SQLite file, an etcd, the nginx program.
//
// Whatever it gives is private to the test (a key prefix, a database) and cleaned up afterwards. Real servers come from
// SHOP_TEST_REDIS and SHOP_TEST_SQL, which 'shop with-stack' and so 'make test' sets, and from SHOP_TEST_ETCD,
// SHOP_TEST_ZOOKEEPER, SHOP_TEST_CONSUL and SHOP_TEST_KAFKA; else the program is looked for on PATH and one server per
// test binary is started, owned by a keeper, so that it is gone when the binary is. Where neither is there the test is
// skipped with the reason and what to install, unless SHOP_TEST_REQUIRE
// ("redis,mysql,postgres,nginx,etcd,zookeeper,consul,kafka") names it: then it fails. Start with [Redis] and [MySQL].
//
// So a test states its tier by what it asks for. One that asks for nothing, or for embedded servers ([Miniredis],
// [SQLite]), runs in 'make quick' (go test -short); one that asks for an installed program runs in 'make test'; one
// that begins with [Slow] in 'make test-all', with [Engines] in 'make test-engines'.
package testenv

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver of Postgres
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"lastitem/say/redact"
	"lastitem/stack"
	"lastitem/stack/keeper"
	"lastitem/testkit"
)

// The variables of the environment.
const (
	EnvRedis     = "SHOP_TEST_REDIS"     // URL of a Redis to test against
	EnvSQL       = "SHOP_TEST_SQL"       // DSN of a MySQL to test against; the account must be able to create databases
	EnvEtcd      = "SHOP_TEST_ETCD"      // URL of an etcd to test against
	EnvZooKeeper = "SHOP_TEST_ZOOKEEPER" // host:port of a ZooKeeper to test against; some tests want sessions of a second
	EnvConsul    = "SHOP_TEST_CONSUL"    // URL of a Consul to test against; some tests want sessions of a second
	// path of the program that 'shop with-stack' is, for tests that need processes of it
	EnvProgram = "SHOP_TEST_PROGRAM"
	// host:port of a Kafka broker to test against; tests make topics and groups of their own
	EnvKafka   = "SHOP_TEST_KAFKA"
	EnvRequire = testkit.Env // backends whose absence fails tests instead of skipping them
)

// cleaning bounds every cleanup step.
const cleaning = 30 * time.Second

// init turns a copy of the test binary that was started as '<binary> keeper' into the owner of its servers. The flag
// package of the tests would refuse the argument, and a TestMain in every package could be forgotten.
func init() {
	if len(os.Args) == 2 && os.Args[1] == "keeper" {
		if err := keeper.Run(os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// RedisServer is a Redis for one test.
type RedisServer struct {
	// Client has retries off: a repeated command could act twice. It is closed with the test.
	Client *redis.Client
	// URL is for clients that the test makes itself.
	URL string
	// Prefix is for every key and channel of the test; keys under it are deleted at its end.
	Prefix string
}

// Redis gives a real Redis server.
func Redis(t testing.TB) *RedisServer {
	t.Helper()
	testkit.NotQuick(t, stack.Redis)
	url := os.Getenv(EnvRedis)
	if url == "" {
		running := private(t, stack.Redis)
		url = running.Redis.URL
	}
	r := connect(t, url)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleaning)
		defer cancel()
		if err := r.clean(ctx); err != nil {
			t.Errorf("testenv: delete the keys under %s: %v", r.Prefix, err)
		}
	})
	return r
}

// Miniredis gives an embedded Redis of the test's own, whose keys expire as real time passes. They end with it: to
// delete thousands of them took longer than [cleaning] on a busy machine, since each SCAN sorts all.
func Miniredis(t testing.TB) *RedisServer {
	t.Helper()
	m, err := stack.StartMiniredis("127.0.0.1:0")
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	t.Cleanup(m.Close)
	return connect(t, "redis://"+m.Addr()+"/0")
}

// connect makes the client, and checks that the server answers.
func connect(t testing.TB, url string) *RedisServer {
	t.Helper()
	opt, err := redis.ParseURL(url)
	if err != nil {
		t.Fatalf("testenv: Redis URL: %v", err)
	}
	// a busy machine may answer after the default, three seconds
	opt.MaxRetries, opt.ReadTimeout, opt.WriteTimeout = -1, Still, Still
	r := &RedisServer{Client: redis.NewClient(opt), URL: url, Prefix: "t:" + name() + ":"}
	if err := r.Client.Ping(t.Context()).Err(); err != nil {
		_ = r.Client.Close()
		t.Fatalf("testenv: Redis at %s: %v", redact.Address(url), err)
	}
	t.Cleanup(func() { _ = r.Client.Close() })
	return r
}

// RedisKeys lists the keys that match a pattern; on a cluster, those of all masters.
func RedisKeys(t testing.TB, c redis.UniversalClient, pattern string) (keys []string) {
	t.Helper()
	var mu sync.Mutex
	add := func(ctx context.Context, node *redis.Client) error {
		some, err := node.Keys(ctx, pattern).Result()
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, some...)
		return err
	}
	var err error
	switch c := c.(type) {
	case *redis.ClusterClient:
		err = c.ForEachMaster(t.Context(), add)
	case *redis.Client:
		err = add(t.Context(), c)
	default:
		err = fmt.Errorf("testenv: a client of type %T", c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// clean deletes the keys under the prefix.
func (r *RedisServer) clean(ctx context.Context) error {
	keys := r.Client.Scan(ctx, 0, r.Prefix+"*", 1000).Iterator()
	for keys.Next(ctx) {
		if err := r.Client.Unlink(ctx, keys.Val()).Err(); err != nil {
			return err
		}
	}
	return keys.Err()
}

// MySQL gives the DSN of an empty database on a real MySQL or MariaDB; it is dropped at the end of the test.
func MySQL(t testing.TB) string {
	t.Helper()
	testkit.NotQuick(t, stack.MySQL)
	dsn := os.Getenv(EnvSQL)
	if dsn == "" {
		running := private(t, stack.MySQL)
		dsn = running.SQL.URL
	}
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatalf("testenv: SQL DSN: %v", err)
	}
	database := "t_" + name()
	if err := mysqlExec(cfg, "CREATE DATABASE "+database+" CHARACTER SET utf8mb4"); err != nil {
		t.Fatalf("testenv: make a database at %s: %v", cfg.Addr, err)
	}
	t.Cleanup(func() {
		if err := mysqlExec(cfg, "DROP DATABASE "+database); err != nil {
			t.Errorf("testenv: %v", err)
		}
	})
	own := cfg.Clone()
	own.DBName = database
	return own.FormatDSN()
}

// mysqlExec runs one statement outside any database.
func mysqlExec(cfg *mysql.Config, statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), cleaning)
	defer cancel()
	cfg = cfg.Clone()
	cfg.DBName = ""
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer func() { _ = db.Close() }()
	_, err = db.ExecContext(ctx, statement)
	return err
}

// Postgres gives the URL of an empty database on a PostgreSQL of this test binary's own; it is dropped at the end of
// the test.
func Postgres(t testing.TB) string {
	t.Helper()
	testkit.NotQuick(t, stack.Postgres)
	own, err := url.Parse(private(t, stack.Postgres).Postgres.URL)
	testkit.Must(t, err)
	db, err := sql.Open("pgx", own.String())
	testkit.Must(t, err)
	database := "t_" + name()
	exec := func(statement string) {
		ctx, cancel := context.WithTimeout(context.Background(), cleaning)
		defer cancel()
		if _, err := db.ExecContext(ctx, statement); err != nil {
			t.Errorf("testenv: %s: %v", statement, err)
		}
	}
	exec("CREATE DATABASE " + database)
	t.Cleanup(func() {
		exec("DROP DATABASE " + database + " WITH (FORCE)")
		_ = db.Close()
	})
	own.Path = "/" + database
	return own.String()
}

// SQLite gives the DSN of a database file of the test's own, "sqlite:" and a path; the file does not exist yet.
func SQLite(t testing.TB) string {
	t.Helper()
	return "sqlite:" + filepath.Join(t.TempDir(), "lastitem.db")
}

// Shop gives the path of the program: of the one that runs the tests, or else of one that it builds.
func Shop(t testing.TB) string {
	t.Helper()
	if program := os.Getenv(EnvProgram); program != "" {
		return program
	}
	root, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "lastitem").Output()
	testkit.Must(t, err)
	program := filepath.Join(t.TempDir(), "shop")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/shop")
	build.Dir = strings.TrimSpace(string(root))
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("testenv: go build: %v\n%s", err, out)
	}
	return program
}

// Nginx gives the path of the nginx program.
func Nginx(t testing.TB) string {
	t.Helper()
	Installed(t, stack.Nginx)
	path, err := stack.Find(stack.Nginx)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Installed wants the programs of real servers (stack.Redis, ...) that the test starts itself.
func Installed(t testing.TB, backends ...string) {
	t.Helper()
	for _, b := range backends {
		testkit.NotQuick(t, b)
		if _, err := stack.Find(b); err != nil {
			testkit.Missing(t, b, err)
		}
	}
}

// Program gives the path of a program of the system, which the named package installs.
func Program(t testing.TB, name, pkg string) string {
	t.Helper()
	testkit.NotQuick(t, name)
	path, err := exec.LookPath(name)
	if err != nil {
		testkit.Missing(t, name, fmt.Errorf("%w; to install it: apt-get install %s", err, pkg))
	}
	return path
}

// servers holds what this test binary has started, by backend. Nothing closes it: its keeper does when the binary ends.
var servers struct {
	sync.Mutex
	started map[string]*stack.Stack
	failed  map[string]error
}

// private returns the test binary's own server of a kind, which it starts when first asked.
func private(t testing.TB, backend string) *stack.Stack {
	t.Helper()
	Installed(t, backend)
	servers.Lock()
	defer servers.Unlock()
	if err := servers.failed[backend]; err != nil {
		t.Fatalf("testenv: %v", err)
	}
	if s := servers.started[backend]; s != nil {
		if err := s.Err(); err != nil {
			t.Fatalf("testenv: %v", err)
		}
		return s
	}
	s, err := start([]string{backend}, stack.Options{})
	if err != nil {
		servers.failed = set(servers.failed, backend, err)
		t.Fatalf("testenv: %v", err)
	}
	servers.started = set(servers.started, backend, s)
	return s
}

// start starts real servers, with what o says of them, under a keeper, which is a copy of this test binary; see init.
func start(backends []string, o stack.Options) (*stack.Stack, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	o.Backend, o.Only, o.Binary = stack.Local, backends, self
	o.Log = func(format string, args ...any) { fmt.Fprintf(os.Stderr, "testenv: "+format+"\n", args...) }
	return stack.Start(ctx, o)
}

// set puts a value into a map that may not exist yet.
func set[K cmp.Ordered, V any](m map[K]V, k K, v V) map[K]V {
	if m == nil {
		m = map[K]V{}
	}
	m[k] = v
	return m
}

// IgnoreServers keeps goleak from reporting the goroutine that watches a private server of this test binary.
func IgnoreServers() goleak.Option {
	return goleak.IgnoreAnyFunction("lastitem/stack/keeper.(*Keeper).watch")
}

// name returns a random name that may stand in keys and identifiers.
func name() string { return strings.ToLower(rand.Text()[:16]) }

// Own starts real servers of the test's own ("redis", "mysql", ...: the names of package stack), which it may
// configure, stop and fill. They end with the test.
func Own(t testing.TB, backends ...string) *stack.Stack {
	t.Helper()
	return OwnWith(t, stack.Options{}, backends...)
}

// OwnWith is Own with what o says of the servers, such as options on their command lines.
func OwnWith(t testing.TB, o stack.Options, backends ...string) *stack.Stack {
	t.Helper()
	Installed(t, backends...)
	s, err := start(backends, o)
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("testenv: %v", err)
		}
	})
	return s
}
