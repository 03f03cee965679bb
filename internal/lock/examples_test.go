package lock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
)

// exampleRedis returns an embedded Redis, whose clock an example may turn, and a client of it.
func exampleRedis() (server *miniredis.Miniredis, c *redis.Client, stop func()) {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	c = redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
	return server, c, func() {
		_ = c.Close()
		server.Close()
	}
}

// exampleMasters returns several of them, which know nothing of each other.
func exampleMasters(names ...string) (servers []*miniredis.Miniredis, nodes []lock.RedlockNode, stop func()) {
	var stops []func()
	for _, name := range names {
		server, c, stop := exampleRedis()
		servers, nodes, stops = append(servers, server), append(nodes, lock.RedlockNode{Name: name, Client: c}), append(stops, stop)
	}
	return servers, nodes, func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// tryOnce acquires without waiting.
func tryOnce(l lock.Locker, key string) (lock.Lease, error) {
	return l.Acquire(lock.WithWait(context.Background(), 0), key)
}

// One process, one mutex per key. Another process has others.
func ExampleMutex() {
	a, b := lock.NewMutex(nil), lock.NewMutex(nil) // two processes
	lease, _ := tryOnce(a, "product 101")
	_, err := tryOnce(a, "product 101")
	fmt.Println("the same process:", err)
	_, err = tryOnce(b, "product 101")
	fmt.Println("another process:", err)
	fmt.Println("released:", lease.Release(context.Background()))
	// Output:
	// the same process: lock: busy
	// another process: <nil>
	// released: <nil>
}

// SETNX without an expiry: its holder dies, and a day later nobody has got in.
func ExampleNewSetNX() {
	server, client, stop := exampleRedis()
	defer stop()
	locker := lock.NewSetNX(client, nil)
	_, _ = tryOnce(locker, "lock:{101}") // and its holder dies
	server.FastForward(24 * time.Hour)
	_, err := tryOnce(locker, "lock:{101}")
	fmt.Println("a day later:", err)
	// Output: a day later: lock: busy
}

// The expiry as a second command: a holder that lives long enough to send it blocks nobody forever.
func ExampleNewSetNXExpire() {
	server, client, stop := exampleRedis()
	defer stop()
	locker := lock.NewSetNXExpire(client, 10*time.Second, nil)
	_, _ = tryOnce(locker, "lock:{101}") // and its holder dies after PEXPIRE; just before it, the key would stay
	server.FastForward(10 * time.Second)
	_, err := tryOnce(locker, "lock:{101}")
	fmt.Println("a TTL later:", err)
	// Output: a TTL later: <nil>
}

// A blind DEL: the release of a holder that was too slow lets a third one in beside the second.
func ExampleNewSetNXTTL() {
	server, client, stop := exampleRedis()
	defer stop()
	locker := lock.NewSetNXTTL(client, 10*time.Second, nil)
	slow, _ := tryOnce(locker, "lock:{101}")
	server.FastForward(10 * time.Second)
	_, second := tryOnce(locker, "lock:{101}")
	fmt.Println("the second is in:", second == nil)
	fmt.Println("the late release:", slow.Release(context.Background()))
	_, third := tryOnce(locker, "lock:{101}")
	fmt.Println("the third is in:", third == nil)
	// Output:
	// the second is in: true
	// the late release: <nil>
	// the third is in: true
}

// With an owner value a late release is refused, unless the key changes hands between its GET and its DEL.
func ExampleNewSetNXOwner() {
	server, client, stop := exampleRedis()
	defer stop()
	locker := lock.NewSetNXOwner(client, 10*time.Second, nil)
	slow, _ := tryOnce(locker, "lock:{101}")
	server.FastForward(10 * time.Second)
	_, second := tryOnce(locker, "lock:{101}")
	fmt.Println("the second is in:", second == nil)
	fmt.Println("the late release:", slow.Release(context.Background()))
	_, third := tryOnce(locker, "lock:{101}")
	fmt.Println("the third:", third)
	// Output:
	// the second is in: true
	// the late release: lock: lease lost
	// the third: lock: busy
}

// The loser passes the finally too: it takes two to have two inside.
func ExampleNewSetNXFinally() {
	_, client, stop := exampleRedis()
	defer stop()
	locker := lock.NewSetNXFinally(client, nil)
	_, first := tryOnce(locker, "lock:{101}")
	_, second := tryOnce(locker, "lock:{101}")
	_, third := tryOnce(locker, "lock:{101}")
	fmt.Println(first, second, third)
	// Output: <nil> lock: busy <nil>
}

// Compare and delete in one script: the textbook lock.
func ExampleLua() {
	server, client, stop := exampleRedis()
	defer stop()
	locker := lock.NewLua(client, 10*time.Second, nil)
	lease, err := locker.Acquire(context.Background(), "lock:{101}")
	fmt.Println("acquired:", err)
	_, err = tryOnce(locker, "lock:{101}")
	fmt.Println("a rival:", errors.Is(err, lock.ErrBusy))
	server.FastForward(10 * time.Second)
	fmt.Println("a late release:", lease.Release(context.Background()))
	// Output:
	// acquired: <nil>
	// a rival: true
	// a late release: lock: lease lost
}

// A fencing token with it: the data refuses what is older than the newest that it has seen.
func ExampleNewLuaFenced() {
	server, client, stop := exampleRedis()
	defer stop()
	locker := lock.NewLuaFenced(client, 10*time.Second, nil)
	slow, _ := locker.Acquire(context.Background(), "lock:{101}")
	server.FastForward(10 * time.Second)
	rival, _ := tryOnce(locker, "lock:{101}")
	fmt.Println(slow.Fence(), rival.Fence())
	// Output: 1 2
}

// Polling with backoff: wait a second at most for a holder that gives the lock up meanwhile.
func ExampleSpin() {
	_, client, stop := exampleRedis()
	defer stop()
	locker := lock.NewSpin(client, 10*time.Second, nil)
	ctx := context.Background()
	holder, _ := tryOnce(locker, "lock:{101}")
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
	locker := lock.NewRedlock(lock.RedlockOptions{Nodes: nodes, TTL: 10 * time.Second, NodeTimeout: time.Second}, nil)
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

// A cart of two products: both locks or none, in the same order for everybody.
func ExampleAcquireAll() {
	_, client, stop := exampleRedis()
	defer stop()
	locker := lock.NewLua(client, 10*time.Second, nil)
	ctx := context.Background()
	cart, err := lock.AcquireAll(ctx, locker, "lock:{102}", "lock:{101}", "lock:{102}")
	fmt.Println("cart:", err)
	_, err = tryOnce(locker, "lock:{101}")
	fmt.Println("one of its products:", err)
	fmt.Println("released:", cart.Release(ctx))
	// Output:
	// cart: <nil>
	// one of its products: lock: busy
	// released: <nil>
}
