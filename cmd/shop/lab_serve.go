package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lastitem/faultlab"
	"lastitem/faultlab/rig"
)

// serveFlags describe somebody's own service for 'shop lab --serve'.
type serveFlags struct {
	f                     rig.Foreign
	ok, refused, declined string
	setup                 []string
	lockTTL               string
	save                  string
}

// defaultServeLanes is fewer than for our own service: nobody knows how heavy three replicas are.
const defaultServeLanes = 3

func (s *serveFlags) register(set *pflag.FlagSet) {
	f := &s.f
	text := func(into *string, name, value, help string) { set.StringVar(into, name, value, help) }
	several := func(into *[]string, name, help string) { set.StringArrayVar(into, name, nil, help+"; may be repeated") }
	text(&f.Serve, "serve", "", "explore your own service: the command of a replica, with {{port}} and {{redis}} or {{mysql}} in it (docs/lab-anybody.md)")
	several(&f.Env, "env", "NAME=VALUE for the replicas, with the same placeholders")
	text(&f.Ready, "ready", "", "path that answers 2xx when a replica can serve (default: any answer of HTTP)")
	text(&f.Request, "request", "", "what a client sends: METHOD PATH [BODY], with {{product}} and {{key}}")
	several(&f.Headers, "header", "'Name: value' for every request to your service")
	text(&f.KeyHeader, "key-header", "", "header that carries an idempotency key; the fault retry needs one")
	text(&s.ok, "ok", "200,201", "statuses that say: sold")
	text(&f.OK.Body, "ok-body", "", "regular expression that the body must match as well")
	text(&s.refused, "refused", "409", "statuses that say: sold out")
	text(&f.Refused.Body, "refused-body", "", "regular expression that the body must match as well")
	text(&s.declined, "declined", "423,429,503", "statuses that say: busy, nothing has happened; any other status is taken for unknown")
	text(&f.Declined.Body, "declined-body", "", "regular expression that the body must match as well")
	text(&f.OrderID, "order-id", "", "JSON pointer of the order's id in the answer (default: order_id or orderId)")
	several(&s.setup, "setup-sql", "statement that makes the tables, or @FILE of statements")
	several(&f.ResetSQL, "reset-sql", "statement that sets {{product}} to {{stock}} units, or forgets its orders; run before every schedule")
	several(&f.ResetRedis, "reset-redis", "command of Redis that does so; Redis is emptied first")
	several(&f.ResetURL, "reset-url", "request to your service that does so: METHOD PATH [BODY]")
	set.BoolVar(&f.KeepRedis, "keep-redis", false, "do not empty Redis before every schedule")
	text(&f.Stock.SQL, "stock-sql", "", "query of what is left of {{product}}")
	text(&f.Stock.Redis, "stock-redis", "", "command of Redis that returns it")
	text(&f.Stock.URL, "stock-url", "", "path of your service that answers it, a JSON pointer after '#'")
	text(&f.Orders.SQL, "orders-sql", "", "query of the orders of {{product}}: order_id, and quantity and idempotency_key where there are such")
	text(&f.Orders.Redis, "orders-redis", "", "command of Redis that returns them: ids, or JSON with these fields")
	text(&f.Orders.URL, "orders-url", "", "path of your service that lists them, a JSON pointer after '#'")
	text(&s.lockTTL, "lock-ttl", "", "how long its locks live (default: what is seen in Redis; or give --serve a {{ttl_ms}} or {{ttl_s}} to set it)")
	text(&s.save, "save", "", "write the worst schedule of --serve into this file, for --replay")
}

