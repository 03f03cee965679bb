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

// The watchdog lock around a section: wait at most a second, renewed while it is held, re-entered through the context.
func ExampleWatchdog() {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
	defer client.Close()
	wakeups := lock.NewWakeups(client)
	defer wakeups.Close()
	ctx := context.Background()

	locker := lock.NewWatchdog(client, 10*time.Second, wakeups, nil)
	lease, err := locker.Acquire(lock.WithWait(ctx, time.Second), "lock:{101}")
	if errors.Is(err, lock.ErrBusy) {
		fmt.Println("somebody else is at it")
	}
	inner, err := locker.Acquire(lease.Context(), "lock:{101}")
	fmt.Println("re-entered:", err == nil)
	fmt.Println("inner released:", inner.Release(ctx))
	fmt.Println("outer released:", lease.Release(ctx))
	// Output:
	// re-entered: true
	// inner released: <nil>
	// outer released: <nil>
}
