package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lastitem/faultlab"
	"lastitem/faultlab/fault"
	"lastitem/internal/api"
	"lastitem/internal/localstack"
	"lastitem/internal/stock"
)

//go:generate go run . lab --docs ../../docs

// labFlags is the command line of 'shop lab'.
type labFlags struct {
	modes, stores, faults       []string
	all, pairs, beyond, stories bool
	replay, update, docs, tell  string
	lang, ttl                   string
	expiry                      string
	lanes, times                int
	output                      output
	random                      randomFlags
	serve                       serveFlags
}

func newLab() *cobra.Command {
	var f labFlags
	cmd := &cobra.Command{
		Use:   "lab",
		Short: "Try every point at which a fault can strike, and say which modes survive",
		Long: `Plays the schedules of each fault on private servers: three replicas, each with a proxy of its own before every server. A
request is stopped at each of its commands in turn, the fault is injected there, a second request (the rival) is served, and
the judge reads stock and orders. The shop contains no code for the lab. The lab compares its findings with the claims of the
modes: a letter that is not claimed fails, and so does a claimed letter that is not found.

A cell is one mode, store and fault; a schedule is one position at which the fault is injected. By default the lab plays the
committed witnesses of a cell that is known to be broken, and every schedule of one that must be exact; --all plays every
schedule of both. If one mode and one fault are selected, the lab prints the worst schedule command by command; the JSON of such
a cell is what --replay reads.

--random plays random schedules of the cells that must be exact, for the duration --for; the same --seed draws the same
schedules. With threads, replicas, slow and pause some of them also hold a rival and a third request, and the three go on in a
random order. Each schedule that breaks something is written to out/random-SEED-N.json, for --replay.

--expiry forced ends the locks of a stopped or killed holder (pause, crash) at their servers at once, instead of waiting for
the TTL. That is faster, but the holder's own clock does not move. A holder that checks its clock before it writes still trusts
its lock, so the lab may break a mode that such a pause would not break. Nor does the lab test how a holder behaves once its
clock says that the lock is over. Therefore the default is awaited, and only awaited findings enter the matrix. See
docs/lab.md.

--serve tests your own service in the same way, in any language. The lab starts three replicas of it, with proxies between them
and private Redis and MySQL servers. Your service makes no claims, so the lab reports everything that breaks it. See
docs/lab-anybody.md; examples/ has three services to begin with.

Needs redis-server and mariadbd or mysqld on PATH.

The lab exits with 1 if a finding is not as claimed, if something broke your service, or if a schedule was vacuous or diverged; with
3 if no schedule at all could be judged.`,
		Example: "  shop lab\n  shop lab --mode lua-lock --fault pause\n  shop lab --mode lua-lock --fault pause --out story.json\n  shop lab --replay story.json\n  shop lab --mode etcd --fault pause,crash --expiry forced\n  shop lab --random --seed 7 --for 10m\n" +
			"  shop lab --serve 'python app.py --port {{port}} --redis {{redis}}' --request 'POST /buy?product={{product}}' \\\n" +
			"    --reset-redis 'SET stock:{{product}} {{stock}}' --stock-redis 'GET stock:{{product}}' --orders-redis 'LRANGE orders:{{product}} 0 -1'",
		Args: arguments(0, 0),
		RunE: run(func(cmd *cobra.Command, _ []string) error { return runLab(cmd, &f) }),
	}
	f.add(cmd)
	return cmd
}

// add declares the flags.
func (f *labFlags) add(cmd *cobra.Command) {
	set := cmd.Flags()
	set.SortFlags = false
	section(set, "Cells", func() { f.addCells(set) })
	section(set, "Schedules", func() { f.addSchedules(set) })
	section(set, "Random schedules", func() { f.random.add(set) })
	section(set, "Output", func() {
		set.BoolVar(&f.stories, "stories", false, "text: tell every schedule")
		f.output.add(cmd, formText, formJSON, formHTML)
		f.output.addBesides(cmd, formHTML)
		f.output.addOldForms(cmd, formJSON)
		f.output.addOldFile(cmd, "save")
		addLang(set, &f.lang)
		set.StringVar(&f.update, "update", "", "merge the findings into this matrix.json; with --all")
		set.StringVar(&f.tell, "tell", "", "record the stories of committed witnesses in this stories.json, where it has none; nothing else is played")
		set.StringVar(&f.docs, "docs", "", "write matrix.md in both languages into this directory, from the committed matrix; nothing is played")
	})
	section(set, "Your own service", func() { f.serve.register(set) })
	cmd.MarkFlagsMutuallyExclusive("expiry", "replay") // the file says how locks expire
	for _, other := range []string{"replay", "update", "docs", "tell", "all", "pairs", "stories"} {
		cmd.MarkFlagsMutuallyExclusive("random", other)
	}
}

