package wire

import (
	"net"
	"slices"
	"time"
)

// lane is one direction of a connection. It holds the messages that have arrived and have not been passed on yet.
type lane struct {
	up      bool // to the server
	queue   []item
	writing bool // drain is running, and may write without the mutex
	broken  bool // a write has failed, or the server has closed
}

// item is a message that has come, or the end of what comes.
type item struct {
	Message
	holds []*Hold
	end   bool
	due   time.Time // earliest time to forward it; zero = no delay
}

// come puts messages into a lane, and passes on what nothing holds.
func (c *conn) come(l *lane, items []item) {
	if c.silent || c.closing || l.up && c.gone {
		return
	}
	for i := range items {
		it := &items[i]
		if c.mute[it.Stream] {
			continue
		}
		if it.Reply != nil {
			c.queue(&c.down, item{Message: Message{Data: it.Reply}})
			c.drain(&c.down)
			continue
		}
		if it.Command != nil {
			it.Command.stream = it.Stream
			it.holds = c.proxy.enter(c, it.Command)
		}
		if it.Granted != nil {
			c.granted = it.Granted
		}
		if it.Push != nil {
			it.Push.Server, it.Push.Conn = c.proxy.server, c.id
			it.holds = c.proxy.meant(it.Push, true)
		}
		if it.Of != nil {
			it.Of.arrived, it.Of.open = true, it.Of.open || it.Open
			it.Of.keep(it.Data)
		}
		// A client's cancel is dropped while something of its stream is in the queue: a server that receives both at once may
		// not execute the command.
		if it.Cancel && slices.ContainsFunc(l.queue, func(q item) bool { return q.Stream == it.Stream }) {
			continue
		}
		c.queue(l, *it)
	}
	c.drain(l)
}

// queue adds an item to a lane, to be forwarded after the proxy's delay.
func (c *conn) queue(l *lane, it item) {
	if p := c.proxy; p.delay != nil {
		it.due = p.delay.add(c, l)
	}
	l.queue = append(l.queue, it)
}

// drain passes on what may go. The proxy's mutex is held, except while it writes; a second caller leaves it to the
// first.
func (c *conn) drain(l *lane) {
	if l.writing {
		return
	}
	l.writing = true
	for {
		out, end := c.passing(l)
		if len(out) == 0 && !end {
			break
		}
		to := c.server
		if !l.up {
			to = c.client
		}
		broken, last := l.broken, !l.up && c.spent()
		c.proxy.mu.Unlock()
		if last && !broken {
			cork(c.client) // so that the client sees the end with the answer, and does not use the connection once more
		}
		var err error
		if !broken && len(out) == 1 {
			_, err = to.Write(out[0])
		} else if !broken {
			_, err = out.WriteTo(to)
		}
		c.proxy.mu.Lock()
		if err != nil {
			l.broken = true
		}
		if end {
			c.finished(l)
		}
	}
	l.writing = false
	if c.spent() && !c.down.writing { // else the one that writes the last answer closes
		c.close()
	} else if !l.up && c.given {
		c.drain(&c.up)
	}
}

// owed says whether the end of an abandoned connection must wait for the server's answer: a server that reads a command
// together with the end of the connection may not execute the command.
func (c *conn) owed() bool {
	return c.given && slices.ContainsFunc(c.waiting, func(k *Command) bool { return !k.Poll })
}

// spent says whether the connection was turned away from its server and nothing is under way on it any more.
func (c *conn) spent() bool {
	return c.turned && !c.holding() && !slices.ContainsFunc(c.waiting, func(k *Command) bool { return !k.Poll })
}

// passing takes from a lane what may go now.
func (c *conn) passing(l *lane) (out net.Buffers, end bool) {
	if len(l.queue) == 0 || c.silent || c.closing || c.proxy.severed {
		return nil, false
	}
	now := time.Now()
	var stopped streams
	var dropped *Hold
	ends := false // dropping it ends the connection
	kept := l.queue[:0]
	for i := range l.queue {
		it := &l.queue[i]
		if it.due.After(now) { // all later items are due later still
			kept = append(kept, l.queue[i:]...)
			break
		}
		if stopped.has(it.Stream) || it.end && len(kept) > 0 {
			kept = append(kept, *it)
			continue
		}
		holding, drop := it.held()
		switch {
		case drop != nil && it.Push != nil && !drop.resets:
			continue // it alone is lost
		case drop != nil:
			dropped, ends = drop, ends || drop.resets || it.Stream == 0
			stopped.add(it.Stream)
			kept = append(kept, *it)
		case holding:
			stopped.add(it.Stream)
			kept = append(kept, *it)
		case it.end && l.up && c.owed():
			kept = append(kept, *it)
		case it.end:
			end = true
		default:
			c.pass(it, now)
			if k := it.Command; k != nil && k.instead != nil {
				c.divert(k)
			} else {
				out = append(out, it.Data)
			}
		}
	}
	clear(l.queue[len(kept):])
	l.queue = kept
	if dropped != nil && (!ends || len(out) == 0) { // else out is written first, and the next call comes back to it
		c.lose(dropped)
		if c.closing || c.silent {
			return nil, false
		}
	}
	return out, end
}

// pass notes that a message goes on.
func (c *conn) pass(it *item, now time.Time) {
	r := c.proxy.recorder
	if k := it.Command; k != nil {
		k.Sent = now
		if r != nil {
			r.sent(k)
		}
	}
	if it.Push != nil && r != nil {
		r.pushed(it.Push, now)
	}
	if k := it.Of; k != nil && it.Last {
		k.Answered, k.Failed = now, it.Failed
		c.forget(k)
		if r != nil {
			r.answered(k)
		}
	}
	for _, k := range it.Over {
		c.forget(k)
	}
	if it.Cancel {
		c.waiting = slices.DeleteFunc(c.waiting, func(k *Command) bool { return k.stream == it.Stream })
	}
}

// divert has a command answered in place of the server.
func (c *conn) divert(k *Command) {
	c.proxy.running.Go(func() {
		answer, err := k.instead(k.Elsewhere)
		if err == nil {
			_, err = c.take(&c.down, answer, c.session.Answer)
		}
		if err != nil {
			c.unreadable(err)
		}
	})
}

// forget takes a call out of those that wait for an answer.
func (c *conn) forget(k *Command) {
	if i := slices.Index(c.waiting, k); i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
	}
}

// holding says whether something is held on the connection, or will be when it comes.
func (c *conn) holding() bool {
	return len(c.up.queue) > 0 || len(c.down.queue) > 0 || slices.ContainsFunc(c.waiting, func(k *Command) bool {
		return slices.ContainsFunc(k.holds, (*Hold).holds)
	})
}

// streams are a few numbers; there is seldom more than one.
type streams []uint32

func (s streams) has(n uint32) bool { return slices.Contains(s, n) }
func (s *streams) add(n uint32)     { *s = append(*s, n) }
