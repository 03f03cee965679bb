package handoff

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// postRest is how often a listener looks whether its connection is doubted; that costs no command.
const postRest = 2 * time.Second

// listen receives until the posts are closed. It never waits for a lock of the engine's longer than a moment.
func (p *posts) listen(o *post) {
	for wait := time.Millisecond; ; {
		if p.sweep(o) {
			return
		}
		p.mu.Lock()
		ps, closed, doubted := o.ps, p.closed, o.doubted
		p.mu.Unlock()
		if closed {
			return
		}
		if doubted {
			p.replace(o)
			continue
		}
		event, err := ps.ReceiveTimeout(context.Background(), postRest)
		switch event := event.(type) {
		case *redis.Message:
			p.read(event.Payload)
		case *redis.Subscription:
			wait = time.Millisecond
			p.confirm(o, event.Channel, strings.HasSuffix(event.Kind, "unsubscribe"))
		}
		var quiet net.Error
		var said redis.Error
		switch {
		case err == nil || errors.As(err, &quiet) && quiet.Timeout():
			continue
		case errors.As(err, &said):
			if p.refused(o, err) {
				continue
			}
		default:
			p.unconfirm(o)
		}
		time.Sleep(wait)
		wait = min(2*wait, 500*time.Millisecond)
	}
}

// sweep unsubscribes from the channels of a cluster that no waiter has used lately: there is one channel for each hash tag, and a waiter
// uses its channel with every poll, more often than once per grant timeout. If no channel is left, sweep also closes the connection,
// because the node may be gone, and returns true.
func (p *posts) sweep(o *post) (left bool) {
	rest, now := 5*p.e.claim, p.e.now()
	if p.e.publish == "PUBLISH" || now-o.swept < rest {
		return false
	}
	p.mu.Lock()
	o.swept = now
	var idle []string
	for name, c := range o.channels {
		if now-c.used >= rest {
			delete(o.channels, name)
			if c.heard {
				idle = append(idle, name)
			} else { // a caller may still wait for it, and must join again
				close(o.changed)
				o.changed = make(chan struct{})
			}
		}
	}
	ps := o.ps
	if left = len(o.channels) == 0; left {
		delete(p.byNode, o.at)
	}
	p.mu.Unlock()
	if left {
		_ = ps.Close()
		return true
	}
	for _, name := range idle { // a subscription that overtakes this is repeated when the server says that it ended
		_ = ps.SUnsubscribe(context.Background(), name)
	}
	return false
}

// unconfirm marks all channels as not confirmed until the server confirms them again. The client resubscribes by itself. In a cluster it
// does so with all channels in one command, which is refused if their slots differ: there the connection is replaced.
func (p *posts) unconfirm(o *post) {
	p.mu.Lock()
	for _, c := range o.channels {
		c.heard = false
	}
	cluster, first := p.e.publish == "SPUBLISH", !o.broken
	o.broken, o.doubted = true, o.doubted || cluster
	p.mu.Unlock()
	if cluster && first { // the node may never come back: the renewals find its successor
		p.e.reconnected(o.at)
	}
}

// refused forgets the channels that the server has not confirmed, because it does not say which of them it refuses. Their callers join
// again, in a cluster maybe at another node. It returns false if no channel is confirmed: then the connection itself may have been refused.
func (p *posts) refused(o *post, err error) (heard bool) {
	p.e.moved(err)
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, c := range o.channels {
		if !c.heard {
			delete(o.channels, name)
		}
	}
	close(o.changed)
	o.changed = make(chan struct{})
	return len(o.channels) > 0
}

// replace makes a new connection with the channels of the old one.
func (p *posts) replace(o *post) {
	p.unconfirm(o)
	p.mu.Lock()
	old, ps, channels := o.ps, o.node(), slices.Collect(maps.Keys(o.channels))
	o.doubted = false
	closed := p.closed
	if !closed {
		o.ps = ps
	}
	p.mu.Unlock()
	_ = old.Close()
	if closed {
		_ = ps.Close()
		return
	}
	if err := p.subscribe(ps, channels...); err != nil {
		p.unconfirm(o)
		time.Sleep(time.Second)
	}
}

// confirm notes that a channel is subscribed, or no longer, and has its keys polled: messages may have been missed.
func (p *posts) confirm(o *post, name string, ended bool) {
	p.mu.Lock()
	if c := o.channels[name]; ended {
		delete(o.channels, name)
	} else if c != nil {
		c.heard, c.since = true, p.e.now()
	}
	again := o.broken && !ended
	o.broken = o.broken && ended
	close(o.changed)
	o.changed = make(chan struct{})
	p.mu.Unlock()
	if again {
		p.e.reconnected(o.at)
	}
	p.e.pollAll(strings.TrimPrefix(name, p.own))
}

// read takes a message: token, fence with the mark of what it grants, server time, key.
func (p *posts) read(message string) {
	part := strings.SplitN(message, " ", 4)
	if len(part) != 4 {
		return
	}
	digits := strings.TrimLeft(part[1], marks)
	mark := part[1][:len(part[1])-len(digits)]
	fence, err := strconv.ParseUint(digits, 10, 64)
	at, bad := strconv.ParseInt(part[2], 10, 64)
	if err == nil && bad == nil {
		p.e.pushed(part[0], mark, fence, at, part[3])
	}
}
