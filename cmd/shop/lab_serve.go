package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lastitem/faultlab"
	"lastitem/faultlab/rig"
	"lastitem/internal/api"
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

func (s *serveFlags) register(set *pflag.FlagSet, lang string) {
	f := &s.f
	text := func(into *string, name, value string, help api.Text) { set.StringVar(into, name, value, help.In(lang)) }
	several := func(into *[]string, name string, help api.Text) {
		set.StringArrayVar(into, name, nil, help.In(lang)+both("; may be repeated", "；可给多个").In(lang))
	}
	text(&f.Serve, "serve", "", both("test your own service: the command that starts a replica, with {{port}} and {{redis}} or {{mysql}} in it (docs/lab-anybody.md)", "检验你自己的服务：启动一个副本的命令，其中要有 {{port}}，以及 {{redis}} 或 {{mysql}}（见 docs/lab-anybody.zh.md）"))
	several(&f.Env, "env", both("NAME=VALUE in the environment of the replicas, with the same placeholders", "副本的环境变量 NAME=VALUE，可用同样的占位符"))
	text(&f.Ready, "ready", "", both("path that answers 2xx or 3xx when a replica is ready (default: any HTTP answer counts)", "副本就绪后返回 2xx 或 3xx 的路径（默认有任何 HTTP 应答即算就绪）"))
	text(&f.Request, "request", "", both("what a client sends: METHOD PATH [BODY], with {{product}} and {{key}}", "客户端发送的请求：METHOD PATH [BODY]，可用 {{product}} 和 {{key}}"))
	several(&f.Headers, "header", both("'Name: value' for every request to your service", "发往你的服务的每个请求都带的请求头 'Name: value'"))
	text(&f.KeyHeader, "key-header", "", both("header for an idempotency key; the fault retry needs a key", "放幂等键的请求头；故障 retry 需要幂等键"))
	text(&s.ok, "ok", "200,201", both("HTTP statuses that mean: sold", "表示“卖出”的 HTTP 状态码"))
	text(&f.OK.Body, "ok-body", "", both("regular expression that the body of a sold answer must match as well", "卖出的应答，其正文还须匹配这个正则表达式"))
	text(&s.refused, "refused", "409", both("HTTP statuses that mean: sold out", "表示“售罄”的 HTTP 状态码"))
	text(&f.Refused.Body, "refused-body", "", both("the same for a sold-out answer", "对售罄应答的同样要求"))
	text(&s.declined, "declined", "423,429,503", both("HTTP statuses that mean: busy, nothing has happened; any other status means: unknown, the sale may have happened", "表示“忙，什么都没发生”的 HTTP 状态码；其余状态码都表示未知：可能已经卖出"))
	text(&f.Declined.Body, "declined-body", "", both("the same for a busy answer", "对忙应答的同样要求"))
	text(&f.OrderID, "order-id", "", both("JSON pointer of the order's id in the answer (default: order_id or orderId)", "订单号在应答中的 JSON pointer（默认 order_id 或 orderId）"))
	several(&s.setup, "setup-sql", both("SQL statement that creates the tables, or @FILE with several; run once", "建表的 SQL 语句，或含多条语句的 @FILE；只执行一次"))
	several(&f.ResetSQL, "reset-sql", both("SQL statement run before every schedule: sets the stock of {{product}} to {{stock}}, or deletes its orders", "每个调度之前执行的 SQL 语句：把 {{product}} 的库存设为 {{stock}}，或删除它的订单"))
	several(&f.ResetRedis, "reset-redis", both("Redis command run before every schedule for the same purpose; Redis is emptied first", "每个调度之前为同一目的执行的 Redis 命令；Redis 会先清空"))
	several(&f.ResetURL, "reset-url", both("request to your service for the same purpose: METHOD PATH [BODY]", "为同一目的发给你的服务的请求：METHOD PATH [BODY]"))
	set.BoolVar(&f.KeepRedis, "keep-redis", false, both("do not empty Redis before every schedule", "每个调度之前不清空 Redis").In(lang))
	text(&f.Stock.SQL, "stock-sql", "", both("query that returns the remaining stock of {{product}}", "查询 {{product}} 剩余库存的 SQL"))
	text(&f.Stock.Redis, "stock-redis", "", both("Redis command that returns the remaining stock", "返回剩余库存的 Redis 命令"))
	text(&f.Stock.URL, "stock-url", "", both("path of your service that returns the remaining stock; after '#' a JSON pointer into the answer", "你的服务中返回剩余库存的路径；'#' 之后是应答中的 JSON pointer"))
	text(&f.Orders.SQL, "orders-sql", "", both("query that returns the orders of {{product}}: order_id, and quantity and idempotency_key if there are such columns", "查询 {{product}} 的订单的 SQL：order_id，如果有这些列再加 quantity 和 idempotency_key"))
	text(&f.Orders.Redis, "orders-redis", "", both("Redis command that returns the orders: ids, or JSON objects with these fields", "返回订单的 Redis 命令：订单号，或带上述字段的 JSON 对象"))
	text(&f.Orders.URL, "orders-url", "", both("path of your service that returns the orders; after '#' a JSON pointer into the answer", "你的服务中返回订单的路径；'#' 之后是应答中的 JSON pointer"))
	text(&s.lockTTL, "lock-ttl", "", both("TTL of your service's locks (default: read from Redis; with {{ttl_ms}} or {{ttl_s}} in --serve the lab sets it)", "你的服务的锁的 TTL（默认从 Redis 读出；--serve 里写了 {{ttl_ms}} 或 {{ttl_s}} 则由实验室设置）"))
}

