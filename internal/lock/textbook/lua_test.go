package textbook_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/textbook"
	"lastitem/internal/step"
	"lastitem/testkit"
	"lastitem/testkit/locktest"
	"lastitem/testkit/testenv"
)

func TestMain(m *testing.M) { locktest.Main(m) }

// If any one of the keys is lost, the hold of all keys ends.
func TestMultiEndsWithAnyOfItsLeases(t *testing.T) {
	for _, lost := range []string{"a", "b", "c"} {
		t.Run(lost, func(t *testing.T) {
			bubble(t, func(t *testing.T, c *redis.Client, server *miniredis.Miniredis) {
				multi, err := lock.AcquireAll(t.Context(), textbook.NewWatchdog(c, locktest.TTL, nil, nil), "a", "b", "c")
				testkit.Must(t, err)
				time.Sleep(2 * locktest.TTL)
				testkit.Mustf(t, multi.Context().Err(), "ended while all were renewed")
				server.Del(lost)
				locktest.WantLost(t, multi, 0)
				locktest.ReleaseLost(t, multi, "Release")
				if keys := slices.DeleteFunc(server.Keys(), isLatch); len(keys) != 0 {
					t.Errorf("Release left %v behind", keys)
				}
			})
		})
	}
}

// isLatch reports whether a key only stores the answer to a release; it expires by itself.
func isLatch(key string) bool { return strings.HasPrefix(key, "redisson_unlock_latch:") }

// If a key is lost while AcquireAll waits for another one, the wait ends.
func TestAcquireAllDoesNotWaitOnALostKey(t *testing.T) {
	bubble(t, func(t *testing.T, c *redis.Client, _ *miniredis.Miniredis) {
		locktest.Take(t, textbook.NewLua(c, 100*locktest.TTL, nil), "b")
		start := time.Now()
		_, err := lock.AcquireAll(t.Context(), textbook.NewLua(c, locktest.TTL, nil), "a", "b")
		if !errors.Is(err, lock.ErrLost) || !errors.Is(err, lock.ErrBusy) {
			t.Errorf("AcquireAll = %v, want ErrBusy because of ErrLost", err)
		}
		if took := time.Since(start); took > locktest.TTL {
			t.Errorf("gave up after %s, the first key was lost after %s", took, locktest.TTL)
		}
	})
}

// An AcquireAll under its own context enters every one of its keys again.
func TestMultiCarriesAllItsLeases(t *testing.T) {
	bubble(t, func(t *testing.T, c *redis.Client, _ *miniredis.Miniredis) {
		l := textbook.NewWatchdog(c, locktest.TTL, nil, nil)
		outer, err := lock.AcquireAll(t.Context(), l, "a", "b")
		testkit.Must(t, err)
		inner, err := lock.AcquireAll(lock.WithReentry(lock.WithWait(outer.Context(), 0)), l, "b", "a")
		testkit.Mustf(t, err, "re-entry")
		for _, m := range []*lock.Multi{inner, outer} {
			locktest.Release(t, m)
		}
	})
}

// at returns a stream whose reader runs f at one point.
func at(t *testing.T, p step.Point, f func()) *step.Stream {
	var s step.Stream
	t.Cleanup(s.Subscribe(func(_ context.Context, e step.Event) {
		if e.Point == p {
			f()
		}
	}))
	return &s
}

func TestSetNXExpireOfHolderThatDiesInBetweenStaysForEver(t *testing.T) {
	bubble(t, func(t *testing.T, c *redis.Client, m *miniredis.Miniredis) {
		died := make(chan struct{})
		go func() {
			defer close(died)
			_, err := textbook.NewSetNXExpire(c, locktest.TTL, at(t, step.Acquiring, runtime.Goexit)).Acquire(t.Context(), "k")
			t.Errorf("Acquire came back from the dead: %v", err)
		}()
		<-died
		if left := m.TTL("k"); left != 0 || !m.Exists("k") {
			t.Errorf("the key expires in %s: this exhibit no longer shows its flaw", left)
		}
		rival := textbook.NewSetNXExpire(c, locktest.TTL, nil)
		_, err := rival.Acquire(lock.WithWait(t.Context(), 20*locktest.TTL), "k")
		testkit.IsError(t, err, lock.ErrBusy, "Acquire after twenty TTLs")
	})
}

