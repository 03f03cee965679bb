package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lastitem/internal/page"
	"lastitem/loadtest"
	"lastitem/loadtest/report"
)

// envToken is where the admin token comes from if no flag gives it.
const envToken = "SHOP_ADMIN_TOKEN"

// loadtestFlags are the flags of 'shop loadtest'.
type loadtestFlags struct {
	url, token, mode string
	replicas         int
	rtt              time.Duration
	plan             planFlags
	thresholds       []string

	output         output
	details        bool
	history        string
	lang           string
	quiet, noColor bool

	foreign loadtest.Foreign
}

func newLoadtest(lang string) *cobra.Command {
	f := loadtestFlags{lang: lang}
	cmd := &cobra.Command{
		Use:   "loadtest",
		Short: both("Put load on one or several modes, and have the result judged", "压测一个或几个模式，并判定结果").In(lang),
		Long: both(`Puts load on a running lastitem, measures it, and judges from the clients' history and the service's ledger whether the
stock was deducted exactly. The result goes to stdout, progress to stderr if that is a terminal.

With --rtt the load goes to a private stack instead, started for this run as by 'shop demo'. A proxy between each replica and each server
delays every message by half the round trip.

The closed model (--vus with --loops, --requests or --duration) sends a client's next request after its last answer; the
open model (--rate, --stages) sends when a request is due, whether answers come or not, and counts the wait from then.

The stock is set before each run, which deletes the orders of those products, and needs the admin token.

With --request it can be pointed at a service that is not lastitem: '{{product}}', '{{quantity}}' and '{{key}}' are filled
in, and the verdict comes from the clients' history and the stock before and after (--stock-url).

With --repeat, a claim to be exact needs every run to be exact; a claim to break needs one broken run. The verdict column counts
the runs, as in BROKEN O 27/30. If an open model drops more than 1% of its arrivals, the load was not the planned one and the
run does not count: the verdict on the stock holds, and the exit code is 3.

Named plans, which the other flags override:
`,
			`压测运行中的 lastitem，测出数据，并根据客户端的请求历史和服务端的账本判定库存扣得对不对。结果输出到 stdout；stderr 是终端时显示进度。

加 --rtt 则改为压测一套私有环境，像 'shop demo' 那样为这次运行启动；每个副本和每个服务器之间有一个代理，每条消息延迟半个往返。

闭环模型（--vus 加 --loops、--requests 或 --duration）：客户端收到上一个应答才发下一个请求。开环模型（--rate、--stages）：请求到点就发，不管应答有没有回来，等待时间从计划时刻算起。

每次运行之前会重设库存，这会删除这些商品的订单，并且需要管理员令牌。

加 --request 可以压测不是 lastitem 的服务：'{{product}}'、'{{quantity}}' 和 '{{key}}' 会被填好，判定依据是客户端的请求历史和前后的库存（--stock-url）。

加 --repeat 时，声明精确要求每次运行都精确；声明会出错只要有一次出错。判定一栏给出次数，如 BROKEN O 27/30。开环模型丢弃的到达超过 1% 时，负载就不是计划中的负载，这次运行不作数：对库存的判定仍然成立，退出码为 3。

命名的方案，其他选项可以覆盖其中的值：
`).In(lang) + planList(lang),
		Example: `  shop loadtest --url http://localhost:8080 --mode lua-lock --plan jmeter
  shop loadtest --mode 'set*,lua-lock' --vus 50 --requests 2000 --stock 1000 --repeat 6
  shop loadtest --mode lease-seq --rate 500 --duration 10s --stock 100000 --threshold 'p(99)<50ms' --threshold 'oversold==0'
  shop loadtest --mode lua-lock,handoff --rtt 1ms --repeat 3
  shop loadtest --mode noop --stages 10s:100,30s:2000 --lang zh
  shop loadtest --mode all --repeat 6 -o bench --out modes.txt && benchstat -col /mode modes.txt
  shop loadtest --url http://localhost:9000 --request 'POST /buy {"id":{{product}},"n":{{quantity}}}' \
    --ok-status 200 --refused-status 409 --stock-url '/items/{{product}}' --stock-json-path data.stock`,
		Args: arguments(0, 0),
		RunE: run(func(cmd *cobra.Command, _ []string) error { return runLoadtest(cmd, &f) }),
	}
	f.add(cmd)
	return cmd
}

