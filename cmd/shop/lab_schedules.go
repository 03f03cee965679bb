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

	"lastitem/faultlab"
	"lastitem/faultlab/rig"
	"lastitem/internal/api"
	"lastitem/internal/redact"
	"lastitem/internal/stock"
)

// randomFlags are the flags of random schedules.
type randomFlags struct {
	random bool
	seed   uint64
	length time.Duration
}

// add declares the flags.
func (f *randomFlags) add(set *pflag.FlagSet, lang string) {
	set.BoolVar(&f.random, "random", false, both("play random schedules of the cells that must be exact", "在必须精确的格子里随机抽调度来跑").In(lang))
	set.Uint64Var(&f.seed, "seed", 0, both("with --random: seed of the draw; the same seed draws the same schedules (default: a new seed, which is printed)", "配合 --random：抽取的种子，种子相同则抽到的调度相同（默认每次新取，并打印出来）").In(lang))
	set.DurationVar(&f.length, "for", 10*time.Minute, both("with --random: for how long", "配合 --random：跑多久").In(lang))
}

// check refuses --seed and --for without --random, and a duration that is not positive.
func (f *randomFlags) check(cmd *cobra.Command) error {
	set := cmd.Flags()
	switch {
	case !f.random && (set.Changed("seed") || set.Changed("for")):
		return usage(both("--seed and --for need --random", "--seed 和 --for 须与 --random 同用"))
	case f.length <= 0:
		return usage(both("--for %v: want more than 0", "--for %v：应大于 0"), f.length)
	}
	return nil
}

