package handoff_test

import (
	"context"
	"fmt"

	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
)

// Many readers may read the stock at once; a deduction is exclusive, and checks again under the write lock.
func ExampleReadWrite() {
	_, client, stop := locktest.EmbeddedRedis()
	defer stop()
	engine, _ := handoff.New(client, handoff.Options{})
	defer engine.Close(context.Background())
	ctx, rw, remaining := context.Background(), engine.ReadWrite(), 3

	one, _ := rw.Read().Acquire(ctx, "lock:{101}")
	other, err := rw.Read().Acquire(ctx, "lock:{101}")
	fmt.Println("two readers see", remaining, err)
	_, err = rw.Write().Acquire(one.Context(), "lock:{101}")
	fmt.Println("a write within a read:", err)
	fmt.Println("released:", one.Release(ctx), other.Release(ctx))
	alone, err := rw.Write().Acquire(ctx, "lock:{101}")
	if remaining > 0 { // read again: it may have changed since
		remaining--
	}
	fmt.Println("deducted:", remaining, err, alone.Release(ctx))
	// Output:
	// two readers see 3 <nil>
	// a write within a read: lock: a read cannot become a write
	// released: <nil> <nil>
	// deducted: 2 <nil> <nil>
}
