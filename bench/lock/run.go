package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"lastitem/bench/figure"
	"lastitem/bench/machine"
	"lastitem/stack"
)

// A bench is one run of the program.
type bench struct {
	options
	server  stack.Service
	cluster *nodes    // for kindCluster, started for its first window
	prefix  string    // of all keys
	out     io.Writer // for the tables
	errOut  io.Writer // for the progress
	serial  int       // of the windows: each has its own keys

	began         time.Time
	planned, done time.Duration // of measuring
}

// run measures all requested scenarios. It prints each table when it is ready, and writes the files at the end.
func run(ctx context.Context, o options, out, errOut io.Writer) error {
	if o.list {
		list(out)
		return nil
	}
	private, err := stack.Start(ctx, stack.Options{Backend: stack.Local, Only: []string{stack.Redis}})
	if err != nil {
		return err
	}
	b := &bench{options: o, server: private.Redis, prefix: "bench:", out: out, errOut: errOut, began: time.Now()}
	err = b.all(ctx)
	if b.cluster != nil {
		err = errors.Join(err, b.cluster.close())
	}
	return errors.Join(err, private.Close())
}

func (b *bench) all(ctx context.Context) error {
	for _, s := range b.scenarios {
		b.planned += b.cost(s)
	}
	facts := gatherFacts(b.server, redissonVersion(b.redisson))
	if facts.Pinned = "on any CPU"; b.pin {
		facts.Pinned = machine.Pin(b.server.PID)
	}
	facts.print(b.out)
	if b.leftOut != "" {
		fmt.Fprintln(b.out, b.leftOut)
	}
	var outcomes []*outcome
	for _, s := range b.scenarios {
		o, err := b.measure(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		o.print(b.out)
		outcomes = append(outcomes, o)
	}
	targets := judge(outcomes)
	figure.PrintTargets(b.out, "targets of the engine, with fence, renewal and idempotent release", targets)
	return errors.Join(b.write(facts, outcomes, targets), broken(outcomes))
}

// broken returns an error if a lock had two holders at once: then its numbers mean nothing.
func broken(outcomes []*outcome) error {
	var err error
	for _, o := range outcomes {
		for _, r := range o.Results {
			if !r.exact() {
				err = errors.Join(err, fmt.Errorf("%s: %s let somebody in while the lock was held", o.Name, r.Contender))
			}
		}
	}
	return err
}

// measure runs the windows of one scenario, round by round. The outcome is empty if no requested contender can take
// part.
func (b *bench) measure(ctx context.Context, s scenario) (*outcome, error) {
	o := &outcome{Name: s.name, Title: s.title, scenario: s}
	var running []contender
	for _, c := range b.contenders {
		if s.suits(c) {
			running = append(running, c)
			o.Results = append(o.Results, &result{Contender: c.name})
		}
	}
	if len(running) == 0 {
		return o, nil
	}
	if s.counts() {
		b.progress(s, 1, 1)
		return o, b.together(ctx, s, o)
	}
	for round := range b.rounds {
		b.progress(s, round+1, b.rounds)
		for i := range running {
			i = (i + round) % len(running) // vary each contender's predecessor
			m, failed, err := b.window(ctx, s, running[i])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", running[i].name, err)
			}
			o.Results[i].add(m, failed)
			b.done += b.windowCost(s)
		}
	}
	o.conclude()
	return o, nil
}

func (r *result) add(m figure.Measures, failed string) {
	r.Rounds = append(r.Rounds, m)
	if r.Failed == "" {
		r.Failed = failed
	}
}

// window runs one contender once. failed is the first error of a worker.
func (b *bench) window(ctx context.Context, s scenario, c contender) (m figure.Measures, failed string, err error) {
	r, err := b.reach(ctx, s, c)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	f, rtt, err := newFleet(ctx, b.jobs(s, c, r)...)
	if err != nil {
		return nil, "", err
	}
	defer f.close()
	window := s.length(b.options.window)
	reports, cpu, err := f.run(window, r.strike, r.servers...)
	if err != nil {
		return nil, "", err
	}
	m = sumUp(s, window, rtt, reports)
	if s.kind == kindFailover {
		m[mRecovery] = recovery(reports, cpu.struck, window)
	} else {
		charge(m, cpu, window)
	}
	return m, firstError(reports), nil
}

func firstError(reports []*report) string {
	for _, r := range reports {
		if r.First != "" {
			return r.First
		}
	}
	return ""
}

// together runs all contenders at the same time: they only count, so they hardly disturb each other.
func (b *bench) together(ctx context.Context, s scenario, o *outcome) error {
	var jobs, holders []job
	for _, r := range o.Results {
		j := b.jobs(s, contender{name: r.Contender}, reached{url: b.server.URL})[0]
		jobs = append(jobs, j)
		j.Kind, j.Goroutines, j.Locks = kindHold, 1, 1 // holds the hot key; it is never told to begin
		holders = append(holders, j)
	}
	if s.kind == kindPark {
		f, _, err := newFleet(ctx, holders...)
		if err != nil {
			return err
		}
		defer f.close()
	}
	f, _, err := newFleet(ctx, jobs...)
	if err != nil {
		return err
	}
	defer f.close()
	reports, cpu, err := f.run(s.window, nil, b.server.PID)
	if err != nil {
		return err
	}
	for i, r := range o.Results {
		m := sumUp(s, s.window, 0, reports[i:i+1])
		m[mOthers] = cpu.others
		r.add(m, reports[i].First)
	}
	b.done += b.windowCost(s)
	o.conclude()
	return nil
}

// jobs returns a job for every process, with keys that no other window uses.
func (b *bench) jobs(s scenario, c contender, r reached) []job {
	b.serial++
	processes := s.processes
	if c.alone {
		processes = 1
	}
	jobs := make([]job, processes)
	for i := range jobs {
		each := s.goroutines / processes
		jobs[i] = job{
			Contender: c.name, Kind: s.loop(), URL: r.url, Masters: r.masters, Prefix: fmt.Sprintf("%s%d:", b.prefix, b.serial),
			program:    b.program(c),
			Goroutines: each, First: i * each, Locks: s.locks, Think: s.think, Window: s.length(b.options.window),
			Ping: s.delay > 0,
		}
	}
	return jobs
}

func (s scenario) length(window time.Duration) time.Duration {
	if s.window > 0 {
		return s.window
	}
	return window
}

// windowOverhead is about the time that a window takes besides its length; it is for the progress estimate.
const windowOverhead = 250 * time.Millisecond

func (b *bench) windowCost(s scenario) time.Duration {
	return s.length(b.options.window) + lead + windowOverhead
}

func (b *bench) cost(s scenario) time.Duration {
	n := 0
	for _, c := range b.contenders {
		if s.suits(c) {
			n++
		}
	}
	if s.counts() {
		n = min(n, 1)
	} else {
		n *= b.rounds
	}
	return time.Duration(n) * b.windowCost(s)
}

// progress prints the next step, and the time left at the pace so far.
func (b *bench) progress(s scenario, round, rounds int) {
	left := b.planned - b.done
	if b.done > 0 {
		left = time.Duration(float64(left) * float64(time.Since(b.began)) / float64(b.done))
	}
	fmt.Fprintf(b.errOut, "bench-lock: %-11s round %d of %d, about %s left\n", s.name, round, rounds,
		left.Round(5*time.Second))
}