// service checks the flags; nil where none was given.
func (s *serveFlags) service(cmd *cobra.Command) (*rig.Foreign, error) {
	if s.f.Serve == "" {
		for _, name := range []string{"request", "reset-sql", "reset-redis", "reset-url", "stock-sql", "stock-redis", "stock-url", "orders-sql", "orders-redis", "orders-url", "save"} {
			if cmd.Flags().Changed(name) {
				return nil, usage("--%s needs --serve", name)
			}
		}
		return nil, nil //nolint:nilnil // there is nothing to serve, and that is no error
	}
	f := s.f
	for _, name := range []string{"mode", "store", "beyond", "update", "random"} {
		if cmd.Flags().Changed(name) {
			return nil, usage("--%s is about our own modes, --serve about your service", name)
		}
	}
	var err error
	for _, x := range []struct {
		name, text string
		into       *rig.Meaning
	}{{"ok", s.ok, &f.OK}, {"refused", s.refused, &f.Refused}, {"declined", s.declined, &f.Declined}} {
		if x.into.Statuses, err = statuses(x.text); err != nil {
			return nil, usage("--%s %q: %v", x.name, x.text, err)
		}
	}
	for _, text := range s.setup {
		more, err := statements(text)
		if err != nil {
			return nil, usage("--setup-sql: %v", err)
		}
		f.SetupSQL = append(f.SetupSQL, more...)
	}
	if s.lockTTL != "" {
		if f.LockTTL, err = time.ParseDuration(s.lockTTL); err != nil || f.LockTTL <= 0 || f.LockTTL > time.Minute {
			return nil, usage("--lock-ttl %q: want 1ms to 1m", s.lockTTL)
		}
	}
	return equip(&f)
}

// equip checks a service, and gives it what a file does not hold.
func equip(f *rig.Foreign) (*rig.Foreign, error) {
	if err := f.Check(); err != nil {
		return nil, usage("%v", err)
	}
	var err error
	if f.Dir, err = os.Getwd(); err != nil {
		return nil, err
	}
	return f, nil
}

// statuses reads a list of HTTP statuses.
func statuses(text string) ([]int, error) {
	var all []int
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 100 || n > 599 {
			return nil, fmt.Errorf("want statuses of HTTP, comma-separated, as in 200,201")
		}
		all = append(all, n)
	}
	return all, nil
}

// statements reads a statement, or a file of them: each ends with a semicolon at the end of a line.
func statements(text string) ([]string, error) {
	if file, ok := strings.CutPrefix(text, "@"); ok {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		text = string(content)
	}
	var all []string
	for part := range strings.SplitSeq(strings.ReplaceAll(text, "\r\n", "\n")+"\n", ";\n") {
		if part = strings.TrimSpace(part); part != "" {
			all = append(all, part)
		}
	}
	return all, nil
}

// exploreServe explores a service that is not ours.
func exploreServe(cmd *cobra.Command, f labFlags, o faultlab.Options) error {
	if err := faultlab.CheckFaults(o.Serve, o.Faults); err != nil {
		return usage("%v", err)
	}
	log := cmd.ErrOrStderr()
	o.Progress = func(c faultlab.Cell) { _, _ = io.WriteString(log, c.ServeLine(f.lang)) }
	res, err := faultlab.Explore(cmd.Context(), o)
	if err != nil {
		return err
	}
	if f.serve.save != "" {
		if err := saveStory(f.serve.save, res); err != nil {
			return err
		}
	}
	if err := f.print(cmd.OutOrStdout(), res); err != nil {
		return err
	}
	switch n := res.Broken(); {
	case n > 0:
		if f.serve.save != "" {
			fmt.Fprintf(log, "to play the worst schedule again: shop lab --replay %s\n", f.serve.save)
		} else {
			fmt.Fprintln(log, "to play the worst schedule again: repeat this with --save story.json, then shop lab --replay story.json")
		}
		return &exitError{code: exitFailed, err: fmt.Errorf("%d of %d faults break the service", n, len(res.Cells))}
	case !res.Exact():
		return &exitError{code: exitFailed, err: fmt.Errorf("some schedules proved nothing: see above")}
	}
	return nil
}

// saveStory writes what --replay reads.
func saveStory(file string, res *faultlab.Result) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	err = encode(out, res)
	if closed := out.Close(); err == nil {
		err = closed
	}
	return err
}
