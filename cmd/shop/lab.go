package main

import (
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lastitem/faultlab"
	"lastitem/faultlab/tell"
	"lastitem/internal/cli"
	"lastitem/internal/stock"
	"lastitem/say/text"
	"lastitem/stack"
)

//go:generate go run . lab --docs ../../docs

func newLab(lang string) *cobra.Command {
	f := labFlags{lang: lang}
	cmd := &cobra.Command{
		Use:   "lab",
		Short: text.Of("Try every point at which a fault can strike, and say which modes survive").In(lang),
		Long: text.Of(`Plays the schedules of each fault on private servers: three replicas, each with a proxy of its own
before every server. A request is stopped at each of its commands in turn, the fault is injected there, a second request
(the rival) is served, and the judge reads stock and orders. The shop contains no code for the lab. The lab compares its
findings with the claims of the modes: a letter that is not claimed fails, and so does a claimed letter that is not
found.

A cell is one mode, store and fault; a schedule is one position at which the fault is injected. By default the lab plays
the committed witnesses of a cell that is known to be broken, and every schedule of one that must be exact, or six of
them if the mode needs ZooKeeper, etcd or Consul; --all plays every schedule of both. If one mode and one fault are
selected, the lab prints the worst schedule command by command; the JSON of such a cell is what --replay reads.

--random plays random schedules of the cells that must be exact, for the duration --for; the same --seed draws the same
schedules. With threads, replicas, slow and pause some of them also hold a rival and a third request, and the three go
on in a random order. Each schedule that breaks something is written to out/random-SEED-N.json, for --replay.

--for without --random plays as many of the selected schedules as fit. Those at commands that write come first, and
--seed decides their order. The rest is undecided; for your own service it is marked '?'.

--expiry forced ends the locks of a stopped or killed holder (pause, crash) at their servers at once, instead of waiting
for the TTL. That is faster, but the holder's own clock does not move. A holder that checks its clock before it writes
still trusts its lock, so the lab may break a mode that such a pause would not break. Nor does the lab test how a holder
behaves once its clock says that the lock is over. Therefore the default is awaited, and only awaited findings enter the
matrix. See docs/lab.md.

--serve tests your own service in the same way, in any language. The lab starts three replicas of it, with proxies
between them and private Redis, MySQL or PostgreSQL servers. Your service makes no claims, so the lab reports
everything that breaks it. docs/lab-anybody.md begins with one of ours, in ten minutes.

Needs redis-server and mariadbd or mysqld on PATH.

The lab exits with 1 if a finding is not as claimed, if something broke your service, or if a schedule failed, was
vacuous or diverged; with 3 if no schedule at all could be judged, or if nothing broke your service but not everything
was tried. With --random it exits with 1 if a schedule broke something, and with 3 if one could not be played or none
could be judged.`).In(lang),
		Example: "  shop lab\n  shop lab --mode lua-lock --fault pause\n  shop lab --mode lua-lock --fault pause --out " +
			"story.json\n  shop lab --replay story.json\n  shop lab --mode etcd --fault pause,crash --expiry forced\n  shop " +
			"lab --random --seed 7 --for 10m\n" +
			"  shop lab --serve 'python app.py --port {{port}} --redis {{redis}}' --request 'POST /buy?product={{product}}' " +
			"\\\n" +
			"    --reset-redis 'SET stock:{{product}} {{stock}}' --stock-redis 'GET stock:{{product}}' --orders-redis 'LRANGE " +
			"orders:{{product}} 0 -1'\n  shop lab --service shop.yaml --fault replicas --lanes 1",
		Args: cli.Arguments(0, 0),
		RunE: cli.Run(func(cmd *cobra.Command, _ []string) error { return runLab(cmd, &f) }),
	}
	f.add(cmd)
	return cmd
}

// runLab does what the flags ask for: pages, random schedules, stories, a replay, or the exploration of cells or of a
// service.
func runLab(cmd *cobra.Command, f *labFlags) error {
	f.lang = f.output.Language(cmd, f.lang)
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
		f.lanes = defaultForeignLanes
	}
	line := tell.NewStatusLine(cmd.ErrOrStderr(), f.lang)
	defer line.Clear()
	o, err := f.options(line)
	if err != nil {
		return err
	}
	if err := f.exclude(service != nil); err != nil {
		return err
	}
	if cmd.Flags().Changed("for") && !f.random.random {
		o.For, o.Seed = f.random.length, f.random.seed
	}
	if service == nil && f.replay == "" {
		o.Extras = labExtras(f.modes, o.Log)
	}
	switch {
	case f.random.random:
		return randomLab(cmd, f, o, line)
	case f.tell != "":
		return tellWitnesses(cmd, f, o)
	case f.replay != "":
		return replayLab(cmd, f, o)
	case service != nil:
		o.Serve = service
		return exploreForeign(cmd, f, o, line)
	}
	return exploreModes(cmd, f, o, line)
}

