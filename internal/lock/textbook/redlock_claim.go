package textbook

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
)

//go:embed lua/redlock_acquire.lua
var redlockAcquireSource string

var redlockAcquire = redis.NewScript(redlockAcquireSource)

// redlockMark is the key of a node's boot mark.
const redlockMark = "lock:redlock:boot"

// claim is one attempt on one node of a Redlock. Its acquire and its release run on goroutines of their own, and the
// release never overtakes the acquire: a grant that arrives after everybody has stopped waiting for it is released too.
type claim struct {
	l          *Redlock
	node       RedlockNode
	key, owner string

	settled chan struct{} // closed when the acquire has an answer, or will get none
	granted bool          // with err: valid once settled is closed
	err     error

	mu    sync.Mutex // one release at a time
	final bool       // the release is over, with outcome freed
	freed bool
	sent  bool // a release was sent whose answer was lost
}

// vote is one node's answer to an acquire or a release.
type vote struct {
	from *claim
	yes  bool
	err  error
}

// ask starts one claim per node. The channel has room for all answers, so claims never block on it.
func (l *Redlock) ask(ctx context.Context, key string, claims *[]*claim) <-chan vote {
	owner, answers := lock.NewOwner(), make(chan vote, len(l.o.Nodes))
	for _, node := range l.o.Nodes {
		c := &claim{l: l, node: node, key: key, owner: owner, settled: make(chan struct{})}
		*claims = append(*claims, c)
		go func() {
			c.granted, c.err = c.acquire(ctx)
			close(c.settled)
			answers <- vote{c, c.granted, c.err}
		}()
	}
	return answers
}

// acquire does not end with ctx or at the node timeout: its command may still be in flight, and a release on another
// connection would overtake it. It gives up after CleanupTimeout; a grant that comes later still expires.
func (c *claim) acquire(ctx context.Context) (bool, error) {
	ctx, cancel := lock.Detached(ctx)
	defer cancel()
	if c.l.o.RestartGuard > 0 {
		return c.guarded(ctx)
	}
	err := c.node.Client.SetArgs(ctx, c.key, c.owner, redis.SetArgs{Mode: "NX", TTL: c.l.o.TTL}).Err()
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	return err == nil, err
}

func (c *claim) guarded(ctx context.Context) (bool, error) {
	young, err := redlockAcquire.Run(ctx, c.node.Client, []string{c.key, redlockMark},
		c.owner, c.l.o.TTL.Milliseconds(), c.l.o.RestartGuard.Milliseconds()).Int64()
	if err == nil && young > 0 {
		err = fmt.Errorf("%w: grants nothing for another %s", ErrRestarted, time.Duration(young)*time.Millisecond)
	}
	return err == nil && young == 0, err
}

// free starts the release of every claim, each after its own acquire.
func (s *redlockLease) free(ctx context.Context) <-chan vote {
	answers := make(chan vote, len(s.claims))
	lost := s.expiry != nil && s.expiry.Lost()
	for _, c := range s.claims {
		go func() {
			<-c.settled
			freed, err := c.release(ctx, lost)
			answers <- vote{c, freed, err}
		}()
	}
	return answers
}

// release reports whether the key was deleted; lost says that the lease had ended before. An acquire that failed may
// have been granted all the same and is released too; one that was refused has nothing to release.
func (c *claim) release(ctx context.Context, lost bool) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.final || !c.granted && (c.err == nil || errors.Is(c.err, ErrRestarted)) {
		return c.freed, nil
	}
	ctx, cancel := lock.Detached(ctx)
	defer cancel()
	n, err := luaRelease.Run(ctx, c.node.Client, []string{c.key}, c.owner).Int()
	if err != nil {
		c.sent = c.sent || !notSent(err)
		return false, err
	}
	c.final, c.freed = true, n == 1 || c.sent && !lost // after a lost answer, our own release may have removed it
	return c.freed, nil
}
