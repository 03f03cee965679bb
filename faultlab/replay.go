package faultlab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"lastitem/internal/api"
)

// ReadStory reads what 'shop lab -o json' writes for one mode and one fault: a result that has a worst schedule, of which nothing is checked.
func ReadStory(from io.Reader) (told Result, err error) {
	d := json.NewDecoder(from) // not all at once: it may be no JSON, and endless
	if err = d.Decode(&told); err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something follows the JSON")
		}
	}
	if err != nil {
		return told, api.Text{
			En: "is no JSON as 'shop lab --mode M --fault F -o json' writes it: %w", Zh: "不是 'shop lab --mode M --fault F -o json' 写出的 JSON：%w",
		}.Errorf(err)
	}
	if told.Worst == nil {
		return told, api.Text{
			En: "has no schedule in \"worst\": 'shop lab -o json' writes it if one mode and one fault are selected",
			Zh: "\"worst\" 里没有调度：只选一个模式和一种故障时，'shop lab -o json' 才会写",
		}.Errorf()
	}
	return told, nil
}

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
		return nil, api.Text{En: "faultlab: unknown mode %q", Zh: "faultlab: 没有模式 %q"}.Errorf(s.Mode)
	}
	l.told = true
	all := make([]Schedule, times)
	for i := range all {
		all[i] = s
	}
	l.tally.begin(0, times)
	return l.play(ctx, l.groups[0], all)
}
