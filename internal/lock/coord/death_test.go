package coord_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/hashicorp/consul/api"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"lastitem/internal/lock"
	"lastitem/testkit"
	"lastitem/testkit/locktest"
	"lastitem/testkit/testenv"
)

func TestMain(m *testing.M) { locktest.Main(m) }

// fifo starts waiters for a held lock one after the other, and wants them to get it in this order. queued counts
// the holder and the waiters at the server.
func fifo(t *testing.T, l lock.Locker, key string, queued func() int) {
	t.Helper()
	lease := locktest.Obtain(t, l, key)
	var mu sync.Mutex
	var order []int
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			lease, err := l.Acquire(lock.WithWait(t.Context(), locktest.Soon), key)
			if err != nil {
				t.Errorf("Acquire: %v", err)
				return
			}
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
			testkit.Is(t, lease.Release(context.Background()), nil, "Release")
		})
		testkit.Until(t, "another in the queue", func() bool { return queued() == i+2 })
		locktest.Say(t, "waiter %d is in the queue, which has %d entries", i, i+2)
	}
	locktest.Release(t, lease)
	wg.Wait()
	locktest.Say(t, "the waiters were served in the order %v", order)
	if !slices.IsSorted(order) {
		t.Errorf("served in the order %v", order)
	}
	if n := queued(); n != 0 {
		t.Errorf("%d left behind", n)
	}
}

