package locktest

import (
	"context"
	"errors"
	"testing"
	"time"

	"lastitem/internal/lock"
	"lastitem/stack/wire"
	"lastitem/testkit"
)

// Late makes lockers whose grants come too late.
type Late struct {
	// TTL is the TTL of the leases, as short as the servers allow.
	TTL time.Duration
	// Process returns a locker as [Kind.Process] does, with leases of TTL. It connects to each address, host:port, through
	// the address that through returns for it.
	Process func(t *testing.T, through func(address string) string) lock.Locker
}

// lateGrant delays the answer to an acquire until the granted lease is over: Acquire must not return that lease. If the
// caller does not wait, a rival may get the lock meanwhile; a caller that waits may get the lock in a later try.
func (k Kind) lateGrant(t *testing.T) {
	if k.Late == nil { // does not apply, for the reason in NoLate
		if k.NoLate == "" {
			t.Error("the kind has neither Late nor a reason in NoLate")
		}
		return
	}
	t.Run("beside a rival", func(t *testing.T) { k.lateBeside(t, 0) })
	t.Run("with time left", func(t *testing.T) { k.lateBeside(t, enough) })
}

type granted struct {
	lease lock.Lease
	err   error
}

// lateBeside is lateGrant with a caller that waits for the given time.
func (k Kind) lateBeside(t *testing.T, wait time.Duration) {
	t.Parallel()
	var gates []*wire.Proxy
	through := func(address string) string {
		g, err := wire.NewProxy("server", address, wire.Raw)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(g.Close)
		gates = append(gates, g)
		return g.Addr
	}
	victim := k.Late.Process(t, through)
	rival := k.Late.Process(t, func(address string) string { return address })
	k.canBeHad(t, victim, k.Key()) // scripts are loaded, a session is open
	k.canBeHad(t, rival, k.Key())

	key, got := k.Key(), make(chan granted, 1)
	var holds []*wire.Hold
	for _, g := range gates {
		holds = append(holds, g.Add(wire.Rule{Push: true, Every: true}))
	}
	sent := time.Now()
	go func() {
		lease, err := victim.Acquire(lock.WithWait(t.Context(), wait), key)
		got <- granted{lease, err}
	}()
	for _, h := range holds {
		select {
		case <-h.Reached():
		case <-time.After(enough):
			t.Fatal("no answer came that could be held")
		}
	}
	time.Sleep(time.Until(sent.Add(k.Late.TTL * 6 / 5)))
	var second lock.Lease
	// the rival may stay out if the server counts the lease from later, or if a renewal of the session arrived
	if wait == 0 {
		second, _ = rival.Acquire(lock.WithWait(t.Context(), k.Late.TTL/5), key)
	}
	select {
	case g := <-got:
		if g.err == nil || time.Since(sent) < k.Late.TTL*6/5+time.Second {
			t.Fatalf("Acquire = %v before it had an answer: nothing was too late", g.err)
		}
		got <- g // this test got no processor for a second: the acquire has given up meanwhile
	default:
	}
	for _, h := range holds {
		h.Pass()
	}
	k.handedOut(t, got, rival, key, second)
	if second != nil {
		_ = second.Release(context.Background()) // on a busy machine this lease may be over too
	}
	k.canBeHad(t, rival, key)
}

// canBeHad is Warm for a lease with a short TTL, which may end before its release on a busy machine, or before its
// acquire returns.
func (k Kind) canBeHad(t *testing.T, l lock.Locker, key string) {
	t.Helper()
	var lease lock.Lease
	testkit.NoError(t, "an acquire in time", func() (err error) {
		lease, err = l.Acquire(lock.WithWait(t.Context(), enough), key)
		return err
	})
	if err := lease.Release(t.Context()); err != nil && !errors.Is(err, lock.ErrLost) {
		t.Fatalf("Release: %v", err)
	}
}

// handedOut wants that the acquire whose answer came too late returns no lease, or a valid one: then no rival has a
// lease.
func (k Kind) handedOut(t *testing.T, got <-chan granted, rival lock.Locker, key string, second lock.Lease) {
	t.Helper()
	var g granted
	select {
	case g = <-got:
	case <-time.After(2 * enough):
		t.Fatalf("Acquire did not return within %s", 2*enough)
	}
	if g.err != nil {
		if !errors.Is(g.err, lock.ErrBusy) && !errors.Is(g.err, lock.ErrUnavailable) {
			t.Errorf("Acquire = %v, want ErrBusy or ErrUnavailable", g.err)
		}
		return
	}
	defer func() { _ = g.lease.Release(context.Background()) }()
	if err := g.lease.Context().Err(); err != nil {
		t.Errorf("Acquire handed out a lease that had ended (%v)", context.Cause(g.lease.Context()))
	}
	if second != nil && second.Context().Err() == nil {
		t.Error("Acquire handed out a lease after its end, and a rival holds the lock")
	}
	third, err := rival.Acquire(lock.WithWait(t.Context(), 0), key)
	if err == nil {
		_ = third.Release(context.Background())
		if g.lease.Context().Err() == nil { // otherwise the machine was slow, and the lease has ended
			t.Error("Acquire handed out a lease after its end: a rival gets the lock at once")
		}
	}
}
