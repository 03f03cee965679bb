package lock_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/testenv"
)

// counted counts what is written to connections.
type counted struct {
	net.Conn
	writes *atomic.Int64
}

func (c counted) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// round has so many goroutines take and give back a lock of their own, times over.
func round(t *testing.T, l lock.Locker, prefix string, goroutines, times int) {
	t.Helper()
	var wg sync.WaitGroup
	for g := range goroutines {
		key := fmt.Sprintf("%s{%d}", prefix, g)
		wg.Go(func() {
			for range times {
				lease, err := l.Acquire(lock.WithWait(t.Context(), patience), key)
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

// A busy process writes for several calls at once, and an idle one for each at once.
func TestEngineSharesWrites(t *testing.T) {
	s := testenv.Redis(t)
	for name, want := range map[string]struct {
		goroutines, times int
		least, most       float64 // writes for each call
	}{
		"alone":    {1, 50, 1, 1},
		"together": {64, 50, 0, 0.5},
	} {
		t.Run(name, func(t *testing.T) {
			var writes atomic.Int64
			o := *s.Client.Options()
			o.PoolSize, o.MaxRetries = 100, -1
			o.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
				c, err := new(net.Dialer).DialContext(ctx, network, address)
				return counted{c, &writes}, err
			}
			c := redis.NewClient(&o)
			t.Cleanup(func() { _ = c.Close() })
			l := engine(t, c, lock.EngineOptions{}).Handoff()
			prefix := s.Prefix + name
			round(t, l, prefix, want.goroutines, want.times) // connects
			before := writes.Load()
			round(t, l, prefix, want.goroutines, want.times)
			got := float64(writes.Load()-before) / float64(2*want.goroutines*want.times)
			if got < want.least || got > want.most {
				t.Errorf("%.2f writes for each call, want %.2f to %.2f", got, want.least, want.most)
			}
		})
	}
}

// Where the server is far away no call waits for another one to be answered.
func TestEngineFarServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, wires := network(t, 1)
		l := wires[0].process(t, lock.EngineOptions{}).Handoff()
		const away = 20 * time.Millisecond
		wires[0].slow.Store(int64(away))
		round(t, l, "k", 16, 5) // connects, and learns how far away it is
		start := time.Now()
		round(t, l, "k", 16, 1)
		if took := time.Since(start); took > 2*away {
			t.Errorf("sixteen locks at once took %s to take and to give back, want two round trips of %s", took, away)
		}
	})
}

// The fencing counter outlives its last use by six days, however long it has been used.
func TestEngineFenceOutlivesIdleDays(t *testing.T) {
	s := testenv.Redis(t)
	ctx, key := t.Context(), s.Prefix+"{1}"
	l := engine(t, client(t, s), lock.EngineOptions{}).Handoff()
	const day = 24 * time.Hour
	fence := lock.EngineKeys(key)[2]
	for _, left := range []time.Duration{0, time.Hour, 6*day - time.Minute, 6*day + time.Minute} {
		if left > 0 && !s.Client.PExpire(ctx, fence, left).Val() {
			t.Fatal("there is no fence")
		}
		warm(t, l, key)
		if got := s.Client.PTTL(ctx, fence).Val(); got < 6*day || got > 7*day {
			t.Errorf("used with %s to live, it has %s, want six to seven days", left, got)
		}
	}
}
