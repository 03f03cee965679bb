package handoff

// state is the state of a contender. The package comment has the table of its transitions.
type state uint8

const (
	idle     state = iota // has no attempt: it is new, or ends
	asking                // an acquire, or the release that queues its token, is in flight or is about to be sent
	queued                // its token is in the queue in Redis
	draining              // a writer's: it owns the lock, and the last readers have not left yet
	granted               // it owns the lock, and one of its waiters holds it
)

// event is what changes the state of a contender.
type event uint8

const (
	byStart    event = iota // an attempt begins
	byReply                 // to an acquire, or to the release that queues its token
	byMessage               // of a script that has granted the lock
	byPoll                  // a poll has found that it owns the lock
	byTimer                 // it is time to check the readers, or a failover is suspected
	byGivingUp              // the last waiter has left or is overdue, or the attempt has failed
	byRelease
	byLoss // of the lease
)

// holdState is the state of a hold. The package comment has the table of its transitions.
type holdState uint8

const (
	holdActive holdState = iota // since it was granted, or passed on
	holdEnded                   // by a release, which may not have been answered yet; its context has ended
	holdLost                    // it expired, or its lock had another owner; its context has ended
)

// The tests check every transition against the tables, and the fields that depend on the state.
var (
	onTransition     func(c *contender, to state, because event)
	onHoldTransition func(h *hold, to holdState)
)

// setState changes the state of c. The engine's mutex is held.
func (c *contender) setState(to state, because event) {
	if onTransition != nil {
		onTransition(c, to, because)
	}
	c.state = to
	if to != asking {
		c.acquire, c.acquireAgain = nil, false // a held lock must not keep its request in memory
	}
}

// setState changes the state of h. The engine's mutex is held.
func (h *hold) setState(to holdState) {
	if onHoldTransition != nil {
		onHoldTransition(h, to)
	}
	h.state = to
}