// add declares the flags.
func (f *loadtestFlags) add(cmd *cobra.Command) {
	set := cmd.Flags()
	set.SortFlags = false
	section(set, both("Target", "目标").In(f.lang), func() { f.addTarget(set) })
	f.plan.add(set, f.lang)
	section(set, both("Output", "输出").In(f.lang), func() { f.addOutput(cmd) })
	section(set, both("Foreign service, one that is not lastitem", "别人的服务（不是 lastitem）").In(f.lang), func() { f.foreignFlags(set) })
	cmd.MarkFlagsMutuallyExclusive("request", "mode")
}

// addTarget declares where the load goes.
func (f *loadtestFlags) addTarget(set *pflag.FlagSet) {
	set.StringVar(&f.url, "url", "http://localhost:8080", urlHelp.In(f.lang))
	set.StringVar(&f.mode, "mode", "", modeHelp.In(f.lang))
	set.StringVar(&f.token, "token", "", tokenHelp.In(f.lang))
	set.IntVar(&f.replicas, "replicas", 0, both("replicas behind the address; 0 is as many as answer, then none can be missing", "该地址后面有几个副本；0 表示有几个应答就算几个，此时看不出缺了谁").In(f.lang))
	addRTT(set, f.lang, &f.rtt)
	set.Lookup("rtt").Usage += both("; starts a private stack of --replicas replicas, or 3", "；为此另起一套私有环境，副本数取 --replicas，不给则为 3").In(f.lang)
}

// addOutput declares what is reported, and how.
func (f *loadtestFlags) addOutput(cmd *cobra.Command) {
	set := cmd.Flags()
	f.output.add(cmd, f.lang, comparisonForms...)
	f.output.addBesides(cmd, formHTML, formMarkdown)
	f.output.addOldForms(cmd, formJSON, formCSV, formBench)
	f.output.addOldFile(cmd, "json-file")
	set.StringArrayVar(&f.thresholds, "threshold", nil,
		both("bound that must hold, repeatable: p(50|90|95|99|99.9), avg, med, min, max of accepted; accepted/s, requests/s; "+
			"oversold, leaked, lost_updates, unknown, busy, failed, dropped, accepted",
			"必须满足的阈值，可给多个。成功请求的 p(50|90|95|99|99.9)、avg、med、min、max；accepted/s、requests/s；"+
				"oversold、leaked、lost_updates、unknown、busy、failed、dropped、accepted").In(f.lang))
	set.BoolVar(&f.details, "details", false, both("text: print the full report of every run; if there is only one, it is always printed", "文本格式：打印每次运行的完整报告；只有一次时总会打印").In(f.lang))
	set.StringVar(&f.history, "history", "", both("write every request as its client saw it to a file, as JSON lines", "把客户端看到的每个请求写入文件，每行一个 JSON").In(f.lang))
	addLang(set, &f.lang)
	set.BoolVarP(&f.quiet, "quiet", "q", false, quietHelp.In(f.lang))
	set.BoolVar(&f.noColor, "no-color", false, noColorHelp.In(f.lang))
}

// foreignFlags declares a service that is not lastitem.
func (f *loadtestFlags) foreignFlags(set *pflag.FlagSet) {
	set.StringVar(&f.foreign.Request, "request", "", both(`what to send it: 'METHOD /path body'`, `发什么给它：'METHOD /path body'`).In(f.lang))
	set.IntSliceVar(&f.foreign.OKStatus, "ok-status", nil, both("its statuses that mean deducted (default 200)", "表示扣减成功的状态码（默认 200）").In(f.lang))
	set.IntSliceVar(&f.foreign.RefusedStatus, "refused-status", nil, both("its statuses that mean sold out (default 409)", "表示售罄的状态码（默认 409）").In(f.lang))
	set.StringVar(&f.foreign.StockURL, "stock-url", "", both("where it tells the stock of a product, by GET", "用 GET 查询商品库存的地址").In(f.lang))
	set.StringVar(&f.foreign.StockJSONPath, "stock-json-path", "", both("where in that answer, as in data.items[0].stock", "库存在该应答中的位置，如 data.items[0].stock").In(f.lang))
}

