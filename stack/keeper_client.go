package stack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"lastitem/say/text"
)

// errKeeperGone is the answer to everything after the keeper has ended.
var errKeeperGone = text.Of("stack: the keeper has died").Errorf()

// keeperClient is the parent's side of a keeper: its pipes, and what it said about every child.
type keeperClient struct {
	cmd *exec.Cmd
	in  *os.File // closing it ends everything, as the kernel does when this process dies
	dir string

	mu       sync.Mutex
	patience time.Duration // bounds an orderly end, last commands included
	next     int
	procs    map[int]*process
	closed   bool          // by us: exits are expected from now on
	gone     chan struct{} // closed when the keeper has ended and everything is cleaned up
	died     func(p *process, how string)
}

// process is a child as the parent sees it. The fields below exited are set before that is closed.
type process struct {
	name    string
	log     string
	vital   bool          // its end is the end of the stack
	started chan struct{} // closed when pid or failed is known
	exited  chan struct{}
	pid     int
	failed  error
	how     string
}

// newKeeperClient starts a keeper, which is binary with the argument "keeper", in a session of its own, so that a
// Ctrl-C in the terminal reaches the parent only. died is called, at most once per child and never after close, when a
// vital child or (with p nil) the keeper ends.
func newKeeperClient(binary string, died func(p *process, how string)) (*keeperClient, error) {
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
	l := &keeperClient{cmd: cmd, in: in, patience: keeperPatience, procs: map[int]*process{}, gone: make(chan struct{}),
		died: died}
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
	l.dir = hello.Dir
	go l.watch(events, out)
	return l, nil
}

// watch follows the keeper until it ends, and then makes sure that nothing is left.
func (l *keeperClient) watch(events *json.Decoder, out *os.File) {
	for {
		var e event
		if events.Decode(&e) != nil {
			break
		}
		l.mu.Lock()
		p := l.procs[e.ID]
		l.mu.Unlock()
		if p != nil {
			l.note(p, e)
		}
	}
	_ = out.Close()
	_ = l.cmd.Wait()

	// From here on the keeper is gone. In the orderly case it has ended everything and the rest finds nothing to do.
	l.mu.Lock()
	closed := l.closed
	l.closed = true
	left := make([]*process, 0, len(l.procs))
	for _, p := range l.procs {
		left = append(left, p)
	}
	l.mu.Unlock()
	for _, p := range left {
		p.end("the keeper has died")
	}
	_ = l.in.Close()
	_ = remove(l.dir) // done by the keeper already, unless it was killed
	close(l.gone)
	if !closed {
		l.died(nil, "killed")
	}
}

// note takes in one event about p.
func (l *keeperClient) note(p *process, e event) {
	switch e.Event {
	case "started":
		p.pid = e.PID
		close(p.started)
	case "failed":
		p.failed = errors.New(e.Error)
		p.how = e.Error
		close(p.exited)
		close(p.started)
	case "exited":
		p.how = e.Error
		close(p.exited)
		l.mu.Lock()
		tell := p.vital && !l.closed
		l.mu.Unlock()
		if tell {
			l.died(p, e.Error)
		}
	}
}

// end is for a child whose keeper is gone: its group is killed, unless it is known to have ended.
func (p *process) end(how string) {
	select {
	case <-p.exited:
		return
	default:
	}
	killGroup(p.pid)
	p.how = how
	close(p.exited)
	select {
	case <-p.started:
	default:
		p.failed = errKeeperGone
		close(p.started)
	}
}

// start asks for a child and waits until it runs. Its log is <name>.log in the private directory, which is also its
// working directory unless s names another.
func (l *keeperClient) start(ctx context.Context, name string, s spec) (*process, error) {
	p := &process{
		name:    name,
		log:     filepath.Join(l.dir, logFile(name)),
		started: make(chan struct{}),
		exited:  make(chan struct{}),
	}
	s.Dir, s.Log = cmp.Or(s.Dir, l.dir), p.log
	if ctx.Err() != nil {
		return nil, fmt.Errorf("stack: start %s: %w", name, context.Cause(ctx))
	}
	if err := l.request(p, s); err != nil {
		return nil, err
	}
	select {
	case <-p.started:
	case <-ctx.Done():
		go func() { // it has a port, which may be needed again
			<-p.started
			select {
			case <-p.exited:
			default:
				killGroup(p.pid) // of nobody if it has failed
			}
		}()
		return nil, fmt.Errorf("stack: start %s: %w", name, context.Cause(ctx))
	}
	if p.failed != nil {
		return nil, fmt.Errorf("stack: start %s: %w", name, p.failed)
	}
	return p, nil
}

