package handoff_test

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/testenv"
	"lastitem/internal/testenv/wait"
)

// hung is an engine on a Redis that does not answer. Its client counts the scripts.
type hung struct {
	*handoff.Engine
	counted  *spy
	metrics  metrics
	inFlight atomic.Int64
	lose     chan struct{}   // closed: the first write, which Redis has executed, fails
	silent   context.Context // until it ends, Redis does not answer
	answer   func()          // ends it
	holders  sync.WaitGroup
}

func (h *hung) send(_ context.Context, send func() error) error {
	if h.inFlight.Add(1) == 1 {
		err := send()
		select {
		case <-h.silent.Done():
			return err
		case <-h.lose:
			return io.ErrUnexpectedEOF
		}
	}
	<-h.silent.Done()
	return send()
}

func newHung(t *testing.T, s *testenv.RedisServer) *hung {
	t.Helper()
	c := locktest.RedisClient(t, s)
	h, o := &hung{counted: &spy{}, lose: make(chan struct{})}, handoff.Options{TTL: time.Hour, CallTimeout: time.Hour}
	h.metrics, o.Metrics = newMetrics()
	h.Engine = engine(t, c, o)
	h.silent, h.answer = context.WithCancel(context.Background())
	t.Cleanup(h.answer)                                               // before the engine is closed, where a test has failed
	for _, name := range []string{"handoff", "rw-read", "rw-write"} { // the server knows the scripts then
		locktest.Warm(t, pick(h.Engine, name), s.Prefix+"{"+name+"}")
	}
	c.AddHook(h.counted)
	c.AddHook(locktest.SendHook{Name: "evalsha", Send: h.send})
	return h
}

// slots is how many batches the engine has in flight at most.
const slots = 16

// fill occupies the free slots with acquires of keys of their own.
func (h *hung) fill(t *testing.T, s *testenv.RedisServer) {
	for i := h.inFlight.Load(); i < slots; i++ {
		h.hold(t, fmt.Sprintf("%s{slot%d}", s.Prefix, i))
		h.writes(t, i+1)
	}
}

// writes waits until so many writes are in flight.
func (h *hung) writes(t *testing.T, n int64) {
	wait.Until(t, "writes in flight", func() bool { return h.inFlight.Load() == n })
}

// hold acquires and releases in the background.
func (h *hung) hold(t *testing.T, key string) {
	h.holders.Go(func() {
		lease, err := h.Handoff().Acquire(context.Background(), key)
		if err == nil {
			err = lease.Release(context.Background())
		}
		if err != nil {
			t.Error(err)
		}
	})
}

// end has Redis answer again, and returns when the engine has sent all that it will send.
func (h *hung) end(t *testing.T) {
	h.answer()
	h.holders.Wait()
	if err := h.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// While Redis is silent, calls wait for their turn in the batcher. Those whose callers leave meanwhile are never sent, and need no cancel.
func TestEngineUnsentAcquiresAreWithdrawn(t *testing.T) {
	s := testenv.Redis(t)
	for _, name := range allLocks {
		t.Run(name, func(t *testing.T) {
			h := newHung(t, s)
			h.fill(t, s)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var failures []chan error
			const callers = 200
			for i := range callers {
				_, failed := async(ctx, pick(h.Engine, name), fmt.Sprintf("%s{%s%d}", s.Prefix, name, i/2))
				failures = append(failures, failed)
			}
			wait.Until(t, "all wait", func() bool { return h.metrics["waiting"].value() == slots+callers })
			time.Sleep(50 * time.Millisecond) // the last of them have been counted, and are about to be queued
			cancel()
			for _, failed := range failures {
				locktest.WantGaveUp(t, <-failed)
			}
			h.end(t)
			if got := h.counted.scripts.Load(); got != 2*slots {
				t.Errorf("%d commands, want an acquire and a release of each of %d holders", got, slots)
			}
		})
	}
}

// The first acquire was executed and its reply was lost; the second one is withdrawn when the caller leaves. The lock is given back.
func TestEngineWithdrawnRepetitionIsCancelled(t *testing.T) {
	s := testenv.Redis(t)
	for _, name := range allLocks {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			key := s.Prefix + "{" + name + "lost}"
			h := newHung(t, s)
			_, failed := async(ctx, pick(h.Engine, name), key)
			h.writes(t, 1)
			h.fill(t, s)
			h.hold(t, s.Prefix+"{last}")
			time.Sleep(50 * time.Millisecond) // it waits for a slot,
			close(h.lose)                     // and has the one that becomes free here
			h.writes(t, slots+1)
			time.Sleep(50 * time.Millisecond)
			cancel()
			locktest.WantGaveUp(t, <-failed)
			h.end(t)
			nothingLeftOn(t, s, key)
		})
	}
}
