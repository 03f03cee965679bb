// Command lock compares the locks of lastitem with those of other libraries, on a real redis-server that it starts.
//
// A scenario (scenario.go) defines the work of the goroutines and the number of processes; a contender (contender.go)
// is one lock. Every window runs in child processes (fleet.go starts them, worker.go is their program), so that no
// contender inherits the heap or the connections of another. The rounds are interleaved: every contender runs once
// before the next round. measure.go computes numbers from the records of a window, and those become tables, targets and
// a picture.
package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lastitem/internal/cli"
	"lastitem/say/text"
	"lastitem/stack/keeper"
)

// commit is set when the program is linked.
var commit = "devel"

// The commands with which this program starts itself.
const (
	keeperCommand = "keeper" // owns the redis-server; see stack/keeper
	workerCommand = "worker"
)

func main() { os.Exit(perform(os.Args[1:])) }

// perform runs the command line and returns the exit code. Children notice the end of their input.
func perform(args []string) int {
	own := map[string]func(io.Reader, io.Writer) error{keeperCommand: keeper.Run, workerCommand: work}
	root := newRoot()
	if len(args) == 1 && own[args[0]] != nil {
		if err := own[args[0]](os.Stdin, os.Stdout); err != nil {
			return cli.Finish(root, &cli.Error{Code: cli.ExitFailed, Err: err}, "en")
		}
		return cli.ExitOK
	}
	ctx, stop := cli.Interruptible()
	defer stop()
	root.SetArgs(args)
	return cli.Finish(root, root.ExecuteContext(ctx), "en")
}

var exits = cli.Exits{
	{cli.ExitOK, text.Plain("all was measured")},
	{cli.ExitFailed, text.Plain("an error, or a lock had two holders at once")},
	{cli.ExitUsage, text.Plain("the command line is wrong")},
	{cli.ExitInterrupted, text.Plain("interrupted")},
}

// options are the command line.
type options struct {
	scenarios  []scenario
	contenders []contender
	rounds     int
	window     time.Duration
	json, svg  string // files to write; "" = none
	pin        bool
	list       bool
	redisson   []string // the command line of its worker
	leftOut    string   // a contender that cannot run here, with the reason; "" = none
}

func newRoot() *cobra.Command {
	var o options
	var which, who []string
	var redisson string
	root := &cobra.Command{
		Use:   "bench-lock",
		Short: "Compare the locks of lastitem with those of other libraries, on a redis-server of its own",
		Args:  cli.Arguments(0, 0), SilenceUsage: true, SilenceErrors: true,
	}
	cli.Flags{
		{"scenario", (*cli.List)(&which), nil, text.Plain("only these, by name; see --list")},
		{"contender", (*cli.List)(&who), nil, text.Plain("only these, by name; see --list")},
		{"rounds", &o.rounds, 3, text.Plain("windows for each contender and timed scenario; the tables show medians")},
		{"window", &o.window, 1250 * time.Millisecond, text.Plain("length of a window, 50ms to 1m")},
		{"json", &o.json, nil, text.Plain("write everything that was measured to this `file`")},
		{"svg", &o.svg, nil, text.Plain("draw the hot key over four processes into this `file`")},
		{"pin", &o.pin, true, text.Plain("give redis-server a CPU of its own, with taskset")},
		{"redisson", &redisson, nil, text.Plain("`directory` of the Java worker, built by Maven; without it Redisson is " +
			"left out")},
		{"list", &o.list, nil, text.Plain("print the scenarios and the contenders")},
	}.Add(root.Flags(), "en")
	root.RunE = cli.Run(func(cmd *cobra.Command, _ []string) error {
		if err := o.choose(which, who, redisson, cmd.ErrOrStderr()); err != nil {
			return cli.Misuse(err)
		}
		return run(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
	})
	cli.SetHelp(root, "en", exits)
	return root
}

// choose takes the named scenarios and contenders, of none all but the tuned contenders.
func (o *options) choose(which, who []string, redisson string, errOut io.Writer) error {
	var bad []string
	o.scenarios, bad = pick(scenarios, which, func(s scenario) (string, bool) { return s.name, true })
	contenders, unknown := pick(contenders, who, func(c contender) (string, bool) { return c.name, !c.tuned })
	o.contenders, bad = contenders, append(bad, unknown...)
	switch {
	case len(bad) > 0:
		return fmt.Errorf("there is no %s; see --list", strings.Join(bad, ", "))
	case o.rounds < 1 || o.rounds > 100:
		return fmt.Errorf("--rounds %d: want 1 to 100", o.rounds)
	case o.window < 50*time.Millisecond || o.window > time.Minute:
		return fmt.Errorf("--window %s: want 50ms to 1m", o.window)
	}
	return o.findRedisson(redisson, len(who) > 0, errOut)
}

// pick returns the named elements in the order of all; without names, the default ones.
func pick[T any](all []T, names []string, of func(T) (name string, byDefault bool)) (picked []T, unknown []string) {
	unknown = slices.Clone(names)
	for _, one := range all {
		name, byDefault := of(one)
		if len(names) == 0 && byDefault || slices.Contains(names, name) {
			picked = append(picked, one)
		}
		unknown = slices.DeleteFunc(unknown, func(u string) bool { return u == name })
	}
	return picked, unknown
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
		return fmt.Errorf("--contender %s: %w", redissonName, err)
	}
	o.leftOut = fmt.Sprintf("REDISSON IS LEFT OUT: %v", err)
	fmt.Fprintf(errOut, "bench-lock: %s\n", o.leftOut)
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
