package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lastitem/contract/api"
	"lastitem/faultlab"
	"lastitem/faultlab/fault"
	"lastitem/faultlab/tell"
	"lastitem/internal/cli"
	"lastitem/internal/stock"
	"lastitem/say/text"
)

// labFlags is the command line of 'shop lab'.
type labFlags struct {
	modes, stores, faults       []string
	all, pairs, beyond, stories bool
	replay, update, docs, tell  string
	lang, ttl                   string
	expiry                      string
	lanes, times                int
	output                      cli.Output
	random                      randomFlags
	serve                       foreignFlags
}

// add declares the flags.
func (f *labFlags) add(cmd *cobra.Command) {
	set := cmd.Flags()
	cli.Section(set, text.Of("Cells").In(f.lang), func() { f.addCells(set) })
	cli.Section(set, text.Of("Schedules").In(f.lang), func() { f.addSchedules(set) })
	cli.Section(set, text.Of("Random schedules").In(f.lang), func() { f.random.add(set, f.lang) })
	cli.Section(set, text.Of("Output").In(f.lang), func() {
		cli.Flags{
			{"stories", &f.stories, nil, text.Of("text: tell every schedule")},
			{"no-color", new(bool), nil, noColorHelp}, // the lab uses none
		}.Add(set, f.lang)
		f.output.Add(cmd, f.lang, cli.Text, cli.JSON, cli.HTML, cli.Markdown, cli.JUnit)
		f.output.AddBesides(cmd, cli.HTML, cli.Markdown, cli.JUnit)
		cli.AddLang(set, &f.lang)
		cli.Flags{
			{"update", &f.update, nil, text.Of("merge the findings into this matrix.json; with --all")},
			{"tell", &f.tell, nil, text.Of("record the stories of committed witnesses that this directory " +
				"(faultlab/tell/stories) lacks; nothing else is played")},
			{"docs", &f.docs, nil, text.Of("write matrix.md in both languages into this directory, from the " +
				"committed matrix; nothing is played")},
		}.Add(set, f.lang)
	})
	cli.Section(set, text.Of("Your own service").In(f.lang), func() { f.serve.register(set, f.lang) })
	cmd.MarkFlagsMutuallyExclusive("expiry", "replay") // the file says how locks expire
	for _, other := range []string{"replay", "update", "docs", "tell", "all", "pairs", "stories"} {
		cmd.MarkFlagsMutuallyExclusive("random", other)
	}
	for _, other := range []string{"replay", "update", "docs", "tell"} {
		cmd.MarkFlagsMutuallyExclusive("for", other)
	}
	for _, other := range []string{"output", "out"} { // --tell and --docs write files of their own, and have no result
		cmd.MarkFlagsMutuallyExclusive("tell", other)
		cmd.MarkFlagsMutuallyExclusive("docs", other)
	}
}

// addCells declares which cells are played.
func (f *labFlags) addCells(set *pflag.FlagSet) {
	cli.Flags{
		{"mode", (*cli.List)(&f.modes), nil, text.Of("modes, comma-separated (default all)")},
		{"store", (*cli.List)(&f.stores), nil, text.Of("where the count lives: redis, sql, etcd (default all)")},
		{"fault", (*cli.List)(&f.faults), nil, text.Of("faults, comma-separated (default threads to expiry, about " +
			"which the modes make claims): %s").With(strings.Join(faultNames(), ", "))},
		{"beyond", &f.beyond, nil, text.Of("play the hazards about which the modes make no claims, instead of " +
			"the others")},
	}.Add(set, f.lang)
}

// addSchedules declares which schedules are played, and how.
func (f *labFlags) addSchedules(set *pflag.FlagSet) {
	cli.Flags{
		{"all", &f.all, nil, text.Of("play every schedule")},
		{"pairs", &f.pairs, nil, text.Of("also hold the rival at each of its commands: two preemptions; takes " +
			"long")},
		{"replay", &f.replay, nil, text.Of("play the schedule of this file again, the JSON of one cell; the " +
			"file of a service of your own runs the command in it, with --env and --header given again")},
		{"times", &f.times, 20, text.Of("how often --replay plays it")},
		{"lanes", &f.lanes, faultlab.DefaultLanes, text.Of("how many schedules that wait for a lock to expire are " +
			"played side by side")},
		{"ttl", &f.ttl, faultlab.DefaultTTL.String(), text.Of("TTL of the locks where they shall expire")},
		{"expiry", &f.expiry, string(faultlab.Awaited), text.Of("how the locks of a stopped or killed holder expire: " +
			"awaited, or forced at the servers")},
	}.Add(set, f.lang)
}

