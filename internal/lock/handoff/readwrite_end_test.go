package handoff_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/testenv"
	"lastitem/internal/testenv/wait"
)

// cutOff is a client hook that cuts a process off: nothing that the process sends arrives.
type cutOff struct {
	testenv.Hook
	down atomic.Bool
}

func (g *cutOff) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if g.down.Load() {
			err := &net.OpError{Op: "dial", Err: errors.New("cut off")}
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}

// One reader is cut off, another lives. The first one's context ends before its time runs out on the server, the writer gets
// in no sooner than that, and no later than the other reader's release.
func TestReadWriteDeadReader(t *testing.T) {
	const leaseTTL = 600 * time.Millisecond
	s := testenv.Redis(t)
	key := s.Prefix + "{1}"
	for name, liveLeavesFirst := range map[string]bool{"outlived": false, "left alone": true} {
		t.Run(name, func(t *testing.T) {
			c, cut := locktest.RedisClient(t, s), &cutOff{}
			c.AddHook(cut)
			e, err := handoff.New(c, handoff.Options{TTL: leaseTTL})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close(context.Background())
			live := onServer(t, s, handoff.Options{TTL: leaseTTL}).ReadWrite()
			writer := onServer(t, s, handoff.Options{TTL: leaseTTL}).ReadWrite()
			dead, alive := locktest.Obtain(t, e.ReadWrite().Read(), key), locktest.Obtain(t, live.Read(), key)
			got := queueing(t, s, writer.Write(), key, 1)
			cut.down.Store(true)
			if liveLeavesFirst {
				released(t, alive)
			}
			<-dead.Context().Done()
			if cause := context.Cause(dead.Context()); !errors.Is(cause, lock.ErrLost) {
				t.Errorf("cause = %v, want ErrLost", cause)
			}
			if len(got) > 0 {
				t.Error("the writer got in while the reader still trusted its lease")
			}
			if !liveLeavesFirst {
				wait.Until(t, "the dead reader is taken out", func() bool {
					return s.Client.ZCard(t.Context(), handoff.KeysOf(key).Readers).Val() == 1
				})
				if len(got) > 0 {
					t.Error("the writer got in beside a live reader")
				}
				released(t, alive)
			}
			released(t, served(t, "the writer", got))
			if err := dead.Release(t.Context()); err == nil || errors.Is(err, lock.ErrLost) {
				t.Errorf("Release without a network = %v, want unknown", err)
			}
			cut.down.Store(false)
			if err := dead.Release(t.Context()); err == nil {
				t.Error("Release of a read that ran out = nil")
			}
			nothingLeftOn(t, s, key)
		})
	}
}

// A waiter that gives up, in any state, leaves nothing behind and delays no other waiter.
func TestReadWriteContextEndsInEachPhase(t *testing.T) {
	s := testenv.Redis(t)
	for name, c := range map[string]struct{ holds, waits string }{
		"reader behind a writer": {"rw-write", "rw-read"}, "writer behind a writer": {"rw-write", "rw-write"},
		"writer behind a reader": {"rw-read", "rw-write"},
	} {
		for _, when := range []string{"at once", "waiting", "let in"} {
			t.Run(name+"/"+when, func(t *testing.T) {
				key := s.Prefix + t.Name() + "{1}"
				a, b := onServer(t, s, handoff.Options{}), onServer(t, s, handoff.Options{})
				held := locktest.Obtain(t, pick(a, c.holds), key)
				ctx, cancel := context.WithCancel(t.Context())
				got, failed := async(ctx, pick(b, c.waits), key)
				keys := handoff.KeysOf(key)
				if when != "at once" {
					wait.Until(t, "it waits", func() bool {
						return s.Client.ZCard(t.Context(), keys.Queue).Val() == 1 ||
							c.holds == "rw-read" && s.Client.Exists(t.Context(), keys.Lock).Val() == 1
					})
				}
				next := make(chan lock.Lease)
				if when == "waiting" {
					next = queueing(t, s, a.ReadWrite().Read(), key, 2)
				}
				if when == "let in" {
					go released(t, held)
				}
				cancel()
				select {
				case lease := <-got: // it was faster
					released(t, lease)
				case err := <-failed:
					if !errors.Is(err, lock.ErrBusy) || !errors.Is(err, context.Canceled) {
						t.Errorf("Acquire = %v, want ErrBusy and Canceled", err)
					}
				case <-time.After(locktest.Soon):
					t.Fatal("Acquire did not return")
				}
				if when == "waiting" && c.holds == "rw-read" { // readers queued after the writer that gave up
					released(t, served(t, "the reader behind it", next))
				}
				released(t, held)
				if when == "waiting" && c.holds == "rw-write" {
					released(t, served(t, "the reader behind it", next))
				}
				nothingLeftOn(t, s, key)
			})
		}
	}
}

