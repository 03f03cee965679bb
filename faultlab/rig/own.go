package rig

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"
)

// startOwn starts the servers that the lane has for itself, in place of those of all lanes.
func (l *Lane) startOwn(ctx context.Context, e Equipment) error {
	l.mine = map[string]*node{}
	for server := range strings.SplitSeq(e.Own, ",") {
		i := slices.IndexFunc(l.links, func(x link) bool { return x.server == server })
		if i < 0 {
			continue
		}
		var conf []string
		if e.Conf != "" {
			conf = strings.Split(e.Conf, ";")
		}
		n, err := l.servers.startRedis(ctx, fmt.Sprintf("lane %d own %s", l.number, server), passwordOf(l.links[i].url), conf...)
		if err != nil {
			return err
		}
		n.young = true
		l.mine[server] = &n
		l.links[i].addr, l.links[i].url = n.run.Addr, n.url()
	}
	return nil
}

// ownServer is a server of the lane's own.
func (l *Lane) ownServer(server string) (*node, error) {
	n := l.mine[server]
	if n == nil {
		return nil, fmt.Errorf("faultlab: lane %d has no %q of its own", l.number, server)
	}
	return n, nil
}

// Restart kills a server of the lane's own by SIGKILL and starts it again on its address. It has lost whatever it does not keep on disk.
func (l *Lane) Restart(ctx context.Context, server string) error {
	n, err := l.ownServer(server)
	if err != nil {
		return err
	}
	n.run.Kill()
	l.warm = "" // its connections are gone, and its scripts
	n.young = true
	return l.startAgain(ctx, n)
}

// startAgain starts a server of the lane's own that has ended.
func (l *Lane) startAgain(ctx context.Context, n *node) (err error) {
	n.starts++
	child := n.child
	child.Name, child.Addr = fmt.Sprintf("%s %d", n.child.Name, n.starts), n.run.Addr
	n.run, err = l.servers.Stack.Spawn(ctx, child)
	// A client that has an answer from before must see with it that the connection is gone, and not find out by its next command, or not.
	for server, own := range l.mine {
		for _, a := range l.actors() {
			if own == n {
				a.proxies[server].Turn(n.run.Addr)
			}
		}
	}
	return err
}

// OutOfGuard waits until the restart guard of a node of the lane's own is over, which begins when somebody meets the node, at the latest
// when all actors were warmed up, and lasts for the TTL.
func (l *Lane) OutOfGuard(ctx context.Context, server string) error {
	n, err := l.ownServer(server)
	if err != nil || !n.young {
		return err
	}
	select {
	case <-time.After(l.TTL + guardMargin):
		n.young = false
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// guardMargin is for the difference between the clock of a node, in whole milliseconds, and ours.
const guardMargin = 20 * time.Millisecond

// Freeze stops a server of the lane's own by SIGSTOP; Thaw lets it go on.
func (l *Lane) Freeze(server string) error { return l.signal(server, syscall.SIGSTOP) }

// Thaw lets a server go on that Freeze has stopped.
func (l *Lane) Thaw(server string) error { return l.signal(server, syscall.SIGCONT) }

func (l *Lane) signal(server string, s syscall.Signal) error {
	n, err := l.ownServer(server)
	if err != nil {
		return err
	}
	if err := syscall.Kill(-n.run.PID, s); err != nil {
		return fmt.Errorf("faultlab: %s: %w", server, err)
	}
	return nil
}

// Tell sends a command to a server of the lane's own, on a connection that no actor knows of.
func (l *Lane) Tell(ctx context.Context, server string, words ...string) (string, error) {
	n, err := l.ownServer(server)
	if err != nil {
		return "", err
	}
	return n.do(ctx, words...)
}

// restoreOwn lets the servers of the lane's own run that were stopped, or have ended.
func (l *Lane) restoreOwn(ctx context.Context) error {
	for server, n := range l.mine {
		select {
		case <-n.run.Exited():
			if err := l.startAgain(ctx, n); err != nil {
				return err
			}
		default:
			if err := l.Thaw(server); err != nil {
				return err
			}
		}
	}
	return nil
}

// OwnServers are the names of the servers that the lane has for itself, in order.
func (l *Lane) OwnServers() []string { return slices.Sorted(maps.Keys(l.mine)) }
