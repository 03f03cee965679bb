package handoff_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/testkit"
	"lastitem/testkit/locktest"
	"lastitem/testkit/testenv"
)

// The counter may go at any time, expired, evicted or flushed, and goes back where a replica that lagged takes over:
// fences rise all the same (invariant 3). It stays for two minutes at most: a key that was used once must not stay for
// long.
func TestEngineFenceWithoutItsCounter(t *testing.T) {
	s := testenv.Redis(t)
	for name, turns := range map[string][]string{
		"handoff":    {"handoff", "handoff", "handoff"},
		"fair":       {"fair", "fair", "fair"},
		"read-write": {"rw-write", "rw-read", "rw-write", "rw-read", "rw-read", "rw-write", "rw-write"},
	} {
		t.Run(name, func(t *testing.T) {
			for how, wait := range map[string]time.Duration{
				"at once": 0, "queueing": mustHappenWithin, "only tickets are left": 0, "it goes back": 0,
			} {
				e, key := onServer(t, s, handoff.Options{}), s.Prefix+"{"+name+how+"}"
				fence := handoff.KeysOf(key).Fence
				var last uint64
				for _, turn := range turns {
					s.Client.Del(t.Context(), fence)
					switch how {
					case "only tickets are left": // as after a waiter gave up
						s.Client.HSet(t.Context(), fence, "ticket", 7)
					case "it goes back":
						s.Client.HSet(t.Context(), fence, "fence", max(last, 40)-40)
						s.Client.PExpire(t.Context(), fence, 2*time.Minute)
					}
					lease := locktest.Acquire(lock.WithWait(t.Context(), wait), t, pick(e, turn), key)
					rise(t, last, lease.Fence())
					last = lease.Fence()
					left := s.Client.PTTL(t.Context(), fence).Val()
					if turn != "rw-read" && (left < 90*time.Second || left > 2*time.Minute) {
						t.Errorf("%s, %s: the counter has %s to live, want 90 to 120 s", how, turn, left)
					}
					released(t, lease)
				}
			}
		})
	}
}

// The tickets that order the queue stay for as long as somebody waits, however long the holder keeps the lock;
// otherwise a later waiter would be first. The fence rises too, although the counter began with the waiter's ticket.
func TestEngineTicketsOutliveAWaiter(t *testing.T) {
	s := testenv.Redis(t)
	for _, name := range allLocks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := s.Prefix + "{" + name + "}"
			fence := handoff.KeysOf(key).Fence
			held := locktest.Obtain(t, pick(onServer(t, s, handoff.Options{}), "rw-write"), key)
			s.Client.Del(t.Context(), fence)
			first := queueing(t, s, pick(onServer(t, s, handoff.Options{}), name), key, 1)
			if got := s.Client.PTTL(t.Context(), fence).Val(); got < time.Minute {
				t.Errorf("with a waiter the tickets have %s to live, want two minutes", got)
			}
			s.Client.PExpire(t.Context(), fence, 20*time.Second)
			testkit.Until(t, "the waiter's next poll keeps the tickets", func() bool {
				return s.Client.PTTL(t.Context(), fence).Val() > time.Minute
			})
			second := queueing(t, s, pick(onServer(t, s, handoff.Options{}), "rw-write"), key, 2)
			released(t, held)
			lease := served(t, "the first waiter", first)
			locktest.WantHigher(t, held, lease)
			released(t, lease)
			released(t, served(t, "the second waiter", second))
		})
	}
}

