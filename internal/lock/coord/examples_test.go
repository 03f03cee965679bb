package coord_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/hashicorp/consul/api"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"lastitem/internal/lock/coord"
	"lastitem/testkit/locktest"
	"lastitem/testkit/testenv"
)

// exampleServer is the address of the server for examples that have no embedded one. They have no output for the go
// command to check, which would run them without a server; TestServerExamples runs them.
var exampleServer struct{ etcd, zooKeeper, consul string }

// One lease for all holds of a process, first come first served.
func ExampleEtcd() {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{exampleServer.etcd}, Logger: zap.NewNop()})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	locker := coord.NewEtcd(client, 10*time.Second, nil)
	defer locker.Close() // before the client
	lease, err := locker.Acquire(context.Background(), "example")
	fmt.Println("acquired:", err)
	_, err = locktest.TryOnce(locker, "example")
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
		for range events { // until the connection's goroutines have ended
		}
	}()
	locker := coord.NewZooKeeper(conn, "/locks", session, nil)
	defer locker.Close() // before the connection
	lease, err := locker.Acquire(context.Background(), "example")
	fmt.Println("acquired:", err)
	_, err = locktest.TryOnce(locker, "example")
	fmt.Println("a rival:", err)
	fmt.Println("released:", lease.Release(context.Background()))
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// A key that one session at a time may hold. IsOwner guards a write to Consul.
func ExampleConsul() {
	config := api.DefaultConfig()
	config.Address = exampleServer.consul
	defer config.Transport.CloseIdleConnections()
	client, err := api.NewClient(config)
	if err != nil {
		panic(err)
	}
	locker := coord.NewConsul(client, coord.ConsulOptions{TTL: 10 * time.Second}, nil)
	defer locker.Close()
	lease, err := locker.Acquire(context.Background(), "example")
	fmt.Println("acquired:", err)
	_, err = locktest.TryOnce(locker, "example")
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
		"etcd": {func(t *testing.T) { at.etcd = testenv.Etcd(t).Addr }, ExampleEtcd, "acquired: <nil>\n" + refused},
		"zookeeper": {func(t *testing.T) {
			at.zooKeeper = testenv.ZooKeeper(t).Addr
		}, ExampleZooKeeper, "acquired: <nil>\n" + refused},
		"consul": {func(t *testing.T) { at.consul = testenv.Consul(t).Addr }, ExampleConsul, "acquired: <nil>\n" + refused},
	} {
		t.Run(name, func(t *testing.T) {
			c.find(t)
			locktest.WantPrinted(t, c.run, c.want)
		})
	}
}
