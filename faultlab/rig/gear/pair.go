package gear

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"lastitem/stack/wire"
)

// Pair is the lane's own Redis master with its replicas.
type Pair struct {
	place    *Place
	server   string // the master's name as the lane knows it: "redis", "redlock 3"
	master   Node
	old      Node // the master that a failover has replaced; it may be alive
	replicas []Node
	link     *wire.Proxy // in front of the master: its replicas and a sentinel reach it through this proxy
	want     int         // number of replicas
	conf     []string    // of all nodes
	sentinel *sentinel   // nil = none
	starts   int
}

// newPair replaces a shared server by the lane's own master, whose replicas start with the first [Pair.Replicate]. nil
// = the equipment has none, or the service does not use that server.
func newPair(ctx context.Context, place *Place, e Equipment, open bool) (*Pair, error) {
	if e.Pair == "" {
		return nil, nil //nolint:nilnil // a nil Pair does nothing
	}
	master, err := place.replaceRedis(ctx, e.Pair, open, e.conf()...)
	if err != nil || master.run == nil {
		return nil, err
	}
	p := &Pair{place: place, server: e.Pair, master: master, want: max(e.Replicas, 1), conf: e.conf()}
	if e.Sentinel {
		p.sentinel, err = newSentinel(ctx, place)
	}
	return p, err
}

// nodes returns the servers of the pair, whether or not they run.
func (p *Pair) nodes() []Node {
	if p == nil {
		return nil
	}
	all := append([]Node{p.master, p.old}, p.replicas...)
	if p.sentinel != nil {
		all = append(all, p.sentinel.Node)
	}
	return all
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
	if p.old.run != nil { // some replicas still follow the old master
		p.place.turn(p.server, p.master.run.Addr)
	}
	p.old = Node{}
	for len(p.replicas) < p.want {
		p.starts++
		name := fmt.Sprintf("lane %d %s replica %d", p.place.Number, p.server, p.starts)
		n, err := p.place.startRedis(ctx, name, p.master.password, nil, p.conf...)
		if err != nil {
			return err
		}
		p.replicas = append(p.replicas, n)
	}
	host, port, _ := net.SplitHostPort(p.link.Addr)
	for _, n := range p.replicas {
		if _, err := n.Do(ctx, "REPLICAOF", host, port); err != nil {
			return err
		}
	}
	if err := Until(ctx, "the replicas of "+p.server, func() bool { return p.complete(ctx) }); err != nil {
		return err
	}
	if p.sentinel == nil {
		return nil
	}
	return p.sentinel.monitor(ctx, p.link.Addr, p.master.password, p.want)
}

// heal undoes what a schedule that was broken off may have done to the master, and ends a master that was replaced.
func (p *Pair) heal(ctx context.Context) error {
	if p.old.run != nil {
		p.old.run.Kill()
	}
	for _, words := range [][]string{{"ACL", "SETUSER", "default", "+psync", "+sync"},
		{"CONFIG", "SET", "min-replicas-max-lag", "10"}} {
		if _, err := p.master.Do(ctx, words...); err != nil {
			return err
		}
	}
	return nil
}

// Reset is [Pair.Replicate] before a schedule. It also deletes locks that have outlived the schedule before.
func (p *Pair) Reset(ctx context.Context) error {
	if err := p.Replicate(ctx); err != nil || p == nil {
		return err
	}
	return p.unlockAll(ctx)
}

