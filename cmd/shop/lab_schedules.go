package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lastitem/contract/api"
	"lastitem/faultlab"
	"lastitem/faultlab/tell"
	"lastitem/internal/cli"
	"lastitem/internal/stock"
	"lastitem/say/redact"
	"lastitem/say/text"
	"lastitem/target"
)

// randomFlags are the flags of random schedules.
type randomFlags struct {
	random bool
	seed   uint64
	length time.Duration
}

// add declares the flags.
func (f *randomFlags) add(set *pflag.FlagSet, lang string) {
	cli.Flags{
		{"random", &f.random, nil, text.Of("play random schedules of the cells that must be exact")},
		{"seed", &f.seed, nil, text.Of("with --random or --for: seed of the draw; the same seed draws the same schedules " +
			"(default with --random: a new seed, which is printed)")},
		{"for", &f.length, 10 * time.Minute, text.Of("for how long random schedules are played; without --random: as many " +
			"of the selected ones as fit, the most telling positions first")},
	}.Add(set, lang)
}

// check refuses --seed without --random and --for, and a duration that is not positive.
func (f *randomFlags) check(cmd *cobra.Command) error {
	set := cmd.Flags()
	switch {
	case !f.random && set.Changed("seed") && !set.Changed("for"):
		return cli.Usage(text.Of("--seed needs --random or --for"))
	case f.length <= 0:
		return cli.Usage(text.Of("--for %v: want more than 0"), f.length)
	}
	return nil
}

// randomLab plays random schedules. Each that broke something is written to a file for --replay.
func randomLab(cmd *cobra.Command, f *labFlags, o faultlab.Options, line *tell.StatusLine) error {
	if !cmd.Flags().Changed("seed") {
		f.random.seed = rand.Uint64() >> 32
	}
	notes := f.output.Notes(cmd)
	fmt.Fprintf(notes, text.Of("seed %d, for %v: 'shop lab --random --seed %[1]d' draws the same schedules again\n").
		In(f.lang), f.random.seed, f.random.length)
	o.Progress = nil
	line.Lasts(f.random.length)
	d, err := faultlab.Random(cmd.Context(), o, faultlab.Randomly{Seed: f.random.seed, For: f.random.length,
		Found: func(p faultlab.Played) {
			line.Above(func() {
				fmt.Fprintf(notes, text.Of("%s: %s: %s\n").In(f.lang), p.Outcome, p.Schedule, p.Why)
			})
		}})
	line.Clear()
	if d == nil {
		return err
	}
	files, keeping := d.Keep("out")
	for i, name := range files {
		fmt.Fprintf(notes, "%s: shop lab --replay %s\n", d.Broken[i].Schedule, name)
	}
	err = cmp.Or(err, keeping)
	err = cmp.Or(err, f.output.Write(cmd, func(w io.Writer, form string) error {
		if form == cli.JSON {
			return cli.WriteJSON(w, d)
		}
		return nil // the notes are the text
	}))
	var outcomes []string
	for _, outcome := range slices.Sorted(maps.Keys(d.Outcomes)) {
		outcomes = append(outcomes, fmt.Sprintf("%s %d", outcome, d.Outcomes[outcome]))
	}
	sum := text.Of("seed %d: %d [schedule|schedules] of %d [cell|cells] in %v, %d of them with the rival held too, %d " +
		"with a third request held as well: %s\n").In(f.lang)
	fmt.Fprint(notes, text.Sprintf(sum, d.Seed, d.Schedules, d.Cells, d.Took.Round(time.Second), d.Pairs, d.Thirds,
		strings.Join(outcomes, ", ")))
	switch {
	case err != nil:
		return err
	case len(d.Broken) > 0:
		return cli.Ended(cli.ExitFailed, text.Of("%d of %d [schedule|schedules] broke a cell that must be exact"),
			len(d.Broken), d.Schedules)
	case d.Outcomes[faultlab.Failed] > 0:
		return cli.Ended(exitInconclusive, text.Of("%d of %d [schedule|schedules] could not be played"),
			d.Outcomes[faultlab.Failed], d.Schedules)
	case d.Outcomes["."] == 0:
		return cli.Ended(exitInconclusive, text.Of("none of %d [schedule|schedules] could be judged"), d.Schedules)
	}
	fmt.Fprintln(notes, text.Of("Every cell that must be exact was exact. That is no proof: 'shop lab --all' plays "+
		"every schedule.").In(f.lang))
	return nil
}

// only reads one JSON value, after which nothing may follow.
func only(d *json.Decoder, into any) error {
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return text.Of("something follows the JSON").Errorf()
	}
	return nil
}

