package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/step"
)

// Session is something that a holder must keep alive at a server: etcd's lease or Consul's or ZooKeeper's session, which all holds of a
// process share, or the row or connection of a single hold. One goroutine renews it every third of its TTL.
//
// A renewal that fails is tried again; whether the session can still be trusted is for its expiry to say, which ends by this
// process's own clock before the server can end the session, and never comes back.
//
// A session that stays alive keeps whatever a lost answer has left behind alive too: a key that nobody knows to hold would
// block its lock for as long as this process runs. So what could not be deleted is owed ([session.owe]), and the goroutine
// tries again until it is paid, keeping a session alive that is lost already. It goes on for as long as there is an acquire or a
// hold that may come to owe something ([session.join]): a debt that nobody pays keeps others out for as long as this process
// runs, with Consul the contenders of this process, and with ZooKeeper, whose client renews by itself, everybody.
type Session struct {
	*Expiry
	Num   int64                       // the server's name for it: etcd, ZooKeeper
	Name  string                      // the same: Consul
	Renew func(context.Context) error // nil: alive; ErrLost: gone; else unknown
	End   func(context.Context) error // ends it at the server; nil = nothing to do
	halt  context.CancelFunc          // ends the goroutine
	done  chan struct{}               // the goroutine has ended
	mu    sync.Mutex
	debts []func(context.Context) error
	users int           // acquires and holds that may come to owe something
	ended bool          // the goroutine has ended by itself
	dunn  chan struct{} // there is a new debt, or one user less of a lost session
}

// debtRetry is the time between two attempts at a clean-up that is owed.
const debtRetry = 200 * time.Millisecond

// Start begins to keep s alive. A request that was sent at sent has confirmed s.
func (s *Session) Start(sent time.Time, ttl time.Duration) *Session {
	s.Expiry = NewExpiry(context.Background(), sent, ttl)
	s.done, s.dunn = make(chan struct{}), make(chan struct{}, 1)
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
			if !gone && !idle && ctx.Err() == nil { // a beat that took long has the next tick come with the end
				gone = errors.Is(s.beat(ctx), lock.ErrLost)
			}
		case <-s.dunn:
		case <-retry:
		}
		retry = nil
		owes := s.pay(ctx) > 0
		if owes {
			retry = time.After(debtRetry/2 + rand.N(debtRetry))
		}
		if idle = s.Lost() && !owes; idle && s.unused() { // idle: not renewed from here on, the server ends it
			return
		}
	}
}

// join counts a user. It returns false if the goroutine that would carry out the user's clean-up has ended.
func (s *Session) join() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.users++
	return true
}

// Leave ends a use. The user has already reported every clean-up that it owes.
func (s *Session) Leave() {
	s.mu.Lock()
	s.users--
	s.mu.Unlock()
	if s.Lost() {
		s.wake()
	}
}

// unused says whether no clean-up is owed and no user is left who could come to owe one; once it has returned true, nobody can join.
func (s *Session) unused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = s.users <= 0 && len(s.debts) == 0
	return s.ended
}

func (s *Session) wake() {
	select {
	case s.dunn <- struct{}{}:
	default: // called already
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

// Lost says whether the session can no longer be trusted.
func (s *Session) Lost() bool { return s.over() }

// Stop ends the goroutine; from then on it renews nothing and carries out no clean-up.
func (s *Session) Stop() {
	s.halt()
	<-s.done
}

// owe has the session repeat f until it returns nil or ErrLost.
func (s *Session) owe(f func(context.Context) error) {
	s.mu.Lock()
	s.debts = append(s.debts, f)
	s.mu.Unlock()
	s.wake()
}

// pay tries what is owed and returns how much remains.
func (s *Session) pay(ctx context.Context) int {
	s.mu.Lock()
	due := s.debts
	s.debts = nil
	s.mu.Unlock()
	var left []func(context.Context) error
	for _, f := range due {
		one, cancel := context.WithTimeout(ctx, CleanupTimeout)
		if err := f(one); err != nil && !errors.Is(err, lock.ErrLost) {
			left = append(left, f)
		}
		cancel()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.debts = append(left, s.debts...)
	return len(s.debts)
}

// Tidy runs a clean-up f, which outlives ctx for a bounded time. If f fails, the session owes the clean-up and repeats it.
func (s *Session) Tidy(ctx context.Context, f func(context.Context) error) {
	ctx, cancel := Detached(ctx)
	defer cancel()
	if err := f(ctx); err != nil && !errors.Is(err, lock.ErrLost) {
		s.owe(f)
	}
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

// Send runs f, which asks the server to do something, and stops waiting for it when ctx ends, but does not cut it off then: a
// request that is given up may still be carried out, even after the command that was to undo it. That command must wait until over is
// closed, which means that f has its answer, or that none came within CommandTimeout.
func Send[T any](ctx context.Context, f func(context.Context) (T, error)) (v T, over <-chan struct{}, err error) {
	done := make(chan struct{})
	var got T
	var failed error
	go func() {
		defer close(done)
		whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), CommandTimeout)
		defer cancel()
		got, failed = f(whole)
	}()
	select {
	case <-done:
		return got, done, failed
	case <-ctx.Done():
		return v, done, context.Cause(ctx)
	}
}

// Await waits until over is closed, no longer than ctx allows.
func Await(ctx context.Context, over <-chan struct{}) error {
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// SessionLease is one hold under a session.
type SessionLease struct {
	Session *Session
	Kind    string
	Key     string
	Num     uint64 // its fencing token
	Steps   *step.Stream
	Free    func(context.Context) error // gives the lock up: nil, ErrLost, or unknown; may be repeated

	ctx    context.Context
	unbind func()
	done   ReleaseOnce
	sent   bool // a release was sent whose answer was lost
}

// Bind makes the context of the hold: ctx, which also ends with ErrLost when the session is lost.
func (l *SessionLease) Bind(ctx context.Context) {
	held, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(l.Session.ctx, func() { cancel(lock.ErrLost) })
	if l.Session.Lost() { // lost during the acquire: the hook would run soon, but the holder looks now
		cancel(lock.ErrLost)
	}
	l.ctx, l.unbind = held, func() { unhook(); cancel(context.Canceled) }
}

// Context ends with ErrLost when the session can no longer be trusted.
func (l *SessionLease) Context() context.Context { return l.ctx }

// Fence rises with every hold of the key; 0 with sql-for-update, which issues none.
func (l *SessionLease) Fence() uint64 { return l.Num }

// Release gives the lock up. Where its outcome stays unknown it is repeated in the background for as long as the session
// lives.
func (l *SessionLease) Release(ctx context.Context) error {
	l.unbind()
	return l.done.Do(func() error {
		if !l.sent {
			defer l.Session.Leave() // by then the release has ended, or the session owes it
		}
		l.Steps.At(context.WithoutCancel(ctx), step.Releasing, l.Key)
		ctx, cancel := Detached(ctx)
		defer cancel()
		err := l.Free(ctx)
		if err != nil && !errors.Is(err, lock.ErrLost) {
			if !l.sent {
				l.Session.owe(l.Free)
			}
			l.sent = true
			return fmt.Errorf("lock: %s: release unknown: %w", l.Kind, err)
		}
		l.Steps.At(ctx, step.Released, l.Key)
		if l.sent && !l.Session.Lost() { // after a lost answer, "gone" may be our own doing
			return nil
		}
		return err
	})
}