func faultNames() []string {
	var names []string
	for _, name := range fault.Names() {
		names = append(names, string(name))
	}
	return names
}

// options checks the flags.
func (f *labFlags) options(line *tell.StatusLine) (faultlab.Options, error) {
	o := faultlab.Options{Modes: f.modes, All: f.all, Pairs: f.pairs, Lanes: f.lanes, Stories: f.stories,
		Tell: f.output.Gives(cli.HTML)}
	if err := f.selectCells(&o); err != nil {
		return o, err
	}
	if err := f.checkSchedules(); err != nil {
		return o, err
	}
	ttl, err := time.ParseDuration(f.ttl)
	if err != nil || ttl < 100*time.Millisecond || ttl > time.Minute {
		return o, cli.Usage(text.Of("--ttl %q: want 100ms to 1m"), f.ttl)
	}
	o.TTL, o.Learn, o.Expiry = ttl, f.update != "", faultlab.Expiry(f.expiry)
	o.Log = func(format string, args ...any) { fmt.Fprintf(line, format+"\n", args...) }
	o.Binary, err = os.Executable()
	o.Tally = line.Tally
	o.Progress = func(c faultlab.Cell) {
		_, _ = io.WriteString(line, tell.Line(c, f.lang))
	}
	return o, err
}

// selectCells checks the modes, stores and faults, and sets them.
func (f *labFlags) selectCells(o *faultlab.Options) error {
	for _, name := range f.modes {
		if !slices.ContainsFunc(stock.Modes(), func(m stock.Mode) bool { return m.Name == name }) {
			return cli.Usage(text.Of("--mode %q: no such mode; 'shop modes' lists them"), name)
		}
	}
	for _, name := range f.stores {
		if !slices.Contains(api.Stores, api.Store(name)) {
			return cli.Usage(text.Of("--store %q: want redis, sql or etcd"), name)
		}
		o.Stores = append(o.Stores, api.Store(name))
	}
	for _, name := range f.faults {
		if _, ok := fault.Named(api.Hazard(name)); !ok {
			return cli.Usage(text.Of("--fault %q: want one of %s"), name, strings.Join(faultNames(), ", "))
		}
		o.Faults = append(o.Faults, api.Hazard(name))
	}
	if f.beyond {
		if o.Faults != nil {
			return cli.Usage(text.Of("--beyond and --fault exclude each other"))
		}
		for _, x := range fault.Beyond {
			o.Faults = append(o.Faults, x.Name)
		}
	}
	return nil
}

// mostLanes bounds --lanes.
const mostLanes = 64

// checkSchedules refuses flags that say nonsense about how schedules are played, or that cannot be combined with
// --update.
func (f *labFlags) checkSchedules() error {
	switch {
	case f.lanes < 1 || f.lanes > mostLanes:
		return cli.Usage(text.Of("--lanes %d: want 1 to %d"), f.lanes, mostLanes)
	case f.times < 1:
		return cli.Usage(text.Of("--times %d: want 1 or more"), f.times)
	case f.expiry != string(faultlab.Awaited) && f.expiry != string(faultlab.Forced):
		return cli.Usage(text.Of("--expiry %q: want awaited or forced"), f.expiry)
	case f.update != "" && f.expiry == string(faultlab.Forced):
		return cli.Usage(text.Of("--update and --expiry forced exclude each other: the matrix holds what real expiry shows"))
	case f.update != "" && !f.all:
		return cli.Usage(text.Of("--update needs --all: a matrix is made of every schedule"))
	}
	return nil
}

// exclude refuses flags that cannot be combined; serving says whether --serve was given.
func (f *labFlags) exclude(serving bool) error {
	switch {
	case f.output.Gives(cli.HTML) && (f.random.random || f.replay != "" || f.tell != ""):
		return cli.Usage(text.Of("a page tells the outcomes of cells: --html and -o html exclude --random, --replay " +
			"and --tell"))
	case f.replay != "" && serving:
		return cli.Usage(text.Of("--replay and --serve exclude each other: the file of --replay describes the service"))
	}
	return nil
}
