package locktest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/step"
)

// slowly is a lock on a server that is slow at every entry.
type slowly struct {
	lock.Locker
	takes time.Duration
}

func (s slowly) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	lease, err := s.Locker.Acquire(ctx, key)
	if err == nil {
		time.Sleep(s.takes)
	}
	return lease, err
}

// On a server that grants the lock every 400 ms, a fight of 270 entries would last 108 s. The shorter fight is as good
// a test, and it ends.
func TestFightOnASlowServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one := slowly{lock.NewMutex(nil), 400 * time.Millisecond}
		begin := time.Now()
		Kind{
			Process: func(*testing.T, *step.Stream) lock.Locker { return one },
			Key:     func() string { return "key" },
		}.fight(t)
		if took := time.Since(begin); took > enough {
			t.Errorf("the fight took %s, want it to end once everybody has been in", took)
		}
	})
}
