package faultlab

import (
	"context"
	"errors"
	"fmt"

	"lastitem/internal/api"
	"lastitem/internal/text"
)

// Replay plays one schedule several times, and returns the outcome of each run. It ignores the options that select cells, such as
// Options.Modes, and starts the lanes that the schedule needs.
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
