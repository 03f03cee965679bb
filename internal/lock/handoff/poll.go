package handoff

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/lock/lease"
)

// poller polls one key for the lines of this process that are in its queue, in case a message is lost.
type poller struct {
	lines  fifo[line] // in the order in which they queued
	alarm  alarm
	key    string
	queue  string        // Keys.Queue
	tail   string        // suffix of the channel that carries its messages
	place  place[poller] // among the keys of that channel
	polled time.Duration // when it was last polled alone
	failed int
	busy   bool
}

// longestPoll is the longest time between two polls of a key. It is shorter than the grant timeout, so that a grant whose message was lost is
// found in time.
func (e *Engine) longestPoll() time.Duration { return e.claim * 4 / 5 }

// nextPoll is the time until the next poll of a key. If the owner's TTL is known, the poll comes soon after it runs out. With many keys
// the time is random, within 20 % of its mean: otherwise polls that began together, or were all late, would stay together.
func (e *Engine) nextPoll(ttl time.Duration) time.Duration {
	d := e.longestPoll()
	if len(e.pollers) > fewPolls {
		d -= rand.N(d / 3)
	}
	if ttl > 0 {
		d = min(d, ttl+rand.N(ttl/8+10*time.Millisecond))
	}
	return max(d, 10*time.Millisecond)
}

// watch adds a line that has queued; ttl is the owner's.
func (e *Engine) watch(l *line, ttl time.Duration) {
	k := e.pollers[l.key]
	if k == nil {
		k = &poller{key: l.key, queue: scriptKeys(l.key, "")[1], tail: e.tail(l.key), polled: e.now()}
		k.alarm.poller, k.place.member = k, k
		e.pollers[l.key] = k
		if e.byChannel[k.tail] == nil {
			e.byChannel[k.tail] = &fifo[poller]{}
		}
		e.byChannel[k.tail].push(&k.place)
	}
	k.lines.push(&l.place)
	if at := e.now() + e.nextPoll(ttl); !k.busy && (k.alarm.index == 0 || k.alarm.at > at) {
		e.schedule(&k.alarm, at)
	}
}

func (e *Engine) unwatch(l *line) {
	k := e.pollers[l.key]
	if k == nil {
		return
	}
	k.lines.remove(&l.place)
	if k.lines.size == 0 {
		e.unschedule(&k.alarm)
		delete(e.pollers, l.key)
		q := e.byChannel[k.tail]
		if q.remove(&k.place); q.size == 0 {
			delete(e.byChannel, k.tail)
		}
	}
}

// pollAll polls the keys whose messages come through the channel with the suffix tail: messages may have been missed before the channel was
// subscribed (again). Thousands of keys are polled one after the other, as fast as polls may be sent.
func (e *Engine) pollAll(tail string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	q := e.byChannel[tail]
	if q == nil {
		return
	}
	now := e.now()
	spread := time.Duration(q.size)*e.pollGap()/pollBurst + 1
	for k := range q.all() {
		if at := now + rand.N(spread); !k.busy && (k.alarm.index == 0 || k.alarm.at > at) {
			e.schedule(&k.alarm, at)
		}
	}
}

// pollSize bounds the waiters of one poll.
const pollSize = 500

// poll sends one command for all lines of a key. The mutex is held.
func (e *Engine) poll(k *poller) {
	if k.busy {
		return
	}
	k.busy, k.polled = true, e.now()
	e.unschedule(&k.alarm)
	// The rest, if any, has its turn when some of these have had theirs: Lua takes only so many values at once.
	var lines []*line
	var tokens []string
	for l := range k.lines.all() {
		if lines, tokens = append(lines, l), append(tokens, l.token); len(lines) == pollSize {
			break
		}
	}
	e.spawn(func() {
		ctx, cancel := lease.Detached(context.Background())
		defer cancel()
		c := newCall(enginePoll)
		for i, token := range tokens {
			if keys := scriptKeys(k.key, token); i == 0 {
				c.key(keys[:]...)
			} else {
				c.key(keys[4])
			}
		}
		if slices.ContainsFunc(lines, func(l *line) bool { return l.mode.shares() }) {
			c.script = engineRWPoll
			c.key(readersKey(k.key))
		}
		c.add(tokens[0], e.ttl, e.publish).add(tokens[1:]...).add(e.keep)
		if c.err = e.posts.join(ctx, k.key); c.err == nil {
			e.call(c)
		}
		a := e.parse(c.reply, c.sent, c.err)
		a.resent = c.tries > 1
		e.onPoll(k, lines, tokens, a)
	})
}

// onPoll takes what a poll found: one of the lines may have the lock.
func (e *Engine) onPoll(k *poller, lines []*line, tokens []string, a answer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	k.busy = false
	if k.failed++; a.err == nil {
		k.failed = 0
	}
	has, gone := strings.Fields(a.token), uint64(0)
	for i, l := range lines {
		if l.token != tokens[i] || l.phase != queued {
			gone++ // served meanwhile, or given up: it may be one of those that had vanished from the queue
		}
	}
	for i, l := range lines {
		switch {
		case a.err != nil || a.resent:
			e.stray(l, k.key, tokens[i])
		case l.token != tokens[i]: // its release may have come before the poll, which then queued for nobody
			e.spawn(func() { e.sendCancel(k.key, tokens[i]) })
		}
		switch {
		case l.token != tokens[i] || l.phase != queued:
		case k.failed >= tries:
			e.empty(l, fmt.Errorf("%w: engine: %w", lock.ErrUnavailable, a.err), true)
		case a.err == nil && slices.Contains(has, l.token):
			e.missed(l)
			e.askAgain(l) // which renews, and does all that a grant needs
		case a.err == nil:
			if len(has) == 0 && a.fence > gone { // or it was passed over, as one that does not listen
				e.missed(l)
			}
			l.asked, l.serverTime = a.sent, a.time
		}
	}
	if e.pollers[k.key] == k {
		if k.lines.size > len(lines) { // the others follow next time
			for _, l := range lines {
				if k.lines.remove(&l.place) {
					k.lines.push(&l.place)
				}
			}
		}
		e.schedule(&k.alarm, e.now()+e.nextPoll(a.ttl))
	}
}

// missed says that a message for l went astray, since it was seen in the queue. The mutex is held.
func (e *Engine) missed(l *line) {
	key, since := l.key, l.asked
	e.spawn(func() { e.posts.missed(key, since) })
}

// stray notes that a poll for a token may yet arrive, and queue for it: for l, or for what was l's attempt when it was sent.
// That one is buried later, when its release is over. The mutex is held.
func (e *Engine) stray(l *line, key, token string) {
	if l.token == token {
		l.strays = true
		return
	}
	e.spawn(func() { e.cleanLater(key, token, e.now(), nil) })
}
