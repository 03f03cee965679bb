package rig

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"lastitem/stack"
	"lastitem/stack/wire"
)

// Actor is one replica, with a proxy before each of its servers.
type Actor struct {
	Name string // "A", "B", "C"
	URL  string // of the replica, without a trailing slash

	lane    *Lane
	proxies map[string]*wire.Proxy // by server
	run     *stack.Running
	stopped bool
	holds   []*wire.Hold
	parked  []*wire.Hold // of its next sweeps, see sweep
	told    *wire.Hold   // the story says that the sweep is held there
	swept   int64        // calls with a higher number came after its last sweep had been let go
	turned  bool         // some proxy leads to another server than its own
	parted  bool         // cut off from some server, see Part
	starts  int
}

// newActor creates the actor and its proxies; start starts its process.
func newActor(l *Lane, name string) (*Actor, error) {
	a := &Actor{Name: name, lane: l, proxies: map[string]*wire.Proxy{}}
	for _, link := range l.links {
		p, err := wire.NewProxy(link.server, link.addr, link.codec)
		if err != nil {
			a.close()
			return nil, err
		}
		a.proxies[link.server] = p
	}
	return a, nil
}

func (a *Actor) close() {
	for _, p := range a.proxies {
		p.Close()
	}
}

// urls returns the addresses of the actor's proxies, by the variable that tells the replica about the server.
func (a *Actor) urls() map[string]string {
	urls := map[string]string{}
	for _, link := range a.lane.links {
		to := link.at(a.proxies[link.server].Addr, a.lane.number)
		if before := urls[link.env]; before != "" {
			to = before + "," + to
		}
		urls[link.env] = to
	}
	return urls
}

// start starts the process and waits until it is ready.
func (a *Actor) start(ctx context.Context) error {
	a.starts++
	if a.sweeps() {
		a.sweep()
	}
	launch := Launch{Actor: a.Name, Lane: a.lane.number, TTL: a.lane.TTL, URLs: a.urls(),
		Token: a.lane.servers.Stack.Token, Patience: a.lane.patience}
	run, err := a.lane.servers.Stack.Spawn(ctx, stack.Child{
		Name:  fmt.Sprintf("lane %d %s %d", a.lane.number, a.Name, a.starts),
		Argv:  func(addr string) []string { return a.lane.Service.Argv(launch, addr) },
		Env:   func(addr string) []string { return append(a.lane.Service.Env(launch, addr), a.settings()...) },
		Ready: a.lane.Service.Ready,
		Dir:   a.lane.Service.Dir,
	})
	if err != nil {
		return err
	}
	a.run, a.URL, a.stopped = run, "http://"+run.Addr, false
	return a.inReach()
}

// settings are the environment variables of this actor beside those of the service.
func (a *Actor) settings() []string {
	if a.sweeps() {
		return append(slices.Clone(a.lane.settings), "SHOP_SWEEP="+sweepEvery.String())
	}
	return a.lane.settings
}

// servers returns the names of the actor's servers among these, with all nodes of a service.
func (a *Actor) servers(services []string) (names []string) {
	for name := range a.proxies {
		if slices.ContainsFunc(services, func(s string) bool { return name == s || strings.HasPrefix(name, s+" ") }) {
			names = append(names, name)
		}
	}
	return names
}

// Calls returns the calls that passed the actor's proxies after the call with the given number, in the order in which
// they were sent.
func (a *Actor) Calls(since int64) []wire.Call {
	var all []wire.Call
	for _, p := range a.proxies {
		all = append(all, p.Since(since)...)
	}
	slices.SortFunc(all, func(x, y wire.Call) int { return cmp.Compare(x.ID, y.ID) })
	return all
}

// Unanswered returns the calls that a server has not answered or not received yet, without a parked sweep.
func (a *Actor) Unanswered() []wire.Call {
	var all []wire.Call
	for _, p := range a.proxies {
		all = append(all, p.Unanswered()...)
	}
	return slices.DeleteFunc(all, func(c wire.Call) bool {
		first := begins[c.Server]
		return c.Sent.IsZero() && first != nil && first(c)
	})
}

