// Command lock compares the locks of lastitem with those of other libraries, on a real redis-server that it starts.
//
// A scenario (scenario.go) defines the work of the goroutines and the number of processes; a contender (contender.go)
// is one lock. Every window runs in child processes (fleet.go starts them, worker.go is their program), so that no
// contender inherits the heap or the connections of another. The rounds are interleaved: every contender runs once
// before the next round. measure.go computes numbers from the records of a window, and those become tables, targets and
// a picture.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"lastitem/bench/command"
	"lastitem/stack/keeper"
)

const self command.Name = "bench-lock"

// commit is set when the program is linked.
var commit = "devel"

// The commands with which this program starts itself.
const (
	keeperCommand = "keeper" // owns the redis-server; see stack/keeper
	workerCommand = "worker"
)

func main() { os.Exit(perform(os.Args[1:])) }

func perform(args []string) int {
	if len(args) == 1 && args[0] == keeperCommand {
		return self.Exit(keeper.Run(os.Stdin, os.Stdout))
	}
	if len(args) == 1 && args[0] == workerCommand {
		return self.Exit(work(os.Stdin, os.Stdout))
	}
	return command.Main(self, args, parse, run)
}

// options are the command line.
type options struct {
	scenarios  []scenario
	contenders []contender
	rounds     int
	window     time.Duration
	files      command.Files
	pin        bool
	list       bool
	redisson   []string // the command line of its worker
	leftOut    string   // a contender that cannot run here, with the reason; "" = none
}

func parse(args []string, errOut io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet(string(self), flag.ContinueOnError)
	flags.SetOutput(errOut)
	which := flags.String("scenario", "", "only these, by name, separated by commas; see -list")
	who := flags.String("contender", "", "only these, by name, separated by commas; see -list")
	flags.IntVar(&o.rounds, "rounds", 3, "`number` of windows for each contender and timed scenario; the tables show "+
		"medians")
	flags.DurationVar(&o.window, "window", 1250*time.Millisecond, "length of a window, 50ms to 1m")
	o.files.Flags(flags, "draw the hot key over four processes into this `file`")
	flags.BoolVar(&o.pin, "pin", true, "give redis-server a CPU of its own, with taskset")
	redisson := flags.String("redisson", "", "`directory` of the Java worker, built by Maven; without it Redisson is "+
		"left out")
	flags.BoolVar(&o.list, "list", false, "print the scenarios and the contenders")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	var bad []string
	o.scenarios, bad = command.Pick(scenarios, *which, func(s scenario) (string, bool) { return s.name, true })
	contenders, unknown := command.Pick(contenders, *who, func(c contender) (string, bool) { return c.name, !c.tuned })
	o.contenders, bad = contenders, append(bad, unknown...)
	switch {
	case len(bad) > 0:
		return o, self.Complain(errOut, "there is no %s; see -list", strings.Join(bad, ", "))
	case flags.NArg() > 0:
		return o, self.Complain(errOut, "unexpected %q", flags.Arg(0))
	case o.rounds < 1 || o.rounds > 100:
		return o, self.Complain(errOut, "-rounds %d: want 1 to 100", o.rounds)
	case o.window < 50*time.Millisecond || o.window > time.Minute:
		return o, self.Complain(errOut, "-window %s: want 50ms to 1m", o.window)
	}
	err := o.findRedisson(*redisson, *who != "", errOut)
	return o, err
}

// findRedisson leaves Redisson out, with a message, if it cannot run; if it was named, that is an error.
func (o *options) findRedisson(dir string, named bool, errOut io.Writer) error {
	i := slices.IndexFunc(o.contenders, func(c contender) bool { return c.name == redissonName })
	if i < 0 || o.list {
		return nil
	}
	var err error
	if o.redisson, err = redissonWorker(dir); err == nil {
		return nil
	}
	if named {
		return self.Complain(errOut, "-contender %s: %v", redissonName, err)
	}
	o.leftOut = fmt.Sprintf("REDISSON IS LEFT OUT: %v", err)
	fmt.Fprintf(errOut, "%s: %s\n", self, o.leftOut)
	o.contenders = slices.Delete(slices.Clone(o.contenders), i, i+1)
	return nil
}

func list(out io.Writer) {
	fmt.Fprintln(out, "scenarios:")
	for _, s := range scenarios {
		fmt.Fprintf(out, "  %-18s %s\n", s.name, s.title)
	}
	fmt.Fprintln(out, "\ncontenders:")
	for _, c := range contenders {
		note := ""
		switch {
		case c.tuned:
			note = " (only when named)"
		case c.hot:
			note = " (only for a hot key)"
		}
		fmt.Fprintf(out, "  %-18s %s%s\n", c.name, c.what, note)
	}
}
