package handoff_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

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

// A message contains the whole key, even if the key has a NUL byte: a grant to an ended waiter is cancelled under that key.
func TestEngineMessageNamesTheKey(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t)
	all := s.Client.PSubscribe(t.Context(), "lock:engine:*")
	defer all.Close()
	if _, err := all.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range allLocks {
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