// exploreModes tries the selected cells of our own modes and reports; the error carries the exit code.
func exploreModes(cmd *cobra.Command, f *labFlags, o faultlab.Options, line *tell.StatusLine) error {
	if err := faultlab.CheckCells(modesHere(), o); err != nil {
		return cli.Misuse(err)
	}
	res, err := faultlab.Explore(cmd.Context(), o)
	line.Clear()
	if err != nil {
		return f.interrupted(cmd, res, err)
	}
	if f.update != "" {
		if err := faultlab.UpdateMatrix(f.update, res); err != nil {
			return err
		}
	}
	if err := f.print(cmd, res); err != nil {
		return err
	}
	return asClaimed(res)
}

// asClaimed returns nil if every cell of our own modes is as it must be; the error carries the exit code.
func asClaimed(res *faultlab.Result) error {
	switch wrong := res.Wrong(); {
	case res.Judged == 0:
		return cli.Ended(exitInconclusive, text.Of("none of %d [cell|cells] could be judged"), len(res.Cells))
	case len(wrong) > 0:
		return cli.Ended(cli.ExitFailed, text.Of("of %[2]d [cell|cells], %[1]d [is|are] not as [it|they] must be:\n  %[3]s"),
			len(wrong), len(res.Cells), strings.Join(wrong, "\n  "))
	}
	if undecided := res.Undecided(); len(undecided) > 0 {
		return cli.Ended(exitInconclusive, text.Of("of %[2]d [cell|cells], %[1]d could not be decided on this "+
			"machine:\n  %[3]s"),
			len(undecided), len(res.Cells), strings.Join(undecided, "\n  "))
	}
	return nil
}

// writeMatrixPages renders the committed matrix.
func writeMatrixPages(dir string) error {
	matrix, err := faultlab.Committed()
	if err != nil {
		return err
	}
	return tell.WriteMatrix(matrix, dir, modesHere())
}

// interrupted prints the cells that were through when the user stopped the lab; cause is the error that it ended with.
func (f *labFlags) interrupted(cmd *cobra.Command, res *faultlab.Result, cause error) error {
	if cmd.Context().Err() == nil || res == nil || len(res.Cells) == 0 {
		return cause
	}
	return errors.Join(cause, f.print(cmd, res))
}

// print writes the result: as text the report, and the worst schedule of a single cell as a story.
func (f *labFlags) print(cmd *cobra.Command, res *faultlab.Result) error {
	return f.output.Write(cmd, func(w io.Writer, form string) error {
		switch form {
		case cli.JSON:
			return cli.WriteJSON(w, res)
		case cli.Markdown:
			return tell.Markdown(w, res, f.lang)
		case cli.JUnit:
			return tell.JUnit(w, res, f.lang)
		case cli.HTML:
			return tell.Page(w, res, tell.PageOptions{
				Lang: f.lang, Version: builtFrom(), Command: again("lab", cmd.Flags()), Made: time.Now(),
				Secrets: secretsIn(cmd.Flags()),
			})
		}
		return f.write(w, res)
	})
}

// write writes the text.
func (f *labFlags) write(w io.Writer, res *faultlab.Result) error {
	told := res.Played
	if len(told) == 0 && res.Worst != nil && (res.Serve == nil || !res.Proved()) {
		told = []faultlab.Played{*res.Worst}
	}
	for _, p := range told {
		if err := tell.Story(w, p, f.lang); err != nil {
			return err
		}
	}
	return tell.Report(w, res, f.lang)
}

// labExtras are the services that the modes need and that are installed; nil modes are all.
func labExtras(modes []string, log func(string, ...any)) []string {
	var extras []string
	for _, name := range []string{stack.Redlock, stack.Etcd, stack.ZooKeeper, stack.Consul} {
		if !slices.ContainsFunc(stock.Modes(), func(m stock.Mode) bool {
			return slices.Contains(m.Needs, stock.Backend(name)) && (modes == nil || slices.Contains(modes, m.Name))
		}) {
			continue
		}
		if _, err := stack.Find(name); err != nil {
			log("%s: its modes are left out: %v", name, err)
			continue
		}
		extras = append(extras, name)
	}
	return extras
}
