package lock

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// engineChannel begins the name of every channel of an engine; the process's id follows.
const engineChannel = "lock:engine:"

// posts receive the messages to this process: one connection, in a cluster one for each master whose locks are waited for.
type posts struct {
	e      *Engine
	own    string // channel, or the beginning of its name
	mu     sync.Mutex
	byNode map[string]*post
	closed bool
	rested time.Duration // when a connection was last given up for having missed a message
}

// post listens at one node.
type post struct {
	node     func() *redis.PubSub
	ps       *redis.PubSub
	channels map[string]*channel
	swept    time.Duration
	changed  chan struct{} // closed when a channel has changed
	done     chan struct{}
	doubted  bool // it missed a message, and is to be replaced
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

// join returns when messages about key are heard.
func (p *posts) join(ctx context.Context, key string) error {
	at, node, err := p.at(ctx, key)
	if err != nil {
		return err
	}
	name := p.channel(key)
	for {
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
			p.subscribe(ps, name)
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
	o := &post{channels: map[string]*channel{}, swept: p.e.now(), changed: make(chan struct{}), done: make(chan struct{})}
	o.node = func() *redis.PubSub {
		if p.e.publish == "SPUBLISH" {
			return node.SSubscribe(context.Background())
		}
		return node.Subscribe(context.Background())
	}
	o.ps = o.node()
	p.byNode[at] = o
	go p.listen(o)
	return o
}

// subscribe adds channels; an error reconnects, and subscribes again.
func (p *posts) subscribe(ps *redis.PubSub, channels ...string) {
	if p.e.publish == "SPUBLISH" {
		for _, c := range channels { // each may be of another slot
			_ = ps.SSubscribe(context.Background(), c)
		}
		return
	}
	_ = ps.Subscribe(context.Background(), channels...)
}

// postRest is how often a listener looks whether its connection is doubted; that costs no command.
const postRest = 2 * time.Second

// listen receives until the posts are closed. It never waits for a lock of the engine's longer than a moment.
func (p *posts) listen(o *post) {
	defer close(o.done)
	for wait := time.Millisecond; ; {
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
		p.sweep(o)
		event, err := ps.ReceiveTimeout(context.Background(), postRest)
		switch event := event.(type) {
		case *redis.Message:
			p.read(event.Payload)
		case *redis.Subscription:
			wait = time.Millisecond
			p.confirm(o, event.Channel, strings.HasSuffix(event.Kind, "unsubscribe"))
		}
		var quiet net.Error
		if err == nil || errors.As(err, &quiet) && quiet.Timeout() {
			continue
		}
		p.unconfirm(o)
		time.Sleep(wait)
		wait = min(2*wait, time.Second)
	}
}

// sweep leaves the channels of a cluster that nobody has waited for lately: there is one for each hash tag. Who waits uses its
// channel with every look-out, which comes in less than a claim.
func (p *posts) sweep(o *post) {
	rest := 5 * p.e.claim
	if now := p.e.now(); p.e.publish == "SPUBLISH" && now-o.swept >= rest {
		p.mu.Lock()
		o.swept = now
		var idle []string
		for name, c := range o.channels {
			if c.heard && now-c.used >= rest {
				idle = append(idle, name)
				delete(o.channels, name)
			}
		}
		ps := o.ps
		p.mu.Unlock()
		for _, name := range idle { // a subscription that overtakes this is made anew when the server says that it ended
			_ = ps.SUnsubscribe(context.Background(), name)
		}
	}
}

// unconfirm notes that nothing is heard until the server confirms it again; the client subscribes anew by itself.
func (p *posts) unconfirm(o *post) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range o.channels {
		c.heard = false
	}
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
	p.subscribe(ps, channels...)
}

// confirm notes that a channel is heard, or no longer, and looks after the waiters: they may have missed something.
func (p *posts) confirm(o *post, name string, ended bool) {
	p.mu.Lock()
	if c := o.channels[name]; ended {
		delete(o.channels, name)
	} else if c != nil {
		c.heard, c.since = true, p.e.now()
	}
	close(o.changed)
	o.changed = make(chan struct{})
	p.mu.Unlock()
	p.e.lookAll()
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

// missed gives up connections that did not bring a message about key that was sent, although they have been listening since:
// one side may believe in them alone. Their own goroutine closes them: a client that is connecting anew would hold up whoever
// else tried.
func (p *posts) missed(key string, since time.Duration) {
	const rest = 10 * time.Second
	p.mu.Lock()
	defer p.mu.Unlock()
	name, now := p.channel(key), p.e.now()
	if p.rested > 0 && now-p.rested <= rest {
		return
	}
	for _, o := range p.byNode {
		if c := o.channels[name]; c != nil && c.heard && c.since <= since {
			p.rested, o.doubted = now, true
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
		<-o.done
	}
}
