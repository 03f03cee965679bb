package redisbatch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/redisbatch"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

var (
	echo   = redis.NewScript(`return KEYS[1] .. ARGV[1]`)
	double = redis.NewScript(`return 2 * ARGV[1]`)
	fail   = redis.NewScript(`return redis.error_reply('ERR no')`)
)

// trips is a client hook that notes the scripts of each round trip.
type trips struct {
	testenv.Hook
	mu  sync.Mutex
	all [][]string
}

func (h *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.note(cmd)
		return next(ctx, cmd)
	}
}

func (h *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.note(cmds...)
		return next(ctx, cmds)
	}
}

func (h *trips) note(cmds ...redis.Cmder) {
	var names []string
	for _, cmd := range cmds {
		names = append(names, cmd.Name())
	}
	if !strings.HasPrefix(names[0], "eval") { // it connects
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, names)
}

// client returns a new client on the test's server, and the round trips that it makes.
func client(t *testing.T, change func(*redis.Options)) (*redis.Client, *trips) {
	t.Helper()
	o := *testenv.Redis(t).Client.Options()
	if change != nil {
		change(&o)
	}
	c := testkit.Closing(t, redis.NewClient(&o))
	h := &trips{}
	c.AddHook(h)
	return c, h
}

// check fails unless the call has this answer.
func check(t *testing.T, c *redisbatch.Call, want any) {
	t.Helper()
	if c.Err != nil || c.Reply != want || c.Sent.IsZero() {
		t.Errorf("answer to %v %v = %v, %v, sent at %v, want %v", c.Keys, c.Args, c.Reply, c.Err, c.Sent, want)
	}
}

// Every call gets its own answer, and no batch exceeds its size.
func TestBatches(t *testing.T) {
	t.Parallel()
	c, h := client(t, nil)
	b := redisbatch.New(c, time.Minute)
	const calls = 1000
	waiting, told := make([]*redisbatch.Call, calls), make([]*redisbatch.Call, calls)
	var wg sync.WaitGroup
	for i := range calls {
		waiting[i] = &redisbatch.Call{Script: echo, Keys: []string{fmt.Sprint("k", i)}, Args: []any{i}}
		told[i] = &redisbatch.Call{Script: double, Args: []any{i}}
		wg.Go(func() { b.Do(waiting[i]) })
		wg.Add(1)
		b.Go(told[i], wg.Done)
	}
	wg.Wait()
	b.Wait()
	for i := range calls {
		check(t, waiting[i], fmt.Sprintf("k%d%d", i, i))
		check(t, told[i], int64(2*i))
	}
	for _, trip := range h.all {
		if len(trip) > redisbatch.Size {
			t.Errorf("a batch of %d, want at most %d", len(trip), redisbatch.Size)
		}
	}
}

// An error of one call does not affect the others.
func TestErrorOfOneCall(t *testing.T) {
	t.Parallel()
	c, _ := client(t, nil)
	batch := []*redisbatch.Call{{Script: echo, Keys: []string{"k"}, Args: []any{1}}, {Script: fail},
		{Script: double, Args: []any{4}}}
	redisbatch.New(c, 0).Exec(batch...)
	check(t, batch[0], "k1")
	check(t, batch[2], int64(8))
	if err := batch[1].Err; err == nil || err.Error() != "ERR no" {
		t.Errorf("error %v, want the script's", batch[1].Err)
	}
}

// A server that has lost its scripts costs a batch one round trip, with each script's text sent once.
func TestScriptFlush(t *testing.T) { // not parallel: the server is everybody's
	c, h := client(t, nil)
	b := redisbatch.New(c, time.Minute)
	c.ScriptFlush(t.Context())
	var batch []*redisbatch.Call
	for i := range redisbatch.Size / 2 {
		batch = append(batch, &redisbatch.Call{Script: echo, Keys: []string{"k"}, Args: []any{i}},
			&redisbatch.Call{Script: double, Args: []any{i}})
	}
	h.all = nil
	b.Exec(batch...)
	for i := range redisbatch.Size / 2 {
		check(t, batch[2*i], fmt.Sprint("k", i))
		check(t, batch[2*i+1], int64(2*i))
	}
	texts := 0
	for _, trip := range h.all {
		texts += len(trip) - len(slices.DeleteFunc(trip, func(name string) bool { return name == "eval" }))
	}
	if len(h.all) != 2 || texts != 2 {
		t.Errorf("%d round trips with %d texts, want 2 with 2", len(h.all), texts)
	}
}

// flushing is a client hook that makes the server lose its scripts before every command of a batch.
type flushing struct {
	trips
	by *redis.Client
}

func (h *flushing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return h.trips.ProcessPipelineHook(func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			h.by.ScriptFlush(ctx)
			_ = next(ctx, []redis.Cmder{cmd}) // which has the error
		}
		return nil
	})
}

// A server that loses its scripts again and again costs two more round trips at most: the last one carries every text.
func TestScriptFlushAgain(t *testing.T) { // not parallel: the server is everybody's
	c, h := client(t, nil)
	by, _ := client(t, nil)
	again := &flushing{by: by}
	c.AddHook(again)
	batch := []*redisbatch.Call{{Script: double, Args: []any{1}}, {Script: double, Args: []any{2}},
		{Script: double, Args: []any{3}}}
	redisbatch.New(c, time.Minute).Exec(batch...)
	for i, call := range batch {
		check(t, call, int64(2*i+2))
	}
	if len(again.all) != 3 {
		t.Errorf("%d round trips, want 3: %v; %v", len(again.all), again.all, h.all)
	}
}

