package rig

import (
	"context"
	"fmt"
	"slices"

	"lastitem/internal/wire"
)

// Cut is where a message is stopped.
type Cut string

// The cuts at a command. What happens to it then, whether it goes on later or never, is the fault's affair.
const (
	Command Cut = "command" // it has not reached the server
	Answer  Cut = "answer"  // the server has executed it, its answer has not reached the client
	Severed Cut = "severed" // it has not reached the server, and the client's connection breaks
)

// Position names a command of a request, whatever the run: not by a number, since counts differ from run to run, but by server,
// pattern and occurrence.
type Position struct {
	Server  string `json:"server"`  // "redis"
	Pattern string `json:"pattern"` // "GET stock:{#}", see wire.Call
	Nth     int    `json:"nth"`     // which one of its kind since the request began, from 1
	Cut     Cut    `json:"cut"`
}

func (p Position) String() string {
	s := p.Server + ": " + p.Pattern
	if p.Nth > 1 {
		s += fmt.Sprintf(" (%d)", p.Nth)
	}
	switch p.Cut {
	case Answer:
		return "after " + s
	case Severed:
		return "on the way of " + s
	}
	return "before " + s
}

// Arm makes the actor's proxy stop the command when it comes.
func (a *Actor) Arm(p Position) (*wire.Hold, error) {
	proxy := a.proxies[p.Server]
	if proxy == nil {
		return nil, fmt.Errorf("faultlab: %s has no server %q", a.Name, p.Server)
	}
	n := 0
	hold := proxy.Add(wire.Rule{Answer: p.Cut == Answer, Match: func(c wire.Call) bool {
		if c.Poll || c.Pattern != p.Pattern {
			return false
		}
		n++
		return n == p.Nth
	}})
	a.holds = append(a.holds, hold)
	return hold, nil
}

// release takes back every rule of a schedule that has ended, however it ended.
func (a *Actor) release() {
	for _, h := range a.holds {
		h.Cancel()
	}
	a.holds = nil
}

// Path is a request without any fault: its commands, each as the position before it.
type Path struct {
	Steps []Position `json:"steps"`
	// Finished is the first step before which the stock and the order are written, so that only clean-up is left.
	Finished int `json:"finished"`
}

// tracings is how often a request is traced: a command that is missing in one of the runs is no part of the request.
const tracings = 5

// Trace returns the path of a request. Renewals, sweeps and the like come in some runs only, and are left out.
func (l *Lane) Trace(ctx context.Context, ask Ask) (Path, error) {
	var runs [][]Position
	for i := range tracings + 1 { // the first one opens connections and loads scripts
		run, err := l.trace(ctx, ask)
		if err != nil {
			return Path{}, err
		}
		if i > 0 {
			runs = append(runs, run)
		}
	}
	p := Path{Steps: common(runs)}
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

// trace deducts once, and returns the commands of it.
func (l *Lane) trace(ctx context.Context, ask Ask) ([]Position, error) {
	s, err := l.NewScene(ctx, ask)
	if err != nil {
		return nil, err
	}
	a := s.Ask(l.A, s.NewKey())
	if err := a.Wait(ctx); err != nil {
		return nil, err
	}
	if op := a.Op(); op.Outcome != "ok" {
		return nil, fmt.Errorf("faultlab: a deduction by %s without any fault: %s %s", ask.Mode, op.Outcome, op.Code)
	}
	if err := l.Quiesce(ctx); err != nil {
		return nil, err
	}
	return positions(l.A.Calls(s.since)), nil
}

// positions numbers the commands of a kind.
func positions(calls []wire.Call) []Position {
	var all []Position
	seen := map[[2]string]int{}
	for _, c := range calls {
		if c.Setup || c.Poll {
			continue
		}
		kind := [2]string{c.Server, c.Pattern}
		seen[kind]++
		all = append(all, Position{Server: c.Server, Pattern: c.Pattern, Nth: seen[kind], Cut: Command})
	}
	return all
}

// common is what stands in all runs, in the order of the last one.
func common(runs [][]Position) []Position {
	return slices.DeleteFunc(slices.Clone(runs[len(runs)-1]), func(p Position) bool {
		return slices.ContainsFunc(runs, func(run []Position) bool { return !slices.Contains(run, p) })
	})
}
