package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"lastitem/internal/lock"
)

// Session is something that a holder must keep alive at a server: etcd's lease or Consul's or ZooKeeper's session, which all holds of a
// process share, or the row or connection of a single hold. One goroutine renews it every third of its TTL.
//
// A failed renewal is retried. The session's expiry decides whether the session can still be trusted: it ends by this process's own clock
// before the server can end the session, and it is final.
//
// If the reply to an acquire is lost, the key that it may have created lives as long as the session, and would keep everybody out for as
// long as this process runs. So the key is deleted. The goroutine repeats a delete that fails until it succeeds ([Session.Tidy]), even
// after the session is lost, and it runs for as long as an acquire or a hold may still need a cleanup ([Session.join]). Without that,
// Consul's local contenders would wait forever; with ZooKeeper, whose client renews by itself, every contender would.
//
// The lost acquire may even arrive after that delete. Then only the end of the session frees the key: see [Session.Retire].
type Session struct {
	*Expiry
	Num      int64                       // the server's name for it: etcd, ZooKeeper
	Name     string                      // the same: Consul
	Renew    func(context.Context) error // nil: alive; ErrLost: gone; else unknown
	End      func(context.Context) error // ends it at the server; nil = nothing to do
	halt     context.CancelFunc          // ends the goroutine
	done     chan struct{}               // the goroutine has ended
	mu       sync.Mutex
	cleanups []func(context.Context) error // pending: each is repeated until it succeeds
	late     []func(context.Context) error // cleanups of a retired session: repeated until it ends
	users    int                           // acquires and holds that may still need a cleanup
	retired  bool                          // no user may join
	ended    bool                          // the goroutine has ended by itself
	wakeup   chan struct{}                 // signalled when a cleanup is added, or when a user leaves a lost or retired session
}

// cleanupRetry is the mean time between two attempts at a pending cleanup.
const cleanupRetry = 200 * time.Millisecond

// Start begins to keep s alive. A request that was sent at sent has confirmed s.
func (s *Session) Start(sent time.Time, ttl time.Duration) *Session {
	s.Expiry = NewExpiry(context.Background(), sent, ttl)
	s.done, s.wakeup = make(chan struct{}), make(chan struct{}, 1)
	ctx, halt := context.WithCancel(context.Background())
	s.halt = halt
	go s.run(ctx)
	return s
}

func (s *Session) run(ctx context.Context) {
	defer close(s.done)
	defer s.Expiry.Stop()
	tick := time.NewTicker(s.ttl / 3)
	defer tick.Stop()
	var retry <-chan time.Time
	gone, idle := false, false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if !gone && !idle && ctx.Err() == nil { // after a slow beat the next tick may come together with the end
				gone = errors.Is(s.beat(ctx), lock.ErrLost)
			}
			s.cleanLate(ctx)
		case <-s.wakeup:
		case <-retry:
		}
		retry = nil
		pending := s.retryCleanups(ctx) > 0
		if pending {
			retry = time.After(cleanupRetry/2 + rand.N(cleanupRetry))
		}
		lost := s.Lost()
		idle = lost && !pending // idle: not renewed any more, so the server ends it
		if (idle || s.isRetired()) && s.unused() {
			if !lost {
				s.finish(ctx)
			}
			return
		}
	}
}

// join counts a user. It returns false if the session is retired, or the goroutine that would carry out the user's cleanup has ended.
func (s *Session) join() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.retired {
		return false
	}
	s.users++
	return true
}

// Leave ends a use. The user has already handed over every cleanup that it needs.
func (s *Session) Leave() {
	s.mu.Lock()
	s.users--
	s.mu.Unlock()
	if s.Lost() || s.isRetired() {
		s.wake()
	}
}

// unused says whether no cleanup is pending and no user is left who could need one; once it has returned true, nobody can join.
func (s *Session) unused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = s.users <= 0 && len(s.cleanups) == 0
	return s.ended
}

func (s *Session) wake() {
	select {
	case s.wakeup <- struct{}{}:
	default: // woken already
	}
}

// beat sends one renewal. The goroutine waits for the answer even if it is told to end: the server may still answer, and abandoning a
// command closes its connection.
func (s *Session) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(s.ttl/3, CommandTimeout))
	defer cancel()
	sent := time.Now()
	err := s.Renew(ctx)
	switch {
	case errors.Is(err, lock.ErrLost):
		s.Lose()
	case err == nil && !s.Lost():
		s.Extend(sent)
	}
	return err
}

// Stop ends the goroutine; from then on it renews nothing and carries out no cleanup.
func (s *Session) Stop() {
	s.halt()
	<-s.done
}

// Waiting returns the context of a wait under ctx: it ends with ctx, when the WithWait of ctx has run out, and with the session.
func (s *Session) Waiting(ctx context.Context) (context.Context, context.CancelFunc) {
	limit, stop := lock.WaitContext(ctx)
	unhook := context.AfterFunc(s.ctx, stop)
	return limit, func() { unhook(); stop() }
}

// Failed returns the error of an Acquire that could not go on because of err: ctx, the wait that limit bounds, or the session has
// ended, or the server has failed.
func (s *Session) Failed(ctx, limit context.Context, kind string, err error) error {
	switch {
	case Ended(ctx):
		return lock.GaveUp(ctx)
	case s.ctx.Err() != nil:
		return fmt.Errorf("%w: %s: the session ended while waiting", lock.ErrUnavailable, kind)
	case Ended(limit):
		return lock.GaveUp(ctx)
	}
	return fmt.Errorf("%w: %s: %w", lock.ErrUnavailable, kind, err)
}
