package handoff

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// engineChannel begins the name of every channel of an engine, after [Options.Prefix]; the process's id follows.
const engineChannel = "lock:engine:"

// subscriber receives the messages to this process: through one connection, in a cluster through one for each master
// that has locks with waiters of this process.
type subscriber struct {
	e       *Engine
	prefix  string // channel, or the beginning of its name
	mu      sync.Mutex
	byNode  map[string]*nodeSubscriber
	closed  bool
	running sync.WaitGroup
}

// nodeSubscriber is the subscriber's connection to one node.
type nodeSubscriber struct {
	addr         string // its key in byNode
	connect      func() *redis.PubSub
	ps           *redis.PubSub
	channels     map[string]*channel
	sweptAt      time.Duration
	changed      chan struct{} // closed when a channel has changed
	disconnected bool          // its connection was lost, and no channel has been confirmed since
	suspect      bool          // it missed a message, or was lost, and must be replaced
	suspectedAt  time.Duration // when it last became suspect because of a missed message
	refusal      error         // why the server last refused a subscription; nil once it has confirmed one
}

// channel is a subscription to one channel.
type channel struct {
	confirmed bool          // the server has confirmed it on this connection
	since     time.Duration // when it did
	used      time.Duration // when a contender last needed it
}

// wake has those who wait for a channel look again. The subscriber's mutex is held.
func (n *nodeSubscriber) wake() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// channel returns the name of the channel for messages about key.
func (s *subscriber) channel(key string) string { return s.prefix + s.suffix(key) }

// suffix returns the end of a channel's name: in a cluster the hash tag of the key, so that key and channel are at the
// same node.
func (s *subscriber) suffix(key string) string {
	if !s.e.server.cluster() {
		return ""
	}
	return ":{" + hashed(key) + "}"
}

// locate returns the address of the node that has key ("" if there is only one server) and its client.
func (s *subscriber) locate(ctx context.Context, key string) (string, redis.UniversalClient, error) {
	node, err := s.e.server.node(ctx, key)
	if c, ok := node.(*redis.Client); ok && err == nil && s.e.server.cluster() {
		return c.Options().Addr, node, nil
	}
	return "", node, err
}

// subscribed says whether a message about key would be received now. It is called with the engine's mutex held, so it
// asks the client for a node only if there is a connection: a cluster client that does not know its cluster yet would
// block.
func (s *subscriber) subscribed(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byNode) == 0 {
		return false
	}
	at, _, err := s.locate(context.Background(), key)
	n := s.byNode[at]
	if err != nil || n == nil {
		return false
	}
	c := n.channels[s.channel(key)]
	if c == nil {
		return false
	}
	c.used = s.e.now()
	return c.confirmed
}

// awaitSubscribed subscribes to messages about key and returns when the server has confirmed that. If a server refuses,
// it tries again: another node may have the key now; but not if the user lacks the right.
func (s *subscriber) awaitSubscribed(ctx context.Context, key string) error {
	name := s.channel(key)
	for rest := time.Duration(0); ; {
		at, node, err := s.locate(ctx, key)
		if err != nil {
			return err
		}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return ErrClosed
		}
		n := s.byNode[at]
		if n == nil {
			n = s.open(at, node)
		}
		c := n.channels[name]
		known := c != nil
		if !known {
			c = &channel{}
			n.channels[name] = c
		}
		c.used = s.e.now()
		ps, changed, heard := n.ps, n.changed, c.confirmed
		s.mu.Unlock()
		if heard {
			return nil
		}
		if !known {
			time.Sleep(rest)
			rest = min(2*rest+tryPause, 100*time.Millisecond)
			_ = s.subscribe(ps, name) // the listener gets the same error
		}
		var ended error
		select {
		case <-changed:
		case <-ctx.Done():
			ended = ctx.Err()
		}
		s.mu.Lock()
		refusal := n.refusal
		s.mu.Unlock()
		switch {
		case rightsMissing(refusal):
			return refusal
		case ended != nil && refusal != nil:
			return fmt.Errorf("%w: %w", ended, refusal)
		case ended != nil:
			return ended
		}
	}
}

// open connects to a node and starts its listener.
func (s *subscriber) open(at string, node redis.UniversalClient) *nodeSubscriber {
	n := &nodeSubscriber{addr: at, channels: map[string]*channel{}, sweptAt: s.e.now(), changed: make(chan struct{})}
	n.connect = func() *redis.PubSub {
		if s.e.server.cluster() {
			return node.SSubscribe(context.Background())
		}
		return node.Subscribe(context.Background())
	}
	n.ps = n.connect()
	s.byNode[at] = n
	s.running.Go(func() { s.listen(n) })
	return n
}

// subscribe adds channels; after an error the listener subscribes again.
func (s *subscriber) subscribe(ps *redis.PubSub, channels ...string) error {
	if !s.e.server.cluster() {
		return ps.Subscribe(context.Background(), channels...)
	}
	for _, c := range channels { // each may belong to another slot
		if err := ps.SSubscribe(context.Background(), c); err != nil {
			return err
		}
	}
	return nil
}

// missed marks the connections that were subscribed and yet did not bring a message about key that was sent: such a
// connection may be half-open. The goroutine that listens on it replaces it, because closing it while the client
// reconnects would block any other caller.
func (s *subscriber) missed(key string, since time.Duration) {
	const rest = 10 * time.Second
	s.mu.Lock()
	defer s.mu.Unlock()
	name, now := s.channel(key), s.e.now()
	for _, n := range s.byNode {
		if n.suspectedAt > 0 && now-n.suspectedAt <= rest {
			continue
		}
		if c := n.channels[name]; c != nil && c.confirmed && c.since <= since {
			n.suspectedAt, n.suspect = now, true
		}
	}
}

// close ends all listeners and waits for them.
func (s *subscriber) close() {
	s.mu.Lock()
	s.closed = true
	all := slices.Collect(maps.Values(s.byNode))
	s.mu.Unlock()
	for _, n := range all {
		s.mu.Lock()
		ps := n.ps
		s.mu.Unlock()
		_ = ps.Close()
	}
	s.running.Wait()
}
