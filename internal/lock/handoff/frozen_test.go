package handoff_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/testenv"
	"lastitem/internal/testenv/wait"
)

// silentProcessCost is the time that a silent process may cost its rivals: one grant that it does not answer, and the time until a poll finds this.
const silentProcessCost = 2500*time.Millisecond + 600*time.Millisecond

// A process that is silent while its connections stay open costs its rivals one grant timeout in all, however many of its waiters are in
// the queue, and wherever they are (invariant 6).
func TestEngineSilentProcessCostsOneGrant(t *testing.T) {
	for name, c := range map[string]struct{ holder, silent, rival []string }{
		"fair":                  {[]string{"fair"}, []string{"fair"}, nil},
		"writers":               {[]string{"rw-write"}, []string{"rw-write"}, nil},
		"readers":               {[]string{"rw-write"}, []string{"rw-read"}, nil},
		"readers and writers":   {[]string{"rw-write"}, []string{"rw-read", "rw-write"}, nil},
		"fair, between rivals":  {[]string{"fair"}, []string{"fair"}, []string{"fair"}},
		"write, between rivals": {[]string{"rw-write"}, []string{"rw-write"}, []string{"rw-write"}},
		"read, between rivals":  {[]string{"rw-write"}, []string{"rw-read"}, []string{"rw-write"}},
	} {
		for _, k := range []int{1, 5, 15} {
			t.Run(fmt.Sprintf("%s/%d", name, k), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					_, links := network(t, 3)
					held := locktest.Obtain(t, pick(links[0].process(t, handoff.Options{}), c.holder[0]), "k{1}")
					silent, rival := links[1].process(t, handoff.Options{}), links[2].process(t, handoff.Options{})
					var rivals []chan lock.Lease
					for i := range k {
						waits(t.Context(), pick(silent, c.silent[i%len(c.silent)]), "k{1}")
						if c.rival != nil {
							got, _ := waits(t.Context(), pick(rival, c.rival[0]), "k{1}")
							rivals = append(rivals, got)
						}
					}
					last, _ := waits(t.Context(), pick(rival, c.holder[0]), "k{1}")
					links[1].powerOff()
					time.Sleep(3 * time.Second) // it has not polled for a while
					start := time.Now()
					released(t, held)
					for _, got := range append(rivals, last) {
						released(t, <-got)
					}
					if took := time.Since(start); took > silentProcessCost {
						t.Errorf("the rivals waited %s for a silent process, want one grant timeout of 2.5 s", took)
					}
				})
			})
		}
	}
}

// A process that is alive keeps its places, even if the lock of one of its holders expires or is deleted by hand (invariant 8).
func TestEngineLapseSkipsOnlySilentProcesses(t *testing.T) {
	for i, kind := range []string{"fair", "rw-write", "fair", "rw-write"} {
		since := time.Duration(i/2) * 5 * time.Second // since the grant: before and after the first poll
		t.Run(fmt.Sprint(kind, " ", since), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, links := network(t, 2)
				a, b := pick(links[0].process(t, handoff.Options{}), kind), pick(links[1].process(t, handoff.Options{}), kind)
				lost := locktest.Obtain(t, a, "k{1}")
				var order []chan lock.Lease
				for i := range 6 {
					got, _ := waits(t.Context(), []lock.Locker{a, b}[i%2], "k{1}")
					order = append(order, got)
				}
				time.Sleep(since)
				m.Del("k{1}")
				for i, got := range order {
					lease := <-got
					synctest.Wait()
					for j, later := range order[i+1:] {
						if len(later) > 0 {
							t.Fatalf("waiter %d was served with %d", i+1+j, i)
						}
					}
					released(t, lease)
				}
				_ = lost.Release(t.Context())
			})
		})
	}
}

// A real process is stopped while fifteen of its waiters are in the queue; one of them is granted the lock in vain. When the process goes
// on, all of them get in, though at other places (invariants 5 and 6).
func TestEngineStoppedProcess(t *testing.T) {
	t.Parallel()
	const waiters = 15
	s := testenv.Redis(t)
	for _, name := range []string{"fair", "rw-write"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var skipped metric
			key := s.Prefix + "stopped-" + name + "{1}"
			process := func() lock.Locker {
				return pick(onServer(t, s, handoff.Options{Metrics: handoff.Metrics{Skipped: &skipped}}), name)
			}
			held := locktest.Obtain(t, process(), key)
			child, in := stoppable(t, s, name, key, waiters)
			wait.Until(t, "the child's waiters in the queue", func() bool {
				return s.Client.ZCard(t.Context(), handoff.KeysOf(key).Queue).Val() == waiters
			})
			next := queueing(t, s, process(), key, waiters+1)
			if err := child.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			(&killScene{t: t}).stopped(child.Process.Pid)
			released(t, held)
			lease := served(t, "the rival", next)
			if got := skipped.value(); got != waiters-1 {
				t.Errorf("%v waiters were skipped, want %d", got, waiters-1)
			}
			if err := child.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			released(t, lease)
			for n := range waiters {
				if !in.Scan() {
					t.Fatalf("%d waiters of the process that goes on got in, want %d", n, waiters)
				}
			}
			nothingLeftOn(t, s, key)
		})
	}
}

// stoppable starts a copy of this program with waiters for a lock. Each waiter prints a line when it is in, and releases.
func stoppable(t *testing.T, s *testenv.RedisServer, name, key string, waiters int) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestEngineStoppedChild$")
	cmd.Env = append(os.Environ(), "LOCK_TEST_WAITERS="+strconv.Itoa(waiters), "LOCK_TEST_URL="+s.URL, "LOCK_TEST_KEY="+key, "LOCK_TEST_KIND="+name)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { (&killScene{t: t}).kill(cmd) })
	return cmd, bufio.NewScanner(out)
}

// TestEngineStoppedChild is the body of the process that TestEngineStoppedProcess stops.
func TestEngineStoppedChild(t *testing.T) {
	waiters, err := strconv.Atoi(os.Getenv("LOCK_TEST_WAITERS"))
	if err != nil {
		return
	}
	l := pick(engine(t, locktest.RedisClient(t, &testenv.RedisServer{URL: os.Getenv("LOCK_TEST_URL")}), handoff.Options{}), os.Getenv("LOCK_TEST_KIND"))
	var wg sync.WaitGroup
	for range waiters {
		wg.Go(func() {
			lease, err := l.Acquire(t.Context(), os.Getenv("LOCK_TEST_KEY"))
			if err != nil {
				t.Error(err)
				return
			}
			fmt.Println("in")
			if err := lease.Release(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}
