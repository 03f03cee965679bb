package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// job is the first message that the parent writes to a worker's stdin.
type job struct {
	Contender string
	Kind      string
	URL       string   // of Redis, or of the proxy in front of it
	Masters   []string // of a cluster, host:port; empty = URL is the only server
	Prefix    string   // of all keys
	// Goroutines are those of this worker; the first of them has the number First.
	Goroutines, First int
	Locks             int
	Think, Window     time.Duration
	Ping              bool // measure a round trip first

	program []string // of the worker; nil = this program
}

// start is the second message, sent when every worker is ready: the time to begin, in nanoseconds since 1970.
type start struct{ At int64 }

// answer is a message of a worker: one when it is ready, and one at the end.
type answer struct {
	Ready  bool          `json:",omitempty"`
	RTT    time.Duration `json:",omitempty"`
	Report *report       `json:",omitempty"`
	Error  string        `json:",omitempty"`
}

// report has a worker's records of a window.
type report struct {
	Sections []section // kindHot, also those before and after the window
	Pairs    []int64   // kindFree: ns of acquire and release, at most maxPairs of them
	Cut      []int64   // ns of the waits that the end of the window cut off
	Done     []int64   // acquisitions in the window, by goroutine
	Commands int64     // in the window
	Errors   int
	First    string  // error
	Bytes    float64 // kindHold: heap and stacks of a lock
	Growth   int     // kindHold: goroutines more than before
}

// total is the number of acquisitions in the window.
func (r *report) total() (n int64) {
	for _, d := range r.Done {
		n += d
	}
	return n
}

// A section is one hold of the hot key, with times of a clock.
type section struct {
	Number                   int64 // the value that it wrote to the counter: 1 is the first
	Owner                    int64
	Asked, Acquired, Leaving int64
	Counts                   bool // it was acquired in the window
}

// maxPairs is the most records that a process keeps for a free lock; with a mutex they would fill the memory.
const maxPairs = 1 << 17

// work is the main function of a child process. The process ends when in ends.
func work(in io.Reader, out io.Writer) error {
	orders := json.NewDecoder(in)
	var j job
	if err := orders.Decode(&j); err != nil {
		return fmt.Errorf("worker: job: %w", err)
	}
	begin := make(chan start, 1)
	go func() {
		for {
			var s start
			if err := orders.Decode(&s); err != nil {
				os.Exit(0) // the parent has ended
			}
			begin <- s
		}
	}()
	return serve(j, begin, json.NewEncoder(out))
}

func serve(j job, begin <-chan start, out *json.Encoder) error {
	w, err := newWorker(j)
	if err == nil {
		defer w.close()
		err = w.warm()
	}
	var rtt time.Duration
	if err == nil && j.Ping {
		rtt, err = w.ping()
	}
	if err != nil {
		return out.Encode(answer{Error: err.Error()})
	}
	if err := out.Encode(answer{Ready: true, RTT: rtt}); err != nil {
		return err
	}
	s := <-begin
	switch j.Kind {
	case kindPark:
		w.park(s.At)
	case kindHold:
		w.idle(s.At)
	default:
		w.contend(s.At)
	}
	return out.Encode(answer{Report: &w.report})
}

// worker is one process of a window.
type worker struct {
	job
	clock
	*opened
	section redis.UniversalClient // of the critical section, whose commands are not counted
	sent    counter

	// leaving is held by a lock holder from the acquire to the release, so that the end of the window cancels the waiters'
	// context only when there is no holder: some libraries release a lock when the context of its acquire ends.
	leaving sync.RWMutex
	over    atomic.Bool

	mu     sync.Mutex // guards report
	report report
}

func newWorker(j job) (*worker, error) {
	c, err := contenderOf(j.Contender)
	if err != nil {
		return nil, err
	}
	o, err := redis.ParseURL(j.URL)
	if err != nil {
		return nil, err
	}
	w := &worker{job: j, clock: newClock()}
	w.opened, err = c.open(&environment{redis: o, masters: j.Masters, prefix: j.Prefix, conns: j.Goroutines + 4,
		sent: &w.sent})
	if err != nil {
		return nil, err
	}
	w.section = (&environment{redis: o, masters: j.Masters, conns: j.Goroutines + 4, sent: new(counter)}).client()
	return w, nil
}

func (w *worker) close() {
	w.opened.close()
	_ = w.section.Close()
}

// key returns a key with a hash tag, so that a lock's other keys get the same prefix.
func (w *worker) key(name string) string { return w.Prefix + "{" + name + "}" }

// each runs f in every goroutine and returns when all have ended.
func (w *worker) each(f func(owner int64)) {
	var wg sync.WaitGroup
	for i := range w.Goroutines {
		wg.Go(func() { f(int64(w.First + i)) })
	}
	wg.Wait()
}

// warm opens the connections, loads the scripts, and takes the locks to be held.
func (w *worker) warm() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	failed := make(chan error, w.Goroutines)
	w.each(func(owner int64) {
		var err error
		for i := 0; i < 50 && err == nil; i++ { // all goroutines at once, so that every connection is used
			var l held
			if l, err = w.acquire(ctx, w.key(fmt.Sprintf("warm:%d", owner))); err == nil {
				err = errors.Join(w.section.Ping(ctx).Err(), l.Release(ctx))
			}
		}
		failed <- err
	})
	close(failed)
	for err := range failed {
		if err != nil {
			return err
		}
	}
	if w.Kind == kindHold {
		return w.hold()
	}
	return nil
}