func TestReadWriteClose(t *testing.T) {
	s := testenv.Redis(t)
	key := s.Prefix + "{1}"
	e, err := handoff.New(locktest.RedisClient(t, s), handoff.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rw := e.ReadWrite()
	lease := locktest.Obtain(t, rw.Read(), key)
	draining, drained := async(context.Background(), rw.Write(), key)
	wait.Until(t, "the writer owns the write lock", func() bool { return s.Client.Exists(t.Context(), key).Val() == 1 })
	waiting, waited := async(context.Background(), rw.Read(), key)
	wait.Until(t, "a reader queues", func() bool { return s.Client.ZCard(t.Context(), handoff.KeysOf(key).Queue).Val() == 1 })
	if err := e.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
	for _, failed := range []chan error{drained, waited} {
		select {
		case err := <-failed:
			if !errors.Is(err, handoff.ErrClosed) {
				t.Errorf("a waiter got %v, want ErrClosed", err)
			}
		case <-draining:
			t.Error("the writer got in beside a reader")
		case <-waiting:
			t.Error("a reader got in during Close")
		}
	}
	if lease.Context().Err() == nil {
		t.Error("the read outlived its engine")
	}
	released(t, lease)
	nothingLeftOn(t, s, key)
}

// A writer that has asked often whether the readers have left asks once more if an answer is lost, as at the beginning.
func TestReadWriteLostAnswerAfterALongWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, links := network(t, 2)
		c, lost := links[1].client(), &locktest.LostAnswers{Name: "evalsha"}
		c.AddHook(lost)
		held := locktest.Obtain(t, links[0].process(t, handoff.Options{}).ReadWrite().Read(), "k{1}")
		got, failed := waits(t.Context(), links[1].processOn(t, c, handoff.Options{}).ReadWrite().Write(), "k{1}")
		time.Sleep(20 * time.Second)
		lost.Left.Store(1)
		time.Sleep(5 * time.Second)
		if lost.Left.Load() > 0 {
			t.Error("no answer was lost")
		}
		released(t, held)
		select {
		case lease := <-got:
			released(t, lease)
		case err := <-failed:
			t.Errorf("Acquire = %v after one lost answer", err)
		}
		synctest.Wait()
		nothingLeft(t, m, "k{1}")
	})
}

// A writer whose wait runs out beside readers, or before the reply says so, gives up its ownership at once.
func TestReadWriteBoundedWaitForReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, links := network(t, 2)
		rw := links[0].process(t, handoff.Options{}).ReadWrite()
		subscribe(t, rw.Write(), links[1].process(t, handoff.Options{}).Fair())
		held := locktest.Obtain(t, rw.Read(), "k{1}")
		links[0].slow.Store(int64(slowness))
		for _, most := range []time.Duration{0, slowness / 2, 10 * slowness} {
			if _, err := rw.Write().Acquire(lock.WithWait(t.Context(), most), "k{1}"); !errors.Is(err, lock.ErrBusy) {
				t.Errorf("Acquire with wait %s beside a reader = %v, want ErrBusy", most, err)
			}
			time.Sleep(5 * slowness) // the cancel has arrived
			released(t, locktest.Take(t, rw.Read(), "k{1}"))
		}
		released(t, held)
		synctest.Wait()
		nothingLeft(t, m, "k{1}")
	})
}

// The set of readers does not outlive the last of them, also where engines have different TTLs.
func TestReadWriteReadersExpire(t *testing.T) {
	s := testenv.Redis(t)
	key := s.Prefix + "{1}"
	long := locktest.Obtain(t, onServer(t, s, handoff.Options{TTL: time.Minute}).ReadWrite().Read(), key)
	short := locktest.Obtain(t, onServer(t, s, handoff.Options{TTL: 20 * time.Second}).ReadWrite().Read(), key)
	if left := s.Client.PTTL(t.Context(), handoff.KeysOf(key).Readers).Val(); left > time.Minute || left < 30*time.Second {
		t.Errorf("the readers expire in %s, want a minute at most, and not with the shorter TTL", left)
	}
	released(t, long)
	released(t, short)
	nothingLeftOn(t, s, key)
}
