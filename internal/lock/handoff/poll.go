package handoff

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"lastitem/internal/lock"
)

// poller polls one key for the contenders of this process that are in its queue, in case a message is lost.
type poller struct {
	contenders fifo[contender] // in the order in which they queued
	alarm      alarm           // its next poll, unless the poll is in flight
	key        string
	suffix     string        // suffix of the channel that carries its messages
	place      place[poller] // among the keys of that channel
	failures   int
	inFlight   bool
}

// pollers are the keys that waiters of this process are in the queue of. The engine's mutex guards them.
type pollers struct {
	e         *Engine
	byKey     map[string]*poller
	byChannel map[string]*fifo[poller] // the same, by the suffix of the channel that carries their messages
}

// longestPoll is the longest time between two polls of a key. It is shorter than the grant timeout, so that a grant
// whose message was lost is found in time, and half of the time for which Redis keeps a queue (fence.lua) at most.
func (ps *pollers) longestPoll() time.Duration { return min(ps.e.grantTimeout*4/5, time.Minute) }

// next is the time until the next poll of a key. If the owner's TTL is known, the poll comes soon after it runs out.
// The time is random, by an eighth: otherwise polls of many keys that began together, or were all late, would stay
// together.
func (ps *pollers) next(ttl time.Duration) time.Duration {
	d := ps.longestPoll()
	d -= rand.N(d / 8)
	if ttl > 0 {
		d = min(d, ttl+rand.N(ttl/8+10*time.Millisecond))
	}
	return max(d, 10*time.Millisecond)
}

// watch adds a contender that has queued; ttl is the owner's.
func (ps *pollers) watch(c *contender, ttl time.Duration) {
	p := ps.byKey[c.key]
	if p == nil {
		p = &poller{key: c.key, suffix: ps.e.subscriber.suffix(c.key)}
		p.alarm.poller, p.place.member = p, p
		ps.byKey[c.key] = p
		if ps.byChannel[p.suffix] == nil {
			ps.byChannel[p.suffix] = &fifo[poller]{}
		}
		ps.byChannel[p.suffix].push(&p.place)
	}
	p.contenders.push(&c.place)
	ps.pollNoLaterThan(p, ps.e.now()+ps.next(ttl))
}

// pollNoLaterThan polls a key, unless its next poll is early enough, or in flight. The mutex is held.
func (ps *pollers) pollNoLaterThan(p *poller, at time.Duration) {
	if !p.inFlight && (p.alarm.index == 0 || p.alarm.at > at) {
		ps.e.agenda.schedule(&p.alarm, at)
	}
}

func (ps *pollers) unwatch(c *contender) {
	p := ps.byKey[c.key]
	if p == nil {
		return
	}
	p.contenders.remove(&c.place)
	if p.contenders.size == 0 {
		ps.e.agenda.unschedule(&p.alarm)
		delete(ps.byKey, c.key)
		q := ps.byChannel[p.suffix]
		q.remove(&p.place)
		if q.size == 0 {
			delete(ps.byChannel, p.suffix)
		}
	}
}

// pollAll polls the keys whose messages come through the channel with the suffix tail: messages may have been missed
// before the channel was subscribed (again). The polls of thousands of keys are spread over a while.
func (ps *pollers) pollAll(tail string) {
	ps.e.mu.Lock()
	defer ps.e.mu.Unlock()
	q := ps.byChannel[tail]
	if q == nil {
		return
	}
	now := ps.e.now()
	spread := time.Duration(q.size) * pollSpread
	for p := range q.all() {
		ps.pollNoLaterThan(p, now+rand.N(spread))
	}
}

// pollSize bounds the waiters of one poll, and pollBurst the polls of one tick. pollSpread is the mean time between two
// polls of pollAll.
const (
	pollSize   = 500
	pollBurst  = 250
	pollSpread = 40 * time.Microsecond
)

