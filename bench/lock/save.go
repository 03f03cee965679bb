package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"lastitem/bench/figure"
	"lastitem/internal/cli"
)

// settings are part of the JSON.
type settings struct {
	Rounds int     `json:"rounds"`
	Window float64 `json:"window_s"`
	TTL    float64 `json:"ttl_s"`
}

// write writes the requested files. If there is no picture, it prints which scenario the picture needs.
func (b *bench) write(f facts, outcomes []*outcome, targets []figure.Target) error {
	text, err := json.MarshalIndent(struct {
		Facts    facts           `json:"environment"`
		Settings settings        `json:"settings"`
		Outcomes []*outcome      `json:"scenarios"`
		Targets  []figure.Target `json:"targets"`
	}{f, settings{b.rounds, b.options.window.Seconds(), leaseTTL.Seconds()}, outcomes, targets}, "", "  ")
	err = errors.Join(err, b.save(b.json, append(text, '\n')))
	picture := draw(f, outcomes)
	if b.svg != "" && picture == nil {
		fmt.Fprintf(b.errOut, "bench-lock: no picture: it shows %s, not all of it measured\n", drawn)
		return err
	}
	return errors.Join(err, b.save(b.svg, picture))
}

// save writes a file; "" = none.
func (b *bench) save(name string, content []byte) error {
	if name == "" {
		return nil
	}
	err := cli.ToFile(name, false, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
	if err == nil {
		fmt.Fprintf(b.errOut, "bench-lock: wrote %s\n", name)
	}
	return err
}
