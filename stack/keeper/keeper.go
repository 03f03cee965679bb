// Package keeper owns child processes on behalf of a parent that may die at any moment, even by kill -9. [Start] starts
// a keeper, a process of its own ('shop keeper', whose body is [Run]), which has a private directory and runs a
// [Command] as a [Process]. It reads its orders from a pipe held by the parent; when that ends, so does all that it
// started.
package keeper

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"lastitem/say/text"
)

// ErrGone is the answer to everything after the keeper has ended.
var ErrGone = text.Of("stack: the keeper has died").Errorf()

// Keeper is the parent's side of a keeper: its pipes, and what it said about every child.
type Keeper struct {
	Dir string // private; gone after Close
	PID int

	cmd *exec.Cmd
	in  *os.File // closing it ends everything, as the kernel does when this process dies

	mu       sync.Mutex
	patience time.Duration // bounds an orderly end, last commands included
	next     int
	procs    map[int]*Process
	closed   bool          // by us: exits are expected from now on
	gone     chan struct{} // closed when the keeper has ended and everything is cleaned up
	died     func(p *Process, how string)
}

// Process is a child as the parent sees it. The fields below exited are set before that is closed.
type Process struct {
	Name string
	PID  int // also of its group
	Log  Log

	vital   bool          // its end is told
	started chan struct{} // closed when PID or failed is known
	exited  chan struct{}
	failed  error
	how     string
}

// Start starts a keeper, which is binary with the argument "keeper", in a session of its own, so that a Ctrl-C in the
// terminal reaches the parent only. died is called, at most once per child and never after Close, when a vital child
// (see [Keeper.Guard]) or, with p nil, the keeper ends.
func Start(binary string, died func(p *Process, how string)) (*Keeper, error) {
	toKeeper, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, fromKeeper, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, toKeeper.Close(), in.Close())
	}
	cmd := exec.Command(binary, "keeper")
	cmd.Stdin, cmd.Stdout = toKeeper, fromKeeper
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = errors.Join(cmd.Start(), toKeeper.Close(), fromKeeper.Close())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("stack: start the keeper: %w", err), in.Close(), out.Close())
	}
	k := &Keeper{PID: cmd.Process.Pid, cmd: cmd, in: in, patience: orderly, procs: map[int]*Process{},
		gone: make(chan struct{}), died: died}
	events := json.NewDecoder(out)
	var hello event
	if events.Decode(&hello) != nil || hello.Dir == "" {
		_ = cmd.Process.Kill()
		if hello.Error != "" {
			_ = cmd.Wait()
			err := text.Of("stack: no private directory can be made: %s (the variable TMPDIR names the place)").
				Errorf(hello.Error)
			return nil, errors.Join(err, in.Close(), out.Close())
		}
		err := fmt.Errorf("stack: '%s keeper' does not answer; is it the shop binary?", binary)
		return nil, errors.Join(err, in.Close(), out.Close(), cmd.Wait())
	}
	k.Dir = hello.Dir
	go k.watch(events, out)
	return k, nil
}

// watch follows the keeper until it ends, and then makes sure that nothing is left.
func (k *Keeper) watch(events *json.Decoder, out *os.File) {
	for {
		var e event
		if events.Decode(&e) != nil {
			break
		}
		k.mu.Lock()
		p := k.procs[e.ID]
		k.mu.Unlock()
		if p != nil {
			k.note(p, e)
		}
	}
	_ = out.Close()
	_ = k.cmd.Wait()

	// From here on the keeper is gone. In the orderly case it has ended everything and the rest finds nothing to do.
	k.mu.Lock()
	closed := k.closed
	k.closed = true
	left := make([]*Process, 0, len(k.procs))
	for _, p := range k.procs {
		left = append(left, p)
	}
	k.mu.Unlock()
	for _, p := range left {
		p.end("the keeper has died")
	}
	_ = k.in.Close()
	_ = remove(k.Dir) // done by the keeper already, unless it was killed
	close(k.gone)
	if !closed {
		k.died(nil, "killed")
	}
}

// note takes in one event about p.
func (k *Keeper) note(p *Process, e event) {
	switch e.Event {
	case "started":
		p.PID = e.PID
		close(p.started)
	case "failed":
		p.failed = errors.New(e.Error)
		p.how = e.Error
		close(p.exited)
		close(p.started)
	case "exited":
		p.how = e.Error
		close(p.exited)
		k.mu.Lock()
		tell := p.vital && !k.closed
		k.mu.Unlock()
		if tell {
			k.died(p, e.Error)
		}
	}
}

// Exited is closed when the child has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// How says how the child ended, [ExitedWell] or "signal: killed". It may be asked once Exited is closed.
func (p *Process) How() string { return p.how }

