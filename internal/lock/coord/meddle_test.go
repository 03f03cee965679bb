package coord_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"path"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/consul/api"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"lastitem/internal/lock"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/testenv"
)

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

// detained is one call of a method that arrives late, when the gate opens, whether or not its caller still waits for it. If broken is set,
// the caller is told at once that the connection broke.
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

// arrivesAfterCleanup breaks the connection during an acquire of l, waits until its process has undone the acquire, and then lets the
// acquire arrive. How long its session lives on depends on whether the process holds other locks meanwhile.
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
			return f(ctx, path.Base(method), func(ctx context.Context) error { return invoke(ctx, method, req, reply, cc, opts...) })
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
