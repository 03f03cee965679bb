package main

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"lastitem/faultlab/rig"
	"lastitem/internal/api"
)

// serviceFlags describe what is sent to a service that is not lastitem, what its answers mean, and how its stock is set
// and read: the same for 'shop lab --serve' and 'shop loadtest --request'.
type serviceFlags struct {
	f                     rig.Foreign
	ok, refused, declined string
	setup                 []string
}

// statusNames are other names of the flags for statuses.
var statusNames = map[string]string{"ok-status": "ok", "refused-status": "refused", "declined-status": "declined"}

// register declares the flags on set.
func (s *serviceFlags) register(set *pflag.FlagSet, lang string) {
	f := &s.f
	text := func(into *string, name, value string, help api.Text) { set.StringVar(into, name, value, help.In(lang)) }
	several := func(into *[]string, name string, help api.Text) {
		set.StringArrayVar(into, name, nil, help.In(lang)+both("; may be repeated", "；可给多个").In(lang))
	}
	text(&f.Request, "request", "", both("what a client sends: METHOD PATH [BODY], with {{product}}, {{key}} and in a load test {{quantity}}", "客户端发送的请求：METHOD PATH [BODY]，可用 {{product}}、{{key}}，压测时还有 {{quantity}}"))
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
	several(&f.ResetSQL, "reset-sql", both("SQL statement run before every schedule or run: sets the stock of {{product}} to {{stock}}, or deletes its orders", "每个调度或每次运行之前执行的 SQL 语句：把 {{product}} 的库存设为 {{stock}}，或删除它的订单"))
	several(&f.ResetRedis, "reset-redis", both("Redis command run for the same purpose; the lab empties Redis first", "为同一目的执行的 Redis 命令；实验室会先清空 Redis"))
	several(&f.ResetURL, "reset-url", both("request to your service for the same purpose: METHOD PATH [BODY]", "为同一目的发给你的服务的请求：METHOD PATH [BODY]"))
	text(&f.Stock.SQL, "stock-sql", "", both("query that returns the remaining stock of {{product}}", "查询 {{product}} 剩余库存的 SQL"))
	text(&f.Stock.Redis, "stock-redis", "", both("Redis command that returns the remaining stock", "返回剩余库存的 Redis 命令"))
	text(&f.Stock.URL, "stock-url", "", both("path of your service (in a load test also an URL) that returns the remaining stock; after '#' a JSON pointer into the answer", "你的服务中返回剩余库存的路径（压测时也可以是 URL）；'#' 之后是应答中的 JSON pointer"))
	text(&f.Orders.SQL, "orders-sql", "", both("query that returns the orders of {{product}}: order_id, and quantity and idempotency_key if there are such columns", "查询 {{product}} 的订单的 SQL：order_id，如果有这些列再加 quantity 和 idempotency_key"))
	text(&f.Orders.Redis, "orders-redis", "", both("Redis command that returns the orders: ids, or JSON objects with these fields", "返回订单的 Redis 命令：订单号，或带上述字段的 JSON 对象"))
	text(&f.Orders.URL, "orders-url", "", both("path of your service that returns the orders; after '#' a JSON pointer into the answer", "你的服务中返回订单的路径；'#' 之后是应答中的 JSON pointer"))
	set.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if other, is := statusNames[name]; is {
			name = other
		}
		return pflag.NormalizedName(name)
	})
}

// read completes the description by the flags that must be parsed.
func (s *serviceFlags) read(f *rig.Foreign) (err error) {
	for _, x := range []struct {
		name, text string
		into       *rig.Meaning
	}{{"ok", s.ok, &f.OK}, {"refused", s.refused, &f.Refused}, {"declined", s.declined, &f.Declined}} {
		if x.into.Statuses, err = statuses(x.text); err != nil {
			return usage(both("--%s %q: %w", "--%s %q：%w"), x.name, x.text, err)
		}
	}
	for _, text := range s.setup {
		more, err := statements(text)
		if err != nil {
			return usage(both("--setup-sql: %w", "--setup-sql：%w"), err)
		}
		f.SetupSQL = append(f.SetupSQL, more...)
	}
	return nil
}

// alone refuses a flag that describes a service, but for some, if the flag that says which one is missing: it would say nothing.
func alone(set *pflag.FlagSet, which string, but ...string) (err error) {
	ours := set.Lookup(which).Annotations[sectionAnnotation]
	set.Visit(func(f *pflag.Flag) {
		if err == nil && f.Name != which && !slices.Contains(but, f.Name) && slices.Equal(f.Annotations[sectionAnnotation], ours) {
			err = usage(both("--%s needs --%s", "--%s 须与 --%s 同用"), f.Name, which)
		}
	})
	return err
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
