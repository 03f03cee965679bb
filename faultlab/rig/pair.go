package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"lastitem/stack"
	"lastitem/stack/wire"
)

// Pair is the lane's own Redis master with its replicas.
type Pair struct {
	lane     *Lane
	server   string // the master's name as the actors know it: "redis", "redlock 3"
	master   node
	old      node // the master that a failover has replaced; it may be alive
	replicas []node
	link     *wire.Proxy // in front of the master: its replicas and a sentinel reach it through this proxy
	want     int         // number of replicas
	conf     []string    // of all nodes
	sentinel *sentinel   // nil = none
	starts   int
}

// startPair replaces a shared server by the lane's own master, whose replicas start with the first [Lane.Reset].
func (l *Lane) startPair(ctx context.Context, e Equipment) error {
	master, err := l.replaceRedis(ctx, e.Pair, e.conf()...)
	if err != nil || master.run == nil {
		return err
	}
	l.Pair = &Pair{lane: l, server: e.Pair, master: master, want: max(e.Replicas, 1), conf: e.conf()}
	if e.Sentinel {
		if l.Pair.sentinel, err = l.startSentinel(ctx); err != nil {
			return err
		}
	}
	return nil
}

// replaceRedis starts a Redis for the lane alone in place of a shared one. It does nothing if the service does not use
// that server.
func (l *Lane) replaceRedis(ctx context.Context, server string, conf ...string) (node, error) {
	i := slices.IndexFunc(l.links, func(x link) bool { return x.server == server })
	if i < 0 {
		return node{}, nil
	}
	password := passwordOf(l.links[i].url)
	if l.Service.Open {
		password = ""
	}
	n, err := l.servers.startRedis(ctx, fmt.Sprintf("lane %d %s", l.number, server), password, nil, conf...)
	if err != nil {
		return node{}, err
	}
	l.links[i].addr, l.links[i].url = n.run.Addr, n.url()
	return n, nil
}

// Replicate gives the master the replicas that it should have, and waits until all of them have its data. A nil Pair
// has nothing to do.
func (p *Pair) Replicate(ctx context.Context) error {
	if p == nil {
		return nil
	}
	if p.master.ended() { // a schedule was broken off
		if err := p.promote(ctx); err != nil {
			return err
		}
	}
	if err := errors.Join(p.heal(ctx), p.openLink()); err != nil {
		return err
	}
	for _, a := range p.lane.actors() {
		if p.old.run != nil { // some replicas still follow the old master
			a.proxies[p.server].Turn(p.master.run.Addr)
		}
	}
	p.old = node{}
	for len(p.replicas) < p.want {
		p.starts++
		name := fmt.Sprintf("lane %d %s replica %d", p.lane.number, p.server, p.starts)
		n, err := p.lane.servers.startRedis(ctx, name, p.master.password, nil, p.conf...)
		if err != nil {
			return err
		}
		p.replicas = append(p.replicas, n)
	}
	host, port, _ := net.SplitHostPort(p.link.Addr)
	for _, n := range p.replicas {
		if _, err := n.do(ctx, "REPLICAOF", host, port); err != nil {
			return err
		}
	}
	if err := until(ctx, "the replicas of "+p.server, func() bool { return p.complete(ctx) }); err != nil {
		return err
	}
	if p.sentinel == nil {
		return nil
	}
	return p.sentinel.monitor(ctx, p)
}

// heal undoes what a schedule that was broken off may have done to the master, and ends a master that was replaced.
func (p *Pair) heal(ctx context.Context) error {
	if p.old.run != nil {
		p.old.run.Kill()
	}
	for _, words := range [][]string{{"ACL", "SETUSER", "default", "+psync", "+sync"},
		{"CONFIG", "SET", "min-replicas-max-lag", "10"}} {
		if _, err := p.master.do(ctx, words...); err != nil {
			return err
		}
	}
	return nil
}

// reset is Replicate before a schedule. It also deletes locks that have outlived the schedule before.
func (p *Pair) reset(ctx context.Context) error {
	if err := p.Replicate(ctx); err != nil || p == nil {
		return err
	}
	return p.unlockAll(ctx)
}

// unlockAll deletes leftover locks of all products: a reset of the stock clears the locks of one product only.
func (p *Pair) unlockAll(ctx context.Context) error {
	left, err := p.master.all(ctx, "KEYS", "*:lock:*{all}*")
	if err == nil && len(left) > 0 {
		_, err = p.master.do(ctx, append([]string{"DEL"}, left...)...)
	}
	return err
}

// openLink makes the link lead to the master, and ends every disturbance of it.
func (p *Pair) openLink() (err error) {
	if p.link != nil {
		p.link.Sever(false)
		return nil
	}
	p.link, err = wire.NewProxy(p.server+" link", p.master.run.Addr, wire.Raw)
	return err
}

