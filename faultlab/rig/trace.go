package rig

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"lastitem/judge"
	"lastitem/stack/wire"
)

// Path is a request without any fault: its commands, each as the position before it.
type Path struct {
	Steps []Position `json:"steps"`
	// Finished is the first step before which the stock and the order are written, so that only cleanup is left.
	Finished int `json:"finished"`
	// Differs are the commands of a foreign service that came in some of the traces only.
	Differs []Position `json:"differs,omitempty"`
}

// tracings is how often a request is traced: a command that is missing in most of the runs is no part of the request.
const tracings = 5

// learnings is how often a foreign service is traced: its commands must be the same each time, whichever replica sends
// them. What it sends once in a while is waited for if they are not, before it is traced again.
const (
	learnings  = 3
	onceAWhile = time.Second
)

// Trace returns the path of a request. Renewals, sweeps and the like come in some runs only, and are left out.
func (l *Lane) Trace(ctx context.Context, ask Ask) (Path, error) {
	var p Path
	for _, rest := range []time.Duration{settling, onceAWhile} {
		times := tracings
		if l.Service.Waits {
			times = learnings
			if err := l.idle(ctx, rest); err != nil {
				return p, err
			}
		}
		var runs [][]Position
		for i := range times + 1 { // the first one opens connections and loads scripts
			run, err := l.calmTrace(ctx, ask)
			if err != nil {
				return p, err
			}
			if i > 0 {
				runs = append(runs, run)
			}
		}
		if p = (Path{Steps: common(runs)}); !l.Service.Waits {
			break
		}
		if p.Differs = differing(runs); p.Differs == nil {
			break
		}
	}
	if ask.About.Kind != "" || consumes(l) { // nobody asks when its work is done, or it is won by the last step
		p.Finished = len(p.Steps)
		return p, nil
	}
	var err error
	p.Finished, err = l.finished(ctx, ask, p.Steps)
	return p, err
}

// finished finds the first step before which the work is done, by halves.
func (l *Lane) finished(ctx context.Context, ask Ask, steps []Position) (int, error) {
	from, to := 0, len(steps)
	for from < to {
		middle := (from + to) / 2
		done, err := l.doneBefore(ctx, ask, steps[middle])
		for try := 1; err != nil && try < traceTries && ctx.Err() == nil; try++ {
			done, err = l.doneBefore(ctx, ask, steps[middle])
		}
		switch {
		case err != nil:
			return 0, err
		case done:
			to = middle
		default:
			from = middle + 1
		}
	}
	return from, nil
}

// doneBefore says whether stock and order are written when the request is held at a step.
func (l *Lane) doneBefore(ctx context.Context, ask Ask, at Position) (bool, error) {
	s, err := l.NewScene(ctx, ask)
	if err != nil {
		return false, err
	}
	a, held, err := s.Hold(ctx, l.A, at, s.NewKey(), 0)
	if errors.Is(err, ErrNotReached) && a.answered() && a.Op().Outcome == judge.OK {
		return true, l.Quiesce(ctx) // this time the step came after the answer
	}
	if err != nil {
		return false, err
	}
	ledger, err := l.Ledger(ctx)
	held.Pass()
	if err != nil {
		return false, err
	}
	if err := a.Wait(ctx); err != nil {
		return false, err
	}
	return len(ledger.Orders) == 1 && ledger.Stock[s.store(ledger)] == ask.Stock-1, l.Quiesce(ctx)
}

// traceTries is how often a step of a trace is tried. On a busy machine a request may fail without any fault: a Redlock
// that takes longer than its TTL to get a majority answers backend_unavailable.
const traceTries = 10

// calmTrace traces a request again until it succeeds within a quarter of the TTL: a longer trace may contain renewals,
// which come every third of the TTL. If no trace was that short, calmTrace returns the shortest; of a foreign service
// it returns the first that has the same commands as the one before.
func (l *Lane) calmTrace(ctx context.Context, ask Ask) ([]Position, error) {
	return calm(ctx, l.TTL/4, l.Service.Waits, func() ([]Position, time.Duration, error) { return l.trace(ctx, ask) })
}

// calm is calmTrace with the time that is short enough, and the trace.
func calm(ctx context.Context, enough time.Duration, foreign bool, trace func() ([]Position, time.Duration, error)) (
	shortest []Position, err error) {
	least, last := time.Duration(math.MaxInt64), []Position(nil)
	for range traceTries {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		run, took, failed := trace()
		switch {
		case failed != nil:
			err = failed
		case took <= enough || foreign && differing([][]Position{last, run}) == nil:
			return run, nil
		case took < least:
			shortest, least = run, took
		}
		last = run
	}
	if shortest == nil {
		return nil, err
	}
	return shortest, nil
}

