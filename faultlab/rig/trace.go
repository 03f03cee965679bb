package rig

import (
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
}

// tracings is how often a request is traced: a command that is missing in most of the runs is no part of the request.
const tracings = 5

// settling is for how long a replica must send nothing before a trace ends. A Redlock answers when a majority of its
// nodes is released, and releases the others afterwards.
const settling = 30 * time.Millisecond

// Trace returns the path of a request. Renewals, sweeps and the like come in some runs only, and are left out.
func (l *Lane) Trace(ctx context.Context, ask Ask) (Path, error) {
	var runs [][]Position
	for i := range tracings + 1 { // the first one opens connections and loads scripts
		run, err := l.calmTrace(ctx, ask)
		if err != nil {
			return Path{}, err
		}
		if i > 0 {
			runs = append(runs, run)
		}
	}
	p := Path{Steps: common(runs)}
	if ask.About.Kind != "" { // nobody asks when its work is done
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
// which come every third of the TTL. If no trace was that short, calmTrace returns the shortest.
func (l *Lane) calmTrace(ctx context.Context, ask Ask) (shortest []Position, err error) {
	least := time.Duration(math.MaxInt64)
	for range traceTries {
		run, took, failed := l.trace(ctx, ask)
		switch {
		case ctx.Err() != nil:
			return nil, failed
		case failed != nil:
			err = failed
		case took < least:
			shortest, least = run, took
		}
		if least <= l.TTL/4 {
			break
		}
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
	if ask.About.Kind == SweepDue {
		return s.Reservations.trace(ctx)
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
		p = s.Reservations.Ask(s.Lane.A, kind, h, 0)
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
