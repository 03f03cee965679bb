package lease

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// retiring makes sessions that count their renewals and their ends at the server.
func retiring(renewed, ended *atomic.Int64) *Sessions {
	return NewSessions(func(context.Context) (*Session, error) {
		return (&Session{
			Renew: func(context.Context) error { renewed.Add(1); return nil },
			End:   func(context.Context) error { ended.Add(1); return nil },
		}).Start(time.Now(), sessionTTL), nil
	})
}

// A retired session stays alive for its users and takes no others. Each renewal repeats the cleanup, and when the last user leaves, the
// session ends at the server.
func TestSessionRetires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var renewed, ended, cleaned atomic.Int64
		p := retiring(&renewed, &ended)
		s, err := p.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.Retire(func(context.Context) error { cleaned.Add(1); return errUnknown })
		next, err := p.Get(t.Context())
		if err != nil || next == s {
			t.Fatalf("Get = the retired session: %t, %v", next == s, err)
		}
		time.Sleep(3*sessionTTL + time.Second)
		if s.Lost() || ended.Load() != 0 {
			t.Errorf("lost %t, ended %d times while it is in use", s.Lost(), ended.Load())
		}
		if n := cleaned.Load(); n != 9 {
			t.Errorf("%d cleanups in three TTLs, want one for each third", n)
		}
		s.Leave()
		<-s.done
		if n := ended.Load(); n != 1 {
			t.Errorf("ended %d times at the server, want once", n)
		}
		next.Leave()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A session without users ends as soon as it is retired.
func TestSessionRetiresUnused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var renewed, ended atomic.Int64
		s, err := retiring(&renewed, &ended).Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		s.Retire(func(context.Context) error { return nil })
		s.Leave()
		<-s.done
		if n := ended.Load(); n != 1 || time.Since(start) > 0 {
			t.Errorf("ended %d times after %s, want once and at once", n, time.Since(start))
		}
	})
}