// Kill ends the child's group, unless the child has ended: its number may belong to somebody else then.
func (p *Process) Kill() {
	select {
	case <-p.exited:
	default:
		killGroup(p.PID) // of nobody if it has failed
	}
}

// end is for a child whose keeper is gone: its group is killed, unless it is known to have ended.
func (p *Process) end(how string) {
	select {
	case <-p.exited:
		return
	default:
	}
	killGroup(p.PID)
	p.how = how
	close(p.exited)
	select {
	case <-p.started:
	default:
		p.failed = ErrGone
		close(p.started)
	}
}

// Command is what a child runs.
type Command struct {
	Argv []string
	Env  []string // on top of the keeper's own
	Dir  string   // "" = the private directory
	As   *Account // nil = the keeper's own
	// Grace is how long the child may take to end after SIGINT; 0 = it is killed at once. Servers whose data is thrown
	// away with the directory need no grace, replicas that still answer requests do.
	Grace time.Duration
}

// Start asks for a child and waits until it runs. Its log is [LogOf] the private directory and the
// name.
func (k *Keeper) Start(ctx context.Context, name string, c Command) (*Process, error) {
	p := &Process{
		Name:    name,
		Log:     LogOf(k.Dir, name),
		started: make(chan struct{}),
		exited:  make(chan struct{}),
	}
	s := spec{Argv: c.Argv, Env: c.Env, Dir: cmp.Or(c.Dir, k.Dir), Log: string(p.Log),
		As: c.As, GraceMS: int(c.Grace.Milliseconds())}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("stack: start %s: %w", name, context.Cause(ctx))
	}
	if err := k.request(p, s); err != nil {
		return nil, err
	}
	select {
	case <-p.started:
	case <-ctx.Done():
		go func() { // it has a port, which may be needed again
			<-p.started
			p.Kill()
		}()
		return nil, fmt.Errorf("stack: start %s: %w", name, context.Cause(ctx))
	}
	if p.failed != nil {
		return nil, fmt.Errorf("stack: start %s: %w", name, p.failed)
	}
	return p, nil
}

// request sends the order for p under a new number, unless nobody would carry it out.
func (k *Keeper) request(p *Process, s spec) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return ErrGone
	}
	k.next++
	s.ID = k.next
	line, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if p != nil {
		k.procs[s.ID] = p // before the write: the answer may come at once
	}
	if _, err := k.in.Write(append(line, '\n')); err != nil {
		return ErrGone
	}
	return nil
}

// Last tells the keeper what to run when everything else has ended, however that comes; Close waits for it, too.
func (k *Keeper) Last(argv, env []string) error {
	k.mu.Lock()
	k.patience += lastCommandLimit
	k.mu.Unlock()
	return k.request(nil, spec{Argv: argv, Env: env, Dir: k.Dir, Log: filepath.Join(k.Dir, "lastCommand.log"),
		LastCommand: true})
}

// Run starts a child that ends by itself and waits for that, within ctx. Its error carries the end of its log.
func (k *Keeper) Run(ctx context.Context, name string, c Command) error {
	p, err := k.Start(ctx, name, c)
	if err != nil {
		return err
	}
	select {
	case <-p.exited:
	case <-ctx.Done():
		return fmt.Errorf("stack: %s: %w", name, context.Cause(ctx))
	}
	if p.how != ExitedWell {
		return fmt.Errorf("stack: %s: %s%s%s", name, p.how, p.Log.Cause(), p.Log.Tail())
	}
	return nil
}

// Guard says whether p lives, and makes it vital from now on where that is asked for. Together with note, which looks
// at vital after it has closed exited, this leaves no moment at which an end goes unseen.
func (k *Keeper) Guard(p *Process, vital bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	select {
	case <-p.exited:
		return false
	default:
		p.vital = vital
		return true
	}
}

// Expect takes p's end for intended.
func (k *Keeper) Expect(p *Process) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p.vital = false
}

// Ended says whether Close was called, or the keeper is gone.
func (k *Keeper) Ended() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.closed
}

// Gone is closed when the keeper has ended and everything is cleaned up.
func (k *Keeper) Gone() <-chan struct{} { return k.gone }

// Close ends all children and removes the directory. It may be repeated.
func (k *Keeper) Close() error {
	k.mu.Lock()
	if !k.closed {
		k.closed = true
		_ = k.in.Close() // the keeper sees the end of its requests
	}
	patience := k.patience
	k.mu.Unlock()
	select {
	case <-k.gone:
		return nil
	case <-time.After(patience):
		_ = k.cmd.Process.Kill() // watch then kills the groups and removes the directory
	}
	<-k.gone
	return fmt.Errorf("stack: the keeper did not end within %v and was killed", patience)
}

// orderly bounds an orderly end without a last command: the longest grace, and several times as much for a busy
// machine.
const orderly = 15 * time.Second
