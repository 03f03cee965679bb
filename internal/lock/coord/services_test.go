package coord_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"lastitem/internal/lock"
	"lastitem/internal/lock/coord"
	"lastitem/internal/step"
	"lastitem/testkit"
	"lastitem/testkit/locktest"
	"lastitem/testkit/testenv"
)

func newEtcd(t *testing.T, c *clientv3.Client, ttl time.Duration, s *step.Stream) *coord.Etcd {
	t.Helper()
	l := testkit.Closing(t, coord.NewEtcd(c, ttl, s))
	return l
}

func TestEtcd(t *testing.T) {
	t.Parallel()
	s := testenv.Etcd(t)
	locktest.Run(t, locktest.Kind{
		Name: "etcd", Key: locktest.KeysUnder(s.Prefix),
		Process: func(t *testing.T, st *step.Stream) lock.Locker {
			return newEtcd(t, s.EtcdClient(t), 30*time.Second, st)
		},
		Late: &locktest.Late{TTL: time.Second, Process: func(t *testing.T, through func(string) string) lock.Locker {
			far := *s
			far.Addr = through(s.Addr)
			return newEtcd(t, far.EtcdClient(t), time.Second, nil)
		}},
	})
}

// etcdLeases returns the leases of the keys below a prefix, by age.
func etcdLeases(t *testing.T, c *clientv3.Client, prefix string) []clientv3.LeaseID {
	t.Helper()
	res, err := c.Get(t.Context(), prefix, clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	testkit.Must(t, err)
	var all []clientv3.LeaseID
	for _, kv := range res.Kvs {
		all = append(all, clientv3.LeaseID(kv.Lease))
	}
	return all
}

func TestEtcdLeaseRevoked(t *testing.T) {
	t.Parallel()
	s := testenv.Etcd(t)
	c := s.EtcdClient(t)
	const ttl = 20 * time.Second
	holder, rival := newEtcd(t, c, ttl, nil), newEtcd(t, s.EtcdClient(t), time.Minute, nil)
	locktest.SessionEnds(t, holder, rival, s.Prefix+"k", ttl, func() {
		_, err := c.Revoke(t.Context(), etcdLeases(t, c, s.Prefix)[0])
		testkit.Must(t, err)
	})
}

func TestEtcdFirstComeFirstServed(t *testing.T) {
	t.Parallel()
	s := testenv.Etcd(t)
	c := s.EtcdClient(t)
	fifo(t, newEtcd(t, c, 10*time.Second, nil), s.Prefix+"k", func() int { return len(etcdLeases(t, c, s.Prefix)) })
}

// Close frees all locks at once, and tells the holders.
func TestEtcdClose(t *testing.T) {
	t.Parallel()
	s := testenv.Etcd(t)
	l := newEtcd(t, s.EtcdClient(t), time.Minute, nil)
	lease := locktest.Obtain(t, l, s.Prefix+"k")
	testkit.Must(t, l.Close())
	locktest.WantLost(t, lease, 0)
	locktest.Warm(t, newEtcd(t, s.EtcdClient(t), time.Minute, nil), s.Prefix+"k")
	locktest.ReleaseLost(t, lease, "Release")
}

// The server refuses the put, so there is nothing to undo. If it refuses the delete of a holder's key, the key goes
// with its lease: as soon as the process's other holds have ended.
func TestEtcdPermissionDenied(t *testing.T) {
	t.Parallel()
	s := testenv.Etcd(t)
	var denied atomic.Bool
	var deletes atomic.Int64
	c := s.EtcdClient(t)
	l := newEtcd(t, meddledEtcd(t, s, func(ctx context.Context, call string, send func(context.Context) error) error {
		if call == "DeleteRange" {
			deletes.Add(1)
		}
		if denied.Load() && (call == "Txn" || call == "DeleteRange") {
			return rpctypes.ErrGRPCPermissionDenied
		}
		return send(ctx)
	}), time.Minute, nil)
	locktest.Warm(t, l, s.Prefix+"k")
	lease, other := locktest.Obtain(t, l, s.Prefix+"k"), locktest.Obtain(t, l, s.Prefix+"other")
	denied.Store(true)
	if _, err := l.Acquire(t.Context(), s.Prefix+"k2"); !errors.Is(err, lock.ErrUnavailable) ||
		!errors.Is(err, rpctypes.ErrPermissionDenied) {
		t.Errorf("Acquire = %v, want ErrUnavailable with the reason", err)
	}
	time.Sleep(time.Second) // five turns of a cleanup
	if n := deletes.Load(); n != 0 {
		t.Errorf("%d deletes of a key that was never put", n)
	}
	locktest.ReleaseUnknown(t, lease, "Release")
	denied.Store(false)
	locktest.Release(t, other)
	testkit.Until(t, "no key is left", func() bool { return len(etcdLeases(t, c, s.Prefix)) == 0 })
}

// Sessions with a negligible lock-delay: one whose loss is noticed soon, and one that does not end during a test.
var (
	promptly = coord.ConsulOptions{LockDelay: time.Millisecond}
	long     = coord.ConsulOptions{LockDelay: time.Millisecond, TTL: time.Minute}
)

func newConsul(t *testing.T, c *api.Client, o coord.ConsulOptions, s *step.Stream) *coord.Consul {
	t.Helper()
	l := testkit.Closing(t, coord.NewConsul(c, o, s))
	return l
}

func TestConsul(t *testing.T) {
	t.Parallel()
	s := testenv.Consul(t)
	locktest.Run(t, locktest.Kind{
		Name: "consul", Key: locktest.KeysUnder(s.Prefix),
		Process: func(t *testing.T, st *step.Stream) lock.Locker {
			return newConsul(t, s.ConsulClient(t), coord.ConsulOptions{}, st)
		},
		Late: &locktest.Late{TTL: time.Second, Process: func(t *testing.T, through func(string) string) lock.Locker {
			far := *s
			far.Addr = through(s.Addr)
			return newConsul(t, far.ConsulClient(t), coord.ConsulOptions{TTL: time.Second, LockDelay: time.Millisecond}, nil)
		}},
	})
}

// destroySession ends the session that holds key.
func destroySession(t *testing.T, c *api.Client, key string) {
	t.Helper()
	pair, _, err := c.KV().Get(key, nil)
	if err != nil || pair == nil || pair.Session == "" {
		t.Fatalf("KV.Get(%s) = %v, %v, want a session", key, pair, err)
	}
	_, err = c.Session().Destroy(pair.Session, nil)
	testkit.Must(t, err)
}

// With a lock-delay longer than the time between two renewals the holder is told before a rival is let in.
func TestConsulLockDelay(t *testing.T) {
	t.Parallel()
	s := testenv.Consul(t)
	c, key := s.ConsulClient(t), s.Prefix+"k"
	slow := coord.ConsulOptions{LockDelay: 6 * time.Second}
	lease := locktest.Obtain(t, newConsul(t, c, slow, nil), key)
	start := time.Now()
	destroySession(t, c, key)
	rival := newConsul(t, s.ConsulClient(t), slow, nil)
	second := locktest.Obtain(t, rival, key)
	if took := time.Since(start); took < 5*time.Second {
		t.Errorf("the rival was let in after %s of a lock-delay of %s", took, slow.LockDelay)
	}
	locktest.WantLost(t, lease, 0)
	locktest.Release(t, second)
}

// A wait that ends holds nothing: never a lease of nil without an error (Vitess issue 8309).
func TestConsulWaitEndsWithAnError(t *testing.T) {
	t.Parallel()
	s := testenv.Consul(t)
	key := s.Prefix + "k"
	lease := locktest.Obtain(t, newConsul(t, s.ConsulClient(t), promptly, nil), key)
	waiter := newConsul(t, s.ConsulClient(t), promptly, nil)
	locktest.Warm(t, waiter, s.Prefix+"another") // the session is open: what follows is a wait
	ctx := testkit.Within(t, 100*time.Millisecond)
	start := time.Now()
	got, err := waiter.Acquire(ctx, key)
	if got != nil || !errors.Is(err, lock.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Acquire = %v, %v, want ErrBusy with the cause", got, err)
	}
	if took := time.Since(start); took > locktest.Soon {
		t.Errorf("a wait of 100 ms took %s", took)
	}
	locktest.Release(t, lease)
}

// Consul's locks are advisory: any client may write to a held key. The holder must still be able to release it.
func TestConsulKeyWrittenTo(t *testing.T) {
	t.Parallel()
	s := testenv.Consul(t)
	c, key := s.ConsulClient(t), s.Prefix+"k"
	l := newConsul(t, c, promptly, nil)
	lease := locktest.Obtain(t, l, key)
	_, err := c.KV().Put(&api.KVPair{Key: key, Value: []byte("by hand")}, nil)
	testkit.Must(t, err)
	locktest.Release(t, lease)
	locktest.Warm(t, newConsul(t, s.ConsulClient(t), promptly, nil), key)
}

// refusing answers transactions as Consul does when it refuses them, with a reason that reason returns; "" = it does
// not refuse.
func refusing(reason func() string) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			what := ""
			if path.Base(req.URL.Path) == "txn" {
				what = reason()
			}
			if what == "" {
				return next.RoundTrip(req)
			}
			body := fmt.Sprintf(`{"Results":null,"Errors":[{"OpIndex":0,"What":%q}]}`, what)
			return &http.Response{
				StatusCode: http.StatusConflict, Request: req, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)),
			}, nil
		})
	}
}

