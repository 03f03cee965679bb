package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"lastitem/bench/figure"
	"lastitem/bench/machine"
	"lastitem/internal/localstack"
)

// A bench is one run of the program.
type bench struct {
	options
	server  localstack.Service
	cluster *nodes    // of kindCluster, from its first window on
	prefix  string    // of all keys
	out     io.Writer // for the tables
	errOut  io.Writer // for the progress
	serial  int       // of the windows: each has keys of its own

	began         time.Time
	planned, done time.Duration // of measuring
}

// run measures everything that is asked for. Tables come as they are ready; the files are written at the end.
func run(ctx context.Context, o options, out, errOut io.Writer) error {
	if o.list {
		list(out)
		return nil
	}
	stack, err := localstack.Start(ctx, localstack.Options{Backend: localstack.Local, Only: []string{localstack.Redis}})
	if err != nil {
		return err
	}
	b := &bench{options: o, server: stack.Redis, prefix: "bench:", out: out, errOut: errOut, began: time.Now()}
	err = b.all(ctx)
	if b.cluster != nil {
		err = errors.Join(err, b.cluster.close())
	}
	return errors.Join(err, stack.Close())
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

// broken is an error where a lock let two in at once: no number about it means anything.
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

// measure runs the windows of one scenario, round by round.
func (b *bench) measure(ctx context.Context, s scenario) (*outcome, error) {
	o := &outcome{Name: s.name, Title: s.title, scenario: s}
	var running []contender
	for _, c := range b.contenders {
		if s.suits(c) {
			running = append(running, c)
			o.Results = append(o.Results, &result{Contender: c.name})
		}
	}
	if s.counts() {
		b.progress(s, 1, 1)
		return o, b.together(ctx, s, o)
	}
	for round := range b.rounds {
		b.progress(s, round+1, b.rounds)
		for i := range running {
			i = (i + round) % len(running) // nobody always comes after the same one
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

// together runs all contenders at the same time: they only count, and so hardly disturb each other.
func (b *bench) together(ctx context.Context, s scenario, o *outcome) error {
	var jobs, holders []job
	for _, r := range o.Results {
		j := b.jobs(s, contender{name: r.Contender}, reached{url: b.server.URL})[0]
		jobs = append(jobs, j)
		j.Kind, j.Goroutines, j.Locks = kindHold, 1, 1 // of the hot key; nobody ever tells it to begin
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

// jobs are one for every process, with keys that no other window has.
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
			Goroutines: each, First: i * each, Locks: s.locks, Think: s.think, Window: s.length(b.options.window), Ping: s.delay > 0,
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

// windowOverhead is about what a window costs besides itself; it is for the estimate of the progress.
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

// progress says what comes, and how long everything will still take at the pace so far.
func (b *bench) progress(s scenario, round, rounds int) {
	left := b.planned - b.done
	if b.done > 0 {
		left = time.Duration(float64(left) * float64(time.Since(b.began)) / float64(b.done))
	}
	fmt.Fprintf(b.errOut, "bench-lock: %-11s round %d of %d, about %s left\n", s.name, round, rounds, left.Round(5*time.Second))
}