// request sends the order for p under a new number, unless nobody would carry it out.
func (l *keeperClient) request(p *process, s spec) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errKeeperGone
	}
	l.next++
	s.ID = l.next
	line, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if p != nil {
		l.procs[s.ID] = p // before the write: the answer may come at once
	}
	if _, err := l.in.Write(append(line, '\n')); err != nil {
		return errKeeperGone
	}
	return nil
}

// lastCommand tells the keeper what to run last; close waits for it, too.
func (l *keeperClient) lastCommand(o Options) error {
	if o.LastCommand == nil {
		return nil
	}
	l.mu.Lock()
	l.patience += lastCommandLimit
	l.mu.Unlock()
	argv := append([]string{o.Binary}, o.LastCommand...)
	return l.request(nil, spec{Argv: argv, Env: o.LastCommandEnv, Dir: l.dir, Log: filepath.Join(l.dir, "lastCommand.log"),
		LastCommand: true})
}

// run starts a child that ends by itself and waits for that, within ctx. Its error carries the end of its log.
func (l *keeperClient) run(ctx context.Context, name string, argv []string) error {
	p, err := l.start(ctx, name, spec{Argv: argv})
	if err != nil {
		return err
	}
	select {
	case <-p.exited:
	case <-ctx.Done():
		return fmt.Errorf("stack: %s: %w", name, context.Cause(ctx))
	}
	if p.how != exitedWell {
		return fmt.Errorf("stack: %s: %s%s%s", name, p.how, cause(p.log), tail(p.log))
	}
	return nil
}

// guard says whether p lives, and makes it vital from now on where that is asked for. Together with note, which looks
// at vital after it has closed exited, this leaves no moment at which an end goes unseen.
func (l *keeperClient) guard(p *process, vital bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-p.exited:
		return false
	default:
		p.vital = vital
		return true
	}
}

// expect takes p's end for intended.
func (l *keeperClient) expect(p *process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.vital = false
}

// ended says whether the stack was closed, or the keeper is gone.
func (l *keeperClient) ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// close ends all children and removes the directory. It may be repeated.
func (l *keeperClient) close() error {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		_ = l.in.Close() // the keeper sees the end of its requests
	}
	patience := l.patience
	l.mu.Unlock()
	select {
	case <-l.gone:
		return nil
	case <-time.After(patience):
		_ = l.cmd.Process.Kill() // watch then kills the groups and removes the directory
	}
	<-l.gone
	return fmt.Errorf("stack: the keeper did not end within %v and was killed", patience)
}

// keeperPatience bounds an orderly end without a last command: the longest grace, and several times as much for a busy
// machine.
const keeperPatience = 15 * time.Second

// cause says why a process has ended, as far as its log tells: by a line about a full disk, else by the last about an
// error.
func cause(log string) (said string) {
	for _, line := range lastLines(log, 0, 1000) {
		if wrong.MatchString(line) && !strings.HasSuffix(line, "Aborting") {
			said = ": " + strings.TrimSpace(line)
		}
		if full.MatchString(line) {
			said += " (no space left on device)"
			break
		}
	}
	return said
}

// wrong matches lines in which servers and installers say why they end, and full those that mean ENOSPC.
var (
	wrong = regexp.MustCompile(`(?i)\berror\b|errcode|fatal|no space left|permission denied|cannot|can't`)
	full  = regexp.MustCompile(`(?i)no space left|err(or|code|no)[: =]+28\b`)
)

// tail returns the last lines of a log for an error message, indented, on lines of their own; "" when there are none.
func tail(file string) string {
	const most = 2048
	data, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	data = data[max(0, len(data)-most):]
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	lines = lines[max(0, len(lines)-8):]
	if len(lines) == 1 && lines[0] == "" {
		return ""
	}
	return "\n    " + strings.Join(lines, "\n    ")
}
