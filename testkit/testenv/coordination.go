package testenv

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	consul "github.com/hashicorp/consul/api"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"lastitem/stack"
	"lastitem/testkit"
)

// Coordination is an etcd, a ZooKeeper or a Consul for one test.
type Coordination struct {
	// Addr is host:port.
	Addr string
	// Prefix is for every key of the test ("/t/abc" in ZooKeeper, where it is the path of a node that does not exist yet).
	// What is under it is deleted at the test's end.
	Prefix string
}

// address takes the server that the environment names, or the test binary's own.
func address(t testing.TB, env, backend string, of func(*stack.Stack) stack.Service) string {
	t.Helper()
	testkit.NotQuick(t, backend)
	given := os.Getenv(env)
	if given == "" {
		return of(private(t, backend)).Addr
	}
	if u, err := url.Parse(given); err == nil && u.Host != "" {
		return u.Host
	}
	return given
}

// Etcd gives a real etcd server.
func Etcd(t testing.TB) *Coordination {
	t.Helper()
	e := &Coordination{
		Addr:   address(t, EnvEtcd, stack.Etcd, func(s *stack.Stack) stack.Service { return s.Etcd }),
		Prefix: "t-" + name() + "-",
	}
	c := e.EtcdClient(t)
	t.Cleanup(func() { // before the client is closed
		ctx, cancel := context.WithTimeout(context.Background(), cleaning)
		defer cancel()
		if _, err := c.Delete(ctx, e.Prefix, clientv3.WithPrefix()); err != nil {
			t.Errorf("testenv: delete the keys under %s: %v", e.Prefix, err)
		}
	})
	return e
}

// EtcdClient returns a connection of its own, as another process would have. It is closed with the test.
func (s *Coordination) EtcdClient(t testing.TB, opts ...grpc.DialOption) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{s.Addr}, DialTimeout: cleaning, Logger: zap.NewNop(), DialOptions: opts,
	})
	if err != nil {
		t.Fatalf("testenv: etcd at %s: %v", s.Addr, err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// ZooKeeper gives a real ZooKeeper server.
func ZooKeeper(t testing.TB) *Coordination {
	t.Helper()
	z := &Coordination{
		Addr: address(t, EnvZooKeeper, stack.ZooKeeper, func(s *stack.Stack) stack.Service {
			return s.ZooKeeper
		}),
		Prefix: "/t-" + name(),
	}
	c := z.ZooKeeperConn(t, cleaning)
	t.Cleanup(func() {
		if err := deleteTree(c, z.Prefix); err != nil {
			t.Errorf("testenv: delete %s: %v", z.Prefix, err)
		}
	})
	return z
}

// ZooKeeperConn returns a connection, and so a session, of its own. It is closed with the test.
func (s *Coordination) ZooKeeperConn(t testing.TB, session time.Duration) *zk.Conn {
	t.Helper()
	c, events, err := zk.Connect([]string{s.Addr}, session, zk.WithLogger(quiet{}))
	if err != nil {
		t.Fatalf("testenv: ZooKeeper at %s: %v", s.Addr, err)
	}
	t.Cleanup(func() {
		c.Close()
		for range events { // until its last goroutine has ended
		}
	})
	late := time.After(cleaning)
	for c.State() != zk.StateHasSession { // what is asked before may be answered with "no server"
		select {
		case <-events:
		case <-late:
			t.Fatalf("testenv: ZooKeeper at %s gives no session", s.Addr)
		}
	}
	return c
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// deleteTree deletes a node and what is below it; nodes that others delete meanwhile are no error.
func deleteTree(c *zk.Conn, node string) error {
	children, _, err := c.Children(node)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	for _, child := range children {
		if err := deleteTree(c, path.Join(node, child)); err != nil {
			return err
		}
	}
	if err == nil {
		err = c.Delete(node, -1)
	}
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// Consul gives a real Consul agent.
func Consul(t testing.TB) *Coordination {
	t.Helper()
	a := &Coordination{
		Addr:   address(t, EnvConsul, stack.Consul, func(s *stack.Stack) stack.Service { return s.Consul }),
		Prefix: "t-" + name() + "-",
	}
	c := a.ConsulClient(t)
	t.Cleanup(func() {
		if _, err := c.KV().DeleteTree(a.Prefix, nil); err != nil {
			t.Errorf("testenv: delete the keys under %s: %v", a.Prefix, err)
		}
	})
	return a
}

// ConsulClient returns a client with connections of its own, which are closed with the test. Its requests pass through
// what around makes of its transport.
func (s *Coordination) ConsulClient(t testing.TB, around ...func(http.RoundTripper) http.RoundTripper) *consul.Client {
	t.Helper()
	cfg := consul.DefaultConfig()
	cfg.Address = s.Addr
	t.Cleanup(cfg.Transport.CloseIdleConnections)
	cfg.HttpClient = &http.Client{Transport: cfg.Transport}
	for _, f := range around {
		cfg.HttpClient.Transport = f(cfg.HttpClient.Transport)
	}
	c, err := consul.NewClient(cfg)
	if err != nil {
		t.Fatalf("testenv: Consul at %s: %v", s.Addr, err)
	}
	return c
}
