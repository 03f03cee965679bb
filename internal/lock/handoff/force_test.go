package handoff_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/testenv"
)

func force(t *testing.T, e *handoff.Engine, key string, evicted int) handoff.Forced {
	t.Helper()
	forced, err := e.ForceRelease(t.Context(), key)
	if err != nil {
		t.Fatalf("ForceRelease: %v", err)
	}
	if len(forced.Evicted) != evicted || (forced.Fence > 0) != (evicted > 0) {
		t.Fatalf("ForceRelease = %+v, want %d evicted", forced, evicted)
	}
	return forced
}

func wantEvicted(t *testing.T, lease lock.Lease) {
	t.Helper()
	if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrLost) {
		t.Errorf("cause of the evicted = %v, want ErrLost", cause)
	}
	wantReleaseLost(t, lease)
}

func wantReleaseLost(t *testing.T, lease lock.Lease) {
	t.Helper()
	if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
		t.Errorf("Release of the evicted = %v, want ErrLost", err)
	}
}

// An operator's process takes the lock from a holder: the next waiter has it, and the holder knows it, without any delay. The fences of the
// evicted, of the operator and of the next holder rise in this order.
func TestForceRelease(t *testing.T) {
	for _, name := range allLocks {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, links := network(t, 3)
				holder, waiter := pick(links[0].process(t, handoff.Options{}), name), pick(links[1].process(t, handoff.Options{}), map[bool]string{true: "rw-write", false: name}[name == "rw-read"])
				operator := links[2].process(t, handoff.Options{})
				subscribe(t, holder, waiter)
				lease := locktest.Obtain(t, holder, "k{1}")
				got, _ := waits(t.Context(), waiter, "k{1}")
				began := time.Now()
				forced := force(t, operator, "k{1}", map[bool]int{true: 2, false: 1}[name == "rw-read"]) // the writer that waits for the reader is one
				next := <-got                                                                            // a writer that was evicted while it waited for the reader comes back with another token
				if took := time.Since(began); took > 100*time.Millisecond {
					t.Errorf("the next holder got in after %s", took)
				}
				synctest.Wait()
				wantEvicted(t, lease)
				if lease.Fence() >= forced.Fence || forced.Fence >= next.Fence() {
					t.Errorf("fences %d, %d, %d, want them to rise", lease.Fence(), forced.Fence, next.Fence())
				}
				locktest.WantBusy(t, pick(operator, name), "k{1}", "after the late release")
				locktest.Release(t, next)
				force(t, operator, "k{1}", 0)
			})
		})
	}
}

// A holder whose process has no subscription learns of it with its next renewal, or with its release; also where the client repeats
// commands, so that a release that finds nothing might be the second.
func TestForceReleaseOfAProcessThatNeverWaited(t *testing.T) {
	for _, name := range allLocks {
		for _, retries := range []int{-1, 3} {
			for _, rest := range []time.Duration{0, locktest.TTL / 2} {
				t.Run(name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						_, links := network(t, 2)
						l := pick(links[0].processOn(t, links[0].retrying(retries), handoff.Options{}), name)
						lease := locktest.Obtain(t, l, "k{1}")
						force(t, links[1].process(t, handoff.Options{}), "k{1}", 1)
						if time.Sleep(rest); rest > 0 && lease.Context().Err() == nil {
							t.Errorf("%s after the force release the holder's context is alive", rest)
						}
						if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
							t.Errorf("Release of the evicted = %v, want ErrLost", err)
						}
						locktest.Warm(t, l, "k{1}")
					})
				})
			}
		}
	}
}

// The lock was passed on and released again before the evicted holder releases. Redis remembers the last releaser only, and the release may
// be one that was sent twice: still the holder learns that it was evicted.
func TestForceReleaseBeforeTheNextHolder(t *testing.T) {
	for _, name := range allLocks {
		for how, retries := range map[string]int{"client that repeats": 3, "answer lost": -1, "all answers lost": -1} {
			t.Run(name+"/"+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					_, links := network(t, 2)
					c, lost := links[0].retrying(retries), &locktest.LostAnswers{Name: "evalsha"}
					l, operator := pick(links[0].processOn(t, c, handoff.Options{}), name), links[1].process(t, handoff.Options{})
					locktest.Warm(t, l, "k{1}")
					lease := locktest.Obtain(t, l, "k{1}")
					force(t, operator, "k{1}", 1)
					locktest.Warm(t, pick(operator, name), "k{1}")
					if retries < 0 {
						c.AddHook(lost)
						lost.Left.Store(1)
					}
					if how == "all answers lost" {
						lost.Left.Store(maxTries)
						if err := lease.Release(t.Context()); err == nil || errors.Is(err, lock.ErrLost) {
							t.Errorf("Release with all answers lost = %v, want unknown", err)
						}
						time.Sleep(2 * time.Second) // past the cancel that follows
					}
					wantReleaseLost(t, lease)
				})
			})
		}
	}
}

