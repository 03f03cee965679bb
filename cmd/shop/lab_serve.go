package main

import (
	"fmt"
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
}

// defaultServeLanes is smaller than for our own service: three replicas of an unknown service may be heavy.
const defaultServeLanes = 3

func (s *serveFlags) register(set *pflag.FlagSet) {
	f := &s.f
	text := func(into *string, name, value, help string) { set.StringVar(into, name, value, help) }
	several := func(into *[]string, name, help string) { set.StringArrayVar(into, name, nil, help+"; may be repeated") }
	text(&f.Serve, "serve", "", "test your own service: the command that starts a replica, with {{port}} and {{redis}} or {{mysql}} in it (docs/lab-anybody.md)")
	several(&f.Env, "env", "NAME=VALUE in the environment of the replicas, with the same placeholders")
	text(&f.Ready, "ready", "", "path that answers 2xx or 3xx when a replica is ready (default: any HTTP answer counts)")
	text(&f.Request, "request", "", "what a client sends: METHOD PATH [BODY], with {{product}} and {{key}}")
	several(&f.Headers, "header", "'Name: value' for every request to your service")
	text(&f.KeyHeader, "key-header", "", "header for an idempotency key; the fault retry needs a key")
	text(&s.ok, "ok", "200,201", "HTTP statuses that mean: sold")
	text(&f.OK.Body, "ok-body", "", "regular expression that the body of a sold answer must match as well")
	text(&s.refused, "refused", "409", "HTTP statuses that mean: sold out")
	text(&f.Refused.Body, "refused-body", "", "the same for a sold-out answer")
	text(&s.declined, "declined", "423,429,503", "HTTP statuses that mean: busy, nothing has happened; any other status means: unknown, the sale may have happened")
	text(&f.Declined.Body, "declined-body", "", "the same for a busy answer")
	text(&f.OrderID, "order-id", "", "JSON pointer of the order's id in the answer (default: order_id or orderId)")
	several(&s.setup, "setup-sql", "SQL statement that creates the tables, or @FILE with several; run once")
	several(&f.ResetSQL, "reset-sql", "SQL statement run before every schedule: sets the stock of {{product}} to {{stock}}, or deletes its orders")
	several(&f.ResetRedis, "reset-redis", "Redis command run before every schedule for the same purpose; Redis is emptied first")
	several(&f.ResetURL, "reset-url", "request to your service for the same purpose: METHOD PATH [BODY]")
	set.BoolVar(&f.KeepRedis, "keep-redis", false, "do not empty Redis before every schedule")
	text(&f.Stock.SQL, "stock-sql", "", "query that returns the remaining stock of {{product}}")
	text(&f.Stock.Redis, "stock-redis", "", "Redis command that returns the remaining stock")
	text(&f.Stock.URL, "stock-url", "", "path of your service that returns the remaining stock; after '#' a JSON pointer into the answer")
	text(&f.Orders.SQL, "orders-sql", "", "query that returns the orders of {{product}}: order_id, and quantity and idempotency_key if there are such columns")
	text(&f.Orders.Redis, "orders-redis", "", "Redis command that returns the orders: ids, or JSON objects with these fields")
	text(&f.Orders.URL, "orders-url", "", "path of your service that returns the orders; after '#' a JSON pointer into the answer")
	text(&s.lockTTL, "lock-ttl", "", "TTL of your service's locks (default: read from Redis; with {{ttl_ms}} or {{ttl_s}} in --serve the lab sets it)")
}

// service checks the flags and returns the service that they describe; nil without --serve.
func (s *serveFlags) service(cmd *cobra.Command) (*rig.Foreign, error) {
	if s.f.Serve == "" {
		for _, name := range []string{"request", "reset-sql", "reset-redis", "reset-url", "stock-sql", "stock-redis", "stock-url", "orders-sql", "orders-redis", "orders-url"} {
			if cmd.Flags().Changed(name) {
				return nil, usage("--%s needs --serve", name)
			}
		}
		return nil, nil //nolint:nilnil // there is nothing to serve, and that is no error
	}
	f := s.f
	for _, name := range []string{"mode", "store", "beyond", "update", "random"} {
		if cmd.Flags().Changed(name) {
			return nil, usage("--%s is about lastitem's own modes, --serve about your service", name)
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

// equip checks the description of a service and sets its working directory, which a file of --replay does not hold.
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
			return nil, fmt.Errorf("want HTTP statuses, comma-separated, as in 200,201")
		}
		all = append(all, n)
	}
	return all, nil
}

// statements returns one statement, or those of "@FILE": there each ends with a semicolon at the end of a line.
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

// exploreServe tests a foreign service and reports; the error carries the exit code.
func exploreServe(cmd *cobra.Command, f *labFlags, o faultlab.Options, line *labLine) error {
	if err := faultlab.CheckFaults(o.Serve, o.Faults); err != nil {
		return usage("%v", err)
	}
	res, err := faultlab.Explore(cmd.Context(), o)
	line.clear()
	if err != nil {
		return f.interrupted(cmd, res, err)
	}
	if err := f.print(cmd, res); err != nil {
		return err
	}
	switch n := res.Broken(); {
	case n > 0:
		if f.output.fileForm == formJSON {
			fmt.Fprintf(line, serveAgain[f.lang].saved+"\n", f.output.file)
		} else {
			fmt.Fprintln(line, serveAgain[f.lang].unsaved)
		}
		return &exitError{code: exitFailed, err: fmt.Errorf("%d of %d faults break the service", n, len(res.Cells))}
	case !res.Exact():
		return &exitError{code: exitInconclusive, err: fmt.Errorf("some schedules proved nothing: see above")}
	}
	return nil
}

// serveAgain says how the worst schedule is played again, by language.
var serveAgain = map[string]struct{ saved, unsaved string }{
	"en": {
		"to play the worst schedule again: shop lab --replay %s",
		"to play the worst schedule again: run this command with --out story.json, then shop lab --replay story.json",
	},
	"zh": {
		"重放最坏的调度：shop lab --replay %s",
		"重放最坏的调度：先给本命令加上 --out story.json 运行一次，再执行 shop lab --replay story.json",
	},
}
