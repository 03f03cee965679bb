package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Session is something that a holder must keep alive at a server: etcd's lease or Consul's or ZooKeeper's session,
// which all holds of a process share, or the row or connection of a single hold. One goroutine renews it every third of
// its TTL, more often with a Lag; another carries out cleanups, so that slow ones delay no renewal.
//
// A failed renewal is retried. The session's expiry decides whether the session can still be trusted: it ends by this
// process's own clock before the server can end the session, and it is final.
//
// If the reply to an acquire is lost, the key that it may have created lives as long as the session, and would keep
// everybody out for as long as this process runs. So the key is deleted. The session repeats a delete that fails until
// it succeeds ([Session.Tidy]), even after it is lost, and goes on for as long as an acquire or a hold may still need a
// cleanup ([Session.join]). Without that, Consul's local contenders would wait forever; with ZooKeeper, whose client
// renews by itself, every contender would.
//
// The lost acquire may even arrive after that delete. Then only the end of the session frees the key: see
// [Session.Retire].
type Session struct {
	*Expiry
	Num   int64                       // the server's name for it: etcd, ZooKeeper
	Name  string                      // the same: Consul
	Renew func(context.Context) error // nil: alive; ErrLost: gone; else unknown
	End   func(context.Context) error // ends it at the server; nil = nothing to do
	// Lag is how long the server may take to count a renewal. A successful renewal then proves only that renewals answered
	// at least Lag before its sending were counted; the session is trusted from the sending of the last of these. 0 = the
	// answer proves that the renewal itself was counted.
	Lag time.Duration

	halt     context.CancelFunc // ends the goroutines
	done     chan struct{}      // the goroutines have ended
	renewals []renewal          // the last successful ones, the oldest first; only with a Lag
	mu       sync.Mutex
	cleanups []func(context.Context) error // pending: each is repeated until it succeeds
	trying   int                           // cleanups that are being tried, and are not in cleanups meanwhile
	late     []func(context.Context) error // cleanups of a retired session: repeated until it ends
	users    int                           // acquires and holds that may still need a cleanup
	retired  bool                          // no user may join
	ended    bool                          // the session has ended by itself
	// signalled when a cleanup is added, or when a user leaves a lost or retired session
	wakeup chan struct{}
}

// renewal is when a successful renewal was sent, and when its answer came.
type renewal struct{ sent, answered time.Time }

// cleanupRetry is the mean time between two attempts at a pending cleanup.
const cleanupRetry = 200 * time.Millisecond

// Start begins to keep s alive. A request that was sent at sent has confirmed s. With a Lag it proves less: the server
// may have counted nothing since a renewal that the client sent by itself, a third of the TTL and a Lag earlier. So the
// session is trusted from that time on, until the first renewals have been counted.
func (s *Session) Start(sent time.Time, ttl time.Duration) *Session {
	from := sent
	if s.Lag > 0 {
		s.renewals = []renewal{{sent, time.Now()}}
		from = sent.Add(-ttl/3 - s.Lag)
	}
	s.Expiry = NewExpiry(context.Background(), from, ttl)
	s.done, s.wakeup = make(chan struct{}), make(chan struct{}, 1)
	ctx, halt := context.WithCancel(context.Background())
	s.halt = halt
	go func() {
		defer close(s.done)
		defer s.Expiry.Stop()
		var renewing sync.WaitGroup
		renewing.Go(func() { s.renew(ctx) })
		s.clean(ctx)
		halt()
		renewing.Wait()
	}()
	return s
}

// renew renews the session until ctx ends. A lost session is renewed only for its pending cleanups; without any the
// server ends it.
func (s *Session) renew(ctx context.Context) {
	every := s.ttl / 3
	if s.Lag > 0 {
		every = s.ttl / 8 // the session is trusted for as much less as the renewals that count are older
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if ctx.Err() != nil { // after a slow beat the next tick may come together with the end
				return
			}
			if s.Lost() && s.pending() == 0 {
				continue
			}
			err := s.beat(ctx)
			if errors.Is(err, ErrLost) {
				return
			}
		}
	}
}

// clean carries out the cleanups until ctx ends, or the session is lost or retired and nobody can need one any more.
func (s *Session) clean(ctx context.Context) {
	tick := time.NewTicker(s.ttl / 3)
	defer tick.Stop()
	var retry <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.cleanLate(ctx)
		case <-s.wakeup:
		case <-retry:
		}
		retry = nil
		pending := s.retryCleanups(ctx, cleanupPatience) > 0
		if pending {
			retry = time.After(cleanupRetry/2 + rand.N(cleanupRetry))
		}
		lost := s.Lost()
		if (lost && !pending || s.isRetired()) && s.unused() {
			if !lost {
				s.finish(ctx)
			}
			return
		}
	}
}

// join counts a user. It returns false if the session is retired, or has ended and would not carry out the user's
// cleanup.
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

// unused says whether no cleanup is pending and no user is left who could need one; once it has returned true, nobody
// can join.
func (s *Session) unused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = s.users <= 0 && len(s.cleanups)+s.trying == 0
	return s.ended
}

func (s *Session) wake() {
	select {
	case s.wakeup <- struct{}{}:
	default: // woken already
	}
}

// beat sends one renewal. It waits for the answer even if the session is told to end: the server may still answer, and
// abandoning a command closes its connection.
func (s *Session) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(s.ttl/3, CommandTimeout))
	defer cancel()
	sent := time.Now()
	err := s.Renew(ctx)
	switch {
	case errors.Is(err, ErrLost):
		s.Lose()
		s.wake()
	case err == nil && !s.Lost():
		s.counted(sent)
	}
	return err
}

// counted restarts the clock after a renewal that was sent at sent and succeeded.
func (s *Session) counted(sent time.Time) {
	if s.Lag == 0 {
		s.Extend(sent)
		return
	}
	s.renewals = append(s.renewals, renewal{sent, time.Now()})
	proven := sent.Add(-s.Lag)
	for len(s.renewals) > 1 && !s.renewals[1].answered.After(proven) {
		s.renewals = s.renewals[1:]
	}
	if !s.renewals[0].answered.After(proven) {
		s.Extend(s.renewals[0].sent)
	}
}

// Stop ends the goroutines; from then on it renews nothing and carries out no cleanup.
func (s *Session) Stop() {
	s.halt()
	<-s.done
}

// Waiting returns the context of a wait under ctx: it ends with ctx, when the WithWait of ctx has run out, and with the
// session.
func (s *Session) Waiting(ctx context.Context) (context.Context, context.CancelFunc) {
	limit, stop := WaitContext(ctx)
	unhook := context.AfterFunc(s.ctx, stop)
	return limit, func() { unhook(); stop() }
}

// Failed returns the error of an Acquire that could not go on because of err: ctx, the wait that limit bounds, or the
// session has ended, or the server has failed.
func (s *Session) Failed(ctx, limit context.Context, kind string, err error) error {
	switch {
	case Ended(ctx):
		return GaveUp(ctx)
	case s.ctx.Err() != nil:
		return fmt.Errorf("%w: %s: the session ended while waiting", ErrUnavailable, kind)
	case Ended(limit):
		return GaveUp(ctx)
	}
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, kind, err)
}