// addCells declares which cells are played.
func (f *labFlags) addCells(set *pflag.FlagSet) {
	set.StringSliceVar(&f.modes, "mode", nil, "modes, comma-separated (default all)")
	set.StringSliceVar(&f.stores, "store", nil, "where the count lives: redis, sql, etcd (default all)")
	set.StringSliceVar(&f.faults, "fault", nil, "faults, comma-separated (default threads to late-write, about which the modes make claims): "+strings.Join(faultNames(), ", "))
	set.BoolVar(&f.beyond, "beyond", false, "play the hazards about which the modes make no claims, instead of the others")
}

// addSchedules declares which schedules are played, and how.
func (f *labFlags) addSchedules(set *pflag.FlagSet) {
	set.BoolVar(&f.all, "all", false, "play every schedule")
	set.BoolVar(&f.pairs, "pairs", false, "also hold the rival at each of its commands: two preemptions; takes long")
	set.StringVar(&f.replay, "replay", "", "play the schedule of this file again, the JSON of one cell")
	set.IntVar(&f.times, "times", 20, "how often --replay plays it")
	set.IntVar(&f.lanes, "lanes", faultlab.DefaultLanes, "how many schedules that wait for a lock to expire are played side by side")
	set.StringVar(&f.ttl, "ttl", faultlab.DefaultTTL.String(), "TTL of the locks where they shall expire")
	set.StringVar(&f.expiry, "expiry", string(faultlab.Awaited), "how the locks of a stopped or killed holder expire: awaited, or forced at the servers")
}

func faultNames() []string {
	var names []string
	for _, name := range fault.Names() {
		names = append(names, string(name))
	}
	return names
}

func runLab(cmd *cobra.Command, f *labFlags) error {
	if err := checkLang(f.lang); err != nil {
		return err
	}
	f.lang = f.output.language(cmd, f.lang)
	if f.docs != "" {
		return writeMatrixPages(f.docs)
	}
	if err := f.random.check(cmd); err != nil {
		return err
	}
	service, err := f.serve.service(cmd)
	if err != nil {
		return err
	}
	if service != nil && !cmd.Flags().Changed("lanes") {
		f.lanes = defaultServeLanes
	}
	line := newLabLine(cmd.ErrOrStderr(), f.lang)
	defer line.clear()
	o, err := f.options(line)
	if err != nil {
		return err
	}
	switch {
	case f.output.gives(formHTML) && (f.random.random || f.replay != "" || f.tell != ""):
		return usage("a page tells the outcomes of cells: --html and -o html exclude --random, --replay and --tell")
	case f.random.random:
		return randomLab(cmd, f, o, line)
	case f.replay != "" && service != nil:
		return usage("--replay and --serve exclude each other: the file of --replay describes the service")
	case f.tell != "":
		return tellWitnesses(cmd, f, o)
	case f.replay != "":
		return replayLab(cmd, f, o)
	case service != nil:
		o.Serve, o.Extras = service, nil
		return exploreServe(cmd, f, o, line)
	}
	modes, err := registry()
	if err != nil {
		return err
	}
	if err := faultlab.CheckCells(modes, o); err != nil {
		return usage("%v", err)
	}
	res, err := faultlab.Explore(cmd.Context(), o)
	line.clear()
	if err != nil {
		return f.interrupted(cmd, res, err)
	}
	if f.update != "" {
		if err := updateMatrix(f.update, res); err != nil {
			return err
		}
	}
	if err := f.print(cmd, res); err != nil {
		return err
	}
	switch n := res.Wrong(); {
	case res.Schedules == 0:
		return &exitError{code: exitInconclusive, err: fmt.Errorf("none of %d cells could be judged", len(res.Cells))}
	case n > 0:
		return &exitError{code: exitFailed, err: fmt.Errorf("%d of %d cells are not as they must be", n, len(res.Cells))}
	}
	return nil
}

// interrupted prints the cells that were through when the user stopped the lab; cause is the error that it ended with.
func (f *labFlags) interrupted(cmd *cobra.Command, res *faultlab.Result, cause error) error {
	if cmd.Context().Err() == nil || res == nil || len(res.Cells) == 0 {
		return cause
	}
	return errors.Join(cause, f.print(cmd, res))
}

