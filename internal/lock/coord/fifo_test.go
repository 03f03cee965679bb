package coord_test

import (
	"context"
	"sync"
	"testing"

	"lastitem/internal/lock"
	"lastitem/internal/lock/locktest"
)

// fifo starts waiters for a held lock one after the other and returns the order in which they got it. queued waits until n of
// them stand in the queue.
func fifo(t *testing.T, l lock.Locker, key string, n int, queued func(n int)) []int {
	t.Helper()
	lease := locktest.Obtain(t, l, key)
	var mu sync.Mutex
	var order []int
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			lease, err := l.Acquire(lock.WithWait(t.Context(), locktest.Soon), key)
			if err != nil {
				t.Errorf("Acquire: %v", err)
				return
			}
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
			if err := lease.Release(context.Background()); err != nil {
				t.Errorf("Release: %v", err)
			}
		})
		queued(i + 2)
	}
	locktest.Release(t, lease)
	wg.Wait()
	return order
}