func TestDeaths(t *testing.T) {
	testenv.Slow(t, "sessions of 15 s end")
	t.Parallel()
	for name, make := range map[string]func(*testing.T) *locktest.World{
		"zookeeper": zooKeeperWorld,
		"etcd": func(t *testing.T) *locktest.World {
			return keyWorld(t, stores["etcd"], true, map[string]string{"lease": "LeaseGrant", "key": "Txn"})
		},
		"consul": func(t *testing.T) *locktest.World {
			return keyWorld(t, stores["consul"], false, map[string]string{"session": "create", "key": "txn"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			locktest.Deaths(t, make)
		})
	}
}

// after cuts the network when the server has carried out a call, so that the answer is lost.
func after(r *locktest.Relay, name string) meddle {
	return func(ctx context.Context, call string, send func(context.Context) error) error {
		err := send(ctx)
		if call == name && err == nil {
			r.Cut.Store(true)
			err = status.Error(codes.Unavailable, "the process died")
		}
		return err
	}
}

// keyWorld is the world of a lock whose keys' sessions a test can meddle with; dying has the calls after which a
// process dies.
func keyWorld(t *testing.T, of store, queue bool, dying map[string]string) *locktest.World {
	s := of.server(t)
	far := func(t *testing.T, call string) (lock.Locker, *locktest.Relay) {
		far, r := relayed(t, s)
		l := of.lock(t, far, locktest.MortalTTL, after(r, call))
		t.Cleanup(r.Heal)
		return l, r
	}
	keys := of.keys(t, s)
	w := &locktest.World{
		Key: s.Prefix + "k", Queue: queue,
		Lives:  func(t *testing.T) lock.Locker { return of.lock(t, s, time.Minute, straight) },
		Mortal: func(t *testing.T) (lock.Locker, *locktest.Relay) { return far(t, "") },
		Dying:  map[string]func(*testing.T) lock.Locker{},
		Traces: func(t *testing.T, key string) int {
			if queue {
				key += "/"
			}
			return keys(key)
		},
	}
	for name, call := range dying {
		w.Dying[name] = func(t *testing.T) lock.Locker { l, _ := far(t, call); return l }
	}
	return w
}

func zooKeeperWorld(t *testing.T) *locktest.World {
	s := testenv.ZooKeeper(t)
	see := s.ZooKeeperConn(t, time.Minute)
	far := func(t *testing.T) (lock.Locker, *locktest.Relay) {
		far, r := relayed(t, s)
		l := zooKeeperLock(t, far, locktest.MortalTTL)
		t.Cleanup(r.Heal)
		return l, r
	}
	dying := func(operation uint32) func(*testing.T) lock.Locker {
		return func(t *testing.T) lock.Locker {
			l, r := far(t)
			r.Losing(true, zkAnswerTo(operation))
			return l
		}
	}
	return &locktest.World{
		Key: "k", Queue: true,
		Lives:  func(t *testing.T) lock.Locker { return zooKeeperLock(t, s, 30*time.Second) },
		Mortal: far,
		Dying: map[string]func(*testing.T) lock.Locker{
			"session": dying(zkSync), "node": dying(zkCreate), "look at the others": dying(zkGetChildren),
			"fence": dying(zkExists),
		},
		Traces: func(t *testing.T, key string) int {
			names, _, err := see.Children(path.Join(s.Prefix, key))
			if err != nil && !errors.Is(err, zk.ErrNoNode) {
				t.Fatal(err)
			}
			return len(names)
		},
	}
}

// meddle decides when a call is sent, and which error its caller gets.
type meddle func(ctx context.Context, call string, send func(context.Context) error) error

// losingTo loses the answers that s takes.
func losingTo(s *locktest.LostAnswers) meddle {
	return func(ctx context.Context, call string, send func(context.Context) error) error {
		taken := s.Take(call)
		err := send(ctx)
		if taken {
			err = status.Error(codes.Unavailable, "the connection broke")
		}
		return err
	}
}

// detained is one call of a method that arrives late, when the gate opens, whether or not its caller still waits for
// it. If broken is set, the caller is told at once that the connection broke.
type detained struct {
	name        string
	broken      bool
	armed       atomic.Bool
	asked, gate chan struct{}
	landed      chan error
}

func newDetained(name string) *detained {
	return &detained{name: name, asked: make(chan struct{}), gate: make(chan struct{}), landed: make(chan error, 1)}
}

func (d *detained) meddle(ctx context.Context, call string, send func(context.Context) error) error {
	if call != d.name || !d.armed.CompareAndSwap(true, false) {
		return send(ctx)
	}
	close(d.asked)
	answered := make(chan error, 1)
	go func() {
		<-d.gate
		err := send(context.WithoutCancel(ctx))
		d.landed <- err
		answered <- err
	}()
	if d.broken {
		return status.Error(codes.Unavailable, "the connection broke")
	}
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// arrivesAfterCleanup breaks the connection during an acquire of l, waits until its process has undone the acquire, and
// then lets the acquire arrive. How long its session lives on depends on whether the process holds other locks
// meanwhile.
func (d *detained) arrivesAfterCleanup(t *testing.T, l lock.Locker, key string) {
	t.Helper()
	d.broken = true
	d.armed.Store(true)
	_, err := l.Acquire(t.Context(), key)
	if !errors.Is(err, lock.ErrUnavailable) {
		t.Fatalf("Acquire = %v, want ErrUnavailable", err)
	}
	close(d.gate)
	<-d.landed // refused if the session has ended
}

// leavesTooEarly lets a caller leave while its acquire is detained, and lets the acquire arrive after that.
func (d *detained) leavesTooEarly(t *testing.T, l lock.Locker, key string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d.armed.Store(true)
	left := locktest.Attempt(ctx, l, key)
	<-d.asked
	cancel()
	locktest.WantGaveUp(t, <-left)
	close(d.gate)
	if err := <-d.landed; err != nil {
		t.Fatalf("the late acquire failed (%v): nothing is shown", err)
	}
}

// meddledEtcd returns a client of etcd whose unary calls pass through f.
func meddledEtcd(t *testing.T, s *testenv.Coordination, f meddle) *clientv3.Client {
	t.Helper()
	return s.EtcdClient(t, grpc.WithChainUnaryInterceptor(
		func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
			invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
		) error {
			return f(ctx, path.Base(method), func(ctx context.Context) error {
				return invoke(ctx, method, req, reply, cc, opts...)
			})
		}))
}

// meddledConsul returns a client of Consul whose requests pass through f.
func meddledConsul(t *testing.T, s *testenv.Coordination, f meddle) *api.Client {
	t.Helper()
	return s.ConsulClient(t, func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			answer, gone := make(chan *http.Response, 1), make(chan struct{})
			err := f(req.Context(), path.Base(req.URL.Path), func(ctx context.Context) error {
				res, err := next.RoundTrip(req.WithContext(ctx))
				if err != nil {
					return err
				}
				answer <- res
				select {
				case <-gone: // nobody waits for this late answer
					lose(answer)
				default:
				}
				return nil
			})
			if err == nil {
				return <-answer, nil
			}
			close(gone)
			if lose(answer) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		})
	})
}

// lose closes an answer if there is one.
func lose(answer <-chan *http.Response) bool {
	select {
	case res := <-answer:
		_ = res.Body.Close()
		return true
	default:
		return false
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
