// Command versus runs two builds in turn, of bench-lock or, by bench-modes, of the shop, and prints the measures of
// every window in the format of Go's benchmarks, for benchstat: the build is the key "build" of a benchmark's name.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"lastitem/bench/command"
)

const self command.Name = "bench-versus"

func main() { os.Exit(command.Main(self, os.Args[1:], parse, run)) }

type options struct {
	builds              [2]string // programs
	rounds              int
	window              time.Duration
	scenario, contender string
	modes, mode         string // the program bench-modes, and what it runs; "" = the builds are of bench-lock
}

// names of the builds in the output.
var names = [2]string{"old", "new"}

func parse(args []string, errOut io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet(string(self), flag.ContinueOnError)
	flags.SetOutput(errOut)
	for i, name := range names {
		flags.StringVar(&o.builds[i], name, "", "`program`: the "+name+" build, of bench-lock or of the shop")
	}
	flags.StringVar(&o.modes, "modes", "", "compare shops, by this `program` bench-modes")
	flags.StringVar(&o.mode, "mode", "redis-lua,queue", "with -modes: modes, separated by commas")
	flags.IntVar(&o.rounds, "rounds", 10, "`number` of runs of each build")
	flags.DurationVar(&o.window, "window", 1250*time.Millisecond, "length of a window")
	flags.StringVar(&o.scenario, "scenario", "", "scenarios, separated by commas; -list of the measuring program shows "+
		"them (default free-1,free-16,hot-64,hot-64x4; with -modes: direct,refusals)")
	flags.StringVar(&o.contender, "contender", "handoff,fair,watchdog", "contenders, separated by commas")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.scenario == "" {
		o.scenario = "free-1,free-16,hot-64,hot-64x4"
		if o.modes != "" {
			o.scenario = "direct,refusals"
		}
	}
	switch {
	case o.builds[0] == "" || o.builds[1] == "":
		return o, self.Complain(errOut, "want -old and -new, two builds")
	case flags.NArg() > 0:
		return o, self.Complain(errOut, "unexpected %q", flags.Arg(0))
	case o.rounds < 1 || o.rounds > 100:
		return o, self.Complain(errOut, "-rounds %d: want 1 to 100", o.rounds)
	}
	return o, nil
}

func run(ctx context.Context, o options, out, errOut io.Writer) error {
	dir, err := os.MkdirTemp("", string(self)+"-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for round := range o.rounds {
		for turn := range o.builds {
			i := (turn + round) % len(o.builds) // neither build is always the first
			fmt.Fprintf(errOut, "%s: round %d of %d, %s\n", self, round+1, o.rounds, names[i])
			outcomes, err := window(ctx, o, o.builds[i], filepath.Join(dir, "result.json"))
			if err != nil {
				return fmt.Errorf("%s: %w", o.builds[i], err)
			}
			if err := write(out, names[i], outcomes); err != nil {
				return err
			}
		}
	}
	return nil
}

// outcome is a part of what a measuring program writes about a scenario.
type outcome struct {
	Name    string `json:"name"`
	Results []struct {
		Contender string              `json:"contender"`
		Row       string              `json:"row"`    // bench-modes has modes in the place of contenders
		Median    map[string]*float64 `json:"median"` // nil = unknown
	} `json:"results"`
}

// window runs a build once, one window of each contender or mode in each scenario.
func window(ctx context.Context, o options, build, file string) ([]outcome, error) {
	program, which := build, []string{"-contender", o.contender}
	if o.modes != "" {
		program, which = o.modes, []string{"-mode", o.mode, "-shop", build}
	}
	cmd := exec.CommandContext(ctx, program, append(which, "-rounds", "1", "-window", o.window.String(), "-scenario",
		o.scenario, "-json", file)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it stops its servers
	cmd.WaitDelay = 10 * time.Second
	if said, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, said)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var document struct {
		Outcomes []outcome `json:"scenarios"`
	}
	err = json.Unmarshal(data, &document)
	if err == nil && len(document.Outcomes) == 0 {
		err = errors.New("no scenario in its JSON")
	}
	return document.Outcomes, err
}

// write writes one benchmark for each result; the units are the names of the measures.
func write(out io.Writer, build string, outcomes []outcome) error {
	var err error
	for _, o := range outcomes {
		for _, r := range o.Results {
			what := "lock=" + r.Contender
			if r.Row != "" {
				what = "mode=" + r.Row
			}
			line := fmt.Sprintf("Benchmark/scenario=%s/%s/build=%s 1", o.Name, what, build)
			for _, name := range slices.Sorted(maps.Keys(r.Median)) {
				if n := r.Median[name]; n != nil {
					line += fmt.Sprintf(" %g %s", *n, name)
				}
			}
			_, wrote := fmt.Fprintln(out, line)
			err = errors.Join(err, wrote)
		}
	}
	return err
}
