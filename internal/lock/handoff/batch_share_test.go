package handoff_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
)

// acquireInParallel has so many goroutines acquire and release their own locks, so many times.
func acquireInParallel(t *testing.T, l lock.Locker, prefix string, goroutines, times int) {
	t.Helper()
	var wg sync.WaitGroup
	for g := range goroutines {
		key := fmt.Sprintf("%s{%d}", prefix, g)
		wg.Go(func() {
			for range times {
				lease, err := l.Acquire(lock.WithWait(t.Context(), mustHappenWithin), key)
				if err == nil {
					err = lease.Release(t.Context())
				}
				if err != nil {
					t.Errorf("%s: %v", key, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// connected repeats f until it has made no connection, and returns how long that took, and how often it wrote.
func connected(t *testing.T, w *link, f func()) (took time.Duration, writes int64) {
	t.Helper()
	for range 50 {
		w.mu.Lock()
		conns := len(w.conns)
		w.mu.Unlock()
		start, before := time.Now(), w.writes.Load()
		f()
		took, writes = time.Since(start), w.writes.Load()-before
		w.mu.Lock()
		enough := conns == len(w.conns)
		w.mu.Unlock()
		if enough {
			return took, writes
		}
	}
	t.Fatal("it connects forever")
	return 0, 0
}

// A busy process writes for several calls at once, and an idle one for each at once.
func TestEngineSharesWrites(t *testing.T) {
	for name, want := range map[string]struct {
		goroutines  int
		least, most float64 // writes for each call
	}{
		"alone":    {1, 1, 1},
		"together": {64, 0, 0.5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, links := network(t, 1)
				l := links[0].process(t, handoff.Options{}).Handoff()
				acquireInParallel(t, l, "k", want.goroutines, 5) // connects
				links[0].slow.Store(int64(time.Millisecond))
				acquireInParallel(t, l, "k", want.goroutines, 5)
				const times = 20
				_, writes := connected(t, links[0], func() { acquireInParallel(t, l, "k", want.goroutines, times) })
				if got := float64(writes) / float64(2*want.goroutines*times); got < want.least || got > want.most {
					t.Errorf("%.2f writes for each call, want %.2f to %.2f", got, want.least, want.most)
				}
			})
		})
	}
}

// Where the server is far away no call waits for another one to be answered.
func TestEngineFarServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, links := network(t, 1)
		l := links[0].process(t, handoff.Options{}).Handoff()
		const away = 20 * time.Millisecond
		acquireInParallel(t, l, "k", 16, 5) // connects
		links[0].slow.Store(int64(away))
		acquireInParallel(t, l, "k", 16, 50) // learns how far away it is
		if took, _ := connected(t, links[0], func() { acquireInParallel(t, l, "k", 16, 1) }); took > 2*away {
			t.Errorf("sixteen locks at once took %s to take and to give back, want two round trips: %s", took, 2*away)
		}
	})
}

// Calls whose answers do not come hold up no other ones.
func TestEngineStuckCalls(t *testing.T) {
	for name, stuck := range map[string]int{"5 for long": 5, "6 for long": 6, "8 for long": 8, "12 for long": 12, "12 a moment ago": 12} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, links := network(t, 1)
				l := links[0].process(t, handoff.Options{}).Handoff()
				acquireInParallel(t, l, "k", 20, 3) // connects
				links[0].calls.Store(true)
				var wg sync.WaitGroup
				for i := range stuck {
					wg.Go(func() {
						lease, err := l.Acquire(lock.WithWait(t.Context(), mustHappenWithin), fmt.Sprintf("stuck{%d}", i))
						if err == nil {
							err = lease.Release(t.Context())
						}
						if err != nil {
							t.Error(err)
						}
					})
				}
				if strings.HasSuffix(name, "long") { // all are on their way, and time out after 200 ms
					time.Sleep(20 * time.Millisecond)
				}
				synctest.Wait()
				links[0].calls.Store(false)
				start := time.Now()
				acquireInParallel(t, l, "k", 4, 20)
				if took := time.Since(start); took > 60*time.Millisecond {
					t.Errorf("four that were answered waited %s beside %d that were not", took, stuck)
				}
				wg.Wait()
			})
		})
	}
}