// trace sends one request, and returns its commands and how long it took.
func (l *Lane) trace(ctx context.Context, ask Ask) (steps []Position, took time.Duration, err error) {
	s, err := l.NewScene(ctx, ask)
	if err != nil {
		return nil, 0, err
	}
	switch ask.About.Kind {
	case SweepDue:
		return s.Reservations.trace(ctx)
	case TurnDue:
		return s.Tickets.trace(ctx)
	}
	if l.Service.Waits {
		if ask.About.Kind == "" { // else A ends what another replica has sold
			if err := arrange(ctx, s, l.A); err != nil {
				return nil, 0, err
			}
		}
		if err := l.idle(ctx, max(settling, l.Service.learnt.longest())); err != nil {
			return nil, 0, err
		}
	}
	a, err := s.askAbout(ctx)
	if err != nil {
		return nil, 0, err
	}
	took = time.Duration(a.op.Return - a.op.Call)
	l.Service.learnt.took(took)
	if op := a.Op(); op.Outcome != judge.OK && !ask.About.Overdue {
		return nil, 0, fmt.Errorf("faultlab: a request to %s without any fault: %s %s", ask.Mode, op.Outcome, op.Code)
	}
	if l.Service.Waits {
		calls, err := s.Lane.work(ctx, a, s.began.Add(time.Duration(a.op.Call)))
		return positions(calls), took, err
	}
	calls, err := l.settled(ctx, l.A, a.since)
	return positions(calls), took, err
}

// askAbout sends the victim's request and waits for its answer.
func (s *Scene) askAbout(ctx context.Context) (p *Pending, err error) {
	if kind := s.ask.About.Kind; kind == "" {
		p = s.Ask(s.Lane.A, s.NewKey())
	} else {
		h, err := s.Reservations.First(ctx, Long)
		if err != nil {
			return nil, err
		}
		p = s.Reservations.Ask(s.Lane.A, kind, h, Long)
	}
	err = p.Wait(ctx)
	return p, err
}

// settled waits until a replica sends nothing more but keep-alives, and returns what else it has sent since a call.
func (l *Lane) settled(ctx context.Context, a *Actor, since int64) ([]wire.Call, error) {
	for last := -1; ; {
		if err := l.Quiesce(ctx); err != nil {
			return nil, err
		}
		calls := slices.DeleteFunc(a.Calls(since), func(c wire.Call) bool { return c.Poll })
		if len(calls) == last {
			return calls, nil
		}
		last = len(calls)
		select {
		case <-time.After(settling):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// differing returns the positions that are not in all runs.
func differing(runs [][]Position) (all []Position) {
	for _, run := range runs {
		for _, p := range run {
			if !slices.Contains(all, p) && slices.ContainsFunc(runs, func(other []Position) bool {
				return !slices.Contains(other, p)
			}) {
				all = append(all, p)
			}
		}
	}
	return all
}

// common returns the positions that occur in most runs, in the order of the run that has the most of them, the last of
// several.
func common(runs [][]Position) []Position {
	var best []Position
	for _, run := range runs {
		usual := slices.DeleteFunc(slices.Clone(run), func(p Position) bool {
			n := 0
			for _, other := range runs {
				if slices.Contains(other, p) {
					n++
				}
			}
			return 2*n <= len(runs)
		})
		if len(usual) >= len(best) {
			best = usual
		}
	}
	return best
}

// work returns the commands of a lone request, which was sent at began, in their order: all that any replica sends
// until the order is written, unless it was cancelled or shipped, and all are quiet. It learns whether other
// replicas work for it.
func (l *Lane) work(ctx context.Context, p *Pending, began time.Time) (all []wire.Call, err error) {
	jobs, end := false, time.Now().Add(workWithin)
	for from := p.since; ; {
		if err := cmp.Or(l.answered(ctx), l.quiet(ctx, max(settling, l.Service.learnt.rest()), end)); err != nil {
			return nil, err
		}
		before, reader := wire.LastID(), l.site().URL
		ledger, err := l.Ledger(ctx)
		if err != nil {
			return nil, err
		}
		after := wire.LastID()
		for _, a := range l.actors() {
			for _, c := range l.own(a, from) {
				if c.ID <= before || c.ID <= after && a.URL != reader { // else it reads the ledger
					all, jobs = append(all, c), jobs || a != l.A
				}
			}
		}
		if from = after; p.ask.Kind != "" || len(ledger.Orders) > 0 || time.Now().After(end) {
			break
		}
		jobs = true
	}
	slices.SortFunc(all, func(a, b wire.Call) int { return cmp.Compare(a.ID, b.ID) })
	x := l.Service.learnt
	x.mu.Lock()
	defer x.mu.Unlock()
	x.jobs, x.traced = x.jobs || jobs, true
	for _, c := range all {
		x.gap, began = max(x.gap, c.Sent.Sub(began)), c.Sent
	}
	return all, nil
}
