package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/step"
	"lastitem/testkit"
)

// These tests check the times of a session in a bubble; the tests of the locks check them with servers.

const sessionTTL = 9 * time.Second

var errUnknown = errors.New("no answer")

// lives waits for the end of s and returns how long it could be trusted from now on.
func lives(t *testing.T, s *Session) time.Duration {
	t.Helper()
	start := time.Now()
	<-s.ctx.Done()
	if cause := context.Cause(s.ctx); !errors.Is(cause, ErrLost) {
		t.Errorf("cause = %v, want ErrLost", cause)
	}
	return time.Since(start)
}

// The server does not answer any more: the holder knows that it has lost the lock before the server, which counts from
// the arrival of the last renewal, can grant it to a rival.
func TestSessionEndsByItsOwnClock(t *testing.T) {
	const margin = sessionTTL/100 + 2*time.Millisecond
	for name, c := range map[string]struct {
		// how long the acquire took; a renewal, until it is lost or answered; when the session ends
		acquire, takes, want time.Duration
		good                 int // renewals that are answered
	}{
		"never renewed":                {0, 0, sessionTTL - margin, 0},
		"renewed twice":                {0, 0, 2*sessionTTL/3 + sessionTTL - margin, 2},
		"renewals that hang":           {0, time.Minute, sessionTTL - margin, 0},
		"counted from the question on": {0, 2 * time.Second, sessionTTL/3 + sessionTTL - margin, 1},
		"after a slow acquire":         {sessionTTL / 4, 0, sessionTTL*3/4 - margin, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked, sent := 0, time.Now()
				time.Sleep(c.acquire)
				s := (&Session{Renew: func(ctx context.Context) error {
					asked++
					good := asked <= c.good
					if err := Pause(ctx, c.takes, nil); err != nil || !good {
						return errUnknown
					}
					return nil
				}}).Start(sent, sessionTTL)
				defer s.Stop()
				if lived := lives(t, s); lived != c.want {
					t.Errorf("trusted for %s, want %s", lived, c.want)
				}
			})
		})
	}
}

func TestSessionHearsOfItsEndAtTheNextRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		beats := 0
		s := (&Session{Renew: func(context.Context) error {
			if beats++; beats == 3 {
				return ErrLost
			}
			return nil
		}}).Start(time.Now(), sessionTTL)
		if lived := lives(t, s); lived != sessionTTL {
			t.Errorf("told after %s, want at the third renewal, after %s", lived, sessionTTL)
		}
		<-s.done // the renewals have ended too
		if beats != 3 {
			t.Errorf("%d renewals, want 3", beats)
		}
	})
}

// A cleanup is repeated until it succeeds, even if the session is lost meanwhile, and no longer.
func TestSessionRepeatsItsCleanups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var renewed, tried int
		s := (&Session{Renew: func(context.Context) error { renewed++; return errUnknown }}).Start(time.Now(), sessionTTL)
		start := time.Now()
		s.retryLater(func(context.Context) error {
			tried++
			if time.Since(start) < 3*sessionTTL {
				return errUnknown
			}
			return nil
		})
		lives(t, s)
		<-s.done
		if took := time.Since(start); took < 3*sessionTTL || took > 3*sessionTTL+2*cleanupRetry {
			t.Errorf("ended after %s, the cleanup could succeed after %s", took, 3*sessionTTL)
		}
		if renewed < 8 {
			t.Errorf("%d renewals: what is to be undone may have been kept alive by them", renewed)
		}
		if most := int(3*sessionTTL/(cleanupRetry/2)) + 2; tried > most {
			t.Errorf("%d tries, want at most %d", tried, most)
		}
	})
}

// The cleanup of a lost hold is over, because the end of the session has freed the lock.
func TestSessionForgetsACleanupOfALostHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tried := 0
		s := (&Session{Renew: func(context.Context) error { return nil }}).Start(time.Now(), sessionTTL)
		s.retryLater(func(context.Context) error { tried++; return ErrLost })
		time.Sleep(sessionTTL)
		s.Stop()
		if tried != 1 {
			t.Errorf("%d tries, want 1", tried)
		}
	})
}

// A holder releases long after the loss of its session, while the server still does not answer. Its cleanup is still
// executed: otherwise Consul's local contenders, or with ZooKeeper all contenders, would wait forever. Meanwhile
// nothing is renewed, and after the cleanup the session ends.
func TestSessionRepeatsALateRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var renewed atomic.Int64
		p := NewSessions(func(context.Context) (*Session, error) {
			return (&Session{Renew: func(context.Context) error {
				renewed.Add(1)
				return errUnknown
			}}).Start(time.Now(), sessionTTL), nil
		})
		defer func() { _ = p.Close() }()
		s, err := p.Get(t.Context())
		testkit.Must(t, err)
		var healed, cleaned atomic.Bool
		lease := &SessionLease{Session: s, Free: func(context.Context) error {
			if !healed.Load() {
				return errUnknown
			}
			cleaned.Store(true)
			return ErrLost
		}}
		lease.Bind(t.Context())
		<-lease.Context().Done()
		time.Sleep(sessionTTL)
		before := renewed.Load()
		time.Sleep(10 * sessionTTL)
		if n := renewed.Load() - before; n != 0 {
			t.Errorf("a lost session that had no cleanup was renewed %d times", n)
		}
		if err := lease.Release(t.Context()); !errors.Is(err, errUnknown) {
			t.Errorf("Release = %v, want unknown", err)
		}
		time.Sleep(10 * sessionTTL)
		healed.Store(true)
		time.Sleep(time.Second)
		if !cleaned.Load() {
			t.Error("its cleanup was not repeated")
		}
		select {
		case <-s.done:
		default:
			t.Error("the session goes on, with nobody left who could need a cleanup")
		}
	})
}

