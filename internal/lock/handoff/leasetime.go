package handoff

import "time"

// A contender with a lease time ([lock.WithLease]) has one waiter, and its lock is taken for that time: the key's TTL is the lease time, and
// no renewal is sent. There are two exceptions. A grant by message lasts only for the grant timeout, so if the lease time is longer, one
// renewal sets the TTL to what is left of it. And after a reconnect the hold is checked like any other, by a renewal that does not move its
// end.
//
// When the lease time is over, the engine cancels the attempt: the lock goes to the next waiter at once, and need not expire.

// ttl is how long c has the lock if nobody renews it.
func (c *contender) ttl() time.Duration {
	if c.lease > 0 {
		return c.lease
	}
	return c.e.o.TTL
}

// grantTimeout is for how long a grant by message can be used before it is renewed.
func (c *contender) grantTimeout() time.Duration { return min(c.e.grantTimeout, c.ttl()) }

// renewAt returns when the alarm of a hold must ring, to renew the hold or to end it. A request that was sent at sent has confirmed the hold
// for ttl.
func (c *contender) renewAt(sent, ttl time.Duration) time.Duration {
	if c.lease > 0 && ttl >= c.lease {
		return c.leaseEnd()
	}
	return min(sent+ttl*2/5, c.leaseEnd())
}

// renewal is the TTL in ms that a renewal sets: what is left of a lease time, else the engine's.
func (c *contender) renewal() string {
	if c.lease == 0 {
		return c.e.ttl
	}
	return decimal(max(1, (c.leaseBegan + c.lease - c.e.now()).Milliseconds()))
}

// renewed returns until when c is valid after a renewal that was sent at sent.
func (c *contender) renewed(sent time.Duration) time.Duration {
	if c.lease == 0 {
		return validUntil(sent, c.e.o.TTL)
	}
	return validUntil(c.leaseBegan, c.lease)
}
