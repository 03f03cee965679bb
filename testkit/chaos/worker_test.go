//go:build linux

// Package chaos has the test of the lock engine in several processes under faults.
package chaos_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sys/unix"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/testkit"
)

// job is the task of a worker process, passed in its environment.
type job struct {
	Addrs    []string // of a relay, or of a cluster's nodes
	Worker   int
	Seed     uint64
	Log      string // file to which its holds are appended
	Handoffs []string
	Fairs    []string
}

// envJob holds the job; a process that has it is a worker.
const envJob = "LASTITEM_CHAOS_JOB"

// hold is a line of the log: a goroutine relied on the lock of Key from From to To, by CLOCK_MONOTONIC, in nanoseconds.
// The line that is written when a hold begins has no To, because its process may be killed.
type hold struct {
	ID    string
	Key   string
	From  int64
	To    int64 `json:",omitempty"`
	Fence uint64
}

const (
	ttl        = 600 * time.Millisecond
	goroutines = 4 // of each worker
	patience   = 30 * time.Second
)

func TestMain(m *testing.M) {
	redis.SetLogger(quiet{})
	text := os.Getenv(envJob)
	if text == "" {
		os.Exit(m.Run())
	}
	var j job
	err := json.Unmarshal([]byte(text), &j)
	if err == nil {
		err = j.work()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos worker:", err)
		os.Exit(1)
	}
}

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// monotonic returns a time that all processes of a machine share.
func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}

// client is a client as a service configures it, for one Redis or a cluster.
func client(addrs []string, limit time.Duration) redis.UniversalClient {
	return redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: addrs, IsClusterMode: len(addrs) > 1, MaxRetries: -1, ContextTimeoutEnabled: true, PoolSize: 2 * goroutines,
		DialTimeout: limit, ReadTimeout: limit, WriteTimeout: limit,
	})
}

// work takes locks until the input ends.
func (j job) work() error {
	log, err := os.OpenFile(j.Log, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	engine, err := handoff.New(client(j.Addrs, time.Second), handoff.Options{TTL: ttl})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	lockers := map[string]lock.Locker{}
	var keys []string
	for _, key := range j.Handoffs {
		lockers[key], keys = engine.Handoff(), append(keys, key)
	}
	for _, key := range j.Fairs {
		lockers[key], keys = engine.Fair(), append(keys, key)
	}
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(j.Seed, uint64(j.Worker*goroutines+g)))
			for n := 0; ctx.Err() == nil; n++ {
				key := keys[rng.IntN(len(keys))]
				id := fmt.Sprintf("%d.%d.%d.%d", os.Getpid(), j.Worker, g, n)
				if err := once(ctx, log, lockers[key], hold{ID: id, Key: key}, rng); err != nil {
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
	wg.Wait()
	return nil
}

// once takes a lock, holds it for a while, and notes for how long it relied on it.
func once(ctx context.Context, log io.Writer, l lock.Locker, h hold, rng *rand.Rand) error {
	lease, err := l.Acquire(lock.WithWait(ctx, 2*time.Second), h.Key)
	if err != nil {
		return err
	}
	defer func() { _ = lease.Release(context.WithoutCancel(ctx)) }()
	length := time.Duration(rng.IntN(8)) * time.Millisecond
	if rng.IntN(30) == 0 {
		length = time.Duration(rng.IntN(int(2 * ttl))) // long enough to be renewed
	}
	h.From, h.Fence = monotonic(), lease.Fence()
	if lease.Context().Err() != nil {
		return nil
	}
	write(log, h)
	// The time is read before the context: if the process is stopped in between, what the context says afterwards is true
	// of that time.
	for at := h.From; lease.Context().Err() == nil; at = monotonic() {
		h.To = at
		if at >= h.From+int64(length) {
			break
		}
		time.Sleep(min(length, 500*time.Microsecond))
	}
	if h.To > 0 {
		write(log, h)
	}
	return nil
}

// write appends a line in one call, so that a kill does not cut the line.
func write(log io.Writer, h hold) {
	line, err := json.Marshal(h)
	if err != nil {
		panic(err)
	}
	if _, err := log.Write(append(line, '\n')); err != nil {
		panic(err)
	}
}

// worker is a process that takes locks.
type worker struct {
	t   *testing.T
	job job
	cmd *exec.Cmd
	in  io.Closer
}

func (w *worker) start() {
	w.t.Helper()
	text, err := json.Marshal(w.job)
	testkit.Must(w.t, err)
	w.cmd = exec.Command(os.Args[0])
	w.cmd.Env = append(os.Environ(), envJob+"="+string(text))
	w.cmd.Stderr = os.Stderr
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		w.t.Fatal(err)
	}
	testkit.Must(w.t, w.cmd.Start())
}

// kill ends the worker by SIGKILL. It may be repeated.
func (w *worker) kill() {
	if w.cmd != nil {
		_ = w.cmd.Process.Kill()
		_ = w.in.Close()
		_ = w.cmd.Wait()
	}
	w.cmd = nil
}

// freeze stops the worker for a time.
func (w *worker) freeze(d time.Duration) {
	for _, step := range []struct {
		signal syscall.Signal
		then   time.Duration
	}{{syscall.SIGSTOP, d}, {syscall.SIGCONT, 0}} {
		testkit.Is(w.t, w.cmd.Process.Signal(step.signal), nil, "worker %d", w.job.Worker)
		time.Sleep(step.then)
	}
}
