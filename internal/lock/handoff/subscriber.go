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

// checkInterval is how often a listener checks whether its connection is suspect; that costs no command.
const checkInterval = 2 * time.Second

// listen receives messages until the subscriber is closed. It never blocks on the engine's mutex for longer than a
// moment.
func (s *subscriber) listen(n *nodeSubscriber) {
	for wait := time.Millisecond; ; {
		if s.sweep(n) {
			return
		}
		s.mu.Lock()
		ps, closed, suspect := n.ps, s.closed, n.suspect
		s.mu.Unlock()
		if closed {
			return
		}
		if suspect {
			s.replace(n)
			continue
		}
		event, err := ps.ReceiveTimeout(context.Background(), checkInterval)
		switch event := event.(type) {
		case *redis.Message:
			s.receive(event.Payload)
		case *redis.Subscription:
			wait = time.Millisecond
			s.onConfirm(n, event.Channel, strings.HasSuffix(event.Kind, "unsubscribe"))
		}
		var quiet net.Error
		var said redis.Error
		switch {
		case err == nil || errors.As(err, &quiet) && quiet.Timeout():
			continue
		case errors.As(err, &said):
			if s.onRefused(n, err) {
				continue
			}
		default:
			s.markUnconfirmed(n)
		}
		time.Sleep(wait)
		wait = min(2*wait, 500*time.Millisecond)
	}
}

// sweep unsubscribes from the channels of a cluster that no waiter has used lately: there is one channel for each hash
// tag, and a waiter uses its channel with every poll, more often than once per grant timeout. If no channel is left,
// sweep also closes the connection, because the node may be gone, and returns true.
func (s *subscriber) sweep(n *nodeSubscriber) (left bool) {
	rest, now := 5*s.e.grantTimeout, s.e.now()
	if !s.e.server.cluster() || now-n.sweptAt < rest {
		return false
	}
	s.mu.Lock()
	n.sweptAt = now
	var idle []string
	for name, c := range n.channels {
		if now-c.used >= rest {
			delete(n.channels, name)
			if c.confirmed {
				idle = append(idle, name)
			} else { // a caller may still wait for it, and must join again
				n.wake()
			}
		}
	}
	ps := n.ps
	left = len(n.channels) == 0
	if left {
		delete(s.byNode, n.addr)
	}
	s.mu.Unlock()
	if left {
		_ = ps.Close()
		return true
	}
	for _, name := range idle { // a subscription that overtakes this is repeated when the server says that it ended
		_ = ps.SUnsubscribe(context.Background(), name)
	}
	return false
}

// markUnconfirmed marks all channels as not confirmed until the server confirms them again. The client resubscribes by
// itself. In a cluster it does so with all channels in one command, which is refused if their slots differ: there the
// connection is replaced.
func (s *subscriber) markUnconfirmed(n *nodeSubscriber) {
	s.mu.Lock()
	for _, c := range n.channels {
		c.confirmed = false
	}
	cluster, first := s.e.server.cluster(), !n.disconnected
	n.disconnected, n.suspect = true, n.suspect || cluster
	s.mu.Unlock()
	if cluster && first { // the node may never come back: the renewals find its successor
		s.e.keeper.reconnected(n.addr)
	}
}

// onRefused removes the channels that the server has not confirmed, because it does not say which of them it refuses.
// Their callers join again, in a cluster maybe at another node. It returns false if no channel is confirmed: then the
// connection itself may have been refused.
func (s *subscriber) onRefused(n *nodeSubscriber, err error) (heard bool) {
	s.e.server.moved(err)
	s.e.log.reportRights(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	n.refusal = err
	for name, c := range n.channels {
		if !c.confirmed {
			delete(n.channels, name)
		}
	}
	n.wake()
	return len(n.channels) > 0
}

// replace makes a new connection with the channels of the old one.
func (s *subscriber) replace(n *nodeSubscriber) {
	s.markUnconfirmed(n)
	s.mu.Lock()
	old, ps, channels := n.ps, n.connect(), slices.Collect(maps.Keys(n.channels))
	n.suspect = false
	closed := s.closed
	if !closed {
		n.ps = ps
	}
	s.mu.Unlock()
	_ = old.Close()
	if closed {
		_ = ps.Close()
		return
	}
	if err := s.subscribe(ps, channels...); err != nil {
		s.markUnconfirmed(n)
		time.Sleep(time.Second)
	}
}

// onConfirm notes that a channel was subscribed, or unsubscribed, and has its keys polled: messages may have been
// missed.
func (s *subscriber) onConfirm(n *nodeSubscriber, name string, ended bool) {
	s.mu.Lock()
	if c := n.channels[name]; ended {
		delete(n.channels, name)
	} else if c != nil {
		c.confirmed, c.since, n.refusal = true, s.e.now(), nil
	}
	again := n.disconnected && !ended
	n.disconnected = n.disconnected && ended
	n.wake()
	s.mu.Unlock()
	if again {
		s.e.log.report(resubscribed, "", nil)
		s.e.keeper.reconnected(n.addr)
	}
	s.e.pollers.pollAll(strings.TrimPrefix(name, s.prefix))
}

// receive parses a message: token, fence after the mark of what it grants, server time, key.
func (s *subscriber) receive(message string) {
	part := strings.SplitN(message, " ", 4)
	if len(part) != 4 {
		return
	}
	digits := strings.TrimLeft(part[1], marks)
	mark := part[1][:len(part[1])-len(digits)]
	fence, err := strconv.ParseUint(digits, 10, 64)
	at, bad := strconv.ParseInt(part[2], 10, 64)
	switch {
	case err != nil || bad != nil:
	case mark == markEvicted:
		s.e.onEvicted(part[0])
	default:
		s.e.onGrantMessage(part[0], mark, fence, at, part[3])
	}
}