// runLoadtest is the body of the command: what to compare, the comparison, its report.
func runLoadtest(cmd *cobra.Command, f *loadtestFlags) error {
	thresholds, err := f.check()
	if err != nil {
		return err
	}
	f.lang = f.output.language(cmd, f.lang)
	far, err := newFarther(f.plan.set, f.rtt, f.lang, givenFlag(f.plan.set, "url", "request"))
	if err != nil {
		return err
	}
	if far.rtt > 0 {
		return f.private(cmd, thresholds, far)
	}
	what, err := f.comparing(cmd.Context())
	if err != nil {
		return err
	}
	return f.compare(cmd.Context(), cmd, what, thresholds)
}

// compare makes the runs and reports.
func (f *loadtestFlags) compare(ctx context.Context, cmd *cobra.Command, what loadtest.Comparing, thresholds []loadtest.Threshold) error {
	history, err := openHistory(f.history)
	if err != nil {
		return err
	}
	progress := newProgress(cmd.ErrOrStderr(), f.lang, f.quiet, false)
	what.Progress, what.Each = progress.step, history.each
	c, err := loadtest.Compare(ctx, what)
	progress.clear()
	// A full disk does not cost what was measured.
	err = errors.Join(err, history.close())
	if err != nil && len(c.Results) == 0 {
		return err
	}
	if len(c.Results)+len(c.Failed) == 0 && !c.Partial && len(c.Skipped) > 0 {
		return usage(both("nothing to run: %s: %s", "没有可运行的：%s：%s"), c.Skipped[0].Mode, c.Skipped[0].Why)
	}
	c.Check(thresholds)
	c.Command = again("loadtest", f.plan.set)
	write := func(w io.Writer, form string) error { return f.report(w, form, c) }
	if err := errors.Join(err, f.output.write(cmd, write)); err != nil {
		return err
	}
	if code := c.ExitCode(); code != exitOK {
		return &exitError{code: code}
	}
	return nil
}

// check refuses what is wrong on its face, before anything is sent.
func (f *loadtestFlags) check() ([]loadtest.Threshold, error) {
	switch {
	case f.mode == "" && f.foreign.Request == "":
		return nil, usage(both("--mode wants a mode, or all; a service that is not lastitem wants --request", "请用 --mode 指定模式，或 all；压测不是 lastitem 的服务请用 --request"))
	case f.details && f.output.form != formText:
		return nil, usage(both("--details goes with the text, not with --output %s", "--details 用于文本格式，不能与 --output %s 同用"), f.output.form)
	case f.replicas < 0:
		return nil, usage(both("--replicas %d: want 0 or more", "--replicas %d：应为 0 或更大"), f.replicas)
	}
	thresholds := make([]loadtest.Threshold, len(f.thresholds))
	for i, text := range f.thresholds {
		var err error
		if thresholds[i], err = loadtest.ParseThreshold(text); err != nil {
			return nil, usage(both("--threshold: %w", "--threshold：%w"), err)
		}
	}
	return thresholds, nil
}

// comparisonForms are the forms of the result of a comparison.
var comparisonForms = []string{formText, formJSON, formCSV, formMarkdown, formBench, formHTML}

// writeComparison writes a comparison in any form but text. secrets must not be in what people publish.
func writeComparison(w io.Writer, form, lang string, c loadtest.Comparison, secrets []string) error {
	switch form {
	case formHTML:
		return report.WritePage(w, c, lang, secrets)
	case formCSV:
		return report.WriteCSV(w, c)
	case formMarkdown:
		var b strings.Builder
		err := report.WriteMarkdown(&b, c, lang)
		_, failed := io.WriteString(w, page.HidePlain(b.String(), secrets))
		return errors.Join(err, failed)
	case formBench:
		return report.WriteBench(w, c)
	}
	return report.WriteJSON(w, c)
}

// report writes the comparison: as text the report of a single run, else a table.
func (f *loadtestFlags) report(w io.Writer, form string, c loadtest.Comparison) error {
	if form != formText {
		return writeComparison(w, form, f.lang, c, secretsIn(f.plan.set, f.token))
	}
	style := styleFor(w, f.lang, f.noColor)
	single := len(c.Results) == 1
	for _, r := range c.Results {
		if !single && !f.details {
			break
		}
		if err := report.WriteText(w, r, style); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	if single {
		return report.WriteFindings(w, c, style)
	}
	return report.WriteTable(w, c, style)
}
