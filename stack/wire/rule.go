package wire

import (
	"io"
	"slices"
)

// Rule says what is held: the first command that Match accepts.
type Rule struct {
	// Match is asked once about each command, in their order, and may keep state; nil accepts all. It must not call the
	// proxy. It is not asked about Setup.
	Match func(Call) bool
	// Answer holds the answer to the command; else the command is held before it reaches the server.
	Answer bool
	// Push asks Match about what the server sends by itself instead: messages of a subscription, events of a watch. Words
	// and Text of the Call are the message.
	Push bool
	// Instead answers the command in place of the server, which never sees it, if it is Plain; other commands go to the
	// server. Nothing is held.
	Instead Instead
	// Every holds all that Match accepts, until Pass or Drop.
	Every bool
}

// Instead answers a command for which ask is [Command.Elsewhere]. After an error the client's connection is closed, and
// [Proxy.Err] returns the error.
type Instead func(ask func(server io.ReadWriter) ([]byte, error)) (answer []byte, err error)

// Hold is what a rule holds back, or will.
type Hold struct {
	rule    Rule
	proxy   *Proxy
	reached chan struct{}

	// Under the proxy's mutex.
	first  *Call
	held   *Command // with first
	passed bool
	lost   bool
	resets bool // with lost
}

// Add makes a rule. Every rule is asked about every command; a message that several hold passes when the last of them
// lets it.
func (p *Proxy) Add(r Rule) *Hold {
	if r.Match == nil {
		r.Match = func(Call) bool { return true }
	}
	h := &Hold{rule: r, proxy: p, reached: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, h)
	return h
}

// Reached is closed when something is held.
func (h *Hold) Reached() <-chan struct{} { return h.reached }

// Call is what is held first; zero before that.
func (h *Hold) Call() Call {
	h.proxy.mu.Lock()
	defer h.proxy.mu.Unlock()
	if h.first == nil {
		return Call{}
	}
	return *h.first
}

// From returns the client address, host:port, that the server sees on the connection of the first held command: the
// proxy's local address. "" = nothing has been held yet, or the connection has ended.
func (h *Hold) From() string {
	h.proxy.mu.Lock()
	defer h.proxy.mu.Unlock()
	for c := range h.proxy.conns {
		if h.first != nil && c.id == h.first.Conn && c.server != nil {
			return c.server.LocalAddr().String()
		}
	}
	return ""
}

// Pass lets what is held go on, also when its client has gone meanwhile, and ends the rule. It may be repeated.
func (h *Hold) Pass() { h.end(func() { h.passed = true }) }

// Drop ends the rule, and what it holds is never delivered; an answer that it was to hold and that has not come yet is
// dropped when it comes. With reset, the client's connection is closed with a reset, and the server's is closed too.
// Without reset it stays open, and nothing passes on it any more in either direction; with gRPC that goes for the
// stream, not for the connection. If a push is dropped without reset, only the push is lost.
func (h *Hold) Drop(reset bool) { h.end(func() { h.lost, h.resets = true, reset }) }

// Abandon closes the client's connection with a reset and keeps the held command for a later [Hold.Pass]: its client
// has given it up, the network has not.
func (h *Hold) Abandon() {
	p := h.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		for i := range c.up.queue {
			if holds, _ := c.up.queue[i].holders(); slices.Contains(holds, h) {
				c.given = true
				_ = c.client.SetLinger(0)
				_ = c.client.Close()
				break
			}
		}
	}
}

// Cancel removes the rule if nothing is held yet; otherwise it is [Hold.Pass].
func (h *Hold) Cancel() { h.Pass() }

// end ends the rule, once, and passes on or drops what it held.
func (h *Hold) end(how func()) {
	p := h.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	if !h.holds() {
		return
	}
	how()
	p.rules = slices.DeleteFunc(p.rules, func(r *Hold) bool { return r == h })
	var conns []*conn
	for c := range p.conns {
		if len(c.up.queue)+len(c.down.queue) > 0 {
			conns = append(conns, c)
		}
	}
	for _, c := range conns {
		if h.lost {
			c.lose(h)
		}
		c.drain(&c.up)
		c.drain(&c.down)
	}
}

// holds says whether the rule is still on.
func (h *Hold) holds() bool { return !h.passed && !h.lost }

func (h *Hold) reach(k *Command) {
	if h.first == nil {
		first := k.Call
		h.first, h.held = &first, k
		close(h.reached)
	}
}

// holders are the rules that hold an item, or held it.
func (it *item) holders() ([]*Hold, *Command) {
	switch {
	case it.Of != nil:
		return it.Of.holds, it.Of
	case it.Push != nil:
		return it.holds, it.Push
	}
	return it.holds, it.Command
}

// held says whether an item that is next is held; lost is the rule that drops it.
func (it *item) held() (holding bool, lost *Hold) {
	holds, k := it.holders()
	for _, h := range holds {
		switch {
		case h.lost:
			lost = h
		case !h.passed:
			h.reach(k)
			holding = true
		}
	}
	return holding, lost
}

// lose drops what a rule held on the connection.
func (c *conn) lose(h *Hold) {
	for _, l := range []*lane{&c.up, &c.down} {
		for {
			i := slices.IndexFunc(l.queue, func(it item) bool {
				holds, _ := it.holders()
				return slices.Contains(holds, h)
			})
			if i < 0 {
				break
			}
			switch it := l.queue[i]; {
			case h.resets:
				c.reset()
				return
			case it.Push != nil:
				l.queue = slices.Delete(l.queue, i, i+1)
			case it.Stream == 0:
				c.silence()
				return
			default:
				c.silenceStream(it.Stream)
			}
		}
	}
}

func (c *conn) silenceStream(stream uint32) {
	if c.mute == nil {
		c.mute = map[uint32]bool{}
	}
	c.mute[stream] = true
	of := func(it item) bool { return it.Stream == stream && !it.end }
	c.up.queue, c.down.queue = slices.DeleteFunc(c.up.queue, of), slices.DeleteFunc(c.down.queue, of)
	c.waiting = slices.DeleteFunc(c.waiting, func(k *Command) bool { return k.stream == stream })
}

// mostKept is how much of an answer a [Hold] of answers keeps for [Hold.Said].
const mostKept = 4 << 10

// keep notes a part of an answer that a rule holds.
func (k *Command) keep(part []byte) {
	if len(k.holds) > 0 {
		k.raw = append(k.raw, part[:min(len(part), mostKept-len(k.raw))]...)
	}
}

// Said returns what the server answered to the command whose answer the rule held, for people: "1", "nil", "1 row". An
// answer in several parts is whole after it has passed. "" = nothing has been held yet, or the answer cannot be read:
// only those of Redis, MySQL and PostgreSQL can.
func (h *Hold) Said() string {
	h.proxy.mu.Lock()
	defer h.proxy.mu.Unlock()
	if h.held == nil || h.held.Said == nil {
		return ""
	}
	return h.held.Said(h.held.raw)
}
