// Command lock measures the locks of lastitem beside those of other libraries, against one real redis-server of its own.
//
// A scenario (scenario.go) says what the goroutines do and over how many processes; a contender (contender.go) is one lock.
// Every window runs in child processes (fleet.go starts them, worker.go is what they do), so that no contender inherits
// the heap or the connections of another. The rounds are interleaved: every contender has its turn before the next round.
// What a window has recorded becomes numbers in measure.go, and those become tables, targets and a picture.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"lastitem/internal/localstack"
)

// commit is set when the program is linked.
var commit = "devel"

// The programs that this one starts itself as.
const (
	keeperCommand = "keeper" // owns the redis-server; see localstack
	workerCommand = "worker"
)

func main() { os.Exit(command(os.Args[1:])) }

func command(args []string) int {
	if len(args) == 1 && args[0] == keeperCommand {
		return exitCode(localstack.RunKeeper(os.Stdin, os.Stdout))
	}
	if len(args) == 1 && args[0] == workerCommand {
		return exitCode(work(os.Stdin, os.Stdout))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process; the keeper and the workers notice
	o, err := parse(args, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case o.list:
		list(os.Stdout)
		return 0
	}
	err = run(ctx, o, os.Stdout, os.Stderr)
	if ctx.Err() != nil {
		fmt.Fprintln(os.Stderr, "bench-lock: interrupted")
		return 130
	}
	return exitCode(err)
}

func exitCode(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintf(os.Stderr, "bench-lock: %v\n", err)
	return 1
}

// options are the command line.
type options struct {
	scenarios  []scenario
	contenders []contender
	rounds     int
	window     time.Duration
	json, svg  string
	pin        bool
	list       bool
}

func parse(args []string, errOut io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench-lock", flag.ContinueOnError)
	flags.SetOutput(errOut)
	which := flags.String("scenario", "", "only these, by name, separated by commas; see -list")
	who := flags.String("contender", "", "only these, by name, separated by commas; see -list")
	flags.IntVar(&o.rounds, "rounds", 3, "`number` of windows for each contender and timed scenario; the tables show medians")
	flags.DurationVar(&o.window, "window", 1250*time.Millisecond, "length of a window, 50ms to 1m")
	flags.StringVar(&o.json, "json", "", "write everything that was measured to this `file`")
	flags.StringVar(&o.svg, "svg", "", "draw the hot key over four processes into this `file`")
	flags.BoolVar(&o.pin, "pin", true, "give redis-server a CPU of its own, with taskset")
	flags.BoolVar(&o.list, "list", false, "print the scenarios and the contenders")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	var bad []string
	o.scenarios, bad = pick(scenarios, *which, func(s scenario) (string, bool) { return s.name, true })
	contenders, unknown := pick(contenders, *who, func(c contender) (string, bool) { return c.name, !c.tuned })
	o.contenders, bad = contenders, append(bad, unknown...)
	switch {
	case len(bad) > 0:
		return o, complain(errOut, "there is no %s; see -list", strings.Join(bad, ", "))
	case flags.NArg() > 0:
		return o, complain(errOut, "unexpected %q", flags.Arg(0))
	case o.rounds < 1 || o.rounds > 100:
		return o, complain(errOut, "-rounds %d: want 1 to 100", o.rounds)
	case o.window < 50*time.Millisecond || o.window > time.Minute:
		return o, complain(errOut, "-window %s: want 50ms to 1m", o.window)
	}
	return o, nil
}

func complain(errOut io.Writer, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	fmt.Fprintf(errOut, "bench-lock: %v\n", err)
	return err
}

// pick takes the named ones in the order of all, or without names those that are on by default.
func pick[T any](all []T, names string, of func(T) (name string, byDefault bool)) (picked []T, unknown []string) {
	wanted := strings.FieldsFunc(names, func(r rune) bool { return r == ',' || r == ' ' })
	unknown = slices.Clone(wanted)
	for _, one := range all {
		name, byDefault := of(one)
		if len(wanted) == 0 && byDefault || slices.Contains(wanted, name) {
			picked = append(picked, one)
		}
		unknown = slices.DeleteFunc(unknown, func(u string) bool { return u == name })
	}
	return picked, unknown
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
