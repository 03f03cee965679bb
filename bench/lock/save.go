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
	Rounds int     `json:"rounds"`
	Window float64 `json:"window_s"`
	TTL    float64 `json:"ttl_s"`
}

// write writes the files that were asked for.
func (b *bench) write(f facts, outcomes []*outcome, targets []figure.Target) error {
	var failed error
	if b.json != "" {
		text, err := json.MarshalIndent(document{
			Facts: f, Settings: settings{b.rounds, b.options.window.Seconds(), leaseTTL.Seconds()}, Outcomes: outcomes, Targets: targets,
		}, "", "  ")
		failed = errors.Join(err, b.save(b.json, append(text, '\n')))
	}
	if b.svg != "" {
		picture := draw(f, outcomes)
		if picture == nil {
			fmt.Fprintf(b.errOut, "bench-lock: no picture: it shows %s, which was not measured\n", drawn)
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
	fmt.Fprintf(b.errOut, "bench-lock: wrote %s\n", name)
	return nil
}
