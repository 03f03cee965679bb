package rig

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"lastitem/stack"
)

// sentinel is a redis-sentinel that watches the lane's pair.
type sentinel struct {
	node
	number  int    // how many watches there were: each gets a name of its own
	watched string // the name of the current watch; "" = none
}

// downAfter is how long a server may be silent before Sentinel takes it for dead. A busy machine must not take a living
// server for dead.
const downAfter = time.Second

// startSentinel starts a sentinel that watches nothing yet.
func (l *Lane) startSentinel(ctx context.Context) (*sentinel, error) {
	path, err := stack.Find(stack.Redis)
	if err != nil {
		return nil, err
	}
	s := new(sentinel)
	name := fmt.Sprintf("lane %d sentinel", l.number)
	s.dir = filepath.Join(l.servers.Stack.Dir, strings.ReplaceAll(name, " ", "-"))
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	file := filepath.Join(s.dir, "sentinel.conf") // Sentinel rewrites it
	if err := os.WriteFile(file, fmt.Appendf(nil, "bind 127.0.0.1\ndir %q\n", s.dir), 0o600); err != nil {
		return nil, err
	}
	s.child = stack.Child{
		Name: name,
		Argv: func(addr string) []string {
			_, port, _ := net.SplitHostPort(addr)
			return []string{path, file, "--port", port, "--sentinel"}
		},
		Ready: func(ctx context.Context, addr string) error {
			_, err := redisDo(ctx, addr, "", "PING")
			return err
		},
	}
	s.run, err = l.servers.Stack.Spawn(ctx, s.child)
	return s, err
}

// monitor makes Sentinel watch the master of a pair through the pair's link, and returns when Sentinel knows all
// replicas.
func (s *sentinel) monitor(ctx context.Context, p *Pair) error {
	if err := s.forget(ctx); err != nil {
		return err
	}
	s.number++
	s.watched = fmt.Sprintf("shop%d", s.number)
	host, port, _ := net.SplitHostPort(p.link.Addr)
	if err := s.tell(ctx, "MONITOR", s.watched, host, port, "1"); err != nil {
		return err
	}
	if p.master.password != "" {
		if err := s.tell(ctx, "SET", s.watched, "auth-pass", p.master.password); err != nil {
			return err
		}
	}
	err := until(ctx, "Sentinel to know the replicas", func() bool {
		all, err := s.do(ctx, "SENTINEL", "REPLICAS", s.watched)
		return err == nil && strings.Count(all, " flags slave ") == p.want &&
			strings.Count(all, "master-link-status ok") == p.want
	})
	if err != nil {
		return err
	}
	// The short down-after is set only now: before Sentinel had the password it received only errors, and would have taken
	// the master for dead. The default is 30 s.
	return s.tell(ctx, "SET", s.watched, "failover-timeout", "3000", "down-after-milliseconds",
		strconv.FormatInt(downAfter.Milliseconds(), 10))
}

// tell sends a SENTINEL command.
func (s *sentinel) tell(ctx context.Context, words ...string) error {
	_, err := s.do(ctx, append([]string{"SENTINEL"}, words...)...)
	return err
}

// forget ends the current watch.
func (s *sentinel) forget(ctx context.Context) error {
	if s.watched == "" {
		return nil
	}
	name := s.watched
	s.watched = ""
	return s.tell(ctx, "REMOVE", name)
}

// errSwitched: Sentinel has promoted a replica although nothing was wrong with the master, as can happen if the machine
// stood still.
var errSwitched = errors.New("faultlab: Sentinel has promoted a replica by itself")

// Switch is a failover by Sentinel for which the lab waits.
type Switch struct {
	pair      *Pair
	published *subscription
}

// AwaitSwitch begins to listen to Sentinel. It returns an error if Sentinel has already promoted a replica. The caller
// then harms the master.
func (p *Pair) AwaitSwitch(ctx context.Context) (*Switch, error) {
	published, err := p.sentinel.subscribe(ctx, "+switch-master")
	if err != nil {
		return nil, err
	}
	at, err := p.sentinel.all(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", p.sentinel.watched)
	if err != nil {
		return nil, err
	}
	if net.JoinHostPort(at[0], at[1]) != p.link.Addr {
		return nil, errSwitched
	}
	return &Switch{p, published}, nil
}

// Done returns when Sentinel has detected that the master is down, elected itself, promoted a replica and published
// +switch-master. The actors' proxies then lead to the new master, like a TCP proxy that follows Sentinel.
func (s *Switch) Done(ctx context.Context, actors ...*Actor) error {
	defer func() { _ = s.published.Close() }()
	told, err := s.published.next()
	if err != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	words := strings.Fields(told) // "shop1 127.0.0.1 7000 127.0.0.1 7001": name, old address, new address
	if len(words) != 5 {
		return fmt.Errorf("faultlab: Sentinel published %q", told)
	}
	promoted := net.JoinHostPort(words[3], words[4])
	for _, n := range s.pair.replicas {
		if n.run.Addr == promoted {
			err := s.pair.sentinel.forget(ctx)
			s.pair.follow(n, actors)
			return err
		}
	}
	return fmt.Errorf("faultlab: Sentinel has promoted %s, which is no replica", promoted)
}

// KillMaster kills the master of the lane's pair by SIGKILL.
func (p *Pair) KillMaster() { p.master.run.Kill() }

// subscription is a connection to a server of Redis's protocol that receives the messages of a channel.
type subscription struct {
	net.Conn
	r *bufio.Reader
}

// subscribe returns when the subscription is in force.
func (n node) subscribe(ctx context.Context, channel string) (*subscription, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", n.run.Addr)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	s := &subscription{conn, bufio.NewReader(conn)}
	var confirmed []string
	_, err = io.WriteString(conn, respCommand([]string{"SUBSCRIBE", channel}))
	if err == nil {
		err = readReply(s.r, &confirmed)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return s, nil
}

// next returns the next message.
func (s *subscription) next() (string, error) {
	var message []string // "message", channel, text
	if err := readReply(s.r, &message); err != nil {
		return "", err
	}
	return message[len(message)-1], nil
}