// A call that waits for a connection gives up after its own limit, not only after the pool's.
func TestLimitWhileThePoolIsEmpty(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]time.Duration{"of the batcher": 0, "of the call": 50 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := client(t, func(o *redis.Options) { o.PoolSize, o.PoolTimeout = 1, time.Hour })
			only := c.Conn()
			testkit.Must(t, only.Ping(t.Context()).Err())
			call := &redisbatch.Call{Script: echo, Keys: []string{"k"}, Args: []any{1}, Limit: limit}
			redisbatch.New(c, 50*time.Millisecond).Do(call) // or the test binary's own time-out ends it
			if !errors.Is(call.Err, context.DeadlineExceeded) {
				t.Errorf("error %v, want the limit's", call.Err)
			}
			testkit.Must(t, only.Close())
			call = &redisbatch.Call{Script: echo, Keys: []string{"k"}, Args: []any{1}, Limit: time.Minute}
			redisbatch.New(c, 0).Do(call)
			check(t, call, "k1")
		})
	}
}

// slow is a client hook that sends each command 100 ms late.
type slow struct{ testenv.Hook }

func (slow) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		time.Sleep(100 * time.Millisecond)
		return next(ctx, cmd)
	}
}

// Wait also waits for a call that the answer to another one has led to.
func TestWaitForCallsOfAnswers(t *testing.T) {
	t.Parallel()
	c, _ := client(t, nil)
	c.AddHook(slow{})
	b := redisbatch.New(c, time.Minute)
	second := &redisbatch.Call{Script: double, Args: []any{2}}
	var told atomic.Bool
	b.Go(&redisbatch.Call{Script: double, Args: []any{1}, Limit: time.Minute}, func() {
		b.Go(second, func() { told.Store(true) })
	})
	b.Wait()
	if !told.Load() {
		t.Error("Wait returned before the second call was answered")
	}
}

// gate is a client hook that holds up single commands until it is open.
type gate struct {
	testenv.Hook
	atomic.Int64 // commands that have arrived
	open         chan struct{}
}

func (g *gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		g.Add(1)
		<-g.open
		return next(ctx, cmd)
	}
}

// While as many batches are in flight as there may be, a call that waits can be withdrawn: it is never sent, and nobody
// is told. A call that was sent cannot.
func TestWithdraw(t *testing.T) {
	t.Parallel()
	c, h := client(t, nil)
	double.Load(t.Context(), c)
	closed := &gate{open: make(chan struct{})}
	c.AddHook(closed)
	b := redisbatch.New(c, 0)
	var sent, waiting []*redisbatch.Call
	for i := range redisbatch.Slots {
		sent = append(sent, &redisbatch.Call{Script: double, Args: []any{i}})
		b.Go(sent[i], func() {})
		testkit.Until(t, "a command in flight", func() bool { return closed.Load() > int64(i) })
	}
	var told atomic.Int64
	const calls, keep = 3 * redisbatch.Size, 2*redisbatch.Size + 1
	for i := range calls {
		waiting = append(waiting, &redisbatch.Call{Script: double, Args: []any{i}})
		b.Go(waiting[i], func() { told.Add(1) })
	}
	if b.Withdraw(sent[0]) {
		t.Error("Withdraw of a call that was sent = true")
	}
	for i, c := range waiting {
		if i != keep && (!b.Withdraw(c) || b.Withdraw(c)) {
			t.Errorf("Withdraw of waiting call %d, and again, was not true and false", i)
		}
	}
	close(closed.open)
	b.Wait()
	for i, c := range sent {
		check(t, c, int64(2*i))
	}
	check(t, waiting[keep], int64(2*keep))
	if told.Load() != 1 || b.Withdraw(waiting[keep]) {
		t.Errorf("%d callers were told, want the one whose call was sent", told.Load())
	}
	if n := len(slices.Concat(h.all...)); n != redisbatch.Slots+1 {
		t.Errorf("%d commands, want %d", n, redisbatch.Slots+1)
	}
}

// Of few calls a batch takes all, of many a quarter, and never more than its size.
func TestShare(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ sent, waiting, want int }{
		{0, 1, 1}, {0, 4, 4}, {0, 5, 4}, {12, 4, 4}, {13, 3, 3}, {0, 64, 16}, {48, 64, 28}, {300, 300, redisbatch.Size},
	} {
		if got := redisbatch.Share(test.sent, test.waiting); got != test.want {
			t.Errorf("%d calls in flight, %d wait: a batch of %d, want %d", test.sent, test.waiting, got, test.want)
		}
	}
}

// Six batches may be in flight, and one more for each that is late, up to the number of slots.
func TestRoom(t *testing.T) {
	t.Parallel()
	batches := func(late, all int) []time.Duration {
		ages := slices.Repeat([]time.Duration{-time.Hour}, all) // none of them is late
		copy(ages, slices.Repeat([]time.Duration{time.Hour}, late))
		return ages
	}
	for _, test := range []struct {
		late, all int
		want      bool
	}{
		{0, 0, true}, {0, 5, true}, {0, 6, false}, {1, 6, true}, {1, 7, false}, {2, 7, true}, {10, 15, true}, {9, 15, false},
		{redisbatch.Slots, redisbatch.Slots, false},
	} {
		testkit.Is(t, redisbatch.Room(batches(test.late, test.all)...), test.want,
			"%d batches in flight, %d of them late: room", test.all, test.late)
	}
}
