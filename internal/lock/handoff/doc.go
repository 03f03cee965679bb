// Package handoff is the lock engine: a lock on Redis whose release script also gives the lock to the next waiter and
// sends a message to that waiter's process. So a waiter sends nothing while it waits, and a free lock costs two
// commands.
//
// Start with [New] and [Engine], then read lua/pass.lua, which hands a lock over, and contender.go, which has the
// waiters of this process, and their states as in the tables below. acquire.go sends an attempt and handles its reply.
// lease.go is the hold that a lease belongs to, and the end of a lease time; readwrite.go is the read-write lock. Parts
// of the engine with a state of their own are the server, to which scripts are sent (server.go, scripts.go), the
// subscriber, which receives messages (pubsub.go, subscriber.go), the pollers, which serve waiters whose message was
// lost (poll.go), the keeper, which renews holds and checks them when the server may have been replaced (renew.go), the
// cleaner, which cancels attempts (cleanup.go), and the agenda, with one timer for all (timers.go). inspect.go and
// force.go are for operators, keys.go has the names of keys and tokens, report.go tells what no caller hears.
//
// # Contenders
//
// A contender wants one key for waiters of this process: with [Engine.Handoff] for all of them, else for one. It makes
// one attempt after the other, and each attempt has its own token. These are its transitions, with what is sent:
//
//	idle     + start      -> asking    acquire, unless the release before queues the token
//	asking   + reply      -> queued    poll, from time to time
//	asking   + reply      -> granted
//	asking   + reply      -> draining
//	asking   + reply      -> idle      the token has ended; an acquire with a new token
//	asking   + message    -> granted
//	asking   + message    -> draining
//	asking   + giving up  -> idle      cancel, if a request can have left anything
//	queued   + message    -> granted
//	queued   + message    -> draining
//	queued   + message    -> asking    acquire: the message is old, does not suffice, or evicts
//	queued   + poll       -> asking    acquire, which renews unless the token has ended
//	queued   + giving up  -> idle      cancel
//	draining + message    -> granted
//	draining + message    -> draining
//	draining + message    -> asking    acquire: the message is old, does not suffice, or evicts
//	draining + timer      -> asking    acquire, which renews
//	draining + giving up  -> idle      cancel
//	granted  + release    -> idle      release
//	granted  + loss       -> idle      cancel, if a request may arrive late
//
// A reply, message or poll about a token that is no longer the contender's changes nothing, except that the token is
// cancelled. While it is asking, a contender may send several acquires: after a missing reply, after a subscription
// that it needed first, after a grant that came too late, and after a message that overtook the reply to the acquire.
// With waiters left, a contender that becomes idle starts again.
//
// # Leases
//
// A grant gives the lock to one waiter as a hold. The hold has one lease for the caller and one for each re-entry; it
// is released with the last of them. Within one grant the lock may be passed on to further waiters, at most
// [Options.Cohort] in all; each has a hold of its own, which is active from then on.
//
//	active   -> ended   its last entry is released and a waiter is served
//	active   -> ended   its last entry is released: release
//	active   -> ended   the engine is closed: release
//	active   -> lost    its end has come, or a renewal finds another owner: cancel, if a request may arrive late
//	ended    -> lost    the release finds another owner
//
// A hold ends, whatever Redis says, when the time is over for which it was last confirmed. That time counts from the
// sending of the request that confirmed it.
//
// # Late requests
//
// A request may arrive at Redis long after its caller has stopped waiting for the reply, even after the lock was held
// and released. No such request may queue a token that has no waiter, or make it an owner. There is one rule:
//
//   - Every script that queues a token or makes it an owner checks the tombstone of that token first. acquire.lua,
//     rw_read.lua and rw_write.lua check that of their token, poll.lua and rw_poll.lua that of each of theirs,
//     release.lua that of the token that it queues. The other scripts grant the lock only to tokens in the queue, which
//     have none: a cancel writes the tombstone and removes the token from the queue in one script. raise.lua and the
//     renewals require that the token is the owner.
//   - An attempt with a request that was not answered, or that the client may have sent twice (see [New]), is
//     cancelled, once, when it ends: after the release if its lock was held, else at once. The cancel writes the
//     tombstone; the release of a read writes it itself. If a poll is in flight when the attempt ends, its outcome
//     triggers the cancel. A cancel that fails is repeated, see cleanup.go. An acquire that still waits to be sent when
//     its attempt ends is withdrawn; if it was the first request of the attempt, no cancel is needed.
//
// An acquire that a message has overtaken has reached Redis, because it queued the token. It may only arrive later if
// it was not the first of its attempt. Redis also remembers the token of the last release, so that a duplicate is
// recognized without a tombstone, and a repeated release gets the same answer.
package handoff
