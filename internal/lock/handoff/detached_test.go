package handoff_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
)

// A context that is detached from a lease's context, for example for a background job, acquires the lock again after the lease was released
// normally.
func TestEngineAcquireAfterRelease(t *testing.T) {
	for _, kinds := range [][2]string{{"handoff", "handoff"}, {"fair", "fair"}, {"rw-write", "rw-write"}, {"rw-read", "rw-read"}, {"rw-read", "rw-write"}} {
		t.Run(kinds[0]+" then "+kinds[1], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, links := network(t, 1)
				e := links[0].process(t, handoff.Options{})
				first := locktest.Obtain(t, pick(e, kinds[0]), "k{1}")
				job := context.WithoutCancel(first.Context())
				released(t, first)
				l := pick(e, kinds[1])
				second, err := l.Acquire(lock.WithWait(job, 0), "k{1}")
				if err != nil {
					t.Fatalf("Acquire after a release = %v", err)
				}
				if second.Context().Err() != nil || kinds[1] != "rw-read" && second.Fence() <= first.Fence() {
					t.Errorf("fence %d after %d, context %v: want another hold", second.Fence(), first.Fence(), second.Context().Err())
				}
				inner, err := l.Acquire(lock.WithWait(second.Context(), 0), "k{1}")
				if err != nil {
					t.Fatalf("re-entry = %v", err)
				}
				released(t, inner)
				released(t, second)
				synctest.Wait()
				nothingLeft(t, m, "k{1}")
			})
		})
	}
}

// A hold that was lost stays lost, before and after its release: its work must not go on as if nothing had happened.
func TestEngineAcquireAfterLoss(t *testing.T) {
	both(t, func(t *testing.T, name string) {
		m, links := network(t, 1)
		l := pick(links[0].process(t, handoff.Options{}), name)
		lost := locktest.Obtain(t, l, "k{1}")
		job := context.WithoutCancel(lost.Context())
		m.Del("k{1}")
		<-lost.Context().Done()
		for _, when := range []string{"before", "after"} {
			if _, err := l.Acquire(lock.WithWait(job, 0), "k{1}"); !errors.Is(err, lock.ErrLost) {
				t.Errorf("Acquire %s the release = %v, want ErrLost", when, err)
			}
			_ = lost.Release(t.Context())
		}
	})
}

// If the caller's context ends while the resource is asked, the wait ends, as it does everywhere; a bounded wait also bounds the query.
func TestEngineFencedEndsWithItsCaller(t *testing.T) {
	gone := errors.New("gone home")
	synctest.Test(t, func(t *testing.T) {
		m, links := network(t, 1)
		e := links[0].process(t, handoff.Options{})
		asked := make(chan struct{}, 1)
		l := e.Fenced(func(ctx context.Context, _ string) (uint64, error) {
			asked <- struct{}{}
			<-ctx.Done()
			return 0, ctx.Err()
		})
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			<-asked
			cancel(gone)
		}()
		if _, err := failedAcquire(ctx, t, l, "k{1}"); !errors.Is(err, lock.ErrBusy) || !errors.Is(err, gone) {
			t.Errorf("Acquire whose context ended = %v, want ErrBusy and the cause", err)
		}
		synctest.Wait()
		nothingLeft(t, m, "k{1}")
		for wait, most := range map[time.Duration]time.Duration{0: time.Second, 3 * time.Second: 4 * time.Second} {
			took, err := failedAcquire(lock.WithWait(t.Context(), wait), t, l, "k{1}")
			if <-asked; !errors.Is(err, lock.ErrUnavailable) || took > most {
				t.Errorf("Acquire that waits %s = %v after %s, want ErrUnavailable after %s at most", wait, err, took, most)
			}
			synctest.Wait()
			nothingLeft(t, m, "k{1}")
		}
	})
}