// Pause stops the process by SIGSTOP and returns when all its threads have stopped. On systems other than Linux it
// returns an error.
func (a *Actor) Pause(ctx context.Context) error {
	if err := showsThreads(runtime.GOOS); err != nil {
		return err
	}
	if err := syscall.Kill(-a.run.PID, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("faultlab: stop %s: %w", a.Name, err)
	}
	a.stopped = true
	still, what := func() bool { return allStopped(a.run.PID, stopped) }, "the threads of "+a.Name+" to stop"
	if a.lane == nil || !a.lane.Service.Waits {
		return until(ctx, what, still)
	}
	if err := obeyed(ctx, reachWithin, what, still,
		"after SIGSTOP a process that the command started still runs"); err != nil {
		return err
	}
	return a.standsStill(ctx)
}

// Resume continues a paused process (SIGCONT).
func (a *Actor) Resume() error {
	a.stopped = false
	if err := syscall.Kill(-a.run.PID, syscall.SIGCONT); err != nil {
		return fmt.Errorf("faultlab: resume %s: %w", a.Name, err)
	}
	return nil
}

// Kill ends the process by SIGKILL and returns when it is gone.
func (a *Actor) Kill() { a.run.Kill() }

// Terminate sends SIGTERM and returns when the process accepts no new connections.
func (a *Actor) Terminate(ctx context.Context) error {
	if err := syscall.Kill(a.run.PID, syscall.SIGTERM); err != nil {
		return fmt.Errorf("faultlab: terminate %s: %w", a.Name, err)
	}
	return until(ctx, a.Name+" to take no more connections", func() bool { return !a.accepts() })
}

// turnedAwayWithin bounds an attempt to connect: a replica that accepts no connections may also leave the attempt
// unanswered.
const turnedAwayWithin = 50 * time.Millisecond

// endedWithin is how long a process without requests may take to exit after SIGTERM: it closes its sessions, each
// within a bound.
const endedWithin = 20 * time.Second

// Ended waits until the process has exited by itself; after endedWithin it returns an error.
func (a *Actor) Ended(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, endedWithin)
	defer cancel()
	return until(ctx, a.Name+" to end", func() bool { return !a.alive() })
}

// Discard drops what a killed process had sent and the proxies have not delivered, and waits until the servers have
// ended its sessions. ErrOutOfReach: the process was killed, and goes on.
func (a *Actor) Discard(ctx context.Context) error {
	if !a.alive() {
		if err := a.ended(ctx, reachWithin); err != nil {
			return err
		}
	}
	for server, p := range a.proxies {
		if err := p.Discard(ctx); err != nil {
			return fmt.Errorf("faultlab: the sessions of %s with %s: %w", a.Name, server, err)
		}
	}
	return nil
}

// alive reports whether the process exists, stopped or not.
func (a *Actor) alive() bool {
	select {
	case <-a.run.Exited():
		return false
	default:
		return true
	}
}

// showsThreads returns an error if an operating system does not show the states of a process's threads.
func showsThreads(system string) error {
	if system != "linux" {
		return fmt.Errorf("faultlab: processes are paused on Linux only: %s has no /proc that shows when all threads have "+
			"stopped", system)
	}
	return nil
}

// The states of an idle thread in /proc: T is stopped by a signal. A child may also have exited: Z is a zombie that its
// parent has not reaped, X is dead.
const (
	stopped        = "T"
	stoppedOrEnded = "TZX"
)

// allStopped reports whether every thread of a process is in one of the states, and every thread of its children
// stopped or ended.
func allStopped(pid int, states string) bool {
	tasks := "/proc/" + strconv.Itoa(pid) + "/task"
	threads, err := os.ReadDir(tasks)
	if err != nil {
		return false
	}
	for _, t := range threads {
		children, _ := os.ReadFile(tasks + "/" + t.Name() + "/children")
		for child := range strings.FieldsSeq(string(children)) {
			if id, err := strconv.Atoi(child); err == nil && !allStopped(id, stoppedOrEnded) {
				return false
			}
		}
		line, err := os.ReadFile(tasks + "/" + t.Name() + "/stat")
		if err != nil {
			return false
		}
		after := line[bytes.LastIndexByte(line, ')')+1:]
		if state, _, _ := strings.Cut(strings.TrimSpace(string(after)), " "); state == "" ||
			!strings.Contains(states, state) {
			return false
		}
	}
	return len(threads) > 0
}

// polling is the time between two checks of a condition.
const polling = time.Millisecond

// until waits for a condition until ctx ends.
func until(ctx context.Context, what string, is func() bool) error {
	for !is() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("faultlab: waiting for %s: %w", what, context.Cause(ctx))
		case <-time.After(polling):
		}
	}
	return nil
}