// service checks the flags and returns the service that they describe; nil without --serve.
func (s *serveFlags) service(cmd *cobra.Command) (*rig.Foreign, error) {
	if s.f.Serve == "" {
		return nil, unserved(cmd.Flags())
	}
	f := s.f
	for _, name := range []string{"mode", "store", "beyond", "update", "random"} {
		if cmd.Flags().Changed(name) {
			return nil, usage(both("--%s is about lastitem's own modes, --serve about your service", "--%s 针对 lastitem 自己的模式，--serve 针对你的服务"), name)
		}
	}
	var err error
	for _, x := range []struct {
		name, text string
		into       *rig.Meaning
	}{{"ok", s.ok, &f.OK}, {"refused", s.refused, &f.Refused}, {"declined", s.declined, &f.Declined}} {
		if x.into.Statuses, err = statuses(x.text); err != nil {
			return nil, usage(both("--%s %q: %w", "--%s %q：%w"), x.name, x.text, err)
		}
	}
	for _, text := range s.setup {
		more, err := statements(text)
		if err != nil {
			return nil, usage(both("--setup-sql: %w", "--setup-sql：%w"), err)
		}
		f.SetupSQL = append(f.SetupSQL, more...)
	}
	if s.lockTTL != "" {
		if f.LockTTL, err = time.ParseDuration(s.lockTTL); err != nil || f.LockTTL < time.Millisecond || f.LockTTL > time.Minute {
			return nil, usage(both("--lock-ttl %q: want 1ms to 1m", "--lock-ttl %q：应为 1ms 到 1m"), s.lockTTL)
		}
	}
	return equip(&f)
}

// unserved refuses a flag that describes a service if there is no --serve, which it would say nothing about.
func unserved(set *pflag.FlagSet) (err error) {
	ours := set.Lookup("serve").Annotations[sectionAnnotation]
	set.Visit(func(f *pflag.Flag) {
		if err == nil && f.Name != "serve" && !(set.Changed("replay") && (f.Name == "env" || f.Name == "header")) && slices.Equal(f.Annotations[sectionAnnotation], ours) {
			err = usage(both("--%s needs --serve", "--%s 须与 --serve 同用"), f.Name)
		}
	})
	return err
}

// equip checks the description of a service and sets its working directory, which a file of --replay does not hold.
func equip(f *rig.Foreign) (*rig.Foreign, error) {
	if err := f.Check(); err != nil {
		return nil, misuse(err)
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
			return nil, both("want HTTP statuses, comma-separated, as in 200,201", "应为逗号分隔的 HTTP 状态码，如 200,201").Errorf()
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
func exploreServe(cmd *cobra.Command, f *labFlags, o faultlab.Options, line *faultlab.StatusLine) error {
	if err := faultlab.CheckFaults(o.Serve, o.Faults); err != nil {
		return misuse(err)
	}
	res, err := faultlab.Explore(cmd.Context(), o)
	line.Clear()
	if err != nil {
		return f.interrupted(cmd, res, err)
	}
	if err := f.print(cmd, res); err != nil {
		return err
	}
	switch {
	case res.Broken() == 0:
	case f.output.fileForm == formJSON:
		fmt.Fprintf(line, serveAgain[f.lang].saved+"\n", f.output.file)
	default:
		fmt.Fprintln(line, serveAgain[f.lang].unsaved)
	}
	return unbroken(res)
}

// unbroken returns nil if nothing broke the service and every schedule proved something; the error carries the exit code.
func unbroken(res *faultlab.Result) error {
	switch n := res.Broken(); {
	case n > 0:
		return &exitError{code: exitFailed, err: both("of %[2]d [fault|faults], %[1]d [breaks|break] the service", "%d 种故障打破了这个服务（共 %d 种）").Errorf(n, len(res.Cells))}
	case res.Judged == 0:
		return &exitError{code: exitInconclusive, err: both("none of %d [schedule|schedules] could be judged", "%d 个调度没有一个能够判定").Errorf(res.Schedules)}
	case !res.Exact():
		return &exitError{code: exitFailed, err: both("nothing broke the service, but some schedules proved nothing: see above", "没有故障打破这个服务，但有些调度什么也没证明，见上").Errorf()}
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
