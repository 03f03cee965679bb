package faultlab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"lastitem/contract/api"
	"lastitem/faultlab/fault"
	"lastitem/faultlab/rig"
	"lastitem/say/text"
	"lastitem/target"
)

// Explore plays every schedule of the selected cells.
func Explore(ctx context.Context, o Options) (*Result, error) {
	o.complete()
	began, meter := time.Now(), startMeter(ctx)
	defer meter.stop()
	matrix, err := Committed()
	if err != nil {
		return nil, err
	}
	lab, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	lab.matrix = matrix
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go lab.stalls.watch(watching)
	res, err := lab.explore(ctx)
	err = errors.Join(err, lab.close())
	if res != nil {
		res.Took, res.Again, res.Cost, res.Interrupted = time.Since(began), lab.again.Load(), meter.cost(), ctx.Err() != nil
	}
	return res, err
}

// explore plays cell after cell. The next cell begins while the last schedules of the one before are still being
// played.
func (l *lab) explore(ctx context.Context) (*Result, error) {
	cells := l.cells(l.o)
	untried := l.untried()
	if len(cells)+len(untried) == 0 {
		return nil, l.nothing()
	}
	alone := oneSubject(cells) || l.o.Serve != nil // the result has a worst schedule
	l.told = l.o.Stories || l.o.Tell || alone
	res := &Result{
		Servers: l.servers.Kinds(), TTL: l.o.TTL, Order: Cells(l.modes, l.matrix, Options{Faults: fault.Names()}),
		Lanes: l.o.Lanes, Serve: l.o.Serve, Leases: l.leases,
		LeftOut: l.leftOut,
	}
	guesses := make([]int, len(cells))
	for i, c := range cells {
		f, _ := fault.Named(c.Fault)
		g := l.group(f, l.mode(c.Mode))
		g.cells, guesses[i] = append(g.cells, c), l.guess(c)
	}
	l.tally.selected(guesses)
	var mu sync.Mutex
	var worsts []*Played
	done := func(c Cell, played []Played) {
		mu.Lock()
		defer mu.Unlock()
		res.add(l, sum(l.expect(c, played), played), played)
		l.tally.done()
		if alone {
			worsts = append(worsts, worst(played))
		}
	}
	waiting, others := patientFirst(l.groups)
	err := sideBySide(ctx, append(waiting, others...), groupsAtOnce+len(waiting),
		func(ctx context.Context, g *group) error {
			return l.exploreGroup(ctx, g, done)
		})
	slices.SortFunc(res.Cells, func(a, b Cell) int { return index(cells, a) - index(cells, b) })
	if untried != nil { // all are the service's
		res.Cells = append(res.Cells, untried...)
		names := fault.Names()
		slices.SortFunc(res.Cells, func(a, b Cell) int { return slices.Index(names, a.Fault) - slices.Index(names, b.Fault) })
	}
	res.NotPlayed = l.gaps(res.Cells)
	res.Worst = ofAll(worsts, cells)
	return res, err
}

// oneSubject reports whether all cells are of one mode and one fault, so that they differ in the store at most.
func oneSubject(cells []Cell) bool {
	return !slices.ContainsFunc(cells, func(c Cell) bool { return c.Mode != cells[0].Mode || c.Fault != cells[0].Fault })
}

// groupsAtOnce is how many groups are explored in parallel: while the lanes of one wait for leases to expire, the lanes
// of others work. Patient groups, which hardly need the processors, run beside them from the beginning.
const groupsAtOnce = 3

// patientFirst separates the patient groups from the others.
func patientFirst(all []*group) (patient, others []*group) {
	for _, g := range all {
		if g.patient {
			patient = append(patient, g)
		} else {
			others = append(others, g)
		}
	}
	return patient, others
}

// exploreGroup plays the cells of a group and then closes its lanes. done is called with each cell and its schedules.
func (l *lab) exploreGroup(ctx context.Context, g *group, done func(Cell, []Played)) error {
	defer g.close()
	if len(g.cells) == 0 {
		return nil
	}
	if err := l.openLanes(ctx, g); err != nil {
		return err
	}
	l.allot(g, groupsAtOnce)
	return each(ctx, len(g.cells), func(ctx context.Context, i int) (func() error, error) {
		c, since := g.cells[i], time.Now()
		plans, err := l.choose(ctx, g, &c)
		g.begin(i, time.Since(since))
		l.tally.begin(l.guess(c), len(plans))
		switch {
		case ctx.Err() != nil || errors.Is(err, target.ErrOutOfReach):
			return nil, err
		case err != nil: // the other cells are still played
			c.Wrong = append(c.Wrong, string(Failed)+": "+err.Error())
			return func() error { done(c, nil); return nil }, nil //nolint:nilerr // the cell carries it
		}
		wait, err := l.start(ctx, g, plans, c.committed)
		return func() error {
			played, err := wait()
			if err == nil {
				done(l.leftOpen(l.cut(c, len(plans)-len(played)), played), played)
			}
			return err
		}, err
	})
}

