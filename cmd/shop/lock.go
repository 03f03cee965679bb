package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lastitem/internal/backend"
	"lastitem/internal/cli"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/replica"
	"lastitem/say/redact"
	"lastitem/say/text"
)

// lockFlags are the flags of 'shop lock'.
type lockFlags struct {
	redis, lang string
	output      cli.Output
}

// lockReport is what 'shop lock -o json' prints.
type lockReport struct {
	Key     string       `json:"key"`
	Holders []lockHolder `json:"holders"` // of a release: those that were evicted
	Fence   uint64       `json:"fence"`
	Queue   int          `json:"queue"`
}

type lockHolder struct {
	Host  string `json:"host"`
	PID   int    `json:"pid"`
	Reads bool   `json:"reads"`
	TTL   int64  `json:"ttl_ms"`
}

func newLock(lang string) *cobra.Command {
	f := lockFlags{lang: lang}
	cmd := &cobra.Command{
		Use:   "lock show|release KEY",
		Short: text.Of("Show who holds a lock of the engine, or take it from a holder that hangs").In(lang),
		Long: text.Of(`Shows who holds a lock of the engine in Redis (of modes such as handoff, fair and rwlock), or takes it
from its holder and hands it to the next waiter. KEY is the lock's key in Redis, as the mode's page names it. 'release'
is a change of holders like an expiry: the evicted process may be at work still, so give its result, the fence, to the
data that checks fences.`).In(lang),
		Example: "  shop lock show 'lastitem:lock:handoff:{101}'\n" +
			"  shop lock release 'lastitem:lock:handoff:{101}' --redis redis://127.0.0.1:6379/0",
		Args:      cli.Arguments(2, 2),
		ValidArgs: []string{"show", "release"},
		RunE:      cli.Run(func(cmd *cobra.Command, args []string) error { return runLock(cmd, &f, args[0], args[1]) }),
	}
	set := cmd.Flags()
	set.StringVar(&f.redis, "redis", "", text.Of("Redis of the lock, instead of SHOP_REDIS").In(lang))
	f.output.Add(cmd, lang, cli.Text, cli.JSON)
	cli.AddLang(set, &f.lang)
	return cmd
}

// runLock prints what it found, or did.
func runLock(cmd *cobra.Command, f *lockFlags, action, key string) error {
	if action != "show" && action != "release" {
		return cli.Usage(text.Of("lock %q: want show or release"), action)
	}
	c, err := replica.Read(nil)
	if err != nil {
		return err
	}
	address := cmp.Or(f.redis, c.Redis)
	if address == "" {
		return cli.Usage(text.Of("no Redis: set SHOP_REDIS or --redis"))
	}
	client, err := backend.OpenRedis(address, 2)
	if err != nil {
		return cli.Misuse(err)
	}
	defer func() { _ = client.Close() }()
	// A waiter that gets the lock takes its TTL from its own process.
	engine, err := handoff.New(client, handoff.Options{TTL: c.LockTTL})
	if err != nil {
		return err
	}
	defer func() { _ = engine.Close(context.WithoutCancel(cmd.Context())) }()
	found, err := engine.Inspect(cmd.Context(), key)
	var done handoff.Forced
	if err = held(key, found, err, action); err == nil && action == "release" {
		if done, err = engine.ForceRelease(cmd.Context(), key); err == nil && len(done.Evicted) == 0 {
			err = text.Of("lock %s is free by now: nobody was evicted").Errorf(key)
		}
		found.Holders, found.Fence = done.Evicted, done.Fence
	}
	if err != nil {
		return text.Of("Redis at %s: %w").Errorf(redact.Address(address), err)
	}
	report := lockReport{Key: key, Holders: []lockHolder{}, Fence: found.Fence, Queue: found.Queue}
	for _, h := range found.Holders {
		report.Holders = append(report.Holders, lockHolder{h.Host, h.PID, h.Reads, h.TTL.Milliseconds()})
	}
	return f.output.Write(cmd, func(w io.Writer, form string) error {
		if form == cli.JSON {
			return cli.WriteJSON(w, report)
		}
		_, err := io.WriteString(w, report.text(action, f.lang))
		return err
	})
}

// held is the error of a key that is no lock of the engine, of a lock that is to be released and is free, or of Redis.
func held(key string, found handoff.Inspection, err error, action string) error {
	switch {
	case errors.Is(err, handoff.ErrVersion), len(found.Holders) > 0 && found.Holders[0].Host == "":
		return text.Of("%s is no lock of the engine: something else wrote this key").Errorf(key)
	case err == nil && len(found.Holders) == 0 && action == "release":
		return text.Of("lock %s is free: nobody holds it, %d wait").Errorf(key, found.Queue)
	}
	return err
}

// text is the report for people.
func (r lockReport) text(action, lang string) string {
	var b strings.Builder
	say := func(format text.Text, args ...any) { fmt.Fprintf(&b, format.In(lang), args...) }
	fmt.Fprintf(&b, "%s\n", r.Key)
	switch {
	case len(r.Holders) == 0 && r.Fence == 0:
		say(text.Of("  free: nobody holds it, and nobody ever has: is that the key?\n"))
	case len(r.Holders) == 0:
		say(text.Of("  free: nobody holds it\n"))
	}
	for _, h := range r.Holders {
		ttl := (time.Duration(h.TTL) * time.Millisecond).String()
		switch {
		case action == "release":
			say(text.Of("  evicted: pid %d on %s, which had %s left\n"), h.PID, h.Host, ttl)
		case h.Reads:
			say(text.Of("  reader:  pid %d on %s, expires in %s unless renewed\n"), h.PID, h.Host, ttl)
		default:
			say(text.Of("  holder:  pid %d on %s, expires in %s unless renewed\n"), h.PID, h.Host, ttl)
		}
	}
	say(text.Of("  waiting: %d\n  fence:   %d\n"), r.Queue, r.Fence)
	if action == "release" {
		say(text.Of("The next waiter gets the lock, with a higher fence. The evicted process learns of it at its next "+
			"renewal\n"+
			"at the latest, and may write until then: let the data refuse every fence below %d.\n"), r.Fence)
	}
	return b.String()
}