// The holder is told of its end before its key expires; it outlives its TTL, a rival enters, and only then the holder
// releases.
func TestLateRelease(t *testing.T) {
	const blind, owned = "setnx-expire setnx-ttl", "setnx-owner lua spin"
	for _, names := range []string{blind, owned} {
		each(t, names, func(t *testing.T, _ one, l lock.Locker, _ *redis.Client, m *miniredis.Miniredis) {
			start := time.Now()
			late := locktest.Take(t, l, "k")
			locktest.WantLost(t, late, locktest.TTL)
			if lived := time.Since(start); lived < locktest.TTL*98/100 || !m.Exists("k") || locktest.Enters(t, l, "k") {
				t.Errorf("the lease ended after %s, want a moment before the TTL of %s, when the key is still there", lived,
					locktest.TTL)
			}
			time.Sleep(locktest.TTL)
			rival := locktest.Take(t, l, "k")
			err := late.Release(t.Context())
			if got := errors.Is(err, lock.ErrLost); got == (names == blind) {
				t.Errorf("late Release = %v; blind: %t", err, names == blind)
			}
			if got := locktest.Enters(t, l, "k"); got != (names == blind) {
				t.Errorf("a third one entered beside the rival (%v): %t, want %t", rival.Context().Err(), got, names == blind)
			}
		})
	}
}

// The key expires between the comparison and the DEL.
func TestSetNXOwnerDeletesTheRivalsKeyAfterComparing(t *testing.T) {
	bubble(t, func(t *testing.T, c *redis.Client, _ *miniredis.Miniredis) {
		others := textbook.NewSetNXOwner(c, locktest.TTL, nil)
		var rival lock.Lease
		l := textbook.NewSetNXOwner(c, locktest.TTL, at(t, step.Releasing, func() {
			time.Sleep(locktest.TTL)
			rival = locktest.Take(t, others, "k")
		}))
		if err := locktest.Take(t, l, "k").Release(t.Context()); err != nil {
			t.Errorf("Release = %v: it noticed, this exhibit no longer shows its flaw", err)
		}
		if !locktest.Enters(t, others, "k") || rival.Context().Err() != nil {
			t.Error("nobody entered beside the rival: this exhibit no longer shows its flaw")
		}
	})
}

func TestLuaFencedTokensRise(t *testing.T) {
	bubble(t, func(t *testing.T, c *redis.Client, m *miniredis.Miniredis) {
		l := textbook.NewLuaFenced(c, locktest.TTL, nil)
		first := locktest.Take(t, l, "k{1}")
		_, err := l.Acquire(lock.WithWait(t.Context(), 0), "k{1}")
		testkit.IsError(t, err, lock.ErrBusy, "Acquire of a held lock")
		time.Sleep(locktest.TTL)
		second := locktest.Take(t, l, "k{1}")
		if first.Fence() != 1 || second.Fence() != 2 {
			t.Errorf("fences %d and %d, want 1 and 2: a refused try takes none", first.Fence(), second.Fence())
		}
		locktest.ReleaseLost(t, first, "late Release")
		locktest.Release(t, second)
		if counter := lock.BesideKey("k{1}", "fence"); !m.Exists(counter) || m.TTL(counter) != 0 {
			t.Errorf("the counter %s expires in %s, want that it stays", counter, m.TTL(counter))
		}
	})
}

func TestLuaHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, cut := locktest.Bubble(t)
		l := textbook.NewLua(c, locktest.TTL, nil)
		lease := locktest.Take(t, l, "k")
		holds := func(want bool) {
			t.Helper()
			if got, err := l.Holds(t.Context(), lease); err != nil || got != want {
				t.Errorf("Holds() = %t, %v, want %t", got, err, want)
			}
		}
		holds(true)
		time.Sleep(locktest.TTL)
		holds(false)
		rival := locktest.Take(t, l, "k")
		holds(false)
		if got, err := l.Holds(t.Context(), rival); err != nil || !got {
			t.Errorf("Holds() of the rival = %t, %v, want true", got, err)
		}
		cut()
		_, err := l.Holds(context.Background(), rival)
		testkit.IsError(t, err, lock.ErrUnavailable, "Holds() without the server")
	})
}