// ping returns the median of a few round trips.
func (w *worker) ping() (time.Duration, error) {
	trips := make([]int64, 50)
	for i := range trips {
		began := time.Now()
		if err := w.section.Ping(context.Background()).Err(); err != nil {
			return 0, err
		}
		trips[i] = int64(time.Since(began))
	}
	return time.Duration(percentile(trips, 50)), nil
}

// contend begins at at, lets lead pass, and counts for the length of the window.
func (w *worker) contend(at int64) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	from := at + int64(lead)
	to := from + int64(w.Window)
	w.until(at)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.each(func(owner int64) { w.loop(ctx, owner, from, to) })
	}()
	w.until(from)
	before := w.sent.n.Load()
	w.until(to)
	w.report.Commands = w.sent.n.Load() - before
	w.over.Store(true)
	w.leaving.Lock()
	cancel()
	w.leaving.Unlock()
	<-ended
}

// loop is the loop of one goroutine.
func (w *worker) loop(ctx context.Context, owner, from, to int64) {
	mine := &log{from: from, to: to}
	key := w.key("hot")
	if w.Kind == kindFree {
		key = w.key(fmt.Sprintf("own:%d", owner))
		mine.pairs = make([]int64, 0, maxPairs/w.Goroutines)
	}
	for !w.over.Load() {
		asked := w.now()
		l, err := w.acquire(ctx, key)
		switch {
		case err != nil && w.over.Load():
			mine.wait(asked, to)
		case err != nil:
			mine.fail(err)
			_ = pause(ctx, time.Millisecond)
		case w.Kind == kindFree:
			mine.fail(l.Release(context.WithoutCancel(ctx)))
			mine.pair(asked, w.now())
		default:
			w.inside(ctx, mine, section{Owner: owner, Asked: asked, Acquired: w.now()}, l)
			if w.Think > 0 {
				time.Sleep(w.Think)
			}
		}
	}
	w.merge(mine)
}

// inside is the critical section, unless the window is over, and the release.
func (w *worker) inside(ctx context.Context, mine *log, s section, l held) {
	w.leaving.RLock()
	defer w.leaving.RUnlock()
	ctx = context.WithoutCancel(ctx)
	if w.over.Load() {
		mine.wait(s.Asked, mine.to)
		_ = l.Release(ctx) // a lock that ended with the waiters' context is no loss
		return
	}
	var err error
	s.Number, err = w.count(ctx)
	s.Leaving = w.now()
	mine.fail(errors.Join(err, l.Release(ctx)))
	if err == nil {
		mine.section(s)
	}
}

// count is the work under the lock: it reads the counter and writes it back, one higher.
func (w *worker) count(ctx context.Context) (int64, error) {
	key := w.key("counter")
	n, err := w.section.Get(ctx, key).Int64()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, err
	}
	return n + 1, w.section.Set(ctx, key, n+1, 0).Err()
}

// settle is how long the waiters of kindPark wait before commands are counted: until the engine has polled once, which
// loads a script.
const settle = 3 * time.Second

// park waits for the hot key in every goroutine, and counts the commands once all goroutines wait.
func (w *worker) park(at int64) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan struct{})
	var mine log
	var mu sync.Mutex
	go func() {
		defer close(ended)
		w.each(func(int64) {
			for ctx.Err() == nil {
				l, err := w.acquire(ctx, w.key("hot"))
				mu.Lock()
				if err == nil {
					mine.fail(errors.New("a lock that was held was acquired"))
					_ = l.Release(context.WithoutCancel(ctx))
				} else if ctx.Err() == nil {
					mine.fail(err)
				}
				mu.Unlock()
			}
		})
	}()
	w.until(at + int64(settle))
	before := w.sent.n.Load()
	w.until(at + int64(settle+w.Window))
	w.report.Commands = w.sent.n.Load() - before
	cancel()
	<-ended
	w.merge(&mine)
}

// hold takes the locks of kindHold, the first of which is the hot key, and records their cost.
func (w *worker) hold() error {
	keys := make([]string, w.Locks)
	for i := range keys {
		keys[i] = w.key(fmt.Sprintf("held:%d", i))
	}
	keys[0] = w.key("hot")
	locks := make([]held, w.Locks)
	before, goroutines := footprint(), runtime.NumGoroutine()
	failed := make(chan error, w.Goroutines)
	w.each(func(owner int64) {
		for i := int(owner) - w.First; i < len(keys); i += w.Goroutines {
			var err error
			if locks[i], err = w.acquire(context.Background(), keys[i]); err != nil {
				failed <- err
				return
			}
		}
	})
	select {
	case err := <-failed:
		return err
	default:
	}
	w.report.Bytes = (footprint() - before) / float64(w.Locks)
	w.report.Growth = runtime.NumGoroutine() - goroutines
	runtime.KeepAlive(locks)
	runtime.KeepAlive(keys)
	return nil
}

// footprint returns the size of the heap and the stacks after two collections, which empty the pools.
func footprint() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}

// idle counts the commands that are sent while no goroutine acquires.
func (w *worker) idle(at int64) {
	w.until(at)
	before := w.sent.n.Load()
	w.until(at + int64(w.Window))
	w.report.Commands = w.sent.n.Load() - before
}

func (w *worker) merge(l *log) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := &w.report
	r.Sections = append(r.Sections, l.sections...)
	r.Pairs = append(r.Pairs, l.pairs...)
	r.Cut = append(r.Cut, l.cut...)
	r.Done = append(r.Done, l.done)
	r.Errors += l.errors
	if r.First == "" && l.first != nil {
		r.First = l.first.Error()
	}
}
