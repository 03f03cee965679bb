package handoff_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/testenv"
)

// A message is delayed until another process has the lock and the waiter has queued again.
func TestEngineStaleMessage(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t)
	key := s.Prefix + "{1}"
	held, got := contended(t, s, key)
	token := strings.Join(s.Client.ZRange(t.Context(), handoff.KeysOf(key).Queue, 0, -1).Val(), " ")
	process, _, _ := strings.Cut(token, ".")
	old := s.Client.Time(t.Context()).Val().Add(-4 * time.Second).UnixMilli()
	s.Client.Publish(t.Context(), "lock:engine:"+process, fmt.Sprintf("%s 1 %d %s", token, old, key))
	select {
	case lease := <-got:
		t.Fatalf("an old message let somebody in with fence %d beside %d", lease.Fence(), held.Fence())
	case <-time.After(300 * time.Millisecond): // what must not happen
	}
	if err := held.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if err := (<-got).Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// A key, and the same key in braces, are two locks: the release of one does not serve a waiter of the other.
func TestEngineKeyInBraces(t *testing.T) {
	both(t, func(t *testing.T, name string) {
		_, links := network(t, 2)
		l := pick(links[0].process(t, handoff.Options{}), name)
		bare, held := locktest.Obtain(t, l, "a"), locktest.Obtain(t, l, "{a}")
		got, _ := waits(t.Context(), pick(links[1].process(t, handoff.Options{}), name), "{a}")
		_ = bare.Release(t.Context())
		synctest.Wait()
		if len(got) > 0 {
			t.Errorf("fence %d was let in beside %d", (<-got).Fence(), held.Fence())
		}
		_ = held.Release(t.Context())
		_ = (<-got).Release(t.Context())
	})
}

// A context that carries a hold and was detached from it ends with it all the same.
func TestEngineDetachedReentry(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t)
	key := s.Prefix + "{1}"
	l := onServer(t, s, handoff.Options{TTL: 3 * time.Second}).Handoff()
	outer := locktest.Obtain(t, l, key)
	inner, err := l.Acquire(context.WithoutCancel(outer.Context()), key)
	if err != nil {
		t.Fatal(err)
	}
	s.Client.Del(t.Context(), key)
	select {
	case <-inner.Context().Done():
	case <-time.After(testenv.Still):
		t.Fatal("the inner context outlived the lost lock")
	}
	if cause := context.Cause(inner.Context()); !errors.Is(cause, lock.ErrLost) {
		t.Errorf("cause %v, want ErrLost", cause)
	}
}

// Two engines on two databases: the hold of one does not hide that of the other.
func TestEngineReentryThroughAnother(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t)
	key := s.Prefix + "{1}"
	a := onServer(t, s, handoff.Options{}).Fair()
	b := engine(t, locktest.RedisClient(t, testenv.Miniredis(t)), handoff.Options{}).Fair()
	outer := locktest.Obtain(t, a, key)
	middle, err := b.Acquire(outer.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	inner, err := a.Acquire(lock.WithWait(middle.Context(), 0), key)
	if err != nil {
		t.Fatalf("re-entry = %v", err)
	}
	for _, lease := range []lock.Lease{inner, middle, outer} {
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// A release that was not answered is sent again in the background, whatever its context was.
func TestEngineFailedReleaseIsSentAgain(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t)
	key := s.Prefix + "{1}"
	c, refused := locktest.RedisClient(t, s), &refuse{}
	ctx := lock.WithWait(t.Context(), 0)
	lease, err := engine(t, c, handoff.Options{}).Handoff().Acquire(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	c.AddHook(refused)
	refused.down.Store(true)
	start := time.Now()
	if err := lease.Release(ctx); err == nil || errors.Is(err, lock.ErrLost) {
		t.Errorf("Release without a server = %v, want unknown", err)
	}
	if took := time.Since(start); took < 20*time.Millisecond {
		t.Errorf("gave up after %s: it did not pause between its tries", took)
	}
	refused.down.Store(false)
	nothingLeftOn(t, s, key)
}

// refuse is a client hook that fails every command while it is down.
type refuse struct {
	testenv.Hook
	down atomic.Bool
}

func (r *refuse) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !r.down.Load() {
			return next(ctx, cmd)
		}
		err := &net.OpError{Op: "read", Err: io.EOF}
		cmd.SetErr(err)
		return err
	}
}

// A message contains the whole key, even if the key has a NUL byte: a grant to an ended waiter is cancelled under that key.
func TestEngineMessageNamesTheKey(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t)
	all := s.Client.PSubscribe(t.Context(), "lock:engine:*")
	defer all.Close()
	if _, err := all.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"handoff", "fair", "rw-write", "rw-read"} {
		key := s.Prefix + name + "\x00{1}\x00 \n"
		holder := name
		if name == "rw-read" {
			holder = "rw-write"
		}
		held := locktest.Obtain(t, pick(onServer(t, s, handoff.Options{}), holder), key)
		got := queueing(t, s, pick(onServer(t, s, handoff.Options{}), name), key, 1)
		released(t, held)
		released(t, served(t, name, got))
		said := func() bool {
			m, err := all.ReceiveMessage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(m.Payload, s.Prefix+name) {
				return false // another test's
			}
			if !strings.HasSuffix(m.Payload, " "+key) {
				t.Errorf("the message is %q, want it to end with the key %q", m.Payload, key)
			}
			return true
		}
		for !said() {
		}
	}
}

func TestEngineReentry(t *testing.T) {
	s := testenv.Redis(t)
	c, counted, key := locktest.RedisClient(t, s), &spy{}, s.Prefix+"{1}"
	e := engine(t, c, handoff.Options{})
	c.AddHook(counted)
	outer, err := e.Handoff().Acquire(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	before := counted.scripts.Load()
	inner, err := e.Fair().Acquire(outer.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if inner.Fence() != outer.Fence() {
		t.Errorf("re-entry has fence %d, want the hold's %d", inner.Fence(), outer.Fence())
	}
	if err := outer.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := inner.Context().Err(); err != nil {
		t.Errorf("the outer release ended the inner lease: %v", err)
	}
	if got := counted.scripts.Load() - before; got != 0 {
		t.Errorf("re-entry cost %d commands", got)
	}
	if err := inner.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Handoff().Acquire(outer.Context(), key); !errors.Is(err, lock.ErrLost) {
		t.Errorf("Acquire with a released lease's context = %v, want ErrLost", err)
	}
	nothingLeftOn(t, s, key)
}
