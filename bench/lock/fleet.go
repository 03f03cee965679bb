package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"lastitem/bench/figure"
	"lastitem/bench/machine"
)

// patience bounds every step other than a window: a start, a warm-up, an end.
const patience = time.Minute

// A fleet has the processes of one window.
type fleet struct {
	ctx     context.Context         // ends the processes
	end     context.CancelCauseFunc // the cause is told in place of an answer; nil = it is no longer needed
	members []*member
}

// member is one process, a copy of this program. It ends when its stdin is closed, so it ends with its parent.
type member struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *json.Decoder
	wrote bytes.Buffer // on stderr
}

// newFleet starts a process for every job and waits until all are ready. rtt is the median round trip, measured by the
// first process.
func newFleet(ctx context.Context, jobs ...job) (f *fleet, rtt time.Duration, err error) {
	f = &fleet{}
	f.ctx, f.end = context.WithCancelCause(ctx)
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	self, err := os.Executable()
	if err != nil {
		return f, 0, err
	}
	for _, j := range jobs {
		if j.program == nil {
			j.program = []string{self, workerCommand}
		}
		if err := f.add(j); err != nil {
			return f, 0, err
		}
	}
	answers, err := f.answers(4 * patience) // four JVMs start slowly on two busy CPUs
	if err != nil {
		return f, 0, err
	}
	return f, answers[0].RTT, nil
}

func (f *fleet) add(j job) error {
	m := &member{cmd: exec.CommandContext(f.ctx, j.program[0], j.program[1:]...)}
	m.cmd.Stderr = &m.wrote
	m.cmd.WaitDelay = patience
	var err error
	if m.in, err = m.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	m.out = json.NewDecoder(out)
	if err := m.cmd.Start(); err != nil {
		return err
	}
	f.members = append(f.members, m)
	return json.NewEncoder(m.in).Encode(j)
}

// answers reads the next answer of every member. If one takes longer than limit, the fleet ends.
func (f *fleet) answers(limit time.Duration) ([]answer, error) {
	late := time.AfterFunc(limit, func() { f.end(fmt.Errorf("a worker did not answer within %s", limit)) })
	defer late.Stop()
	all := make([]answer, len(f.members))
	for i, m := range f.members {
		err := m.out.Decode(&all[i])
		switch {
		case err != nil && f.ctx.Err() != nil:
			return nil, context.Cause(f.ctx)
		case err != nil:
			f.close() // stderr is complete then
			return nil, fmt.Errorf("a worker died: %w\n%s", err, bytes.TrimSpace(m.wrote.Bytes()))
		case all[i].Error != "":
			return nil, errors.New(all[i].Error)
		}
	}
	return all, nil
}

// strike is a fault of the servers at a given time after the beginning of a window.
type strike struct {
	after time.Duration
	do    func(context.Context) error
}

// spent is the CPU time of a window: of the workers and of the servers, and the share of other programs.
type spent struct {
	clients, server, others figure.Number // microseconds, microseconds, share; None = not known
	struck                  int64         // when a strike was over, in nanoseconds since 1970
}

// run begins the window at the same moment for all workers, and returns their reports. servers are the process ids of
// the redis-servers.
func (f *fleet) run(window time.Duration, x *strike, servers ...int) (reports []*report, cpu spent, err error) {
	var workers []int
	for _, m := range f.members {
		workers = append(workers, m.cmd.Process.Pid)
	}
	all := append(append([]int{os.Getpid()}, servers...), workers...)
	cpu = spent{clients: figure.None, server: figure.None, others: figure.None}
	before, known := machine.ReadUsage(all...)
	at := newClock().now() + int64(50*time.Millisecond)
	for _, m := range f.members {
		if err := json.NewEncoder(m.in).Encode(start{At: at}); err != nil {
			return nil, cpu, err
		}
	}
	meter := f.meter(at+int64(lead), window, workers, servers)
	struck := f.strike(at+int64(lead), x)
	answers, err := f.answers(window + patience)
	if err != nil {
		return nil, cpu, err
	}
	for _, a := range answers {
		if a.Report == nil {
			return nil, cpu, errors.New("a worker reported nothing")
		}
		reports = append(reports, a.Report)
	}
	cpu = <-meter
	if s := <-struck; s.err != nil {
		return nil, cpu, s.err
	} else if x != nil {
		cpu.struck = s.at
		return reports, cpu, nil
	}
	// an ended process still has its entry, because nobody has waited for it yet
	if after, still := machine.ReadUsage(all...); known && still {
		cpu.others = machine.Others(before, after)
	}
	return reports, cpu, nil
}

// moment is the time when something ended, in nanoseconds since 1970, or its error.
type moment struct {
	at  int64
	err error
}

// strike injects the fault in a window that begins at from.
func (f *fleet) strike(from int64, x *strike) <-chan moment {
	over := make(chan moment, 1)
	if x == nil {
		over <- moment{}
		return over
	}
	go func() {
		c := newClock()
		c.until(from + int64(x.after))
		err := f.ctx.Err() // the servers may have ended with the window, and their process ids may belong to others by now
		if err == nil {
			err = x.do(f.ctx)
		}
		over <- moment{at: c.now(), err: err}
	}()
	return over
}

// meter measures the CPU time of the workers and of the servers in a window that begins at from.
func (f *fleet) meter(from int64, window time.Duration, workers, servers []int) <-chan spent {
	measured := make(chan spent, 1)
	go func() {
		c := newClock()
		read := func(at int64) (clients, redis machine.Usage, ok bool) {
			c.until(at)
			clients, known := machine.ReadUsage(workers...)
			redis, there := machine.ReadUsage(servers...)
			return clients, redis, known && there
		}
		clientsBefore, redisBefore, known := read(from)
		clientsAfter, redisAfter, still := read(from + int64(window))
		cpu := spent{clients: figure.None, server: figure.None, others: figure.None}
		if known && still {
			cpu.clients, cpu.server = micro(int64(machine.Spent(clientsBefore, clientsAfter))),
				micro(int64(machine.Spent(redisBefore, redisAfter)))
		}
		measured <- cpu
	}()
	return measured
}

// close ends all processes at once and waits for them.
func (f *fleet) close() {
	f.end(nil)
	for _, m := range f.members {
		_ = m.in.Close()
		_ = m.cmd.Wait()
	}
	f.members = nil
}
