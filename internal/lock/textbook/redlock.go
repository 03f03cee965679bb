package textbook

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/step"
)

// Redlock is the lock that Redis documents under "Distributed Locks with Redis": the key is acquired on N independent
// masters at once, and the lock is held if a majority granted it while the grants are still valid. It survives the loss
// of a minority. No fence, no renewal.
//
// What breaks it: work that takes longer than the TTL, as with [Lua]; and a master that forgets a grant, by a restart
// without its data or by a clock that jumps, because the majorities of two holders may share only one node. See
// [RedlockOptions] for a guard against the restart.
type Redlock struct {
	o      RedlockOptions
	quorum int
	steps  *step.Stream
}

// RedlockNode is one of the masters. They must not replicate each other, and are single servers, not clusters.
type RedlockNode struct {
	Name string // for errors
	// Client must not repeat commands (MaxRetries -1): a SET NX sent twice is refused by itself. With
	// ContextTimeoutEnabled a hanging node costs fewer goroutines.
	Client redis.UniversalClient
}

// RedlockOptions configure a Redlock. Nodes and TTL are required.
type RedlockOptions struct {
	Nodes []RedlockNode
	// TTL is how long a node keeps a grant, at least 10 ms.
	TTL time.Duration
	// NodeTimeout is how long to wait for a node; a grant that arrives later is undone. 0 means a twentieth of the TTL,
	// but at least 50 ms: long enough for a stall, short enough to leave most of the TTL. More than two seconds has no
	// effect.
	NodeTimeout time.Duration
	// RestartGuard, if not 0, is the longest TTL that any client uses on these nodes. A node that is new, restarted or
	// promoted then grants nothing for this time after a client first reaches it: every grant that it may have forgotten
	// has expired by then. It is the "delayed restarts" of the Redis page, kept by the node itself, in the key
	// "lock:redlock:boot".
	//
	// It costs that time after each restart, including the first start, and an INFO per grant. It does not help against a
	// clock that jumps, or a mark restored by hand; if INFO is refused (by an ACL or an emulator), it helps only against
	// an empty node.
	RestartGuard time.Duration
}

// ErrRestarted is the refusal of a node under its restart guard; it comes in a [NodeError].
var ErrRestarted = errors.New("lock: node restarted less than the longest TTL ago")

// NodeError is an error of one node of a Redlock. Acquire joins them, with [lock.ErrUnavailable] if no quorum was left.
type NodeError struct {
	Node string
	Err  error
}

// Error names the node.
func (e *NodeError) Error() string { return "node " + e.Node + ": " + e.Err.Error() }

// Unwrap returns the node's error.
func (e *NodeError) Unwrap() error { return e.Err }

// NewRedlock returns the lock on the nodes of o, of which there should be an odd number, commonly five.
func NewRedlock(o RedlockOptions, steps *step.Stream) *Redlock {
	if o.NodeTimeout == 0 {
		o.NodeTimeout = max(o.TTL/20, 50*time.Millisecond)
	}
	return &Redlock{o: o, quorum: len(o.Nodes)/2 + 1, steps: steps}
}

// Two contenders may split the nodes so that neither has a majority; the random delay lets one be first the next time.
const (
	redlockRetryLeast = 5 * time.Millisecond
	redlockRetryMost  = 50 * time.Millisecond
)

// Acquire asks all nodes at once, and again after a random delay while others hold the key on too many of them.
func (l *Redlock) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	ctx = lock.BeginWait(ctx)
	l, err := l.leased(ctx)
	if err != nil {
		return nil, err
	}
	l.steps.At(ctx, step.Waiting, key)
	if lock.Ended(ctx) { // the caller has left: a grant would have to be released on every node
		return nil, lock.GaveUp(ctx)
	}
	for {
		hold, err := l.try(ctx, key)
		if err == nil {
			l.steps.At(ctx, step.Locked, key)
			return hold, nil
		}
		if !errors.Is(err, lock.ErrBusy) {
			return nil, err
		}
		if gone := lock.Pause(ctx, redlockRetryLeast+rand.N(redlockRetryMost-redlockRetryLeast), nil); gone != nil {
			return nil, fmt.Errorf("%w; last try: %w", gone, err)
		}
	}
}

// leased returns the lock with the TTL for an Acquire under ctx. A lease time above the restart guard is refused: a
// node that has restarted would grant the lock again while its holder still relies on it.
func (l *Redlock) leased(ctx context.Context) (*Redlock, error) {
	ttl, err := lock.TTL(ctx, "redlock", l.o.TTL, leastTTL)
	switch {
	case err != nil || ttl == l.o.TTL:
		return l, err
	case l.o.RestartGuard > 0 && ttl > l.o.RestartGuard:
		return nil, fmt.Errorf("%w: redlock: %s is longer than the restart guard of %s", lock.ErrLeaseTime, ttl,
			l.o.RestartGuard)
	}
	own := *l
	own.o.TTL = ttl
	return &own, nil
}

// try asks each node once. If it fails, it releases every grant: those known, those possible, and, in the background,
// those that arrive later.
func (l *Redlock) try(ctx context.Context, key string) (*redlockLease, error) {
	start := time.Now() // before the first command: no grant's TTL starts earlier
	s := &redlockLease{l: l, key: key}
	asked := l.ask(ctx, key, &s.claims)
	yes, failed := l.tally(ctx, s.claims, asked, l.decided)
	if yes >= l.quorum {
		s.expiry = lock.NewExpiry(ctx, start, l.o.TTL)
		if !lock.TooLate(start, l.o.TTL) { // validity: the TTL, minus the time it took, minus the drift between clocks
			return s, nil
		}
		s.expiry.Stop()
	}
	freed := s.free(ctx)
	if ctx.Err() == nil { // a caller whose context has ended does not wait for the cleanup
		l.tally(ctx, s.claims, freed, l.cleaned)
	}
	return nil, l.refused(yes, failed)
}

