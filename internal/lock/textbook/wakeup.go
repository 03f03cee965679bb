package textbook

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Wakeups turns "released" messages into wake-ups of local waiters, over one subscriber connection per process.
//
// A message is a hint and may be lost: a waiter tries again when the TTL that it was told has run out. A message wakes
// one waiter of this process, as only one can win. The connection is made for the first waiter; after a reconnect every
// channel is woken.
type Wakeups struct {
	c redis.UniversalClient

	mu     sync.Mutex
	rooms  map[string]*room
	stale  map[string]bool // channels whose subscription may differ from whether they have a room
	closed bool

	work chan struct{} // a token: stale has something
	end  context.CancelFunc
	done chan struct{} // closed when the goroutines have ended; nil until there are any
}

// room has the waiters of one channel. A token in wake is one wake-up not yet taken.
type room struct {
	wake    chan struct{}
	waiters int
}

// NewWakeups returns the wake-ups of c. Close it.
func NewWakeups(c redis.UniversalClient) *Wakeups {
	return &Wakeups{c: c, rooms: map[string]*room{}, stale: map[string]bool{}, work: make(chan struct{}, 1)}
}

// join subscribes to channel, and returns a channel of wake-ups and a function that leaves. It does not wait for the
// network: the confirmation of the subscription is itself a wake-up, because the lock may have been released just
// before.
func (w *Wakeups) join(channel string) (wake <-chan struct{}, leave func()) {
	if w == nil {
		return nil, func() {}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, func() {}
	}
	w.start()
	r := w.rooms[channel]
	if r == nil {
		r = &room{wake: make(chan struct{}, 1)}
		w.rooms[channel] = r
		w.changed(channel)
	}
	r.waiters++
	return r.wake, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if r.waiters--; r.waiters == 0 {
			delete(w.rooms, channel)
			w.changed(channel)
		}
	}
}

// changed makes subscribe update the subscription of a channel; w.mu is held.
func (w *Wakeups) changed(channel string) {
	w.stale[channel] = true
	select {
	case w.work <- struct{}{}:
	default: // asked already
	}
}

// start starts the subscriber for the first waiter; w.mu is held.
func (w *Wakeups) start() {
	if w.done != nil {
		return
	}
	ctx, end := context.WithCancel(context.Background())
	w.end, w.done = end, make(chan struct{})
	ps := w.c.Subscribe(ctx)
	var both sync.WaitGroup
	both.Go(func() { w.listen(ps.ChannelWithSubscriptions()) })
	both.Go(func() {
		w.subscribe(ctx, ps)
		_ = ps.Close() // ends listen
	})
	go func() {
		both.Wait()
		close(w.done)
	}()
}

// subscribe keeps the subscriptions in line with the rooms. A room that comes and goes before its turn costs no
// command.
func (w *Wakeups) subscribe(ctx context.Context, ps *redis.PubSub) {
	subscribed := map[string]bool{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.work:
		}
		for channel, wanted := range w.wanted() {
			switch { // an error reconnects, which renews the wanted subscriptions
			case wanted && !subscribed[channel]:
				_ = ps.Subscribe(ctx, channel)
				subscribed[channel] = true
			case wanted: // a new room on an old subscription: a message may have come in between
				w.ring(channel)
			case !wanted && subscribed[channel]:
				_ = ps.Unsubscribe(ctx, channel)
				delete(subscribed, channel)
			}
		}
	}
}

// wanted takes the changed channels, and reports for each whether it has waiters.
func (w *Wakeups) wanted() map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make(map[string]bool, len(w.stale))
	for channel := range w.stale {
		all[channel] = w.rooms[channel] != nil
	}
	clear(w.stale)
	return all
}

func (w *Wakeups) listen(events <-chan any) {
	for e := range events {
		switch e := e.(type) {
		case *redis.Message:
			w.ring(e.Channel)
		case *redis.Subscription:
			w.ring(e.Channel)
		}
	}
}

// pass passes an unused wake-up to the next waiter of this process.
func (w *Wakeups) pass(channel string) {
	if w != nil {
		w.ring(channel)
	}
}

func (w *Wakeups) ring(channel string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.rooms[channel]; r != nil && !w.closed {
		select {
		case r.wake <- struct{}{}:
		default: // there is an untaken wake-up already
		}
	}
}

// ended says whether no wake-up comes any more.
func (w *Wakeups) ended() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

// Close ends the subscription and waits for its goroutines. It wakes all waiters; they go on by polling.
func (w *Wakeups) Close() error {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		for _, r := range w.rooms {
			close(r.wake)
		}
	}
	done := w.done
	w.mu.Unlock()
	if done == nil {
		return nil
	}
	w.end()
	<-done
	return nil
}