const consulDenied = `Permission denied: token with AccessorID '1' lacks permission 'key:write' on "k"`

// A refusal for another reason than a holder is no ErrBusy: waiting would not help. It leaves nothing behind.
func TestConsulRefusesAnAcquire(t *testing.T) {
	t.Parallel()
	s := testenv.Consul(t)
	var denied atomic.Bool
	key := s.Prefix + "k"
	l := newConsul(t, s.ConsulClient(t, refusing(func() string {
		if denied.Load() {
			return consulDenied
		}
		return ""
	})), long, nil)
	locktest.Warm(t, l, key)
	denied.Store(true)
	_, err := l.Acquire(lock.WithWait(t.Context(), time.Second), key)
	if !errors.Is(err, lock.ErrUnavailable) || !strings.Contains(err.Error(), "lacks permission") {
		t.Errorf("Acquire = %v, want ErrUnavailable with the reason", err)
	}
	denied.Store(false)
	locktest.Warm(t, l, key)
}

// The session was destroyed, and no renewal has told it yet: the next acquire does, and the one after it has a new
// session.
func TestConsulAcquireTellsOfALostSession(t *testing.T) {
	t.Parallel()
	s := testenv.Consul(t)
	c, key := s.ConsulClient(t), s.Prefix+"k"
	l := newConsul(t, c, long, nil)
	lease := locktest.Obtain(t, l, s.Prefix+"held")
	destroySession(t, c, s.Prefix+"held")
	locktest.WantUnavailable(lock.WithWait(t.Context(), 0), t, l, key, "Acquire")
	if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrLost) {
		t.Errorf("the other hold of the session: cause %v, want ErrLost", cause)
	}
	locktest.Warm(t, l, key)
	locktest.ReleaseLost(t, lease, "Release")
}

// The server refuses a release, although the key is still ours: that is not ErrLost, and the release is repeated in the
// background.
func TestConsulRefusesARelease(t *testing.T) {
	t.Parallel()
	s := testenv.Consul(t)
	var left atomic.Int64
	key := s.Prefix + "k"
	l := newConsul(t, s.ConsulClient(t, refusing(func() string {
		if left.Add(-1) >= 0 {
			return consulDenied
		}
		return ""
	})), long, nil)
	locktest.Warm(t, l, key)
	lease := locktest.Obtain(t, l, key)
	left.Store(2) // with the index of the acquire, and with that of the key as it is
	locktest.ReleaseUnknown(t, lease, "Release")
	locktest.Warm(t, newConsul(t, s.ConsulClient(t), promptly, nil), key)
	locktest.Warm(t, l, key)
}
