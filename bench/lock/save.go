package main

import (
	"lastitem/bench/command"
	"lastitem/bench/figure"
)

// settings are part of the JSON.
type settings struct {
	Rounds int     `json:"rounds"`
	Window float64 `json:"window_s"`
	TTL    float64 `json:"ttl_s"`
}

// write writes the requested files.
func (b *bench) write(f facts, outcomes []*outcome, targets []figure.Target) error {
	return self.Write(b.errOut, b.files, command.Document{
		Facts: f, Settings: settings{b.rounds, b.options.window.Seconds(), leaseTTL.Seconds()}, Outcomes: outcomes,
		Targets: targets,
	}, draw(f, outcomes), drawn)
}