// complete reports whether the master counts all its replicas as online and good, and each replica has heard from the
// master.
func (p *Pair) complete(ctx context.Context) bool {
	info, err := p.master.do(ctx, "INFO", "replication")
	if err != nil || strings.Count(info, "state=online") < p.want {
		return false
	}
	if good, err := p.master.field(ctx, "replication", "min_slaves_good_slaves"); err == nil &&
		good != strconv.Itoa(p.want) {
		return false
	}
	return !slices.ContainsFunc(p.replicas, func(n node) bool {
		state, err := n.field(ctx, "replication", "master_link_status")
		return err != nil || state != "up"
	})
}

// Replicated waits until every replica has everything that the master has.
func (p *Pair) Replicated(ctx context.Context) error {
	want, err := p.master.field(ctx, "replication", "master_repl_offset")
	if err != nil {
		return err
	}
	w, _ := strconv.ParseInt(want, 10, 64)
	return until(ctx, "the replicas of Redis", func() bool {
		return !slices.ContainsFunc(p.replicas, func(n node) bool {
			has, err := n.field(ctx, "replication", "slave_repl_offset")
			h, _ := strconv.ParseInt(has, 10, 64)
			return err != nil || h < w
		})
	})
}

// Cut makes the last n replicas ask a dead address for their data, so that they learn nothing more from their master.
func (p *Pair) Cut(ctx context.Context, n int) error {
	all := p.replicas
	for _, replica := range all[len(all)-n:] {
		if _, err := replica.do(ctx, "REPLICAOF", "127.0.0.1", "1"); err != nil {
			return err
		}
	}
	return nil
}

// Refuse makes the master refuse to replicate, and ends the connections of its replicas. The replicas keep trying
// to reconnect, and Sentinel sees that they do.
func (p *Pair) Refuse(ctx context.Context) error {
	for _, words := range [][]string{{"ACL", "SETUSER", "default", "-psync", "-sync"},
		{"CLIENT", "KILL", "TYPE", "replica"}} {
		if _, err := p.master.do(ctx, words...); err != nil {
			return err
		}
	}
	return nil
}

// Silence drops everything between the master and its replicas, in both directions. Their connections stay open.
func (p *Pair) Silence() { p.link.Sever(true) }

// last is the replica that a failover promotes.
func (p *Pair) last() node { return p.replicas[len(p.replicas)-1] }

// Failover kills the master and promotes the last replica, to which all actors then connect. The other replicas are
// left; [Pair.Replicate] makes them follow the new master.
func (p *Pair) Failover(ctx context.Context) error {
	p.master.run.Kill()
	return p.promote(ctx)
}

func (p *Pair) promote(ctx context.Context) error {
	if _, err := p.last().do(ctx, "REPLICAOF", "NO", "ONE"); err != nil {
		return err
	}
	p.follow(p.last(), p.lane.actors())
	return nil
}

// follow makes a replica the lane's master, to which the actors then connect.
func (p *Pair) follow(promoted node, actors []*Actor) {
	p.old, p.master = p.master, promoted
	p.replicas = slices.DeleteFunc(p.replicas, func(n node) bool { return n.run == promoted.run })
	p.link.Close()
	p.link = nil
	for _, a := range actors {
		a.proxies[p.server].Turn(promoted.run.Addr)
	}
}

// errAccepted: a master that should have refused a write has accepted it.
var errAccepted = errors.New("faultlab: the master accepts writes")

// AwaitRefusal sets min-replicas-max-lag of the master to a second, and returns when the master refuses writes because
// it has too few replicas.
func (p *Pair) AwaitRefusal(ctx context.Context) error {
	m := p.master
	if _, err := m.do(ctx, "CONFIG", "SET", "min-replicas-max-lag", "1"); err != nil {
		return err
	}
	return until(ctx, "the master to refuse writes", func() bool { return m.refusal(ctx) == nil })
}

// refusal returns nil if the node refuses a write because it has too few replicas.
func (n node) refusal(ctx context.Context) error {
	_, err := n.do(ctx, "SET", "lab:written", "1")
	var refused redisError
	switch {
	case err == nil:
		return errAccepted
	case errors.As(err, &refused) && strings.HasPrefix(string(refused), "NOREPLICAS "):
		return nil
	}
	return err
}

// ended says whether the node's process is gone.
func (n node) ended() bool {
	select {
	case <-n.run.Exited():
		return true
	default:
		return false
	}
}

// redis returns the lane's own Redis; if it is a pair, the current master.
func (l *Lane) redis() node {
	if l.Pair != nil && l.Pair.server == stack.Redis {
		return l.Pair.master
	}
	return l.laneRedis
}
