package handoff_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/testenv"
	"lastitem/internal/testenv/wait"
)

// killTTL is the TTL of the processes that are killed, and their grant timeout.
const killTTL = time.Second

// A real process is killed at each step, and the next live waiter gets in. If the server has noticed, the release skips the dead waiter;
// otherwise a grant timeout or a TTL ends first. (Invariants 5, 6.) Tests in a bubble check how
// long that may take.
func TestEngineProcessKilled(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t)
	for phase, skips := range map[string]float64{"asking": 0, "head": 1, "middle": 1, "holding": 0, "granted": 0} {
		for _, name := range []string{"handoff", "fair"} {
			t.Run(phase+"/"+name, func(t *testing.T) {
				t.Parallel()
				f := &killScene{t: t, s: s, name: name, key: fmt.Sprintf("%s%s-%s{1}", s.Prefix, phase, name)}
				waiter := f.killAt(phase)
				select {
				case lease := <-waiter.got:
					if err := lease.Release(t.Context()); err != nil {
						t.Errorf("Release = %v", err)
					}
				case err := <-waiter.failed:
					t.Fatalf("the next waiter failed: %v", err)
				case <-time.After(testenv.Still):
					t.Fatalf("the next waiter is not in after %s", testenv.Still)
				}
				if got := f.skipped.value(); skips > 0 && got != skips {
					t.Errorf("%v waiters were skipped by a release, want %v", got, skips)
				}
				nothingLeftOn(t, s, f.key)
			})
		}
	}
}

// killScene is one such scene: its processes are this one and children that are killed.
type killScene struct {
	t         *testing.T
	s         *testenv.RedisServer
	name, key string
	skipped   metric // by processes of this one
}

// liveWaiter is a waiter of this process.
type liveWaiter struct {
	got    chan lock.Lease
	failed chan error
}

// killAt kills a child at the given step, and returns the next waiter.
func (f *killScene) killAt(phase string) liveWaiter {
	f.t.Helper()
	switch phase {
	case "asking": // the server has made it the owner, and it never learns
		_ = f.child("asking").Wait()
		return f.waiter(0)
	case "holding":
		child := f.child("holding")
		w := f.waiter(1)
		f.kill(child)
		return w
	}
	held := f.lock()
	before := 0
	if phase == "middle" {
		first := f.waiter(1)
		before = 1
		defer func() {
			select {
			case lease := <-first.got:
				_ = lease.Release(context.Background())
			case err := <-first.failed:
				f.t.Fatalf("the first waiter failed: %v", err)
			}
		}()
	}
	child := f.child("waiting")
	f.queue(before+1, nil)
	next := f.waiter(before + 2)
	if phase == "granted" { // stopped: it is told, and does not answer
		f.stop(child)
	} else {
		f.kill(child)
	}
	if err := held.Release(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	if phase == "granted" {
		f.kill(child)
	}
	return next
}

// process is another process's locker, in this one.
func (f *killScene) process() lock.Locker {
	return pick(onServer(f.t, f.s, handoff.Options{Metrics: handoff.Metrics{Skipped: &f.skipped}}), f.name)
}

func (f *killScene) lock() lock.Lease {
	f.t.Helper()
	return locktest.Obtain(f.t, f.process(), f.key)
}

// waiter waits in this process, and is in the queue, which is then so long, when waiter returns; 0 = it may not get there.
func (f *killScene) waiter(length int) liveWaiter {
	f.t.Helper()
	w, l := liveWaiter{make(chan lock.Lease, 1), make(chan error, 1)}, f.process()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	f.t.Cleanup(cancel)
	go func() {
		if lease, err := l.Acquire(ctx, f.key); err != nil {
			w.failed <- err
		} else {
			w.got <- lease
		}
	}()
	f.queue(length, w.got)
	return w
}

// queue waits until so many are in the queue, or one of them has got the lock already: on a busy machine its holder may be late.
func (f *killScene) queue(length int, got <-chan lock.Lease) {
	f.t.Helper()
	queue := handoff.KeysOf(f.key).Queue
	wait.Until(f.t, fmt.Sprintf("%d in the queue", length), func() bool {
		return len(got) > 0 || f.s.Client.ZCard(f.t.Context(), queue).Val() >= int64(length)
	})
}

// child starts a copy of this program that acquires the lock, and returns when it says that it has come to phase.
func (f *killScene) child(phase string) *exec.Cmd {
	f.t.Helper()
	cmd := exec.CommandContext(f.t.Context(), os.Args[0], "-test.run=^TestEngineKilledChild$")
	cmd.Env = append(os.Environ(), "LOCK_TEST_CHILD="+phase, "LOCK_TEST_URL="+f.s.URL, "LOCK_TEST_KEY="+f.key, "LOCK_TEST_KIND="+f.name)
	out, err := cmd.StdoutPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { f.kill(cmd) })
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if lines.Text() == phase {
			return cmd
		}
	}
	f.t.Fatalf("the child did not get to %q", phase)
	return nil
}

// kill ends a child; it may be repeated.
func (f *killScene) kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

func (f *killScene) stop(cmd *exec.Cmd) {
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		f.t.Fatal(err)
	}
	f.stopped(cmd.Process.Pid)
}

// stopped returns when the process has stopped: a signal takes its time.
func (f *killScene) stopped(pid int) {
	f.t.Helper()
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		f.t.Fatalf("the child did not stop: %v, %v", status, err)
	}
}

// killItself kills its process when the first acquire has been answered, before the engine gets the reply.
type killItself struct {
	testenv.Hook
	armed bool
}

func (s *killItself) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			s.see(cmd)
		}
		return err
	}
}

func (s *killItself) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		s.see(cmd)
		return err
	}
}

func (s *killItself) see(cmd redis.Cmder) {
	if s.armed && isScript(cmd) && cmd.Err() == nil {
		fmt.Println("asking")
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

// TestEngineKilledChild is the body of the processes that TestEngineProcessKilled kills.
func TestEngineKilledChild(t *testing.T) {
	phase := os.Getenv("LOCK_TEST_CHILD")
	if phase == "" {
		return
	}
	s := &testenv.RedisServer{URL: os.Getenv("LOCK_TEST_URL")}
	c := locktest.RedisClient(t, s)
	c.AddHook(&killItself{armed: phase == "asking"})
	ttl := killTTL
	if phase == "holding" {
		ttl = 10 * time.Second // it holds until it is killed, and on a busy machine a renewal may be seconds late
	}
	e, err := handoff.New(c, handoff.Options{TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	if phase == "waiting" {
		fmt.Println(phase)
	}
	if _, err := pick(e, os.Getenv("LOCK_TEST_KIND")).Acquire(t.Context(), os.Getenv("LOCK_TEST_KEY")); err != nil {
		t.Fatal(err)
	}
	fmt.Println(phase)
	select {} // until it is killed
}
