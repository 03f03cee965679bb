package lock

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Wakeups turns "released" messages into wake-ups of local waiters, over one subscriber connection per process.
//
// A message is a hint and may be lost; whoever waits for one also polls. A message wakes one waiter of this process, as
// only one can win. The connection is made with the first waiter; after a reconnect every channel is woken.
type Wakeups struct {
	c redis.UniversalClient

	mu     sync.Mutex
	ps     *redis.PubSub
	rooms  map[string]*room
	done   chan struct{}
	closed bool
}

// room is where the waiters of one channel sit. A token in wake is one wake-up not yet taken.
type room struct {
	wake    chan struct{}
	waiters int
}

// NewWakeups returns the wake-ups of c. Close it.
func NewWakeups(c redis.UniversalClient) *Wakeups {
	return &Wakeups{c: c, rooms: map[string]*room{}, done: make(chan struct{})}
}

// join subscribes to channel and returns where its wake-ups arrive, and the function that leaves. The subscription being
// confirmed is itself a wake-up, since the lock may have been released just before.
func (w *Wakeups) join(ctx context.Context, channel string) (wake <-chan struct{}, leave func()) {
	if w == nil {
		return nil, func() {}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, func() {}
	}
	if w.ps == nil {
		// Not the caller's context: the subscription outlives this waiter.
		w.ps = w.c.Subscribe(context.WithoutCancel(ctx))
		go w.listen(w.ps.ChannelWithSubscriptions())
	}
	r := w.rooms[channel]
	if r == nil {
		r = &room{wake: make(chan struct{}, 1)}
		w.rooms[channel] = r
		_ = w.ps.Subscribe(context.WithoutCancel(ctx), channel) // an error reconnects and subscribes again
	}
	r.waiters++
	return r.wake, func() { w.leave(channel, r) }
}

func (w *Wakeups) leave(channel string, r *room) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.waiters--; r.waiters == 0 && !w.closed {
		delete(w.rooms, channel)
		_ = w.ps.Unsubscribe(context.Background(), channel) // an error reconnects without it
	}
}

func (w *Wakeups) listen(events <-chan any) {
	defer close(w.done)
	for e := range events {
		switch e := e.(type) {
		case *redis.Message:
			w.ring(e.Channel)
		case *redis.Subscription:
			w.ring(e.Channel)
		}
	}
}

func (w *Wakeups) ring(channel string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.rooms[channel]; r != nil {
		select {
		case r.wake <- struct{}{}:
		default: // one is waiting to be taken already
		}
	}
}

// Close ends the subscription and waits for its goroutine. Waiters go on by polling.
func (w *Wakeups) Close() error {
	w.mu.Lock()
	ps, closed := w.ps, w.closed
	w.closed = true
	w.mu.Unlock()
	if ps == nil || closed {
		return nil
	}
	err := ps.Close()
	<-w.done
	return err
}
