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

	"lastitem/internal/lock"
	"lastitem/internal/lock/coord"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/step"
	"lastitem/internal/testenv"
)

// Sessions with a negligible lock-delay: one whose loss is noticed soon, and one that does not end during a test.
var (
	promptly = coord.ConsulOptions{LockDelay: time.Millisecond}
	long     = coord.ConsulOptions{LockDelay: time.Millisecond, TTL: time.Minute}
)

func newConsul(t *testing.T, c *api.Client, o coord.ConsulOptions, s *step.Stream) *coord.Consul {
	t.Helper()
	l := coord.NewConsul(c, o, s)
	t.Cleanup(func() { _ = l.Close() })
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
	if _, err := c.Session().Destroy(pair.Session, nil); err != nil {
		t.Fatal(err)
	}
}

func TestConsulSessionDestroyed(t *testing.T) {
	t.Parallel()
	s := testenv.Consul(t)
	c, key := s.ConsulClient(t), s.Prefix+"k"
	holder, rival := newConsul(t, c, promptly, nil), newConsul(t, s.ConsulClient(t), promptly, nil)
	locktest.SessionEnds(t, holder, rival, key, 10*time.Second, func() { destroySession(t, c, key) })
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
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
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
	if _, err := c.KV().Put(&api.KVPair{Key: key, Value: []byte("by hand")}, nil); err != nil {
		t.Fatal(err)
	}
	locktest.Release(t, lease)
	wantFree := newConsul(t, s.ConsulClient(t), promptly, nil)
	locktest.Warm(t, wantFree, key)
}

// refusing answers transactions as Consul does when it refuses them, with a reason that reason returns; "" = it does not refuse.
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

// The session was destroyed, and no renewal has told it yet: the next acquire does, and the one after it has a new session.
func TestConsulAcquireTellsOfALostSession(t *testing.T) {
	t.Parallel()
	s := testenv.Consul(t)
	c, key := s.ConsulClient(t), s.Prefix+"k"
	l := newConsul(t, c, long, nil)
	lease := locktest.Obtain(t, l, s.Prefix+"held")
	destroySession(t, c, s.Prefix+"held")
	if _, err := l.Acquire(lock.WithWait(t.Context(), 0), key); !errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("Acquire = %v, want ErrUnavailable", err)
	}
	if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrLost) {
		t.Errorf("the other hold of the session: cause %v, want ErrLost", cause)
	}
	locktest.Warm(t, l, key)
	if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
		t.Errorf("Release = %v, want ErrLost", err)
	}
}

// The server refuses a release, although the key is still ours: that is not ErrLost, and the release is repeated in the background.
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
	if err := lease.Release(t.Context()); err == nil || errors.Is(err, lock.ErrLost) {
		t.Errorf("Release = %v, want unknown", err)
	}
	locktest.Warm(t, newConsul(t, s.ConsulClient(t), promptly, nil), key)
	locktest.Warm(t, l, key)
}