// options checks the flags.
func (f *labFlags) options(line *labLine) (faultlab.Options, error) {
	o := faultlab.Options{Modes: f.modes, All: f.all, Pairs: f.pairs, Lanes: f.lanes, Stories: f.stories, Tell: f.output.gives(formHTML)}
	for _, name := range f.modes {
		if !slices.ContainsFunc(stock.Modes(), func(m stock.Mode) bool { return m.Name == name }) {
			return o, usage("--mode %q: no such mode; 'shop modes' lists them", name)
		}
	}
	for _, name := range f.stores {
		if !slices.Contains(api.Stores, api.Store(name)) {
			return o, usage("--store %q: want redis, sql or etcd", name)
		}
		o.Stores = append(o.Stores, api.Store(name))
	}
	for _, name := range f.faults {
		if _, ok := fault.Named(api.Hazard(name)); !ok {
			return o, usage("--fault %q: want one of %s", name, strings.Join(faultNames(), ", "))
		}
		o.Faults = append(o.Faults, api.Hazard(name))
	}
	if f.beyond {
		if o.Faults != nil {
			return o, usage("--beyond and --fault exclude each other")
		}
		for _, x := range fault.Beyond {
			o.Faults = append(o.Faults, x.Name)
		}
	}
	switch {
	case f.lanes < 1 || f.lanes > 64:
		return o, usage("--lanes %d: want 1 to 64", f.lanes)
	case f.times < 1:
		return o, usage("--times %d: want 1 or more", f.times)
	case f.expiry != string(faultlab.Awaited) && f.expiry != string(faultlab.Forced):
		return o, usage("--expiry %q: want awaited or forced", f.expiry)
	case f.update != "" && f.expiry == string(faultlab.Forced):
		return o, usage("--update and --expiry forced exclude each other: the matrix holds what real expiry shows")
	case f.update != "" && !f.all:
		return o, usage("--update needs --all: a matrix is made of every schedule")
	}
	ttl, err := time.ParseDuration(f.ttl)
	if err != nil || ttl < 100*time.Millisecond || ttl > time.Minute {
		return o, usage("--ttl %q: want 100ms to 1m", f.ttl)
	}
	o.TTL, o.Learn, o.Expiry = ttl, f.update != "", faultlab.Expiry(f.expiry)
	o.Log = func(format string, args ...any) { fmt.Fprintf(line, format+"\n", args...) }
	o.Extras = labExtras(f.modes, o.Log)
	o.Binary, err = os.Executable()
	o.Tally = line.tally
	o.Progress = func(c faultlab.Cell) {
		text := c.Line(f.lang)
		if f.serve.f.Serve != "" {
			text = c.ServeLine(f.lang)
		}
		_, _ = io.WriteString(line, text)
	}
	return o, err
}

// labExtras are the services that the modes need and that are installed; nil modes are all.
func labExtras(modes []string, log func(string, ...any)) []string {
	var extras []string
	for _, name := range []string{localstack.Redlock, localstack.Etcd, localstack.ZooKeeper, localstack.Consul} {
		if !slices.ContainsFunc(stock.Modes(), func(m stock.Mode) bool {
			return slices.Contains(m.Needs, stock.Backend(name)) && (modes == nil || slices.Contains(modes, m.Name))
		}) {
			continue
		}
		if _, err := localstack.Find(name); err != nil {
			log("%s: its modes are left out: %v", name, err)
			continue
		}
		extras = append(extras, name)
	}
	return extras
}

// print writes the result: as text the report, and the worst schedule of a single cell as a story.
func (f *labFlags) print(cmd *cobra.Command, res *faultlab.Result) error {
	return f.output.write(cmd, func(w io.Writer, form string) error {
		switch form {
		case formJSON:
			return writeIndented(w, res)
		case formHTML:
			return res.WritePage(w, faultlab.PageOptions{
				Lang: f.lang, Version: version(), Command: again("lab", cmd.Flags()), Made: time.Now(), Secrets: secretsIn(cmd.Flags()),
			})
		}
		return f.write(w, res)
	})
}

// write writes the text.
func (f *labFlags) write(w io.Writer, res *faultlab.Result) error {
	told := res.Played
	if len(told) == 0 && res.Worst != nil && (res.Serve == nil || !res.Exact()) {
		told = []faultlab.Played{*res.Worst}
	}
	for _, p := range told {
		if err := p.Write(w, f.lang); err != nil {
			return err
		}
	}
	if res.Serve != nil {
		return res.WriteServe(w, f.lang)
	}
	return res.Write(w, f.lang)
}
