package handoff_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/testkit"
	"lastitem/testkit/locktest"
	"lastitem/testkit/testenv"
)

// Two engines on two databases: the hold of one does not hide that of the other.
func TestEngineReentryThroughAnother(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t)
	key := s.Prefix + "{1}"
	a := onServer(t, s, handoff.Options{}).Fair()
	b := engine(t, locktest.RedisClient(t, testenv.Miniredis(t)), handoff.Options{}).Fair()
	outer := locktest.Obtain(t, a, key)
	middle := locktest.Acquire(lock.WithReentry(outer.Context()), t, b, key)
	inner := locktest.Acquire(lock.WithWait(middle.Context(), 0), t, a, key)
	for _, lease := range []lock.Lease{inner, middle, outer} {
		released(t, lease)
	}
}

// A message contains the whole key, even if the key has a NUL byte: a grant to an ended waiter is cancelled under that
// key.
func TestEngineMessageNamesTheKey(t *testing.T) {
	for _, p := range pairs {
		inBubble(t, p[0]+" then "+p[1], func(t *testing.T) {
			_, links := network(t, 3)
			c := testkit.Closing(t, links[2].client())
			all := testkit.Closing(t, c.PSubscribe(t.Context(), "lock:engine:*"))
			_, err := all.Receive(t.Context())
			testkit.Must(t, err)
			const key = "k\x00{1}\x00 \n"
			held := locktest.Obtain(t, pick(links[0].process(t, handoff.Options{}), p[0]), key)
			got, _ := waits(t.Context(), pick(links[1].process(t, handoff.Options{}), p[1]), key)
			released(t, held)
			released(t, <-got)
			if m, err := all.ReceiveMessage(t.Context()); err != nil || !strings.HasSuffix(m.Payload, " "+key) {
				t.Errorf("the message is %v, %v, want it to end with the key %q", m, err, key)
			}
		})
	}
}

// A re-entry costs no command and has the fence of the hold, which ends with the last of its entries.
func TestEngineReentry(t *testing.T) {
	s := testenv.Redis(t)
	c, counted := locktest.RedisClient(t, s), &spy{}
	e := engine(t, c, calm(handoff.Options{}))
	c.AddHook(counted)
	for i, p := range [][2]string{{"handoff", "fair"}, {"rw-read", "rw-read"}, {"rw-write", "rw-write"},
		{"rw-write", "fair"}, {"rw-write", "rw-read"}} {
		key, l := fmt.Sprintf("%s{%d}", s.Prefix, i), pick(e, p[1])
		outer := locktest.Acquire(t.Context(), t, pick(e, p[0]), key)
		before := counted.scripts.Load()
		inner := locktest.Acquire(lock.WithReentry(outer.Context()), t, l, key)
		testkit.Is(t, inner.Fence(), outer.Fence(), "%v: fence of the re-entry", p)
		released(t, outer)
		testkit.Is(t, inner.Context().Err(), nil, "%v: the outer release ended the inner lease", p)
		testkit.Is(t, counted.scripts.Load(), before, "%v: commands before and after the re-entry", p)
		released(t, inner)
		_, err := l.Acquire(lock.WithReentry(outer.Context()), key)
		testkit.IsError(t, err, lock.ErrLost, "%v: Acquire with a released lease's context", p)
		nothingLeftOn(t, s, key)
	}
}

// Messages that an engine cannot read change nothing. A token that is not its own, or ended, is cancelled, and nothing
// else is sent.
func TestUnreadableMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, links := network(t, 2)
		held := locktest.Take(t, links[0].process(t, handoff.Options{}).Fair(), "k{1}")
		c, sent := links[1].client(), &spy{}
		e := links[1].processOn(t, c, handoff.Options{})
		got, _ := waits(t.Context(), e.Fair(), "k{1}")
		tokens, err := m.ZMembers(handoff.KeysOf("k{1}").Queue)
		testkit.Must(t, err)
		token, now := tokens[0], strconv.FormatInt(time.Now().UnixMilli(), 10)
		process, rest, _ := strings.Cut(token, ".")
		number, _, _ := strings.Cut(rest, ".")
		e.Receive("first.1.1.2500 7 " + now + " k{1}") // a cancel, after which the server knows its script
		synctest.Wait()
		c.AddHook(sent)
		for _, m := range []string{"", " ", token, token + " 7", "   ", token + " q7 " + now + " k{1}",
			token + " 7 then k{1}"} {
			e.Receive(m)
		}
		others := []string{"ABCDEFGHIJKLMNOP.1.1.2500", "ABCDEFGHIJKLMNOP." + rest, number + ".1.1.2500", "v3-" + token[3:],
			process + ".zz.1.2500", process + "." + number + ".2.2500"}
		for _, other := range others {
			e.Receive(other + " 7 " + now + " k{1}")
			e.Receive(other + " x7 " + now + " k{1}")
		}
		synctest.Wait()
		testkit.Is(t, len(got), 0, "granted by a message that nobody understands")
		testkit.Is(t, sent.scripts.Load(), int64(len(others)), "cancels")
		locktest.Release(t, held)
		locktest.Release(t, <-got)
	})
}

