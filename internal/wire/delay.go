package wire

import "time"

// NewDelayed is [NewProxy] on a longer way: whatever comes, and the end of a connection too, goes on no earlier than delay after it came,
// in either direction, so that a question and its answer take at least twice the delay. It is a delay line: what comes meanwhile does not
// wait for what came before it, and commands that are sent together take one round trip together. A connection is made without delay.
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
	more  chan struct{} // something came while there was nothing

	// Under the proxy's mutex.
	line []delivery
}

// delivery is a lane in which something will be due. Since the delay is the same for all, the first that came is the first that is due.
type delivery struct {
	at   time.Time
	conn *conn
	lane *lane
}

// add notes that something has come in a lane, and returns when it is due. The proxy's mutex is held.
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

// deliver has what is due go on, until the proxy is closed.
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

// due passes on what is due, and returns when something will be next.
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
			continue // it went with what came before it, or will with what is being written
		}
		// Whoever does not read holds up nobody else.
		p.running.Go(func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			first.conn.drain(first.lane)
		})
	}
	d.line = nil
	return time.Time{}, false
}