// A reader of the steps may delay a release for any time: the time-out of the request to the server begins after that.
func TestSessionReleaseHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var steps step.Stream
		defer steps.Subscribe(func(context.Context, step.Event) { time.Sleep(time.Minute) })()
		s := (&Session{Renew: func(context.Context) error { return nil }}).Start(time.Now(), sessionTTL)
		defer s.Stop()
		lease := &SessionLease{Session: s, Steps: &steps, Free: func(ctx context.Context) error { return ctx.Err() }}
		lease.Bind(t.Context())
		testkit.Is(t, lease.Release(t.Context()), nil, "Release")
	})
}

// A lock that was acquired under a session that was lost meanwhile is not handed out.
func TestSessionLostWhileAcquiring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 100 {
			s := (&Session{Renew: func(context.Context) error { return nil }}).Start(time.Now(), sessionTTL)
			s.Lose()
			lease := &SessionLease{Session: s}
			lease.Bind(t.Context())
			if cause := context.Cause(lease.Context()); !errors.Is(cause, ErrLost) {
				t.Errorf("cause = %v, want ErrLost", cause)
			}
			s.Stop()
		}
	})
}

// Stop waits for the renewal in flight, and for no later one.
func TestSessionStopsAfterTheRenewalUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 20 { // the tick at the end of a renewal may be seen before the stop or after it
			s := (&Session{Renew: func(ctx context.Context) error {
				<-ctx.Done()
				return errUnknown
			}}).Start(time.Now(), sessionTTL)
			time.Sleep(sessionTTL/3 + time.Millisecond)
			start := time.Now()
			s.Stop()
			if took := time.Since(start); took > sessionTTL/3 {
				t.Fatalf("stop took %s, the renewal under way %s", took, sessionTTL/3-time.Millisecond)
			}
		}
	})
}

// A leader ends sessions; a follower, to which the client is connected, reports to it every half tick which sessions it
// has heard, and forwards the client's renewals, which the leader answers without counting them. Then both are cut off
// from the leader, at any time. The holder knows that it has lost the session before the leader ends it, also where
// some renewals reach the follower late.
func TestSessionWithALagEndsBeforeItsLeaderEndsIt(t *testing.T) {
	const report = sessionTTL / 6 // half a tick, for three ticks
	for cut := range 400 {
		after := sessionTTL/2 + time.Duration(cut)*sessionTTL/310
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				heard, counted := begun, begun // by the follower, by the leader
				var gone atomic.Bool
				stop := make(chan struct{})
				defer close(stop)
				touch := make(chan chan error)
				go func() { // the follower, and the link to its leader
					reports := time.NewTicker(report)
					defer reports.Stop()
					for {
						select {
						case answer := <-touch:
							heard = time.Now()
							if gone.Load() {
								answer <- errUnknown
								continue
							}
							answer <- nil
						case <-reports.C:
							if !gone.Load() {
								counted = heard
							}
						case <-stop:
							return
						}
					}
				}()
				late, random := cut%2 == 1, rand.New(rand.NewPCG(1, uint64(cut)))
				travel := func() {
					took := time.Duration(random.Int64N(int64(sessionTTL / 32)))
					if late && random.IntN(4) == 0 {
						took += sessionTTL / 4
					}
					time.Sleep(took)
				}
				s := (&Session{Lag: sessionTTL / 4, Renew: func(context.Context) error {
					answer := make(chan error, 1)
					travel()
					touch <- answer
					return <-answer
				}}).Start(begun, sessionTTL)
				defer s.Stop()
				time.Sleep(after)
				gone.Store(true)
				synctest.Wait()
				switch {
				case s.Lost() && late: // too late
					return
				case s.Lost():
					t.Fatal("lost while every renewal was answered")
				}
				last := counted
				lives(t, s)
				if over := last.Add(sessionTTL); time.Now().After(over) {
					t.Errorf("trusted for %s after the leader had ended it", time.Since(over))
				}
			})
		})
	}
}

// A session with a lag survives some renewals without an answer.
func TestSessionWithALagSurvivesLostAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		s := (&Session{Lag: sessionTTL / 4, Renew: func(context.Context) error {
			if asked++; asked%3 != 2 { // the second is answered, and then one of three
				return errUnknown
			}
			return nil
		}}).Start(time.Now(), sessionTTL)
		defer s.Stop()
		time.Sleep(10 * sessionTTL)
		if s.Lost() {
			t.Error("the session is lost")
		}
	})
}
