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

// startOwn starts the lane's own servers, which replace the shared ones.
func (l *Lane) startOwn(ctx context.Context, e Equipment) error {
	l.laneServers = map[string]*node{}
	for server := range strings.SplitSeq(e.Own, ",") {
		i := slices.IndexFunc(l.links, func(x link) bool { return x.server == server })
		if i < 0 {
			continue
		}
		name := fmt.Sprintf("lane %d own %s", l.number, server)
		clock, err := l.ownClock(ctx, e, name)
		if err != nil {
			return err
		}
		n, err := l.servers.startRedis(ctx, name, passwordOf(l.links[i].url), clock, e.conf()...)
		if err != nil {
			return err
		}
		n.young = true
		l.laneServers[server] = &n
		l.links[i].addr, l.links[i].url = n.run.Addr, n.url()
	}
	return nil
}

// ownServer returns one of the lane's own servers by name.
func (l *Lane) ownServer(server string) (*node, error) {
	n := l.laneServers[server]
	if n == nil {
		return nil, fmt.Errorf("faultlab: lane %d has no %q of its own", l.number, server)
	}
	return n, nil
}

// Restart kills one of the lane's own servers by SIGKILL and restarts it on the same address. Data that is not on disk is lost.
func (l *Lane) Restart(ctx context.Context, server string) error {
	n, err := l.ownServer(server)
	if err != nil {
		return err
	}
	n.run.Kill()
	l.warm = "" // its connections and its scripts are gone
	n.young = true
	return l.startAgain(ctx, n)
}

// startAgain restarts one of the lane's own servers that has ended.
func (l *Lane) startAgain(ctx context.Context, n *node) error {
	n.starts++
	child := n.child
	child.Name, child.Addr = fmt.Sprintf("%s %d", n.child.Name, n.starts), n.run.Addr
	run, err := l.servers.Stack.Spawn(ctx, child)
	if err != nil {
		return err // restoreOwn tries again: the old run has ended
	}
	n.run = run
	// A client must see at once that its old connection is closed, not at its next command.
	for server, own := range l.laneServers {
		for _, a := range l.actors() {
			if own == n {
				a.proxies[server].Turn(n.run.Addr)
			}
		}
	}
	return nil
}

// OutOfGuard waits until the restart guard of one of the lane's own nodes is over. The guard lasts for the TTL; it begins when a client first
// contacts the node, at the latest when the actors are warmed up.
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

// guardMargin covers the difference between the node's clock, which counts whole milliseconds, and ours.
const guardMargin = 20 * time.Millisecond

// Freeze stops one of the lane's own servers by SIGSTOP; [Lane.Thaw] continues it.
func (l *Lane) Freeze(server string) error { return l.signal(server, syscall.SIGSTOP) }

// Thaw continues a server that [Lane.Freeze] has stopped, by SIGCONT.
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

// Tell sends a command to one of the lane's own servers, on a separate connection, and returns the answer.
func (l *Lane) Tell(ctx context.Context, server string, words ...string) (string, error) {
	n, err := l.ownServer(server)
	if err != nil {
		return "", err
	}
	return n.do(ctx, words...)
}

// restoreOwn restarts those of the lane's own servers that have ended, continues stopped ones, and sets clocks forward that were set back.
func (l *Lane) restoreOwn(ctx context.Context) error {
	if err := l.restoreClocks(); err != nil {
		return err
	}
	for server, n := range l.laneServers {
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

// OwnServers returns the names of the lane's own servers, sorted.
func (l *Lane) OwnServers() []string { return slices.Sorted(maps.Keys(l.laneServers)) }

// Evicted returns how many keys one of the lane's own servers has evicted since it started.
func (l *Lane) Evicted(ctx context.Context, server string) (string, error) {
	n, err := l.ownServer(server)
	if err != nil {
		return "", err
	}
	return n.field(ctx, "stats", "evicted_keys")
}
