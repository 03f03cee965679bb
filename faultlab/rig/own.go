package rig

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"lastitem/stack"
)

// Own is the lane's own Redis servers, which it may kill, stop and empty; see [Equipment.Own].
type Own struct {
	lane    *Lane
	servers map[string]*node               // by name
	back    map[*stack.Clock]time.Duration // clocks that were set back, and their offset before
}

// start starts the servers, which replace the shared ones.
func (o *Own) start(ctx context.Context, e Equipment) error {
	o.servers, o.back = map[string]*node{}, map[*stack.Clock]time.Duration{}
	for server := range strings.SplitSeq(e.Own, ",") {
		i := slices.IndexFunc(o.lane.links, func(x link) bool { return x.server == server })
		if i < 0 {
			continue
		}
		name := fmt.Sprintf("lane %d own %s", o.lane.number, server)
		clock, err := o.lane.servers.clock(ctx, e, name)
		if err != nil {
			return err
		}
		n, err := o.lane.servers.startRedis(ctx, name, passwordOf(o.lane.links[i].url), clock, e.conf()...)
		if err != nil {
			return err
		}
		n.young = true
		o.servers[server] = &n
		o.lane.links[i].addr, o.lane.links[i].url = n.run.Addr, n.url()
	}
	return nil
}

// find returns a server by name.
func (o *Own) find(server string) (*node, error) {
	n := o.servers[server]
	if n == nil {
		return nil, fmt.Errorf("faultlab: lane %d has no %q of its own", o.lane.number, server)
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
	o.lane.warm = "" // its connections and its scripts are gone
	n.young = true
	return o.startAgain(ctx, n)
}

// startAgain restarts one of the lane's own servers that has ended.
func (o *Own) startAgain(ctx context.Context, n *node) error {
	n.starts++
	child := n.child
	child.Name, child.Addr = fmt.Sprintf("%s %d", n.child.Name, n.starts), n.run.Addr
	run, err := o.lane.servers.Stack.Spawn(ctx, child)
	if err != nil {
		return err // restore tries again: the old run has ended
	}
	n.run = run
	// A client must see at once that its old connection is closed, not at its next command.
	for server, own := range o.servers {
		for _, a := range o.lane.actors() {
			if own == n {
				a.proxies[server].Turn(n.run.Addr)
			}
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
	case <-time.After(o.lane.TTL + guardMargin):
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
	return n.do(ctx, words...)
}

// restore restarts those of the lane's own servers that have ended, continues stopped ones, and sets clocks forward
// that were set back.
func (o *Own) restore(ctx context.Context) error {
	if err := o.restoreClocks(); err != nil {
		return err
	}
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

// log returns the path of a node's append-only file.
func (n *node) log() (string, error) {
	files, err := filepath.Glob(filepath.Join(n.dir, "appendonlydir", "*.incr.aof"))
	if err == nil && len(files) != 1 {
		err = fmt.Errorf("faultlab: %d append-only files of %s, want one", len(files), n.child.Name)
	}
	if err != nil {
		return "", err
	}
	return files[0], nil
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
	if err := until(ctx, "the append-only file of "+server, written); err != nil {
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
	o.lane.warm = ""
	file, err := n.log()
	if err != nil {
		return err
	}
	if err := os.Truncate(file, length); err != nil {
		return err
	}
	return o.startAgain(ctx, n)
}

// Clocks returns an error that says why servers' clocks cannot be set on this machine; nil = they can.
func (s *Servers) Clocks(ctx context.Context) error {
	_, err := s.Stack.NewClock(ctx, "probe")
	return err
}

// clock returns a clock for one of a lane's own servers; nil = the equipment has no clocks.
func (s *Servers) clock(ctx context.Context, e Equipment, name string) (*stack.Clock, error) {
	if !e.Clock {
		return nil, nil //nolint:nilnil // nil = the machine's clock
	}
	return s.Stack.NewClock(ctx, name)
}

// Jump sets the wall clocks of some of the lane's own servers forward (by > 0) or back, by several seconds at least,
// and returns when every server shows it. A clock that was set forward stays there; one that was set back is set
// forward again at the next reset of the lane. So no schedule sees a time that an earlier one has seen.
func (o *Own) Jump(ctx context.Context, by time.Duration, servers ...string) error {
	o.lane.warm = "" // keys that the warm-up made may have expired
	for _, server := range servers {
		clock, _, err := o.clockOf(server)
		if err != nil {
			return err
		}
		if by < 0 {
			o.back[clock] = clock.Offset()
		}
		if err := clock.Set(clock.Offset() + by); err != nil {
			return err
		}
	}
	for _, server := range servers {
		clock, show, err := o.clockOf(server)
		if err != nil {
			return err
		}
		shown := func() bool {
			now, err := show(ctx)
			return err == nil && now.Sub(time.Now().Add(clock.Offset())).Abs() < by.Abs()/2
		}
		if err := until(ctx, "the clock of "+server, shown); err != nil {
			return err
		}
	}
	return nil
}

// clockOf returns the clock of one of the lane's own servers, and a function that asks the server for its time.
func (o *Own) clockOf(server string) (*stack.Clock, func(context.Context) (time.Time, error), error) {
	if server == Database && o.lane.SQL.clock != nil {
		return o.lane.SQL.clock, o.lane.SQL.time, nil
	}
	n, err := o.find(server)
	if err != nil {
		return nil, nil, err
	}
	if n.clock == nil {
		return nil, nil, fmt.Errorf("faultlab: the clock of %q in lane %d cannot be set", server, o.lane.number)
	}
	return n.clock, n.time, nil
}

// time returns the time of the node's clock.
func (n *node) time(ctx context.Context) (time.Time, error) {
	all, err := n.all(ctx, "TIME")
	if err == nil && len(all) != 2 {
		err = fmt.Errorf("faultlab: TIME = %q, want two numbers", all)
	}
	if err != nil {
		return time.Time{}, err
	}
	seconds, err := strconv.ParseInt(all[0], 10, 64)
	return time.Unix(seconds, 0), err
}

// time returns the time of the database's clock.
func (s *SQL) time(ctx context.Context) (time.Time, error) {
	db, err := s.access()
	if err != nil {
		return time.Time{}, err
	}
	var seconds int64
	err = db.QueryRowContext(ctx, "SELECT UNIX_TIMESTAMP()").Scan(&seconds)
	return time.Unix(seconds, 0), err
}

// restoreClocks sets clocks forward again that were set back.
func (o *Own) restoreClocks() error {
	for clock, offset := range o.back {
		if err := clock.Set(offset); err != nil {
			return err
		}
		delete(o.back, clock)
	}
	return nil
}