// The goroutines that get a lease's context exclude each other, and the holder, unless they ask to re-enter; so
// does a job in the background, whose context is detached. After the lease was released normally, the job acquires
// the lock, re-entry or not.
func TestEngineAcquireAfterRelease(t *testing.T) {
	for _, kinds := range [][2]string{{"handoff", "handoff"}, {"fair", "fair"}, {"rw-write", "rw-write"},
		{"rw-read", "rw-read"}, {"rw-read", "rw-write"}} {
		inBubble(t, kinds[0]+" then "+kinds[1], func(t *testing.T) {
			m, links := network(t, 1)
			e := links[0].process(t, handoff.Options{})
			first := locktest.Obtain(t, pick(e, kinds[0]), "k{1}")
			job, l := context.WithoutCancel(first.Context()), pick(e, kinds[1])
			for _, ctx := range []context.Context{first.Context(), job} {
				beside, err := l.Acquire(lock.WithWait(ctx, 0), "k{1}")
				switch {
				case err == nil && kinds[1] == "rw-read": // another reader
					released(t, beside)
				case kinds[0] == "rw-read" && kinds[1] == "rw-write":
					testkit.IsError(t, err, handoff.ErrUpgrade, "Acquire of the write lock by a reader")
				case kinds[0] != "rw-read" && !errors.Is(err, lock.ErrBusy):
					t.Errorf("Acquire beside the hold = %v, want ErrBusy", err)
				}
			}
			released(t, first)
			job = lock.WithReentry(job)
			second := locktest.Acquire(lock.WithWait(job, 0), t, l, "k{1}")
			if second.Context().Err() != nil || kinds[1] != "rw-read" && second.Fence() <= first.Fence() {
				t.Errorf("fence %d after %d, context %v: want another hold", second.Fence(), first.Fence(), second.Context().Err())
			}
			inner := locktest.Acquire(lock.WithReentry(lock.WithWait(second.Context(), 0)), t, l, "k{1}")
			released(t, inner)
			released(t, second)
			nothingLeft(t, m, "k{1}")
		})
	}
}

// A hold that was lost stays lost for those who re-enter, before and after its release: its work must not go on as
// if nothing had happened.
func TestEngineAcquireAfterLoss(t *testing.T) {
	scenes(t, 1, handoff.Options{}, func(t *testing.T, s *scene) {
		job := lock.WithReentry(context.WithoutCancel(s.held.Context()))
		s.m.Del("k{1}")
		<-s.held.Context().Done()
		for _, when := range []string{"before", "after"} {
			_, err := s.ls[0].Acquire(lock.WithWait(job, 0), "k{1}")
			testkit.IsError(t, err, lock.ErrLost, "Acquire %s the release", when)
			_ = s.held.Release(t.Context())
		}
	})
}

// If the caller's context ends while the resource is asked, the wait ends, as it does everywhere; a bounded wait also
// bounds the query.
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
		err := failedAcquire(ctx, t, l, "k{1}", time.Second)
		testkit.IsError(t, err, lock.ErrBusy, "Acquire whose context ended")
		testkit.IsError(t, err, gone, "Acquire whose context ended")
		nothingLeft(t, m, "k{1}")
		for wait, most := range map[time.Duration]time.Duration{0: time.Second, 3 * time.Second: 4 * time.Second} {
			err := failedAcquire(lock.WithWait(t.Context(), wait), t, l, "k{1}", most)
			<-asked
			testkit.IsError(t, err, lock.ErrUnavailable, "Acquire that waits %s", wait)
			nothingLeft(t, m, "k{1}")
		}
	})
}