func TestSpinBacksOff(t *testing.T) {
	bubble(t, func(t *testing.T, c *redis.Client, _ *miniredis.Miniredis) {
		locktest.Take(t, textbook.NewSpin(c, locktest.TTL, nil), "k")
		var tries []time.Time
		c.AddHook(locktest.SendHook{Name: "set", Send: func(_ context.Context, send func() error) error {
			tries = append(tries, time.Now())
			return send()
		}})
		const patience = 3 * time.Second
		start := time.Now()
		if _, err := textbook.NewSpin(c, locktest.TTL, nil).Acquire(lock.WithWait(t.Context(), patience),
			"k"); !errors.Is(err, lock.ErrBusy) {
			t.Fatalf("Acquire = %v, want ErrBusy", err)
		}
		if took := time.Since(start); took != patience {
			t.Errorf("gave up after %s, was to wait %s", took, patience)
		}
		want := time.Millisecond
		for i, try := range tries[1:] {
			if gap := try.Sub(tries[i]); gap < want/2 || gap > want {
				t.Errorf("sleep %d was %s, want %s to %s", i+1, gap, want/2, want)
			}
			want = min(2*want, 128*time.Millisecond)
		}
		if n := len(tries); n < 24 || n > 60 {
			t.Errorf("%d tries in %s", n, patience)
		}
	})
}

// The clients of a peer, by their lockWatchdogTimeout. With a time-out of an hour, only a message wakes a waiter in
// time.
const (
	hourly = "hourly"
	quick  = "quick"

	quickTTL = 9 * time.Second
)

// peer is a Java process with a real Redisson.
type peer struct {
	t  *testing.T
	in io.Writer

	mu      sync.Mutex
	answers map[string]chan string // by client and thread
}

// newPeer starts a peer on the test's server, with the jars of a directory.
func newPeer(t *testing.T, s *testenv.RedisServer, jars string) *peer {
	t.Helper()
	o := s.Client.Options()
	cmd := exec.CommandContext(t.Context(), "java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp",
		jars+"/*",
		"testdata/RedissonPeer.java", hourly+"=3600000", fmt.Sprint(quick, "=", quickTTL.Milliseconds()))
	cmd.Env = append(os.Environ(), "PEER_ADDRESS=redis://"+o.Addr, fmt.Sprint("PEER_DATABASE=", o.DB))
	if o.Password != "" {
		cmd.Env = append(cmd.Env, "PEER_PASSWORD="+o.Password)
	}
	if o.Username != "" {
		cmd.Env = append(cmd.Env, "PEER_USERNAME="+o.Username)
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	p := &peer{t: t, answers: map[string]chan string{}}
	in, err := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	testkit.Must(t, errors.Join(err, outErr, cmd.Start()))
	p.in = in
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "ready" {
		_ = cmd.Wait()
		t.Fatalf("the peer says %q, and\n%s", lines.Text(), said.String())
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines.Scan() {
			word := strings.SplitN(lines.Text(), " ", 3)
			p.answer(word[0] + " " + word[1]) <- word[2]
		}
	}()
	t.Cleanup(func() {
		_ = in.Close() // this ends the process
		<-read
		_ = cmd.Wait()
	})
	return p
}

func (p *peer) answer(who string) chan string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answers[who] == nil {
		p.answers[who] = make(chan string, 16)
	}
	return p.answers[who]
}

// start lets a thread of a client run an operation, and returns the channel of its answer.
func (p *peer) start(client, thread, operation, key string, wait time.Duration) <-chan string {
	p.t.Helper()
	_, err := fmt.Fprintln(p.in, client, thread, operation, key, wait.Milliseconds())
	testkit.Must(p.t, err)
	return p.answer(client + " " + thread)
}

// do is start, and waits for the answer.
func (p *peer) do(client, thread, operation, key string) string {
	p.t.Helper()
	return <-p.start(client, thread, operation, key, 0)
}

// want fails unless the answer is want.
func (p *peer) want(client, thread, operation, key, want string) {
	p.t.Helper()
	if got := p.do(client, thread, operation, key); got != want {
		p.t.Fatalf("Redisson's %s of %s = %s, want %s", operation, key, got, want)
	}
}