// randomLab plays random schedules. Each that broke something is written to a file for --replay.
func randomLab(cmd *cobra.Command, f *labFlags, o faultlab.Options, line *faultlab.StatusLine) error {
	if !cmd.Flags().Changed("seed") {
		f.random.seed = rand.Uint64() >> 32
	}
	notes := cmd.OutOrStdout()
	if !f.output.text() {
		notes = cmd.ErrOrStderr()
	}
	fmt.Fprintf(notes, both("seed %d, for %v: 'shop lab --random --seed %[1]d' draws the same schedules again\n",
		"种子 %d，时长 %v：'shop lab --random --seed %[1]d' 会抽出同样的调度\n").In(f.lang), f.random.seed, f.random.length)
	o.Progress = nil
	line.Lasts(f.random.length)
	d, err := faultlab.Random(cmd.Context(), o, faultlab.Randomly{Seed: f.random.seed, For: f.random.length, Found: func(p faultlab.Played) {
		line.Above(func() {
			fmt.Fprintf(notes, both("%s: %s: %s\n", "%s：%s：%s\n").In(f.lang), p.Outcome, p.Schedule, p.Why)
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
	err = cmp.Or(err, f.output.write(cmd, func(w io.Writer, form string) error {
		if form == formJSON {
			return writeIndented(w, d)
		}
		return nil // the notes are the text
	}))
	var outcomes []string
	for _, outcome := range slices.Sorted(maps.Keys(d.Outcomes)) {
		outcomes = append(outcomes, fmt.Sprintf("%s %d", outcome, d.Outcomes[outcome]))
	}
	sum := both("seed %d: %d [schedule|schedules] of %d [cell|cells] in %v, %d of them with the rival held too, %d with a third request held as well: %s\n",
		"种子 %d：%d 个调度，%d 个格子，用时 %v，其中 %d 个调度同时拦住了对手，%d 个还拦住了第三个请求：%s\n").In(f.lang)
	fmt.Fprint(notes, api.Sprintf(sum, d.Seed, d.Schedules, d.Cells, d.Took.Round(time.Second), d.Pairs, d.Thirds, strings.Join(outcomes, ", ")))
	switch {
	case err != nil:
		return err
	case len(d.Broken) > 0:
		return &exitError{code: exitFailed, err: both("%d of %d [schedule|schedules] broke a cell that must be exact", "%d 个调度打破了必须精确的格子（共 %d 个）").Errorf(len(d.Broken), d.Schedules)}
	case d.Outcomes[faultlab.Failed] > 0:
		return &exitError{code: exitInconclusive, err: both("%d of %d [schedule|schedules] could not be played", "%d 个调度未能执行（共 %d 个）").Errorf(d.Outcomes[faultlab.Failed], d.Schedules)}
	case d.Outcomes["."] == 0:
		return &exitError{code: exitInconclusive, err: both("none of %d [schedule|schedules] could be judged", "%d 个调度没有一个能够判定").Errorf(d.Schedules)}
	}
	fmt.Fprintln(notes, both("Every cell that must be exact was exact. That is no proof: 'shop lab --all' plays every schedule.",
		"应当精确的都没有被打破。这不是证明，要穷举请用 'shop lab --all'。").In(f.lang))
	return nil
}

// only reads one JSON value, after which nothing may follow.
func only(d *json.Decoder, into any) error {
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return both("something follows the JSON", "JSON 之后还有内容").Errorf()
	}
	return nil
}

// readStory reads what 'shop lab -o json' writes for one mode and one fault: a result whose worst schedule can be played.
func readStory(name string) (told faultlab.Result, err error) {
	file, err := os.Open(name)
	if err != nil {
		return told, usage(both("--replay: %w", "--replay：%w"), err)
	}
	defer func() { _ = file.Close() }()
	err = only(json.NewDecoder(file), &told)
	switch {
	case err != nil:
		err = both("is no JSON as 'shop lab --mode M --fault F -o json' writes it: %w", "不是 'shop lab --mode M --fault F -o json' 写出的 JSON：%w").Errorf(err)
	case told.Worst == nil:
		err = both("has no schedule in \"worst\": 'shop lab -o json' writes it if one mode and one fault are selected",
			"\"worst\" 里没有调度：只选一个模式和一种故障时，'shop lab -o json' 才会写").Errorf()
	default:
		err = playable(told)
	}
	if err != nil {
		return told, usage(both("--replay %s: %w", "--replay %s：%w"), name, err)
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
			return usage(both("--replay %s: the file holds no values of variables and headers; give them by these flags or variables: %s",
				"--replay %s：文件里不含变量和请求头的值，请用这些选项或环境变量给出：%s"), f.replay, strings.Join(missing, ", "))
		}
		if o.Serve, err = equip(told.Serve); err != nil {
			return err
		}
		for _, text := range append([]string{o.Serve.Serve, o.Serve.Request, o.Serve.Ready, o.Serve.Stock.URL, o.Serve.Orders.URL}, o.Serve.ResetURL...) {
			if strings.Contains(text, redact.Hidden) {
				return usage(both("--replay %s: a secret was left out of %q: run the lab again with the secret in --env or --header", "--replay %s：%q 里的密码没有写进文件：请把它放进 --env 或 --header，重跑一次实验室"), f.replay, text)
			}
		}
		notes := cmd.ErrOrStderr()
		fmt.Fprintf(notes, both("the file runs this command: %q\nand sends: %q\n", "文件要运行的命令：%q\n要发送的请求：%q\n").In(f.lang),
			o.Serve.Serve, append([]string{o.Serve.Request}, o.Serve.ResetURL...))
		if !cmd.Flags().Changed("lanes") {
			o.Lanes = defaultServeLanes
		}
	}
	if told.TTL > 0 {
		o.TTL = told.TTL
	}
	fmt.Fprintf(cmd.ErrOrStderr(), both("playing it %d times: %s\n", "重放 %d 次：%s\n").In(f.lang), f.times, told.Worst.Schedule)
	played, err := faultlab.Replay(cmd.Context(), o, told.Worst.Schedule, f.times)
	if errors.Is(err, rig.ErrOutOfReach) {
		return misuse(err)
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
	err := f.output.write(cmd, func(w io.Writer, form string) error {
		if form == formJSON {
			return writeIndented(w, r)
		}
		return r.write(w, f.lang)
	})
	switch {
	case err != nil:
		return err
	case r.Same < len(r.Played):
		return &exitError{code: exitFailed, err: both("the replay did not always show what the story tells", "重放的结果并非每次都与故事一致").Errorf()}
	}
	return nil
}

// write writes the stories of the runs with an unexpected outcome, and how many runs had the expected one.
func (r replayed) write(w io.Writer, lang string) error {
	for _, p := range r.Played {
		if p.Outcome == r.Expected {
			continue
		}
		if err := p.Write(w, lang); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%s: %s %d/%d\n", r.Schedule, r.Expected, r.Same, len(r.Played))
	return err
}

// playable checks that the worst schedule of a file can be played: on a mode of this binary, or on the service that the file describes.
func playable(told faultlab.Result) error {
	s := told.Worst.Schedule
	if told.Serve == nil && !slices.ContainsFunc(stock.Modes(), func(m stock.Mode) bool { return m.Name == s.Mode }) {
		return both("unknown mode %q", "没有模式 %q").Errorf(s.Mode)
	}
	return s.Check()
}
