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

// longestPoll is the longest time between two polls of a key. It is shorter than the grant timeout, so that a grant whose
// message was lost is found in time, and half of the time for which Redis keeps a queue (fence.lua) at most.
func (e *Engine) longestPoll() time.Duration { return min(e.grantTimeout*4/5, time.Minute) }

// nextPoll is the time until the next poll of a key. If the owner's TTL is known, the poll comes soon after it runs out. The time is random,
// by an eighth: otherwise polls of many keys that began together, or were all late, would stay together.
func (e *Engine) nextPoll(ttl time.Duration) time.Duration {
	d := e.longestPoll()
	d -= rand.N(d / 8)
	if ttl > 0 {
		d = min(d, ttl+rand.N(ttl/8+10*time.Millisecond))
	}
	return max(d, 10*time.Millisecond)
}

// watch adds a contender that has queued; ttl is the owner's.
func (e *Engine) watch(c *contender, ttl time.Duration) {
	p := e.pollers[c.key]
	if p == nil {
		p = &poller{key: c.key, suffix: e.channelSuffix(c.key)}
		p.alarm.poller, p.place.member = p, p
		e.pollers[c.key] = p
		if e.byChannel[p.suffix] == nil {
			e.byChannel[p.suffix] = &fifo[poller]{}
		}
		e.byChannel[p.suffix].push(&p.place)
	}
	p.contenders.push(&c.place)
	e.pollNoLaterThan(p, e.now()+e.nextPoll(ttl))
}

// pollNoLaterThan polls a key, unless its next poll is early enough, or in flight. The mutex is held.
func (e *Engine) pollNoLaterThan(p *poller, at time.Duration) {
	if !p.inFlight && (p.alarm.index == 0 || p.alarm.at > at) {
		e.schedule(&p.alarm, at)
	}
}

func (e *Engine) unwatch(c *contender) {
	p := e.pollers[c.key]
	if p == nil {
		return
	}
	p.contenders.remove(&c.place)
	if p.contenders.size == 0 {
		e.unschedule(&p.alarm)
		delete(e.pollers, c.key)
		q := e.byChannel[p.suffix]
		q.remove(&p.place)
		if q.size == 0 {
			delete(e.byChannel, p.suffix)
		}
	}
}

// pollAll polls the keys whose messages come through the channel with the suffix tail: messages may have been missed before the channel was
// subscribed (again). The polls of thousands of keys are spread over a while.
func (e *Engine) pollAll(tail string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	q := e.byChannel[tail]
	if q == nil {
		return
	}
	now := e.now()
	spread := time.Duration(q.size) * pollSpread
	for p := range q.all() {
		e.pollNoLaterThan(p, now+rand.N(spread))
	}
}

// pollSize bounds the waiters of one poll, and pollBurst the polls of one tick. pollSpread is the mean time between two polls of pollAll.
const (
	pollSize   = 500
	pollBurst  = 250
	pollSpread = 40 * time.Microsecond
)

// pollDue handles the polls that are due, the oldest first, and leaves what exceeds one burst to the next tick. The mutex is held.
func (e *Engine) pollDue(now time.Duration) {
	for n := 0; n < pollBurst && len(e.polls) > 0 && e.polls[0].at <= now; n++ {
		a := e.polls[0]
		e.unschedule(a)
		switch {
		case a.poller != nil:
			e.poll(a.poller)
		case a == &e.cleanupAlarm:
			e.spawn(e.cleanAll)
		case a.contender.state == draining:
			e.reacquire(a.contender, byTimer)
		}
	}
}

// poll sends one command for all contenders of a key. The mutex is held.
func (e *Engine) poll(p *poller) {
	if p.inFlight {
		return
	}
	p.inFlight = true
	e.unschedule(&p.alarm)
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
		r := newRequest(enginePoll)
		for i, token := range tokens {
			if keys := scriptKeys(p.key, token); i == 0 {
				r.key(keys[:]...)
			} else {
				r.key(keys[4])
			}
		}
		if slices.ContainsFunc(contenders, func(c *contender) bool { return c.mode.shares() }) {
			r.script = engineRWPoll
			r.key(readersKey(p.key))
		}
		r.add(tokens[0], e.ttl, e.route).add(tokens[1:]...)
		if r.err = e.subscriber.awaitSubscribed(ctx, p.key); r.err == nil {
			e.do(r)
		}
		a := e.parse(r.reply, r.sent, r.err)
		a.late = r.late
		e.onPoll(p, contenders, tokens, a)
	})
}

// onPoll handles the outcome of a poll: one of the contenders may own the lock now, or several readers, and some may have been evicted.
func (e *Engine) onPoll(p *poller, contenders []*contender, tokens []string, a answer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p.noteOutcome(a.err)
	found := strings.Fields(a.token)
	vanished := a.err == nil && len(found) == 0 && a.fence > unqueued(contenders, tokens)
	for i, c := range contenders {
		e.cancelLatePoll(c, p.key, tokens[i], a)
		switch {
		case c.token != tokens[i] || c.state != queued:
		case p.failures >= maxTries:
			e.failWaiters(c, unavailable(a.err), true)
		case a.err != nil:
		case slices.Contains(found, c.token):
			e.missed(c)
			e.reacquire(c, byPoll) // an acquire renews, and does all that a grant needs; or it learns that the token has ended
		default:
			if vanished { // or it was skipped, because its process was not subscribed
				e.missed(c)
			}
			c.confirmedAt, c.serverTime = a.sent, a.time
		}
	}
	e.scheduleNext(p, contenders, a.ttl)
}

// unqueued counts the attempts that were served or given up since their poll was sent: they may be those that had vanished from the queue.
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

// scheduleNext sets the time of the next poll after one of polled. Contenders that it left out come first then. The mutex is held.
func (e *Engine) scheduleNext(p *poller, polled []*contender, ttl time.Duration) {
	if e.pollers[p.key] != p {
		return
	}
	if p.contenders.size > len(polled) {
		for _, c := range polled {
			if p.contenders.remove(&c.place) {
				p.contenders.push(&c.place)
			}
		}
	}
	e.schedule(&p.alarm, e.now()+e.nextPoll(ttl))
}

// missed reports that a message for c was lost after c was last seen in the queue. The mutex is held.
func (e *Engine) missed(c *contender) {
	e.report(messageMissed, c.key, nil)
	key, since := c.key, c.confirmedAt
	e.spawn(func() { e.subscriber.missed(key, since) })
}

// cancelLatePoll cancels the token of an attempt that ended while a poll of it was in flight: the poll may have queued it after the release,
// or, if it was not answered, may still do so. An attempt that goes on is cancelled at its end if a poll was not answered. The mutex is held.
func (e *Engine) cancelLatePoll(c *contender, key, token string, a answer) {
	unanswered := a.err != nil || a.late
	switch {
	case c.token == token:
		c.mayArriveLate = c.mayArriveLate || unanswered
	case unanswered: // after its release, which may be in flight
		e.spawn(func() { e.cleanLater(key, token, e.now(), nil) })
	default:
		e.spawn(func() { e.sendCancel(key, token) })
	}
}
