package redisbatch_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/redisbatch"
	"lastitem/testkit/testenv"
)

// onSend is a client hook that answers each command after it has called f.
type onSend struct {
	testenv.Hook
	f func()
}

func (h onSend) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(context.Context, redis.Cmder) error { h.f(); return nil }
}

// A call that is made alone does not wait for goroutines that could run. Beside a call in flight such goroutines run
// first, since their calls may share the batch, until that has taken long.
func TestYields(t *testing.T) { // alone on the only processor
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var send func()
	c := redis.NewClient(&redis.Options{})
	defer c.Close()
	c.AddHook(onSend{f: func() { send() }})
	b := redisbatch.New(c, 0)
	ranFirst := func(work time.Duration) bool {
		var ran, first atomic.Bool
		send = func() { first.Store(ran.Load()) }
		go func() {
			ran.Store(true)
			for began := time.Now(); time.Since(began) < work; {
			}
		}()
		b.Do(&redisbatch.Call{Script: echo})
		return first.Load()
	}
	rarely := func(what string) { // the runtime may preempt the caller, but hardly each time
		for range 20 {
			if !ranFirst(0) {
				return
			}
		}
		t.Errorf("%s: another goroutine ran first, each of 20 times", what)
	}
	rarely("a call alone")
	sent, answer := make(chan bool), make(chan bool)
	send = func() { sent <- true; <-answer }
	b.Go(&redisbatch.Call{Script: echo}, func() {})
	<-sent
	defer b.Wait()
	defer close(answer)
	// Each 61st time the scheduler prefers the one that yields.
	if first := ranFirst(20 * time.Millisecond); !first && !ranFirst(20*time.Millisecond) {
		t.Error("beside a call in flight, no other goroutine ran first")
	}
	rarely("after a long yield")
}