// The counter is lost, or goes back, between any two holds; the resource remembers.
func TestEngineFenced(t *testing.T) {
	s := testenv.Redis(t)
	e, key := onServer(t, s, handoff.Options{}), s.Prefix+"{1}"
	var last atomic.Uint64
	last.Store(1000)
	l := e.Fenced(func(context.Context, string) (uint64, error) { return last.Load(), nil })
	fences := handoff.KeysOf(key).Fence
	for _, before := range []func(){func() {}, func() { s.Client.Del(t.Context(), fences) },
		func() { s.Client.HSet(t.Context(), fences, "fence", 7) }, func() {}} {
		before()
		lease := locktest.Acquire(t.Context(), t, l, key)
		inner := locktest.Acquire(lock.WithReentry(lease.Context()), t, l, key)
		testkit.Is(t, inner.Fence(), lease.Fence(), "fence of a re-entry")
		released(t, inner)
		rise(t, last.Load(), lease.Fence())
		last.Store(lease.Fence())
		released(t, lease)
	}
	for _, high := range []uint64{1<<53 - 1, 1<<64 - 1} { // Lua could not count on from there
		l := e.Fenced(func(context.Context, string) (uint64, error) { return high, nil })
		lease, err := l.Acquire(t.Context(), key)
		if err == nil {
			released(t, lease)
		}
		if !errors.Is(err, lock.ErrUnavailable) || !strings.Contains(err.Error(), strconv.FormatUint(high, 10)) {
			t.Errorf("Acquire with a fence of %d seen = %v, want ErrUnavailable with the reason", high, err)
		}
	}
	most := uint64(1<<53 - 1<<20)
	highest := e.Fenced(func(context.Context, string) (uint64, error) { return most, nil })
	lease := locktest.Obtain(t, highest, key)
	rise(t, most, lease.Fence())
	released(t, lease)
	broken := e.Fenced(func(context.Context, string) (uint64, error) { return 0, errors.New("no answer") })
	locktest.WantUnavailable(t.Context(), t, broken, key, "Acquire where the resource does not answer")
	nothingLeftOn(t, s, key)
}

// The lock is lost, and another process has it, while the resource is asked. The caller gets no fence: it could be that
// of the new holder.
func TestEngineFencedLosesTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, links := network(t, 2)
		rival := links[1].process(t, handoff.Options{}).Fair()
		var held lock.Lease
		l := links[0].process(t, handoff.Options{}).Fenced(func(context.Context, string) (uint64, error) {
			m.Del("k{1}")
			held = locktest.Obtain(t, rival, "k{1}")
			return held.Fence() - 1, nil
		})
		_, err := l.Acquire(t.Context(), "k{1}")
		testkit.IsError(t, err, lock.ErrLost, "Acquire beside fence %d", held.Fence())
		locktest.Release(t, held)
	})
}

// A message says when a lock was granted at the latest, and its receiver counts the lease from then. So the script
// reads the clock before it sets the lock. If it read the clock later, and the server stopped in between, the receiver
// would rely on an expired lock.
func TestGrantIsNoYoungerThanItsMessage(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t)
	key := s.Prefix + "{granted}"
	held, other := locktest.Obtain(t, onServer(t, s, handoff.Options{}).Fair(), key), onServer(t, s, handoff.Options{})
	got := queueing(t, s, other.Fair(), key, 1)
	testkit.Until(t, "the waiter has its answer", func() bool { return other.Watches(key) })
	lines, conn := locktest.Monitor(t, s)
	testkit.Must(t, conn.SetDeadline(time.Now().Add(testenv.Still)))
	released(t, held)
	released(t, <-got)
	var inside []string // the commands of scripts about this key up to the message, and all that ask for the time
	for lines.Scan() {
		_, command, script := strings.Cut(lines.Text(), "lua] ")
		if script && (strings.HasPrefix(command, `"TIME"`) || strings.Contains(command, key)) {
			inside = append(inside, command)
		}
		if strings.HasPrefix(command, `"PUBLISH"`) && strings.Contains(command, key) {
			break
		}
	}
	set := slices.IndexFunc(inside, func(c string) bool { return strings.HasPrefix(c, `"SET" "`+key+`"`) })
	if set < 0 || !slices.ContainsFunc(inside[:set], func(c string) bool { return strings.HasPrefix(c, `"TIME"`) }) ||
		slices.ContainsFunc(inside[set:], func(c string) bool { return strings.HasPrefix(c, `"TIME"`) }) {
		t.Errorf("the clock is read after the lock was set, or not at all: %q", inside)
	}
}