// The answer to a force release is lost, and the next holder gets in before the command is sent again. The operator learns all the same whom
// it has evicted, and the fence that refuses them and not the next holder.
func TestForceReleaseWithoutAnAnswer(t *testing.T) {
	onServers(t, func(t *testing.T, s *testenv.RedisServer) {
		for _, name := range []string{"handoff", "rw-write", "rw-read"} {
			key, c := s.Prefix+name+"{1}", locktest.RedisClient(t, s)
			holder, rival, operator := onServer(t, s, handoff.Options{}), onServer(t, s, handoff.Options{}), engine(t, c, handoff.Options{})
			first := locktest.Obtain(t, pick(holder, name), key+"first")
			force(t, operator, key+"first", 1) // loads the scripts
			wantReleaseLost(t, first)
			var sent atomic.Int64
			var next lock.Lease
			c.AddHook(locktest.SendHook{Name: "evalsha", Send: func(_ context.Context, send func() error) error {
				err := send()
				if sent.Add(1) == 2 { // after the inspection
					next = locktest.Obtain(t, rival.Handoff(), key)
					err = io.ErrUnexpectedEOF
				}
				return err
			}})
			lease := locktest.Obtain(t, pick(holder, name), key)
			forced := force(t, operator, key, 1)
			if lease.Fence() >= forced.Fence || forced.Fence >= next.Fence() {
				t.Errorf("fences %d, %d, %d, want them to rise", lease.Fence(), forced.Fence, next.Fence())
			}
			wantReleaseLost(t, lease)
			locktest.Release(t, next)
		}
	})
}

// A waiter whose grant's message was lost is evicted while it seems to wait still. It comes back at once, or with its next poll if the message
// of the eviction was lost too.
func TestForceReleaseOfAWaiterThatMissedItsGrant(t *testing.T) {
	for _, name := range allLocks {
		for missed, within := range map[string]time.Duration{"the grant": 100 * time.Millisecond, "both messages": 5 * time.Second} {
			t.Run(name+"/"+missed, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m, links := network(t, 3)
					holder, waiter := links[0].process(t, handoff.Options{}), pick(links[1].process(t, handoff.Options{}), name)
					operator := links[2].process(t, handoff.Options{})
					rival := pick(holder, map[bool]string{true: "rw-write", false: name}[name == "rw-read"])
					subscribe(t, waiter, rival)
					lease := locktest.Obtain(t, rival, "k{1}")
					got, _ := waits(t.Context(), waiter, "k{1}")
					links[1].dropsMessages.Store(true)
					locktest.Release(t, lease)
					synctest.Wait()
					links[1].dropsMessages.Store(missed == "both messages")
					began := time.Now()
					forced := force(t, operator, "k{1}", 1)
					lease = <-got
					if took := time.Since(began); took > within {
						t.Errorf("the waiter got in after %s, want %s at most", took, within)
					}
					if lease.Fence() <= forced.Fence {
						t.Errorf("fence %d, the eviction raised it to %d", lease.Fence(), forced.Fence)
					}
					locktest.Release(t, lease)
					links[1].dropsMessages.Store(false)
					time.Sleep(5 * time.Second) // cancels and cleanups
					nothingLeft(t, m, "k{1}")
				})
			})
		}
	}
}

// The operator may be the holder's own process, which knows at once, also without a subscription. Its waiters go on.
func TestForceReleaseInTheHoldersProcess(t *testing.T) {
	for _, waiters := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			_, links := network(t, 1)
			e := links[0].process(t, handoff.Options{})
			lease := locktest.Obtain(t, e.Handoff(), "k{1}")
			var got <-chan lock.Lease
			if waiters > 0 {
				got, _ = waits(t.Context(), e.Handoff(), "k{1}")
			}
			force(t, e, "k{1}", 1)
			wantEvicted(t, lease)
			if waiters > 0 {
				locktest.Release(t, <-got)
			}
		})
	}
}

// Readers are evicted with the writer that waits for them, or before one queues. Those that queue are let in.
func TestForceReleaseOfReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, links := network(t, 2)
		l := links[0].process(t, handoff.Options{}).ReadWrite()
		operator := links[1].process(t, handoff.Options{})
		subscribe(t, l.Write(), operator.ReadWrite().Write())
		for _, readers := range []int{1, 150} {
			var leases []lock.Lease
			for range readers {
				leases = append(leases, locktest.Obtain(t, l.Read(), "k{1}"))
			}
			forced := force(t, operator, "k{1}", readers)
			synctest.Wait()
			for _, lease := range leases {
				wantEvicted(t, lease)
				if lease.Fence() >= forced.Fence {
					t.Errorf("fence %d of an evicted reader, the raised one is %d", lease.Fence(), forced.Fence)
				}
			}
			write := locktest.Obtain(t, l.Write(), "k{1}")
			got, _ := waits(t.Context(), l.Read(), "k{1}")
			force(t, operator, "k{1}", 1)
			locktest.Release(t, <-got)
			synctest.Wait()
			wantEvicted(t, write)
		}
	})
}

// An owner that no engine has put there, such as another kind of lock, can be evicted too. A Redis that does not answer is no success.
func TestForceReleaseOfAForeignOwner(t *testing.T) {
	onServers(t, func(t *testing.T, s *testenv.RedisServer) {
		e := onServer(t, s, handoff.Options{})
		if err := s.Client.Set(t.Context(), s.Prefix+"{1}", "a value by hand", 0).Err(); err != nil {
			t.Fatal(err)
		}
		force(t, e, s.Prefix+"{1}", 1)
		locktest.Warm(t, e.Handoff(), s.Prefix+"{1}")
		wantExpiries(t, s)
		if err := s.Client.LPush(t.Context(), s.Prefix+"list", "x").Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := e.ForceRelease(t.Context(), s.Prefix+"list"); !errors.Is(err, lock.ErrUnavailable) {
			t.Errorf("ForceRelease of a list = %v, want ErrUnavailable", err)
		}
	})
}