// A lock whose owner has a token of another version is refused, whether or not the caller may wait, and nothing is left
// behind. A value that is no token is simply somebody's. A queued token of another version is skipped, although its
// process listens.
func TestAnotherVersionIsRefused(t *testing.T) {
	locktest.OnRedis(t, func(t *testing.T, s *testenv.RedisServer) {
		ctx, e, other := t.Context(), onServer(t, s, handoff.Options{}), "v3-ABCDEFGHIJKLMNOP-1-host"
		key, next := s.Prefix+"{3}", s.Prefix+"{4}"
		testkit.Must(t, s.Client.Set(ctx, key, other+".1.16.2500", time.Minute).Err())
		for _, name := range allLocks {
			for _, wait := range []time.Duration{0, 10 * time.Second} {
				_, err := pick(e, name).Acquire(lock.WithWait(ctx, wait), key)
				testkit.IsError(t, err, handoff.ErrVersion, "%s, wait %s: Acquire", name, wait)
				testkit.IsError(t, err, lock.ErrUnavailable, "%s, wait %s: Acquire", name, wait)
			}
		}
		testkit.Until(t, "nothing left in the queue", func() bool { return inspect(t, e, key).Queue == 0 })
		testkit.Must(t, s.Client.Set(ctx, s.Prefix+"{2}", "5f6d1f5e-0a0b-4c4d-8e8f-000000000000", time.Minute).Err())
		locktest.WantBusy(t, e.Handoff(), s.Prefix+"{2}", "held by another kind of lock")

		heard := s.Client.Subscribe(ctx, "lock:engine:"+other)
		defer heard.Close()
		_, err := heard.Receive(ctx)
		testkit.Must(t, err)
		for _, name := range []string{"fair", "rw-write"} {
			held := locktest.Take(t, pick(e, name), next)
			testkit.Must(t, s.Client.ZAdd(ctx, handoff.KeysOf(next).Queue, redis.Z{Member: other + ".2.1.2500"}).Err())
			locktest.Release(t, held)
			locktest.Warm(t, pick(e, name), next)
		}
	})
}

// Something that is no engine takes the key while a reader is in, and does not wait for the reader. What the reader
// asks for next says so, and the reader is out after that.
func TestReaderMeetsAnOwnerThatIsNoToken(t *testing.T) {
	locktest.OnRedis(t, func(t *testing.T, s *testenv.RedisServer) {
		for i, owner := range []string{"5f6d1f5e-0a0b-4c4d-8e8f-000000000000", "", "two\r\nlines", "a.1", "v2-.1.x.y"} {
			key := fmt.Sprintf("%s{%d}", s.Prefix, i)
			keys, take := handoff.KeysOf(key), func() {
				testkit.Must(t, s.Client.Set(t.Context(), key, owner, time.Hour).Err())
			}
			e := onServer(t, s, handoff.Options{})
			read := locktest.Take(t, e.ReadWrite().Read(), key)
			take()
			if err := read.Release(t.Context()); owner != "a.1" && (!errors.Is(err, handoff.ErrVersion) ||
				!strings.Contains(err.Error(), "released, but")) {
				t.Errorf("owner %q: Release = %v, want ErrVersion, and that the lock is released", owner, err)
			}
			c := locktest.RedisClient(t, s)
			again := engine(t, c, handoff.Options{})
			s.Client.Del(t.Context(), key)
			locktest.Warm(t, again.ReadWrite().Read(), key)
			var taken atomic.Bool
			c.AddHook(locktest.SendHook{Name: "evalsha", Send: func(_ context.Context, send func() error) error {
				err := send()
				if taken.CompareAndSwap(false, true) {
					take()
					err = send()
				}
				return err
			}})
			_, err := again.ReadWrite().Read().Acquire(lock.WithWait(t.Context(), 0), key)
			testkit.IsError(t, err, handoff.ErrVersion, "owner %q: Acquire, sent again", owner)
			testkit.Until(t, "no reader is in", func() bool { return s.Client.ZCard(t.Context(), keys.Readers).Val() == 0 })
			testkit.Is(t, s.Client.Get(t.Context(), key).Val(), owner, "the key has")
		}
	})
}
