package wire

import "time"

// NewDelayed is [NewProxy] with latency: the proxy forwards data, and the end of a connection, no earlier than by after
// it has received them, in both directions, so that a command and its answer take at least twice that. It is a delay
// line: commands that are sent together take one round trip together. Opening a connection is not delayed.
func NewDelayed(server, target string, codec Codec, by time.Duration) (*Proxy, error) {
	a, err := newAlarm()
	if err != nil {
		return nil, err
	}
	p, err := newProxy(server, target, codec, extra{delay: &delay{by: by, alarm: a, more: make(chan struct{}, 1)}})
	if err != nil {
		a.close()
	}
	return p, err
}

// delay is a proxy's delay line.
type delay struct {
	by    time.Duration
	alarm *alarm
	more  chan struct{} // something was added to an empty line

	// Under the proxy's mutex.
	line []delivery
}

// delivery says when something in a lane is due. The delay is the same for all, so deliveries are due in the order in
// which they were added.
type delivery struct {
	at   time.Time
	conn *conn
	lane *lane
}

// add notes that something has arrived in a lane, and returns when it is due. The caller holds the proxy's mutex.
func (d *delay) add(c *conn, l *lane) time.Time {
	at := time.Now().Add(d.by)
	d.line = append(d.line, delivery{at, c, l})
	if len(d.line) == 1 {
		select {
		case d.more <- struct{}{}:
		default:
		}
	}
	return at
}

// deliver forwards what is due, until the proxy is closed.
func (p *Proxy) deliver() {
	for {
		next, waiting := p.due()
		if !waiting {
			select {
			case <-p.delay.more:
			case <-p.dialing.Done():
				return
			}
			continue
		}
		if !p.delay.alarm.wait(time.Until(next)) {
			return
		}
	}
}

// due forwards what is due now, and returns when the next delivery is due; false = nothing is waiting.
func (p *Proxy) due() (next time.Time, waiting bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.delay
	for now := time.Now(); len(d.line) > 0; d.line = d.line[1:] {
		first := d.line[0]
		if first.at.After(now) {
			return first.at, true
		}
		if queue := first.lane.queue; first.lane.writing || len(queue) == 0 || queue[0].due.After(now) {
			continue // already forwarded together with an earlier delivery, or about to be by the current writer
		}
		// A goroutine of its own: a peer that does not read must not block the others.
		p.running.Go(func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			first.conn.drain(first.lane)
		})
	}
	d.line = nil
	return time.Time{}, false
}