// poll sends one command for all contenders of a key. The mutex is held.
func (ps *pollers) poll(p *poller) {
	if p.inFlight {
		return
	}
	e := ps.e
	p.inFlight = true
	e.agenda.unschedule(&p.alarm)
	// The rest has its turn with the next poll: Lua unpacks only so many values at once.
	var contenders []*contender
	var tokens []string
	for c := range p.contenders.all() {
		contenders, tokens = append(contenders, c), append(tokens, c.token)
		if len(contenders) == pollSize {
			break
		}
	}
	e.spawn(func() {
		ctx, cancel := lock.Detached(context.Background())
		defer cancel()
		m := exclusive
		if slices.ContainsFunc(contenders, func(c *contender) bool { return c.mode.shares() }) {
			m = writing
		}
		r := e.server.newRequest(m.scripts().poll, m, e.server.ttl, p.key, tokens...)
		if r.err = e.subscriber.awaitSubscribed(ctx, p.key); r.err == nil {
			e.server.do(r)
		}
		a := e.server.parse(r.reply, r.sent, r.err)
		a.late = r.late
		ps.onPoll(p, contenders, tokens, a)
	})
}

// onPoll handles the outcome of a poll: one of the contenders may own the lock now, or several readers, and some may
// have been evicted.
func (ps *pollers) onPoll(p *poller, contenders []*contender, tokens []string, a answer) {
	ps.e.mu.Lock()
	defer ps.e.mu.Unlock()
	p.noteOutcome(a.err)
	found := strings.Fields(a.token)
	vanished := a.err == nil && len(found) == 0 && a.fence > unqueued(contenders, tokens)
	for i, c := range contenders {
		ps.cancelLatePoll(c, p.key, tokens[i], a)
		switch {
		case c.token != tokens[i] || c.state != queued:
		case p.failures >= maxTries:
			c.failWaiters(unavailable(a.err), true)
		case a.err != nil:
		case slices.Contains(found, c.token):
			ps.missed(c)
			c.reacquire(byPoll) // an acquire renews, and does all that a grant needs; or it learns that the token has ended
		default:
			if vanished { // or it was skipped, because its process was not subscribed
				ps.missed(c)
			}
			c.confirmedAt, c.serverTime = a.sent, a.time
		}
	}
	ps.scheduleNext(p, contenders, a.ttl)
}

// unqueued counts the attempts that were served or given up since their poll was sent: they may be those that had
// vanished from the queue.
func unqueued(contenders []*contender, tokens []string) (n uint64) {
	for i, c := range contenders {
		if c.token != tokens[i] || c.state != queued {
			n++
		}
	}
	return n
}

// noteOutcome counts the polls of p that failed one after the other.
func (p *poller) noteOutcome(err error) {
	p.inFlight = false
	switch {
	case err == nil:
		p.failures = 0
	case !again(err):
		p.failures++
	}
}

// scheduleNext sets the time of the next poll after one of polled. Contenders that it left out come first then. The
// mutex is held.
func (ps *pollers) scheduleNext(p *poller, polled []*contender, ttl time.Duration) {
	if ps.byKey[p.key] != p {
		return
	}
	if p.contenders.size > len(polled) {
		for _, c := range polled {
			if p.contenders.remove(&c.place) {
				p.contenders.push(&c.place)
			}
		}
	}
	ps.e.agenda.schedule(&p.alarm, ps.e.now()+ps.next(ttl))
}

// missed reports that a message for c was lost after c was last seen in the queue. The mutex is held.
func (ps *pollers) missed(c *contender) {
	e := ps.e
	e.log.report(messageMissed, c.key, nil)
	key, since := c.key, c.confirmedAt
	e.spawn(func() { e.subscriber.missed(key, since) })
}

// cancelLatePoll cancels the token of an attempt that ended while a poll of it was in flight: the poll may have queued
// it after the release, or, if it was not answered, may still do so. An attempt that goes on is cancelled at its end if
// a poll was not answered. The mutex is held.
func (ps *pollers) cancelLatePoll(c *contender, key, token string, a answer) {
	e, unanswered := ps.e, a.err != nil || a.late
	switch {
	case c.token == token:
		c.mayArriveLate = c.mayArriveLate || unanswered
	case unanswered: // after its release, which may be in flight
		e.spawn(func() { e.cleaner.later(key, token, e.now(), nil) })
	default:
		e.spawn(func() { e.cleaner.cancel(key, token) })
	}
}
