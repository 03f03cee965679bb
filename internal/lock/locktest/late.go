package locktest

import (
	"context"
	"errors"
	"testing"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/wire"
)

// Late is how a kind is made whose grants come too late.
type Late struct {
	// TTL is that of the leases, as short as the servers allow.
	TTL time.Duration
	// Process returns a locker as [Kind.Process] does, with leases of TTL. It connects to each address, host:port, by the one that
	// through returns for it.
	Process func(t *testing.T, through func(address string) string) lock.Locker
}

// lateGrant has the answer to an acquire come when the lease that it grants is over: nobody may be handed that lease. A rival, which
// the servers may have let in by then, comes first when the caller does not wait; a caller that waits may be granted it again.
func (k Kind) lateGrant(t *testing.T) {
	if k.Late == nil { // nothing to see, for the reason that the kind gives
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

// lateBeside does that with a caller that waits for so long.
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
	k.isFree(t, victim, k.Key()) // scripts are loaded, a session is open
	k.isFree(t, rival, k.Key())

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
	if wait == 0 { // a server that counts the lease from later, or a session in which a renewal arrived, may keep the rival out
		second, _ = rival.Acquire(lock.WithWait(t.Context(), k.Late.TTL/5), key)
	}
	select {
	case g := <-got:
		t.Fatalf("Acquire = %v before it had an answer: nothing was too late", g.err)
	default:
	}
	for _, h := range holds {
		h.Pass()
	}
	k.handedOut(t, got, rival, key, second)
	if second != nil {
		_ = second.Release(context.Background()) // on a busy machine it may be over too
	}
	k.isFree(t, rival, key)
}

// handedOut wants the acquire whose answer came too late to have no lease, or one that is good: then no rival has one.
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
		if g.lease.Context().Err() == nil { // else the machine was slow, and its time is over
			t.Error("Acquire handed out a lease after its end: a rival gets the lock at once")
		}
	}
}
