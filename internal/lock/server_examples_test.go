package lock_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/hashicorp/consul/api"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"gorm.io/gorm"

	"lastitem/internal/backend"
	"lastitem/internal/lock"
	"lastitem/internal/testenv"
)

// exampleServer is where the examples without an embedded server find one. They have no output for the go command to check, which
// would run them without a server; TestServerExamples runs them.
var exampleServer struct{ etcd, zooKeeper, consul, mysql string }

// exampleDB returns a database with its tables.
func exampleDB(dsn string) (db *gorm.DB, stop func()) {
	db, err := backend.OpenSQL(dsn, 4)
	if err != nil {
		panic(err)
	}
	pool, err := db.DB()
	if err != nil {
		panic(err)
	}
	if _, err := backend.Migrate(context.Background(), db); err != nil {
		panic(err)
	}
	return db, func() { _ = pool.Close() }
}

// exampleSQLite returns one in a file.
func exampleSQLite() (db *gorm.DB, stop func()) {
	dir, err := os.MkdirTemp("", "lock-example-")
	if err != nil {
		panic(err)
	}
	db, closeDB := exampleDB("sqlite:" + filepath.Join(dir, "lastitem.db"))
	return db, func() {
		closeDB()
		_ = os.RemoveAll(dir)
	}
}

// A row under a unique index: whoever inserts it holds the lock, forever if he dies.
func ExampleSQLUnique() {
	db, stop := exampleSQLite()
	defer stop()
	locker, err := lock.NewSQLUnique(db, nil)
	fmt.Println("made:", err)
	lease, _ := tryOnce(locker, "product 101")
	_, err = tryOnce(locker, "product 101")
	fmt.Println("a rival:", err)
	fmt.Println("released:", lease.Release(context.Background()))
	// Output:
	// made: <nil>
	// a rival: lock: busy
	// released: <nil>
}

// The same with an expiry, by the database's clock, and a fence, which rises with every hold and which a write should check.
func ExampleSQLLease() {
	db, stop := exampleSQLite()
	defer stop()
	locker, err := lock.NewSQLLease(db, 10*time.Second, nil)
	fmt.Println("made:", err)
	for range 2 {
		lease, _ := tryOnce(locker, "product 101")
		fmt.Println("fence:", lease.Fence())
		fmt.Println("released:", lease.Release(context.Background()))
	}
	// Output:
	// made: <nil>
	// fence: 1
	// released: <nil>
	// fence: 2
	// released: <nil>
}

// A row that a transaction locks: a rival waits at the server, in line.
func ExampleSQLForUpdate() {
	db, stop := exampleDB(exampleServer.mysql)
	defer stop()
	locker, err := lock.NewSQLForUpdate(db, 10*time.Second, nil)
	fmt.Println("made:", err)
	lease, _ := tryOnce(locker, "product 101")
	_, err = tryOnce(locker, "product 101")
	fmt.Println("a rival:", err)
	fmt.Println("released:", lease.Release(context.Background()))
}

// One lease for all holds of a process, first come first served.
func ExampleEtcd() {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{exampleServer.etcd}, Logger: zap.NewNop()})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	locker := lock.NewEtcd(client, 10*time.Second, nil)
	defer locker.Close() // before the client
	lease, err := locker.Acquire(context.Background(), "example")
	fmt.Println("acquired:", err)
	_, err = tryOnce(locker, "example")
	fmt.Println("a rival:", err)
	fmt.Println("released:", lease.Release(context.Background()))
}

// An ephemeral sequential node per hold, first come first served.
func ExampleZooKeeper() {
	const session = 10 * time.Second
	conn, events, err := zk.Connect([]string{exampleServer.zooKeeper}, session, zk.WithLogger(silent{}))
	if err != nil {
		panic(err)
	}
	defer func() {
		conn.Close()
		for range events { // until its goroutines have ended
		}
	}()
	locker := lock.NewZooKeeper(conn, "/locks", session, nil)
	defer locker.Close() // before the connection
	lease, err := locker.Acquire(context.Background(), "example")
	fmt.Println("acquired:", err)
	_, err = tryOnce(locker, "example")
	fmt.Println("a rival:", err)
	fmt.Println("released:", lease.Release(context.Background()))
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// A key that one session at a time may hold. Its IsOwner guards a write to Consul.
func ExampleConsul() {
	config := api.DefaultConfig()
	config.Address = exampleServer.consul
	defer config.Transport.CloseIdleConnections()
	client, err := api.NewClient(config)
	if err != nil {
		panic(err)
	}
	locker := lock.NewConsul(client, lock.ConsulOptions{TTL: 10 * time.Second}, nil)
	defer locker.Close()
	lease, err := locker.Acquire(context.Background(), "example")
	fmt.Println("acquired:", err)
	_, err = tryOnce(locker, "example")
	fmt.Println("a rival:", err)
	fmt.Println("released:", lease.Release(context.Background()))
}

// TestServerExamples runs the examples that need a server, and compares what they print.
func TestServerExamples(t *testing.T) {
	at := &exampleServer
	const refused = "a rival: lock: busy\nreleased: <nil>\n"
	for name, c := range map[string]struct {
		find func(t *testing.T)
		run  func()
		want string
	}{
		"etcd":           {func(t *testing.T) { at.etcd = testenv.Etcd(t).Addr }, ExampleEtcd, "acquired: <nil>\n" + refused},
		"zookeeper":      {func(t *testing.T) { at.zooKeeper = testenv.ZooKeeper(t).Addr }, ExampleZooKeeper, "acquired: <nil>\n" + refused},
		"consul":         {func(t *testing.T) { at.consul = testenv.Consul(t).Addr }, ExampleConsul, "acquired: <nil>\n" + refused},
		"sql-for-update": {func(t *testing.T) { at.mysql = testenv.MySQL(t) }, ExampleSQLForUpdate, "made: <nil>\n" + refused},
	} {
		t.Run(name, func(t *testing.T) {
			c.find(t)
			if got := printed(t, c.run); got != c.want {
				t.Errorf("the example printed\n%swant\n%s", got, c.want)
			}
		})
	}
}

// printed runs f and returns what it printed, as the testing package does with examples that have an output.
func printed(t *testing.T, f func()) string {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	func() {
		usual := os.Stdout
		os.Stdout = file
		defer func() { os.Stdout = usual }()
		f()
	}()
	text, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
