package lease

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A leader ends sessions; a follower, to which the client is connected, reports to it every half tick which sessions it has heard, and
// forwards the client's renewals, which the leader answers without counting them. Then both are cut off from the leader, at any time. The
// holder knows that it has lost the session before the leader ends it, also where some renewals reach the follower late.
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
