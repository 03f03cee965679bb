package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"lastitem/bench/figure"
	"lastitem/bench/machine"
	"lastitem/contract/api"
	"lastitem/loadtest"
	"lastitem/loadtest/client"
	"lastitem/loadtest/compare"
	contract "lastitem/target" // this package has a type target
)

// A bench is one run of the program.
type bench struct {
	options
	sites  *sites
	wanted func(mode string) bool
	out    io.Writer // for the tables
	errOut io.Writer // for the progress

	began         time.Time
	planned, done time.Duration // of measuring
	told          time.Time
}

// run measures all requested scenarios. It prints each table when it is ready, and writes the files at the end; an
// interruption only makes both shorter.
func run(ctx context.Context, o options, out, errOut io.Writer) error {
	if o.list {
		list(out)
		return nil
	}
	if o.page[0] != "" {
		return writeCosts(o.page[0], o.page[1])
	}
	var writing sync.Mutex
	log := func(format string, args ...any) { // by several goroutines
		writing.Lock()
		defer writing.Unlock()
		fmt.Fprintf(errOut, "bench-modes: "+format+"\n", args...)
	}
	if _, err := os.Stat(o.shop); err != nil {
		return fmt.Errorf("the shop: %w; give it with -shop", err)
	}
	sites, err := openSites(ctx, o, log)
	if err != nil {
		return err
	}
	b := &bench{options: o, sites: sites, out: out, errOut: errOut, began: time.Now()}
	alive, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-sites.died():
			cancel()
		case <-alive.Done():
		}
	}()
	err = b.all(alive)
	if ctx.Err() == nil {
		err = errors.Join(sites.stack.Err(), err)
	}
	return errors.Join(err, sites.close())
}

func (b *bench) all(ctx context.Context) error {
	selected, err := compare.Select(b.sites.direct.modes, b.modes)
	if err != nil {
		return err
	}
	b.wanted = func(mode string) bool {
		return b.modes == "all" || mode == baseline || slices.ContainsFunc(selected, func(m api.Mode) bool {
			return m.Name == mode
		})
	}
	facts := b.gatherFacts(ctx)
	facts.print(b.out)
	var outcomes []*outcome
	for _, s := range b.scenarios {
		entries, not := s.rows(b.sites.direct.modes, b.wanted)
		outcomes = append(outcomes, newOutcome(s, entries, not, b.sites.direct.modes))
		b.planned += time.Duration(len(entries)*b.rounds) * b.cost(s)
	}
	for _, o := range outcomes {
		if err = b.measure(ctx, o); err != nil {
			err = fmt.Errorf("%s: %w", o.Name, err)
		}
		o.conclude()
		o.print(b.out)
		if err != nil {
			break
		}
	}
	fmt.Fprint(b.out, legend)
	printSkipped(b.out, outcomes)
	targets := judgeOutcomes(outcomes)
	figure.PrintTargets(b.out, targetTitle(b.options), targets)
	printNoise(b.out, outcomes)
	if ctx.Err() != nil { // the exit code shows it
		err = nil
	}
	return errors.Join(err, b.write(facts, outcomes, targets), wrongs(outcomes))
}

func newOutcome(s scenario, entries []entry, not []skipped, there []api.Mode) *outcome {
	o := &outcome{Name: s.name, Title: s.title, Skipped: not, scenario: s}
	for _, m := range there {
		o.known = append(o.known, m.Name)
	}
	for _, e := range entries {
		o.Results = append(o.Results, &result{Row: e.String(), entry: e})
	}
	return o
}

// wrongs returns an error if a mode that claims to be exact was not.
func wrongs(outcomes []*outcome) error {
	var err error
	for _, o := range outcomes {
		for _, r := range o.Results {
			if r.Verdict == wrong {
				err = errors.Join(err, fmt.Errorf("%s: %s: %s", o.Name, r.Row, r.Why))
			}
		}
	}
	return err
}

// measure runs the windows of one scenario, round by round.
func (b *bench) measure(ctx context.Context, o *outcome) error {
	if len(o.Results) == 0 {
		return nil
	}
	where, err := b.sites.of(ctx, o.scenario)
	if err != nil {
		return err
	}
	for round := range b.rounds {
		for i := range o.Results {
			r := o.Results[(i+round)%len(o.Results)] // vary each mode's predecessor
			b.progress(o, r, round)
			if err := b.window(ctx, o.scenario, where, r); err != nil {
				return err
			}
			b.done += b.cost(o.scenario)
		}
	}
	return nil
}

// window runs one row once. A failure of the row is recorded in it; the returned error ends the run.
func (b *bench) window(ctx context.Context, s scenario, where *site, r *result) error {
	i := slices.IndexFunc(where.modes, func(m api.Mode) bool { return m.Name == r.entry.mode })
	if i < 0 {
		return fmt.Errorf("%s: %s", r.Row, noSuchMode)
	}
	mode, first := where.modes[i], reading{}
	last := first
	res, err := loadtest.Run(ctx, where.control, mode, s.plan(mode, r.entry, b.options), func(p loadtest.Progress) {
		if p.Phase != loadtest.Driving {
			return
		}
		if last = where.read(mode); !first.taken {
			first = last
		}
	})
	switch {
	case ctx.Err() != nil: // the window was cut off
		return ctx.Err()
	case errors.Is(err, contract.ErrUnauthorized):
		return err
	case err != nil:
		r.add(figure.Measures{}, failed, err.Error())
		return nil
	}
	r.Unknown += int(res.Latency[client.Failed].Count)
	v, why := judged(s, mode, res)
	r.add(sumUp(s, res, first.until(last)), v, why)
	return nil
}

// A reading is the CPU time used so far.
type reading struct {
	all, shops, edge, stores machine.Usage
	taken, known             bool
}

func (s *site) read(m api.Mode) reading {
	r := reading{taken: true, known: true}
	take := func(u *machine.Usage, pids ...int) {
		var ok bool
		*u, ok = machine.ReadUsage(pids...)
		r.known = r.known && ok
	}
	take(&r.shops, s.shops...)
	take(&r.edge, s.edge...)
	stores := s.behind(m)
	take(&r.stores, stores...)
	take(&r.all, slices.Concat(s.shops, s.edge, stores, []int{os.Getpid()})...)
	return r
}

func (r reading) until(later reading) burnt {
	if !r.known || !later.known {
		return burnt{others: figure.None}
	}
	return burnt{
		shops: machine.Spent(r.shops, later.shops), edge: machine.Spent(r.edge, later.edge),
		stores: machine.Spent(r.stores, later.stores), others: machine.Others(r.all, later.all), known: true,
	}
}

// overhead is about the time that a window takes besides its length and its warm-up; it is for the first estimate.
const overhead = 600 * time.Millisecond

func (b *bench) cost(s scenario) time.Duration { return s.length(b.options.window) + warmup + overhead }

// progress prints the progress from time to time, with the time left at the pace so far.
func (b *bench) progress(o *outcome, r *result, round int) {
	if time.Since(b.told) < b.tell {
		return
	}
	b.told = time.Now()
	left := b.planned - b.done
	if b.done > 0 {
		left = time.Duration(float64(left) * float64(time.Since(b.began)) / float64(b.done))
	}
	fmt.Fprintf(b.errOut, "bench-modes: %-8s round %d of %d, %-20s about %s left\n",
		o.Name, round+1, b.rounds, strings.TrimSpace(r.Row)+",", left.Round(5*time.Second))
}