// readStory reads what 'shop lab -o json' writes for one mode and one fault: a result whose worst schedule can be
// played.
func readStory(name string) (told faultlab.Result, err error) {
	file, err := os.Open(name)
	if err != nil {
		return told, cli.Usage(text.Of("--replay: %w"), err)
	}
	defer func() { _ = file.Close() }()
	err = only(json.NewDecoder(file), &told)
	switch {
	case err != nil:
		err = text.Of("is no JSON as 'shop lab --mode M --fault F -o json' writes it: %w").Errorf(err)
	case told.Worst == nil:
		err = text.Of("has no schedule in \"worst\": 'shop lab -o json' writes it if one mode and one fault are selected").
			Errorf()
	default:
		err = playable(told)
	}
	if err != nil {
		return told, cli.Usage(text.Of("--replay %s: %w"), name, err)
	}
	return told, nil
}

// replayLab plays the worst schedule of a file again, and fails if the outcome is not the one in the file.
func replayLab(cmd *cobra.Command, f *labFlags, o faultlab.Options) error {
	told, err := readStory(f.replay)
	if err != nil {
		return err
	}
	if told.Serve == nil {
		o.Extras = labExtras([]string{told.Worst.Schedule.Mode}, o.Log)
	} else {
		if missing := told.Serve.Complete(f.serve.f.Env, f.serve.f.Headers, os.LookupEnv); missing != nil {
			return cli.Usage(text.Of("--replay %s: the file holds no values of variables and headers; give them by these "+
				"flags or variables: %s"), f.replay, strings.Join(missing, ", "))
		}
		if o.Serve, err = equip(told.Serve); err != nil {
			return err
		}
		for _, said := range append([]string{o.Serve.Serve, o.Serve.Request, o.Serve.Ready, o.Serve.Stock.URL,
			o.Serve.Orders.URL}, slices.Concat(o.Serve.SetupCmd, o.Serve.ResetURL, o.Serve.ResetCmd, o.Serve.Sends())...) {
			if strings.Contains(said, redact.Hidden) {
				return cli.Usage(text.Of("--replay %s: a secret was left out of %q: run the lab again with the secret in --env or "+
					"--header"), f.replay, said)
			}
		}
		notes := cmd.ErrOrStderr()
		fmt.Fprintf(notes, text.Of("the file runs this command: %q\nand sends: %q\n").In(f.lang),
			strings.Join(append(slices.Concat(o.Serve.SetupCmd, o.Serve.ResetCmd), o.Serve.Serve), "; "),
			append(o.Serve.Sends(), o.Serve.ResetURL...))
		told.Lanes = cmp.Or(told.Lanes, defaultForeignLanes)
	}
	if told.Lanes > 0 && !cmd.Flags().Changed("lanes") { // a service with one fixed product has one lane
		o.Lanes = min(told.Lanes, mostLanes)
	}
	if told.TTL > 0 {
		o.TTL = told.TTL
	}
	fmt.Fprintf(cmd.ErrOrStderr(), text.Of("playing it %d times: %s\n").In(f.lang), f.times, told.Worst.Schedule)
	played, err := faultlab.Replay(cmd.Context(), o, told.Worst.Schedule, f.times)
	if errors.Is(err, target.ErrOutOfReach) {
		return cli.Misuse(err)
	}
	if err != nil {
		return err
	}
	return f.printReplay(cmd, replayed{Schedule: told.Worst.Schedule, Expected: told.Worst.Outcome, Played: played})
}

// replayed is the result of --replay.
type replayed struct {
	Schedule faultlab.Schedule `json:"schedule"`
	Expected api.Outcomes      `json:"expected"` // the outcome in the file
	Same     int               `json:"same"`     // how many of Played showed it
	Played   []faultlab.Played `json:"played"`
}

// printReplay prints the result of a replay; the error carries the exit code.
func (f *labFlags) printReplay(cmd *cobra.Command, r replayed) error {
	for _, p := range r.Played {
		if p.Outcome == r.Expected {
			r.Same++
		}
	}
	err := f.output.Write(cmd, func(w io.Writer, form string) error {
		if form == cli.JSON {
			return cli.WriteJSON(w, r)
		}
		return r.write(w, f.lang)
	})
	switch {
	case err != nil:
		return err
	case r.Same < len(r.Played):
		return cli.Ended(cli.ExitFailed, text.Of("the replay did not always show what the story tells"))
	}
	return nil
}

// write writes the stories of the runs with an unexpected outcome, and how many runs had the expected one.
func (r replayed) write(w io.Writer, lang string) error {
	for _, p := range r.Played {
		if p.Outcome == r.Expected {
			continue
		}
		if err := tell.Story(w, p, lang); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%s: %s %d/%d\n", r.Schedule, r.Expected, r.Same, len(r.Played))
	return err
}

// playable checks that the worst schedule of a file can be played: on a mode of this binary, or on the service that the
// file describes.
func playable(told faultlab.Result) error {
	s := told.Worst.Schedule
	if told.Serve == nil && !slices.ContainsFunc(stock.Modes(), func(m stock.Mode) bool { return m.Name == s.Mode }) {
		return text.Of("unknown mode %q").Errorf(s.Mode)
	}
	return s.Check()
}
