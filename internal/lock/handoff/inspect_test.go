package handoff_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/testenv"
	"lastitem/internal/testenv/wait"
)

// onServers runs a test on a real Redis and on an embedded one.
func onServers(t *testing.T, f func(t *testing.T, s *testenv.RedisServer)) {
	for name, server := range map[string]func(testing.TB) *testenv.RedisServer{"redis": testenv.Redis, "miniredis": testenv.Miniredis} {
		t.Run(name, func(t *testing.T) { f(t, server(t)) })
	}
}

func inspect(t *testing.T, e *handoff.Engine, key string) handoff.Inspection {
	t.Helper()
	found, err := e.Inspect(t.Context(), key)
	if err != nil {
		t.Fatalf("Inspect: %v", err)
	}
	return found
}

// wantHere fails unless a holder is this process.
func wantHere(t *testing.T, h handoff.Holder, reads bool) {
	t.Helper()
	host, _ := os.Hostname()
	if h.Host != host || h.PID != os.Getpid() || h.Reads != reads || h.TTL <= 0 || h.TTL > locktest.TTL {
		t.Errorf("holder %+v, want %s, %d, reads %t, and a TTL up to %s", h, host, os.Getpid(), reads, locktest.TTL)
	}
}

func TestEngineInspect(t *testing.T) {
	onServers(t, func(t *testing.T, s *testenv.RedisServer) {
		key := s.Prefix + "{1}"
		a, b := onServer(t, s, handoff.Options{}), onServer(t, s, handoff.Options{})
		if free := inspect(t, a, key); len(free.Holders) != 0 || free.Queue != 0 || free.Waiting != 0 || free.Fence != 0 {
			t.Errorf("a lock that nobody has used: %+v", free)
		}
		held := locktest.Obtain(t, a.Handoff(), key)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		failed := make(chan error, 4)
		for _, l := range []lock.Locker{b.Handoff(), b.Handoff(), b.Fair(), a.Fair()} {
			go func() {
				_, err := l.Acquire(ctx, key)
				failed <- err
			}()
		}
		var found handoff.Inspection
		wait.Until(t, "three attempts in the queue, and two that know their place", func() bool {
			found = inspect(t, b, key)
			return found.Queue == 3 && len(found.Places) == 2 && found.Waiting == 3
		})
		own := inspect(t, a, key)
		if places := slices.Concat(found.Places, own.Places); own.Waiting != 1 || !slices.IsSorted(found.Places) || len(places) != 3 || places[0]+places[1]+places[2] != 6 {
			t.Errorf("places %v and %v (%d waiting), want 1 to 3", found.Places, own.Places, own.Waiting)
		}
		if found.Fence < held.Fence() || len(found.Holders) != 1 {
			t.Fatalf("%+v, want one holder and at least its fence %d", found, held.Fence())
		}
		wantHere(t, found.Holders[0], false)
		cancel()
		for range 4 {
			<-failed
		}
		locktest.Release(t, held)
		wait.Until(t, "a free lock", func() bool {
			found = inspect(t, b, key)
			return len(found.Holders) == 0 && found.Queue == 0 && found.Waiting == 0
		})
	})
}

func TestEngineInspectReadWrite(t *testing.T) {
	onServers(t, func(t *testing.T, s *testenv.RedisServer) {
		key := s.Prefix + "{1}"
		e := onServer(t, s, handoff.Options{})
		first, second := locktest.Obtain(t, e.ReadWrite().Read(), key), locktest.Obtain(t, e.ReadWrite().Read(), key)
		got := make(chan error, 1)
		go func() {
			lease, err := e.ReadWrite().Write().Acquire(t.Context(), key)
			if err == nil {
				err = lease.Release(context.Background())
			}
			got <- err
		}()
		var found handoff.Inspection
		wait.Until(t, "a writer, which waits, and two readers", func() bool {
			found = inspect(t, e, key)
			return len(found.Holders) == 3 && found.Waiting == 1
		})
		for i, h := range found.Holders {
			wantHere(t, h, i > 0)
		}
		locktest.Release(t, first)
		locktest.Release(t, second)
		if err := <-got; err != nil {
			t.Error(err)
		}
	})
}

// The host is found in the token, whatever its name is made of. An owner that is no engine's token has none.
func TestEngineInspectNamesHosts(t *testing.T) {
	s := testenv.Miniredis(t)
	e := onServer(t, s, handoff.Options{})
	for token, want := range map[string]handoff.Holder{
		"v2-ABCDEFGHIJKLMNOP-77-web-7%2Eshop%2Eexample.1.16.2500": {Host: "web-7.shop.example", PID: 77},
		"v2-ABCDEFGHIJKLMNOP-1-%E5%BA%97%20%25.1.16.2500":         {Host: "店 %", PID: 1},
		"5f6d1f5e-0a0b-4c4d-8e8f-000000000000":                    {},
		"a value by hand":                                         {},
	} {
		if err := s.Client.Set(t.Context(), s.Prefix+"k", token, time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		found := inspect(t, e, s.Prefix+"k")
		if len(found.Holders) != 1 || found.Holders[0].Host != want.Host || found.Holders[0].PID != want.PID {
			t.Errorf("%s: %+v, want %+v", token, found.Holders, want)
		}
	}
}

// A Redis that does not answer holds Inspect up for no longer than ctx lasts.
func TestEngineInspectUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, links := network(t, 1)
		e := links[0].process(t, handoff.Options{})
		inspect(t, e, "k")
		links[0].replies.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := e.Inspect(ctx, "k")
		if took := time.Since(began); !errors.Is(err, lock.ErrUnavailable) || took > 150*time.Millisecond {
			t.Errorf("Inspect = %v after %s, want ErrUnavailable after 100 ms", err, took)
		}
	})
}
