package rig

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"time"

	"lastitem/faultlab/rig/gear"
	"lastitem/say/text"
	"lastitem/stack"
	"lastitem/stack/wire"
)

// Actor is one replica, with a proxy before each of its servers.
type Actor struct {
	Name string // "A", "B", "C"
	URL  string // of the replica, without a trailing slash

	*gear.Wires
	place    *gear.Place
	service  *Service
	patience time.Duration // see LaneOptions.Patience
	settings []string      // environment variables beside those of the service
	turns    gear.Work     // what it does by itself; nil = nothing
	told     *wire.Hold    // the story says that a sweep is held there
	run      *stack.Running
	stopped  bool
	starts   int
}

// start starts the process and waits until it is ready.
func (a *Actor) start(ctx context.Context) error {
	a.starts++
	if a.turns != nil {
		a.Turn(a.turns)
	}
	launch := Launch{Actor: a.Name, Lane: a.place.Number, TTL: a.place.TTL, URLs: a.URLs(), Token: a.place.Stack.Token,
		Patience: a.patience}
	for range a.service.MorePorts {
		port, err := a.place.Stack.FreePort()
		if err != nil {
			return err
		}
		launch.Ports = append(launch.Ports, port)
	}
	run, err := a.place.Stack.Spawn(ctx, stack.Child{
		Name:  fmt.Sprintf("lane %d %s %d", a.place.Number, a.Name, a.starts),
		Argv:  func(addr string) []string { return a.service.Argv(launch, addr) },
		Env:   func(addr string) []string { return append(a.service.Env(launch, addr), a.settings...) },
		Ready: a.service.Ready, Within: a.service.ReadyWithin,
		Dir: a.service.Dir,
	})
	if a.service.Waits && errors.Is(err, context.DeadlineExceeded) {
		return text.Of("%w; --ready-within gives it more time").Errorf(err)
	}
	if err != nil {
		return err
	}
	a.run, a.URL, a.stopped = run, "http://"+run.Addr, false
	if !a.service.Waits {
		return nil // our own service is known to stay in reach
	}
	return inReach(run)
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
	if !a.service.Waits {
		return gear.Until(ctx, what, still)
	}
	if err := obeyed(ctx, reachWithin, what, still,
		"after SIGSTOP a process that the command started still runs"); err != nil {
		return err
	}
	return standsStill(ctx, a.run.Addr, a.service.Ready)
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
	return gear.Until(ctx, a.Name+" to take no more connections", func() bool { return !accepts(a.run.Addr) })
}

// endedWithin is how long a process without requests may take to exit after SIGTERM: it closes its sessions, each
// within a bound.
const endedWithin = 20 * time.Second

// Ended waits until the process has exited by itself; after endedWithin it returns an error.
func (a *Actor) Ended(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, endedWithin)
	defer cancel()
	return gear.Until(ctx, a.Name+" to end", func() bool { return !a.Alive() })
}

// Discard drops what a killed process had sent and the proxies have not delivered, and waits until the servers have
// ended its sessions. ErrOutOfReach: the process was killed, and goes on.
func (a *Actor) Discard(ctx context.Context) error {
	if !a.Alive() {
		if err := ended(ctx, a.run.Addr, reachWithin); err != nil {
			return err
		}
	}
	return a.Wires.Discard(ctx)
}

// Alive reports whether the process exists, stopped or not.
func (a *Actor) Alive() bool {
	if a.run == nil {
		return false
	}
	select {
	case <-a.run.Exited():
		return false
	default:
		return true
	}
}

// Stopped says whether the process was stopped by [Actor.Pause] and not resumed.
func (a *Actor) Stopped() bool { return a.stopped }
