package main

import (
	"lastitem/bench/command"
	"lastitem/bench/figure"
)

// settings are part of the JSON.
type settings struct {
	Rounds  int     `json:"rounds"`
	Window  float64 `json:"window_s"`
	Warmup  float64 `json:"warmup_s"`
	Clients int     `json:"clients"`
	Wait    float64 `json:"wait_s"`
	Delay   float64 `json:"delay_of_far_servers_s"` // in each direction
}

// write writes the requested files.
func (b *bench) write(f facts, outcomes []*outcome, targets []figure.Target) error {
	return self.Write(b.errOut, b.files, command.Document{
		Facts: f, Outcomes: outcomes, Targets: targets,
		Settings: settings{b.rounds, b.options.window.Seconds(), warmup.Seconds(), b.clients, patience.Seconds(),
			distance.Seconds()},
	}, draw(f, b.options, outcomes), direct+" and "+balanced)
}
