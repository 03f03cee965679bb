// Command modes compares lastitem's ways of deducting stock, over HTTP, on its own Redis and SQL servers with durable
// settings.
//
// A scenario (scenario.go) defines the load and its target; every mode runs in it, in rounds: each mode runs once
// before the next round. A window is one run of package loadtest (run.go), so the judge checks each window, and the
// numbers of an inexact mode are not quoted. measure.go computes medians and shares of noop, and those become tables,
// targets and a picture.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lastitem/bench/command"
	"lastitem/stack"
)

const self command.Name = "bench-modes"

// commit is set when the program is linked.
var commit = "devel"

func main() { os.Exit(command.Main(self, os.Args[1:], parse, run)) }

// options are the command line.
type options struct {
	scenarios []scenario
	modes     string // a pattern, see compare.Select
	rounds    int
	window    time.Duration
	clients   int
	fsync     string // Redis
	binlog    bool
	files     command.Files
	page      [2]string // the directory of speed.md, and the JSON that it is written from
	list      bool

	shop    string        // its program
	backend string        // stack.Local except in tests
	tell    time.Duration // between two lines of progress
}

func parse(args []string, errOut io.Writer) (options, error) {
	o := options{backend: stack.Local, tell: 5 * time.Second}
	flags := flag.NewFlagSet(string(self), flag.ContinueOnError)
	flags.SetOutput(errOut)
	which := flags.String("scenario", "", "only these, by name, separated by commas; see -list")
	flags.StringVar(&o.modes, "mode", "all", "only these: names, globs like 'sql-*', separated by commas; noop always "+
		"runs")
	flags.IntVar(&o.rounds, "rounds", 3, "`number` of windows for each mode and scenario; the tables show medians")
	flags.DurationVar(&o.window, "window", 1250*time.Millisecond, "length of a window, 100ms to 1m; of refusals a half")
	flags.IntVar(&o.clients, "clients", 64, "`number` of clients, each sending its next request after the answer to the "+
		"last")
	flags.StringVar(&o.fsync, "appendfsync", "everysec", "how Redis keeps its append-only file: always, everysec, no")
	flags.BoolVar(&o.binlog, "binlog", true, "SQL writes a binary log, synchronized at every commit, as MySQL 8 does by "+
		"default")
	o.files.Flags(flags, "draw the modes into this `file`")
	flags.StringVar(&o.page[0], "docs", "", "measure nothing, but write the table of speed.md in this `directory`")
	flags.StringVar(&o.page[1], "from", "out/bench-modes.json", "with -docs: the `file` of an earlier run")
	flags.StringVar(&o.shop, "shop", "", "the shop's `program`; by default the file shop beside this one")
	flags.BoolVar(&o.list, "list", false, "print the scenarios")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.shop = cmp.Or(o.shop, os.Getenv(stack.EnvBinary), beside())
	var unknown []string
	o.scenarios, unknown = command.Pick(scenarios, *which, func(s scenario) (string, bool) { return s.name, true })
	switch {
	case len(unknown) > 0:
		return o, self.Complain(errOut, "there is no %s; see -list", strings.Join(unknown, ", "))
	case flags.NArg() > 0:
		return o, self.Complain(errOut, "unexpected %q", flags.Arg(0))
	case o.rounds < 1 || o.rounds > 100:
		return o, self.Complain(errOut, "-rounds %d: want 1 to 100", o.rounds)
	case o.window < 100*time.Millisecond || o.window > time.Minute:
		return o, self.Complain(errOut, "-window %s: want 100ms to 1m", o.window)
	case o.clients < 1 || o.clients > 1000:
		return o, self.Complain(errOut, "-clients %d: want 1 to 1000", o.clients)
	case !slices.Contains([]string{"always", "everysec", "no"}, o.fsync):
		return o, self.Complain(errOut, "-appendfsync %s: want always, everysec or no", o.fsync)
	}
	return o, nil
}

// beside returns the shop in the directory of this program.
func beside() string {
	program, err := os.Executable()
	if err != nil {
		return "shop"
	}
	return filepath.Join(filepath.Dir(program), "shop")
}

func list(out io.Writer) {
	for _, s := range scenarios {
		fmt.Fprintf(out, "%-10s %s\n", s.name, s.title)
	}
}
