package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"lastitem/bench/figure"
)

// document is the JSON.
type document struct {
	Facts    facts           `json:"environment"`
	Settings settings        `json:"settings"`
	Outcomes []*outcome      `json:"scenarios"`
	Targets  []figure.Target `json:"targets"`
}

type settings struct {
	Rounds  int     `json:"rounds"`
	Window  float64 `json:"window_s"`
	Warmup  float64 `json:"warmup_s"`
	Clients int     `json:"clients"`
	Wait    float64 `json:"wait_s"`
	Delay   float64 `json:"delay_of_far_redis_s"` // in each direction
}

// write writes the files that were asked for.
func (b *bench) write(f facts, outcomes []*outcome, targets []figure.Target) error {
	var failed error
	if b.json != "" {
		text, err := json.MarshalIndent(document{
			Facts: f, Outcomes: outcomes, Targets: targets,
			Settings: settings{b.rounds, b.options.window.Seconds(), warmup.Seconds(), b.clients, patience.Seconds(), distance.Seconds()},
		}, "", "  ")
		failed = errors.Join(err, b.save(b.json, append(text, '\n')))
	}
	if b.svg != "" {
		picture := draw(f, b.options, outcomes)
		if picture == nil {
			fmt.Fprintf(b.errOut, "bench-modes: no picture: it shows %s and %s, which were not measured\n", direct, balanced)
			return failed
		}
		failed = errors.Join(failed, b.save(b.svg, picture))
	}
	return failed
}

func (b *bench) save(name string, content []byte) error {
	if err := figure.Save(name, content); err != nil {
		return err
	}
	fmt.Fprintf(b.errOut, "bench-modes: wrote %s\n", name)
	return nil
}
