package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lastitem/faultlab"
	"lastitem/faultlab/fault"
	"lastitem/faultlab/tell"
	"lastitem/internal/cli"
	"lastitem/say/text"
	"lastitem/target"
)

// foreignFlags describe somebody's own service for 'shop lab --serve'.
type foreignFlags struct {
	serviceFlags
	lockTTL string
	allowed []string
}

// defaultForeignLanes is smaller than for our own service: three replicas of an unknown service may be heavy.
const defaultForeignLanes = 3

func (s *foreignFlags) register(set *pflag.FlagSet, lang string) {
	f := &s.f
	cli.Flags{
		{"serve", &f.Serve, nil, text.Of("test your own service: the command that starts a replica, with {{port}} and " +
			"{{redis}}, {{mysql}} or {{postgres}} in it (docs/lab-anybody.md)")},
		{"env", (*cli.Repeated)(&f.Env), nil, text.Of("NAME=VALUE in the environment of the replicas, with the same " +
			"placeholders")},
		{"ready", &f.Ready, nil, text.Of("path that answers 2xx or 3xx when a replica is ready (default: any HTTP answer " +
			"counts)")},
		{"ready-within", &f.ReadyWithin, 3 * time.Minute, text.Of("how long a replica may take until it is ready, and each " +
			"--setup-cmd")},
		{"setup-cmd", (*cli.Repeated)(&f.SetupCmd), nil,
			text.Of("command that prepares the servers of a lane, once, before --setup-sql: " +
				"migrations, a dump; with {{mysql...}}, {{postgres...}} and {{redis...}}, which are the servers themselves here")},
		{"products", (*cli.List)(&f.Products), nil,
			text.Of("names for {{product}}, comma-separated, which the lanes take in " +
				"turn (default 1001 and up, one for each lane)")},
	}.Add(set, lang)
	s.serviceFlags.register(set, lang)
	cli.Flags{
		{"repeat-without-key", &f.RepeatWithoutKey, nil, text.Of("play the fault retry as a client without a key does: it " +
			"sends the same request again")},
		{"keep-redis", &f.KeepRedis, nil, text.Of("do not empty Redis before every schedule")},
		{"allow-untested", (*cli.List)(&s.allowed), nil, text.Of("faults, comma-separated, that may stay untested " +
			"('?'): without it exit code 3 instead of 0")},
		{"settle", &f.Settle, nil, text.Of("how long a relay, a sweeper or a repeated job may go on writing after a " +
			"schedule (default 5s if replicas work by themselves; units that are still missing then are '?', not 'L')")},
		{"lock-ttl", &s.lockTTL, nil, text.Of("TTL of your service's locks (default: read from Redis; with {{ttl_ms}} or " +
			"{{ttl_s}} in --serve the lab sets it)")},
	}.Add(set, lang)
}

// service checks the flags and returns the service that they describe; nil without --serve.
func (s *foreignFlags) service(cmd *cobra.Command) (*target.Foreign, error) {
	if err := s.load(cmd.Flags()); err != nil {
		return nil, err
	}
	switch {
	case s.f.Serve != "":
	case s.file != nil:
		return nil, cli.Usage(text.Of("%s:1: start.command: it is missing: the lab starts three replicas of your service "+
			"by it"), s.path)
	case cmd.Flags().Changed("replay"): // its file has only the names of these
		return nil, alone(cmd.Flags(), "serve", "env", "header")
	default:
		return nil, alone(cmd.Flags(), "serve")
	}
	f := s.f
	for _, name := range []string{"mode", "store", "beyond", "update", "random"} {
		if cmd.Flags().Changed(name) {
			return nil, cli.Usage(text.Of("--%s is about lastitem's own modes, --serve about your service"), name)
		}
	}
	if err := cmp.Or(s.read(&f), s.limits(&f), f.Check()); err != nil {
		return nil, cli.Misuse(s.where(cmd.Flags(), err))
	}
	switch {
	case f.ReadyWithin <= 0:
		return nil, cli.Usage(notPositive, "ready-within", f.ReadyWithin)
	case cmd.Flags().Changed("settle") && f.Settle <= 0:
		return nil, cli.Usage(notPositive, "settle", f.Settle)
	case f.ResetWithin <= 0:
		return nil, cli.Usage(notPositive, "reset-within", f.ResetWithin)
	}
	return equip(&f)
}

// limits checks what only the lab takes.
func (s *foreignFlags) limits(f *target.Foreign) (err error) {
	for _, name := range s.allowed {
		if !slices.ContainsFunc(fault.Ladder, func(x fault.Fault) bool { return string(x.Name) == name }) {
			return text.Of("--allow-untested %q: there is no such fault").Errorf(name)
		}
	}
	if s.lockTTL == "" {
		return nil
	}
	if f.LockTTL, err = time.ParseDuration(s.lockTTL); err != nil || f.LockTTL < time.Millisecond ||
		f.LockTTL > time.Minute {
		return text.Of("--lock-ttl %q: want 1ms to 1m").Errorf(s.lockTTL)
	}
	return nil
}

// equip checks the description of a service and sets its working directory, which a file of --replay does not hold.
func equip(f *target.Foreign) (*target.Foreign, error) {
	if err := f.Check(); err != nil {
		return nil, cli.Misuse(err)
	}
	var err error
	if f.Dir, err = os.Getwd(); err != nil {
		return nil, err
	}
	return f, nil
}

// exploreForeign tests a foreign service and reports; the error carries the exit code.
func exploreForeign(cmd *cobra.Command, f *labFlags, o faultlab.Options, line *tell.StatusLine) error {
	if err := faultlab.CheckFaults(o.Serve, o.Faults); err != nil {
		return cli.Misuse(err)
	}
	res, err := faultlab.Explore(cmd.Context(), o)
	line.Clear()
	if errors.Is(err, target.ErrOutOfReach) {
		return cli.Misuse(err)
	}
	if err != nil {
		return f.interrupted(cmd, res, err)
	}
	if err := f.print(cmd, res); err != nil {
		return err
	}
	switch {
	case res.Broken() == 0:
	case f.output.FileForm == cli.JSON:
		fmt.Fprintf(line, text.Of("to play the worst schedule again: shop lab --replay %s\n").In(f.lang), f.output.File)
	default:
		fmt.Fprintln(line, text.Of("to play the worst schedule again: run this command with --out story.json, then shop "+
			"lab --replay story.json").In(f.lang))
	}
	return unbroken(res, f.serve.allowed)
}

// unbroken returns nil if nothing broke the service, every schedule proved something, and everything was tried that
// allowed does not name; the error carries the exit code.
func unbroken(res *faultlab.Result, allowed []string) error {
	untested := res.Untested(allowed...)
	switch n := res.Broken(); {
	case n > 0:
		return cli.Ended(cli.ExitFailed, text.Of("of %[2]d [fault|faults], %[1]d [breaks|break] the service"), n,
			len(res.Cells))
	case res.Judged == 0:
		return cli.Ended(exitInconclusive, text.Of("none of %d [schedule|schedules] could be judged"), res.Schedules)
	case !res.Proved():
		return cli.Ended(cli.ExitFailed, text.Of("nothing broke the service, but some schedules proved nothing: "+
			"see above"))
	case len(untested) > 0:
		return cli.Ended(exitInconclusive, text.Of("not everything was tried: see above; --allow-untested %s "+
			"accepts that"), strings.Join(untested, ","))
	}
	return nil
}