// unlockAll deletes leftover locks of all products: a reset of the stock clears the locks of one product only.
func (p *Pair) unlockAll(ctx context.Context) error {
	left, err := p.master.All(ctx, "KEYS", "*:lock:*{all}*")
	if err == nil && len(left) > 0 {
		_, err = p.master.Do(ctx, append([]string{"DEL"}, left...)...)
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
	info, err := p.master.Do(ctx, "INFO", "replication")
	if err != nil || strings.Count(info, "state=online") < p.want {
		return false
	}
	if good, err := p.master.field(ctx, "replication", "min_slaves_good_slaves"); err == nil &&
		good != strconv.Itoa(p.want) {
		return false
	}
	return !slices.ContainsFunc(p.replicas, func(n Node) bool {
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
	return Until(ctx, "the replicas of Redis", func() bool {
		return !slices.ContainsFunc(p.replicas, func(n Node) bool {
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
		if _, err := replica.Do(ctx, "REPLICAOF", "127.0.0.1", "1"); err != nil {
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
		if _, err := p.master.Do(ctx, words...); err != nil {
			return err
		}
	}
	return nil
}

// Silence drops everything between the master and its replicas, in both directions. Their connections stay open.
func (p *Pair) Silence() { p.link.Sever(true) }

// last is the replica that a failover promotes.
func (p *Pair) last() Node { return p.replicas[len(p.replicas)-1] }

// Failover kills the master and promotes the last replica, to which all replicas of the service then connect. The other
// replicas are left; [Pair.Replicate] makes them follow the new master.
func (p *Pair) Failover(ctx context.Context) error {
	p.master.run.Kill()
	return p.promote(ctx)
}

func (p *Pair) promote(ctx context.Context) error {
	if _, err := p.last().Do(ctx, "REPLICAOF", "NO", "ONE"); err != nil {
		return err
	}
	p.follow(p.last(), p.place.wires)
	return nil
}

// follow makes a replica the lane's master, to which the replicas of the service then connect.
func (p *Pair) follow(promoted Node, wires []*Wires) {
	p.old, p.master = p.master, promoted
	p.replicas = slices.DeleteFunc(p.replicas, func(n Node) bool { return n.run == promoted.run })
	p.link.Close()
	p.link = nil
	for _, w := range wires {
		w.proxies[p.server].Turn(promoted.run.Addr)
	}
}

// errAccepted: a master that should have refused a write has accepted it.
var errAccepted = errors.New("faultlab: the master accepts writes")

// AwaitRefusal sets min-replicas-max-lag of the master to a second, and returns when the master refuses writes because
// it has too few replicas.
func (p *Pair) AwaitRefusal(ctx context.Context) error {
	m := p.master
	if _, err := m.Do(ctx, "CONFIG", "SET", "min-replicas-max-lag", "1"); err != nil {
		return err
	}
	return Until(ctx, "the master to refuse writes", func() bool { return m.refusal(ctx) == nil })
}

// refusal returns nil if the node refuses a write because it has too few replicas.
func (n Node) refusal(ctx context.Context) error {
	_, err := n.Do(ctx, "SET", "lab:written", "1")
	switch {
	case err == nil:
		return errAccepted
	case redis.HasErrorPrefix(err, "NOREPLICAS "):
		return nil
	}
	return err
}

// errSwitched: Sentinel has promoted a replica although nothing was wrong with the master, as can happen if the machine
// stood still.
var errSwitched = errors.New("faultlab: Sentinel has promoted a replica by itself")

// Switch is a failover by Sentinel for which the lab waits.
type Switch struct {
	pair      *Pair
	published *redis.PubSub
}

// AwaitSwitch begins to listen to Sentinel. It returns an error if Sentinel has already promoted a replica. The caller
// then harms the master.
func (p *Pair) AwaitSwitch(ctx context.Context) (*Switch, error) {
	published, err := p.sentinel.subscribe(ctx, "+switch-master")
	if err != nil {
		return nil, err
	}
	at, err := p.sentinel.All(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", p.sentinel.watched)
	if err != nil {
		return nil, err
	}
	if net.JoinHostPort(at[0], at[1]) != p.link.Addr {
		return nil, errSwitched
	}
	return &Switch{p, published}, nil
}

// Done returns when Sentinel has detected that the master is down, elected itself, promoted a replica and published
// +switch-master. The proxies of the followers then lead to the new master, like TCP proxies that
// follow Sentinel.
func (s *Switch) Done(ctx context.Context, followers ...*Wires) error {
	defer func() { _ = s.published.Close() }()
	told, err := s.published.ReceiveMessage(ctx)
	if err != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	words := strings.Fields(told.Payload) // "shop1 127.0.0.1 7000 127.0.0.1 7001": name, old address, new address
	if len(words) != 5 {
		return fmt.Errorf("faultlab: Sentinel published %q", told.Payload)
	}
	promoted := net.JoinHostPort(words[3], words[4])
	for _, n := range s.pair.replicas {
		if n.run.Addr == promoted {
			err := s.pair.sentinel.forget(ctx)
			s.pair.follow(n, followers)
			return err
		}
	}
	return fmt.Errorf("faultlab: Sentinel has promoted %s, which is no replica", promoted)
}

// KillMaster kills the master of the lane's pair by SIGKILL.
func (p *Pair) KillMaster() { p.master.run.Kill() }
