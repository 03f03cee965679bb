package textbook_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/textbook"
	"lastitem/internal/step"
	"lastitem/testkit/locktest"
)

// exampleMasters returns several independent masters.
func exampleMasters(names ...string) (servers []*miniredis.Miniredis, nodes []textbook.RedlockNode, stop func()) {
	var stops []func()
	for _, name := range names {
		server, c, stop := locktest.EmbeddedRedis()
		servers, nodes, stops = append(servers, server), append(nodes, textbook.RedlockNode{Name: name, Client: c}),
			append(stops, stop)
	}
	return servers, nodes, func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// SETNX without an expiry: its holder dies, and a day later nobody has got in.
func ExampleNewSetNX() {
	server, client, stop := locktest.EmbeddedRedis()
	defer stop()
	locker := textbook.NewSetNX(client, nil)
	_, _ = locktest.TryOnce(locker, "lock:{101}") // and its holder dies
	server.FastForward(24 * time.Hour)
	_, err := locktest.TryOnce(locker, "lock:{101}")
	fmt.Println("a day later:", err)
	// Output: a day later: lock: busy
}

// The expiry as a second command: a holder that lives long enough to send it blocks nobody forever.
func ExampleNewSetNXExpire() {
	server, client, stop := locktest.EmbeddedRedis()
	defer stop()
	locker := textbook.NewSetNXExpire(client, 10*time.Second, nil)
	// and its holder dies after the PEXPIRE; if it died before, the key would stay
	_, _ = locktest.TryOnce(locker, "lock:{101}")
	server.FastForward(10 * time.Second)
	_, err := locktest.TryOnce(locker, "lock:{101}")
	fmt.Println("a TTL later:", err)
	// Output: a TTL later: <nil>
}

// lateRelease lets a holder outlive its TTL, and release when the next one is in.
func lateRelease(construct func(redis.UniversalClient, time.Duration, *step.Stream) *textbook.SetNX) {
	server, client, stop := locktest.EmbeddedRedis()
	defer stop()
	locker := construct(client, 10*time.Second, nil)
	slow, _ := locktest.TryOnce(locker, "lock:{101}")
	server.FastForward(10 * time.Second)
	_, second := locktest.TryOnce(locker, "lock:{101}")
	fmt.Println("the second is in:", second == nil)
	fmt.Println("the late release:", slow.Release(context.Background()))
	_, third := locktest.TryOnce(locker, "lock:{101}")
	fmt.Println("the third:", third)
}

// A blind DEL: the release of a slow holder lets a third client in while the second is inside.
func ExampleNewSetNXTTL() {
	lateRelease(textbook.NewSetNXTTL)
	// Output:
	// the second is in: true
	// the late release: <nil>
	// the third: <nil>
}

// With an owner value a late release is refused, unless the key changes hands between its GET and its DEL.
func ExampleNewSetNXOwner() {
	lateRelease(textbook.NewSetNXOwner)
	// Output:
	// the second is in: true
	// the late release: lock: lease lost
	// the third: lock: busy
}

// The loser passes the finally too: two contenders suffice for two holders.
func ExampleNewSetNXFinally() {
	_, client, stop := locktest.EmbeddedRedis()
	defer stop()
	locker := textbook.NewSetNXFinally(client, nil)
	_, first := locktest.TryOnce(locker, "lock:{101}")
	_, second := locktest.TryOnce(locker, "lock:{101}")
	_, third := locktest.TryOnce(locker, "lock:{101}")
	fmt.Println(first, second, third)
	// Output: <nil> lock: busy <nil>
}

// Compare and delete in one script: the textbook lock.
func ExampleLua() {
	server, client, stop := locktest.EmbeddedRedis()
	defer stop()
	locker := textbook.NewLua(client, 10*time.Second, nil)
	lease, err := locker.Acquire(context.Background(), "lock:{101}")
	fmt.Println("acquired:", err)
	_, err = locktest.TryOnce(locker, "lock:{101}")
	fmt.Println("a rival:", errors.Is(err, lock.ErrBusy))
	server.FastForward(10 * time.Second)
	fmt.Println("a late release:", lease.Release(context.Background()))
	// Output:
	// acquired: <nil>
	// a rival: true
	// a late release: lock: lease lost
}

// With a fencing token: the data refuses a token older than the newest one it has seen.
func ExampleNewLuaFenced() {
	server, client, stop := locktest.EmbeddedRedis()
	defer stop()
	locker := textbook.NewLuaFenced(client, 10*time.Second, nil)
	slow, _ := locker.Acquire(context.Background(), "lock:{101}")
	server.FastForward(10 * time.Second)
	rival, _ := locktest.TryOnce(locker, "lock:{101}")
	fmt.Println(slow.Fence(), rival.Fence())
	// Output: 1 2
}

// Polling with backoff: wait at most a second for a holder that releases the lock meanwhile.
func ExampleSpin() {
	_, client, stop := locktest.EmbeddedRedis()
	defer stop()
	locker := textbook.NewSpin(client, 10*time.Second, nil)
	ctx := context.Background()
	holder, _ := locktest.TryOnce(locker, "lock:{101}")
	go func() { _ = holder.Release(ctx) }()
	lease, err := locker.Acquire(lock.WithWait(ctx, time.Second), "lock:{101}")
	fmt.Println("acquired:", err)
	fmt.Println("released:", lease.Release(ctx))
	// Output:
	// acquired: <nil>
	// released: <nil>
}

// Three independent masters, one of which is down: two are a quorum, one is not.
func ExampleRedlock() {
	servers, nodes, stop := exampleMasters("a", "b", "c")
	defer stop()
	ctx := context.Background()
	locker := textbook.NewRedlock(textbook.RedlockOptions{Nodes: nodes, TTL: 10 * time.Second, NodeTimeout: time.Second},
		nil)
	servers[0].SetError("out of service")
	lease, err := locker.Acquire(ctx, "lock:{101}")
	fmt.Println("two of three:", err)
	fmt.Println("released:", lease.Release(ctx))
	servers[1].SetError("out of service")
	_, err = locker.Acquire(ctx, "lock:{101}")
	fmt.Println("one of three:", errors.Is(err, lock.ErrUnavailable))
	// Output:
	// two of three: <nil>
	// released: <nil>
	// one of three: true
}

// The watchdog lock around a section: wait at most a second, renewed while it is held, re-entered through the context.
func ExampleWatchdog() {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
	defer client.Close()
	wakeups := textbook.NewWakeups(client)
	defer wakeups.Close()
	ctx := context.Background()

	locker := textbook.NewWatchdog(client, 10*time.Second, wakeups, nil)
	lease, err := locker.Acquire(lock.WithWait(ctx, time.Second), "lock:{101}")
	if errors.Is(err, lock.ErrBusy) {
		fmt.Println("somebody else is at it")
	}
	inner, err := locker.Acquire(lock.WithReentry(lease.Context()), "lock:{101}")
	fmt.Println("re-entered:", err == nil)
	fmt.Println("inner released:", inner.Release(ctx))
	fmt.Println("outer released:", lease.Release(ctx))
	// Output:
	// re-entered: true
	// inner released: <nil>
	// outer released: <nil>
}
