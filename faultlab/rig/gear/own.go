package gear

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Own is the lane's own Redis servers, which it may kill, stop and empty; see [Equipment.Own].
type Own struct {
	place   *Place
	servers map[string]*Node // by name
}

// start starts the servers, which replace the shared ones.
func (o *Own) start(ctx context.Context, e Equipment) error {
	o.servers = map[string]*Node{}
	for server := range strings.SplitSeq(e.Own, ",") {
		link := o.place.linkTo(server)
		if link == nil {
			continue
		}
		name := fmt.Sprintf("lane %d own %s", o.place.Number, server)
		clock, err := o.place.clock(ctx, e, name)
		if err != nil {
			return err
		}
		n, err := o.place.startRedis(ctx, name, passwordOf(link.url), clock, e.conf()...)
		if err != nil {
			return err
		}
		n.young = true
		o.servers[server] = &n
		link.addr, link.url = n.run.Addr, n.url()
	}
	return nil
}

// find returns a server by name.
func (o *Own) find(server string) (*Node, error) {
	n := o.servers[server]
	if n == nil {
		return nil, fmt.Errorf("faultlab: lane %d has no %q of its own", o.place.Number, server)
	}
	return n, nil
}

// Restart kills one of the lane's own servers by SIGKILL and restarts it on the same address. Data that is not on disk
// is lost.
func (o *Own) Restart(ctx context.Context, server string) error {
	n, err := o.find(server)
	if err != nil {
		return err
	}
	n.run.Kill()
	o.place.Warm = "" // its connections and its scripts are gone
	n.young = true
	return o.startAgain(ctx, n)
}

// startAgain restarts one of the lane's own servers that has ended.
func (o *Own) startAgain(ctx context.Context, n *Node) error {
	n.starts++
	child := n.child
	child.Name, child.Addr = fmt.Sprintf("%s %d", n.child.Name, n.starts), n.run.Addr
	run, err := o.place.Stack.Spawn(ctx, child)
	if err != nil {
		return err // restore tries again: the old run has ended
	}
	n.run = run
	// A client must see at once that its old connection is closed, not at its next command.
	for server, own := range o.servers {
		if own == n {
			o.place.turn(server, n.run.Addr)
		}
	}
	return nil
}

// OutOfGuard waits until the restart guard of one of the lane's own nodes is over. The guard lasts for the TTL; it
// begins when a client first contacts the node, at the latest when the actors are warmed up.
func (o *Own) OutOfGuard(ctx context.Context, server string) error {
	n, err := o.find(server)
	if err != nil || !n.young {
		return err
	}
	select {
	case <-time.After(o.place.TTL + guardMargin):
		n.young = false
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// guardMargin covers the difference between the node's clock, which counts whole milliseconds, and ours.
const guardMargin = 20 * time.Millisecond

// Freeze stops one of the lane's own servers by SIGSTOP; [Own.Thaw] continues it.
func (o *Own) Freeze(server string) error { return o.signal(server, syscall.SIGSTOP) }

// Thaw continues a server that [Own.Freeze] has stopped, by SIGCONT.
func (o *Own) Thaw(server string) error { return o.signal(server, syscall.SIGCONT) }

func (o *Own) signal(server string, s syscall.Signal) error {
	n, err := o.find(server)
	if err != nil {
		return err
	}
	if err := syscall.Kill(-n.run.PID, s); err != nil {
		return fmt.Errorf("faultlab: %s: %w", server, err)
	}
	return nil
}

// Tell sends a command to one of the lane's own servers, on a separate connection, and returns the answer.
func (o *Own) Tell(ctx context.Context, server string, words ...string) (string, error) {
	n, err := o.find(server)
	if err != nil {
		return "", err
	}
	return n.Do(ctx, words...)
}

// restore restarts those of the lane's own servers that have ended, and continues stopped ones.
func (o *Own) restore(ctx context.Context) error {
	for server, n := range o.servers {
		select {
		case <-n.run.Exited():
			if err := o.startAgain(ctx, n); err != nil {
				return err
			}
		default:
			if err := o.Thaw(server); err != nil {
				return err
			}
		}
	}
	return nil
}

// Names returns the names of the servers, sorted.
func (o *Own) Names() []string { return slices.Sorted(maps.Keys(o.servers)) }

// Evicted returns how many keys one of the lane's own servers has evicted since it started.
func (o *Own) Evicted(ctx context.Context, server string) (string, error) {
	n, err := o.find(server)
	if err != nil {
		return "", err
	}
	return n.field(ctx, "stats", "evicted_keys")
}

// Logged waits until the append-only file of one of the lane's own servers contains every command that was answered,
// and returns its length in bytes. Redis writes a command to the file before it answers, except while an fsync is under
// way: then it keeps the command in a buffer.
func (o *Own) Logged(ctx context.Context, server string) (int64, error) {
	n, err := o.find(server)
	if err != nil {
		return 0, err
	}
	file, err := n.log()
	if err != nil {
		return 0, err
	}
	written := func() bool {
		buffered, err := n.field(ctx, "persistence", "aof_buffer_length")
		return err == nil && buffered == "0"
	}
	if err := Until(ctx, "the append-only file of "+server, written); err != nil {
		return 0, err
	}
	about, err := os.Stat(file)
	if err != nil {
		return 0, err
	}
	return about.Size(), nil
}

// RestartFrom kills one of the lane's own servers, truncates its append-only file to length bytes, and restarts it.
func (o *Own) RestartFrom(ctx context.Context, server string, length int64) error {
	n, err := o.find(server)
	if err != nil {
		return err
	}
	n.run.Kill()
	o.place.Warm = ""
	file, err := n.log()
	if err != nil {
		return err
	}
	if err := os.Truncate(file, length); err != nil {
		return err
	}
	return o.startAgain(ctx, n)
}