// sideBySide calls do for each element of all, at most atOnce in parallel. The first error cancels the context of the
// others.
func sideBySide[T any](ctx context.Context, all []T, atOnce int, do func(context.Context, T) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	limit := make(chan struct{}, atOnce)
	for _, x := range all {
		limit <- struct{}{}
		wg.Go(func() {
			defer func() { <-limit }()
			if err := do(ctx, x); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// expect sets the claim of a cell. With Options.Learn the finding itself is the claim of a cell of fault.Beyond.
func (l *lab) expect(c Cell, played []Played) Cell {
	if f, _ := fault.Named(c.Fault); l.o.Learn && !f.Claimed() {
		c.Claim = cmp.Or(sum(c, played).Found, c.Claim) // without a finding the known claim stays
	}
	return c
}

// add adds a cell to the result.
func (r *Result) add(l *lab, c Cell, played []Played) {
	r.Cells = append(r.Cells, c)
	r.Schedules, r.Judged = r.Schedules+c.Tried, r.Judged+c.judged
	if l.o.Stories {
		r.Played = append(r.Played, played...)
	}
	if l.o.Tell {
		r.Told = append(r.Told, witnesses(c, played)...)
	}
	if !l.told {
		r.Unclaimed = append(r.Unclaimed, slices.DeleteFunc(slices.Clone(played), func(p Played) bool {
			return p.Story == nil
		})...)
	}
	if l.o.Progress != nil {
		l.o.Progress(c)
	}
}

// witnesses are those of a cell among the schedules that were played.
func witnesses(c Cell, played []Played) []Played {
	names := map[string]bool{}
	for _, s := range c.Witnesses {
		names[s.String()] = true
	}
	return slices.DeleteFunc(slices.Clone(played), func(p Played) bool { return !names[p.Schedule.String()] })
}

// each calls begin for 0, 1, ... one after the other, and runs the functions that begin returns in parallel. The first
// error ends the loop.
func each(ctx context.Context, n int, begin func(ctx context.Context, i int) (func() error, error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for i := range n {
		rest, err := begin(ctx, i)
		if err != nil {
			cancel(err)
		}
		if rest != nil {
			wg.Go(func() {
				if err := rest(); err != nil {
					cancel(err)
				}
			})
		}
		if ctx.Err() != nil {
			break
		}
	}
	wg.Wait()
	return context.Cause(ctx)
}

// play plays schedules side by side, and returns them in their order.
func (l *lab) play(ctx context.Context, g *group, all []Schedule) ([]Played, error) {
	wait, err := l.start(ctx, g, all, nil)
	played, failed := wait()
	return played, cmp.Or(failed, err)
}

// start begins to play schedules and returns when the last of them has a lane. committed are the witnesses of their
// cell if they are these. wait returns when all have been played.
func (l *lab) start(ctx context.Context, g *group, all []Schedule,
	committed map[string]Schedule) (wait func() ([]Played, error), err error) {
	played, errs, begun := make([]Played, len(all)), make([]error, len(all)), len(all)
	var running sync.WaitGroup
	for i, s := range all {
		var lane *rig.Lane
		if lane, err = g.lane(ctx); err != nil {
			break
		}
		if l.over(g) {
			g.free <- lane
			begun = i
			break
		}
		running.Go(func() {
			played[i], errs[i] = l.steadily(ctx, lane, s, shownBy(s, committed))
			if !l.told && !unclaimed(l.mode(s.Mode), played[i]) {
				played[i].Story = nil // thousands of stories need much memory
			}
			if errs[i] == nil {
				l.tally.played(s)
			}
			g.free <- lane
		})
	}
	return func() ([]Played, error) {
		running.Wait()
		return played[:begun], errors.Join(append(errs, err)...) // if err is not nil, some schedules have not been played
	}, err
}

// tries is how often a schedule that proves nothing is played.
const tries = 4

// steadily plays a schedule, and repeats it if it proved nothing: the lab could not play it to its end, the victim was
// refused before its position, a lock may have expired because the machine stood still, or the schedule did not show
// all of the letters: those that it is a committed witness of.
func (l *lab) steadily(ctx context.Context, lane *rig.Lane, s Schedule, letters string) (Played, error) {
	for try := 1; ; try++ {
		began := time.Now()
		p, err := Play(ctx, lane, l.mode(s.Mode), s)
		if ctx.Err() != nil {
			return p, context.Cause(ctx)
		}
		if errors.Is(err, target.ErrOutOfReach) {
			return p, err
		}
		if err != nil {
			lane.Abandon()
		}
		stall := l.stalled(lane, p, l.stalls.longest(began), letters != "")
		switch {
		case err == nil && p.Outcome != Diverged && stall == 0 && p.shows(letters):
			return p, nil
		case try < tries:
			l.again.Add(1)
			if p.Outcome == Diverged {
				lane.Warm = "" // a replica may still leave out the server that was struck
			}
		case err != nil:
			return Played{Schedule: s, Outcome: Failed, Why: err.Error()}, nil //nolint:nilerr // the outcome carries it: the other schedules go on
		case stall > 0:
			p.Why = fmt.Sprintf("%s, but the machine stood still for %v while a lock of %v could expire: run it on a calmer "+
				"machine, or with a longer --ttl",
				p.Outcome, stall.Round(time.Millisecond), lane.TTL)
			p.Outcome = Vacuous
			return p, nil
		default:
			return p, nil
		}
	}
}

// shownBy returns the letters of which a schedule is a committed witness.
func shownBy(s Schedule, committed map[string]Schedule) string {
	var shown string
	for letter, w := range committed {
		if w.expiring(s.Expiry).String() == s.String() {
			shown += letter
		}
	}
	return shown
}

// shows reports whether the schedule showed all these letters.
func (p Played) shows(letters string) bool {
	switch p.Outcome {
	case Idle, Diverged, Vacuous, Failed: // words, not letters
		return letters == ""
	}
	return strings.Trim(letters, string(p.Outcome)) == ""
}

// stalled returns for how long the machine kept a process waiting, if the schedule broke something and a lock may have
// expired for that reason alone. The process may be the lab's own (machine) or a replica that was held. 0 = the finding
// is sound. A witness that shows a letter that the mode claims is always sound.
func (l *lab) stalled(lane *rig.Lane, p Played, machine time.Duration, witness bool) time.Duration {
	f, _ := fault.Named(p.Schedule.Fault)
	switch p.Outcome {
	case api.Exact, Idle, Diverged, Vacuous, Failed:
		return 0
	}
	odd := unclaimed(l.mode(p.Schedule.Mode), p)
	switch {
	case !f.Lane.Expiry:
		return 0
	case odd && p.silence >= lane.TTL*3/4:
		return max(machine, p.silence)
	case machine >= lane.TTL/4 && (odd || !witness):
		return machine
	default:
		return 0
	}
}

// unclaimed reports whether a schedule that broke something showed a letter that the mode does not claim. Only the
// faults of the ladder have claims. A foreign service makes no claims and may not renew its locks.
func unclaimed(m api.Mode, p Played) bool {
	claim := string(m.Claims[p.Schedule.Store][p.Schedule.Fault])
	return p.Outcome != api.Exact && claim != "" && claim != string(Unclaimed) &&
		strings.Trim(string(p.Outcome), claim) != ""
}

// worst returns the schedule that showed the most letters, the first one if several did. One that is not early comes
// first: it is to be played again.
func worst(played []Played) *Played {
	var found *Played
	rank := func(p *Played) int {
		switch p.Outcome {
		case api.Exact, Idle:
			return 0
		case Diverged, Vacuous, Failed:
			return 1
		}
		n := len(Letters)*len(p.Outcome) + len(Letters) - strings.IndexByte(Letters, p.Outcome[0])
		if !p.early {
			n += len(Letters) * (len(Letters) + 2)
		}
		return n
	}
	for i := range played {
		if found == nil || rank(&played[i]) > rank(found) {
			found = &played[i]
		}
	}
	return found
}

// ofAll returns the worst schedule of several cells.
func ofAll(worsts []*Played, cells []Cell) *Played {
	at := func(p *Played) int {
		return index(cells, Cell{Mode: p.Schedule.Mode, Store: p.Schedule.Store, Fault: p.Schedule.Fault})
	}
	worsts = slices.DeleteFunc(worsts, func(p *Played) bool { return p == nil })
	slices.SortStableFunc(worsts, func(a, b *Played) int { return at(a) - at(b) })
	var all []Played
	for _, p := range worsts {
		all = append(all, *p)
	}
	return worst(all)
}

func index(order []Cell, c Cell) int {
	return slices.IndexFunc(order, func(o Cell) bool {
		return o.Mode == c.Mode && o.Store == c.Store && o.Fault == c.Fault
	})
}

// Replay plays one schedule several times, and returns the outcome of each run. It ignores the options that select
// cells, such as Options.Modes, and starts the lanes that the schedule needs.
func Replay(ctx context.Context, o Options, s Schedule, times int) ([]Played, error) {
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("faultlab: %w", err)
	}
	o.complete()
	o.Modes, o.Stores, o.Faults = []string{s.Mode}, []api.Store{s.Store}, []api.Hazard{s.Fault}
	l, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	played, err := l.replay(ctx, s, times)
	return played, errors.Join(err, l.close())
}

func (l *lab) replay(ctx context.Context, s Schedule, times int) ([]Played, error) {
	if l.mode(s.Mode).Name == "" {
		return nil, text.Of("faultlab: unknown mode %q").Errorf(s.Mode)
	}
	l.told = true
	all := make([]Schedule, times)
	for i := range all {
		all[i] = s
	}
	l.tally.begin(0, times)
	return l.play(ctx, l.groups[0], all)
}
