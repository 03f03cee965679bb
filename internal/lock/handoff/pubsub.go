package handoff

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// engineChannel begins the name of every channel of an engine; the process's id follows.
const engineChannel = "lock:engine:"

// posts receive the messages to this process: one connection, in a cluster one for each master whose locks are waited for.
type posts struct {
	e       *Engine
	own     string // channel, or the beginning of its name
	mu      sync.Mutex
	byNode  map[string]*post
	closed  bool
	running sync.WaitGroup
}

// post listens at one node.
type post struct {
	at       string // its place in byNode
	node     func() *redis.PubSub
	ps       *redis.PubSub
	channels map[string]*channel
	swept    time.Duration
	changed  chan struct{} // closed when a channel has changed
	broken   bool          // its connection was lost, and no channel has been confirmed since
	doubted  bool          // it missed a message, or was lost, and is to be replaced
	rested   time.Duration // when it was last given up for having missed a message
}

// channel is one that is subscribed to.
type channel struct {
	heard bool          // the server has confirmed it, on this connection
	since time.Duration // when it did
	used  time.Duration // when somebody last waited for a message through it
}

func (p *posts) init(e *Engine) { p.e, p.byNode, p.own = e, map[string]*post{}, engineChannel+e.id }

// channel is where messages about key come.
func (p *posts) channel(key string) string { return p.own + p.e.tail(key) }

// tail ends a channel's name: in a cluster with the hash tag of the key, so that both live at the same node.
func (e *Engine) tail(key string) string {
	if e.publish == "PUBLISH" {
		return ""
	}
	return ":{" + hashed(key) + "}"
}

// moved makes the client of a cluster reload which node has which slot, if err says that another node has the key.
func (e *Engine) moved(err error) {
	if c, ok := e.c.(*redis.ClusterClient); ok && redis.HasErrorPrefix(err, "MOVED") {
		c.ReloadState(context.Background())
	}
}

// node is the client of the master that has key.
func (e *Engine) node(ctx context.Context, key string) (redis.UniversalClient, error) {
	if c, ok := e.c.(*redis.ClusterClient); ok {
		return c.MasterForKey(ctx, key)
	}
	return e.c, nil
}

// at names the node for key, "" where there is only one.
func (p *posts) at(ctx context.Context, key string) (string, redis.UniversalClient, error) {
	node, err := p.e.node(ctx, key)
	if c, ok := node.(*redis.Client); ok && err == nil && p.e.publish == "SPUBLISH" {
		return c.Options().Addr, node, nil
	}
	return "", node, err
}

// listening says whether a message about key would be heard now. It is asked with the engine's mutex held: a cluster's client
// that has not yet met its cluster would wait for it.
func (p *posts) listening(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.byNode) == 0 {
		return false
	}
	at, _, err := p.at(context.Background(), key)
	o := p.byNode[at]
	if err != nil || o == nil {
		return false
	}
	c := o.channels[p.channel(key)]
	if c == nil {
		return false
	}
	c.used = p.e.now()
	return c.heard
}

// join returns when messages about key are heard. Where a server refuses that, it tries again: another may have the key now.
func (p *posts) join(ctx context.Context, key string) error {
	name := p.channel(key)
	for rest := time.Duration(0); ; {
		at, node, err := p.at(ctx, key)
		if err != nil {
			return err
		}
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			return ErrClosed
		}
		o := p.byNode[at]
		if o == nil {
			o = p.open(at, node)
		}
		c := o.channels[name]
		known := c != nil
		if !known {
			c = &channel{}
			o.channels[name] = c
		}
		c.used = p.e.now()
		ps, changed, heard := o.ps, o.changed, c.heard
		p.mu.Unlock()
		if heard {
			return nil
		}
		if !known {
			time.Sleep(rest)
			rest = min(2*rest+tryPause, 100*time.Millisecond)
			_ = p.subscribe(ps, name) // an error is the listener's as well
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// open begins to listen at a node.
func (p *posts) open(at string, node redis.UniversalClient) *post {
	o := &post{at: at, channels: map[string]*channel{}, swept: p.e.now(), changed: make(chan struct{})}
	o.node = func() *redis.PubSub {
		if p.e.publish == "SPUBLISH" {
			return node.SSubscribe(context.Background())
		}
		return node.Subscribe(context.Background())
	}
	o.ps = o.node()
	p.byNode[at] = o
	p.running.Go(func() { p.listen(o) })
	return o
}

// subscribe adds channels; after an error whoever listens subscribes again.
func (p *posts) subscribe(ps *redis.PubSub, channels ...string) error {
	if p.e.publish == "PUBLISH" {
		return ps.Subscribe(context.Background(), channels...)
	}
	for _, c := range channels { // each may be of another slot
		if err := ps.SSubscribe(context.Background(), c); err != nil {
			return err
		}
	}
	return nil
}

// missed marks the connections that were subscribed and yet did not bring a message about key that was sent: such a connection may be
// half-open. The goroutine that listens on it replaces it, because closing it while the client reconnects would block any other caller.
func (p *posts) missed(key string, since time.Duration) {
	const rest = 10 * time.Second
	p.mu.Lock()
	defer p.mu.Unlock()
	name, now := p.channel(key), p.e.now()
	for _, o := range p.byNode {
		if o.rested > 0 && now-o.rested <= rest {
			continue
		}
		if c := o.channels[name]; c != nil && c.heard && c.since <= since {
			o.rested, o.doubted = now, true
		}
	}
}

// close ends the listening and waits for it.
func (p *posts) close() {
	p.mu.Lock()
	p.closed = true
	all := slices.Collect(maps.Values(p.byNode))
	p.mu.Unlock()
	for _, o := range all {
		p.mu.Lock()
		ps := o.ps
		p.mu.Unlock()
		_ = ps.Close()
	}
	p.running.Wait()
}