// Delete deletes a lock, whoever holds it, on every node that answers within the node timeout. It is for operators, and
// for the keys of dead holders. It fails with [lock.ErrUnavailable] if it reaches no quorum.
func (l *Redlock) Delete(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, l.o.NodeTimeout)
	defer cancel()
	answers := make(chan error, len(l.o.Nodes))
	for _, n := range l.o.Nodes {
		go func() {
			err := n.Client.Del(ctx, key).Err()
			if err != nil {
				err = &NodeError{n.Name, err}
			}
			answers <- err
		}()
	}
	var failed []error
	for range l.o.Nodes {
		if err := <-answers; err != nil {
			failed = append(failed, err)
		}
	}
	if n := len(l.o.Nodes); n-len(failed) < l.quorum {
		return fmt.Errorf("%w: redlock: delete: %d of %d nodes failed: %w", lock.ErrUnavailable, len(failed), n,
			errors.Join(failed...))
	}
	return nil
}

// refused returns the error of a try: [lock.ErrBusy], after which another try may succeed, unless so many nodes failed
// that the others are not a quorum. Either way it includes the failures.
func (l *Redlock) refused(yes int, failed []error) error {
	n := len(l.o.Nodes)
	why := fmt.Errorf("%w: redlock: %d of %d nodes granted it, the quorum is %d", lock.ErrBusy, yes, n, l.quorum)
	switch {
	case yes >= l.quorum:
		why = fmt.Errorf("%w: redlock: the grants came too late for a TTL of %s", lock.ErrBusy, l.o.TTL)
	case n-len(failed) < l.quorum:
		why = fmt.Errorf("%w: redlock: %d of %d nodes failed, the quorum is %d", lock.ErrUnavailable, len(failed), n,
			l.quorum)
	}
	if len(failed) > 0 {
		return fmt.Errorf("%w: %w", why, errors.Join(failed...))
	}
	return why
}

// decided reports whether the answers decide an acquire: a quorum granted it, or so many refused, or so many failed,
// that the others are not a quorum. Refusals and failures are not added up. Otherwise two nodes with a dead holder's
// grant, and one node that is down, would look like a held lock, even if the other two nodes are down as well and
// nobody can hold it.
func (l *Redlock) decided(yes, failed int, open map[*claim]bool) bool {
	n := len(l.o.Nodes)
	most := n - l.quorum
	return yes >= l.quorum || failed > most || n-yes-failed-len(open) > most || len(open) == 0
}

// cleaned reports whether every node that is known to have granted has answered the release. The other nodes, which
// failed or have not answered the acquire, are released in the background.
func (l *Redlock) cleaned(_, _ int, open map[*claim]bool) bool {
	for c := range open {
		select {
		case <-c.settled:
			if c.granted {
				return false
			}
		default:
		}
	}
	return true
}

// tally counts the answers until done returns true, ctx ends, or the node timeout is over: a node that has not answered
// by then has failed.
func (l *Redlock) tally(ctx context.Context, claims []*claim, answers <-chan vote,
	done func(yes, failed int, open map[*claim]bool) bool,
) (yes int, failed []error) {
	open := make(map[*claim]bool, len(claims))
	for _, c := range claims {
		open[c] = true
	}
	timeout := time.NewTimer(l.o.NodeTimeout)
	defer timeout.Stop()
	for !done(yes, len(failed), open) {
		select {
		case a := <-answers:
			delete(open, a.from)
			switch {
			case a.err != nil:
				failed = append(failed, &NodeError{a.from.node.Name, a.err})
			case a.yes:
				yes++
			}
		case <-timeout.C:
			for c := range open {
				failed = append(failed, &NodeError{c.node.Name, context.DeadlineExceeded})
			}
			return yes, failed
		case <-ctx.Done():
			return yes, failed
		}
	}
	return yes, failed
}

type redlockLease struct {
	l      *Redlock
	key    string
	claims []*claim
	expiry *lock.Expiry
	done   lock.ReleaseOnce
}

// Context ends with ErrLost when the grants are not valid any more.
func (s *redlockLease) Context() context.Context { return s.expiry.Context() }

// Fence is 0: N independent masters have no common order, so Redlock issues no fencing token.
func (s *redlockLease) Fence() uint64 { return 0 }

// Release deletes the key on every node where it is ours. ErrLost when it was no longer ours on a majority.
func (s *redlockLease) Release(ctx context.Context) error {
	s.expiry.Stop()
	return s.done.Do(func() error {
		ctx := context.WithoutCancel(ctx)
		s.l.steps.At(ctx, step.Releasing, s.key)
		yes, failed := s.l.tally(ctx, s.claims, s.free(ctx), func(yes, failed int, open map[*claim]bool) bool {
			return len(open) == 0 || yes >= s.l.quorum && s.l.cleaned(yes, failed, open)
		})
		if yes < s.l.quorum && yes+len(failed) >= s.l.quorum {
			return fmt.Errorf("lock: redlock: release unknown: %w", errors.Join(failed...))
		}
		s.l.steps.At(ctx, step.Released, s.key)
		if yes < s.l.quorum {
			return lock.ErrLost
		}
		return nil
	})
}
