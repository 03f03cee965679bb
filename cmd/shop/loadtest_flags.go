package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lastitem/internal/api"
	"lastitem/internal/handler"
	"lastitem/internal/stock"
	"lastitem/loadtest"
)

// planFlags are the flags that describe a plan.
type planFlags struct {
	name   string
	plan   loadtest.Plan
	stages string
	store  string
	set    *pflag.FlagSet
}

// lengths are the flags that set how long a plan lasts: giving one of them replaces the length of a named plan. models are those of them that
// belong to an open loop.
var (
	lengths = []string{"loops", "requests", "duration", "rate", "stages"}
	models  = []string{"rate", "stages"}
)

// add declares the flags on set.
func (f *planFlags) add(set *pflag.FlagSet, lang string) {
	f.set = set
	p := &f.plan
	section(set, both("Plan", "方案").In(lang), func() {
		set.StringVar(&f.name, "plan", "", both("a named plan, which the other flags override: ", "命名的方案，其他选项可以覆盖其中的值：").In(lang)+planNames())
		set.StringVar(&p.Engine, "engine", "", both("HTTP client: raw or resty (default raw)", "HTTP 客户端：raw 或 resty（默认 raw）").In(lang))
		set.DurationVar(&p.Warmup, "warmup", 0, both("load that is not counted, before each run", "每次运行前的预热时长，不计入结果").In(lang))
		set.IntVar(&p.Repeat, "repeat", 0, both("repetitions, interleaved over the modes (default 1)", "重复几轮，各模式交替进行（默认 1）").In(lang))
		set.IntVar(&p.Insist, "insist", 0, both("extra runs for a mode that claims to break, at most so many, until it breaks (default 0; plan demo 4, five 19)", "声明会出错的模式最多再跑几次，直到测出错（默认 0；方案 demo 为 4，five 为 19）").In(lang))
		set.Uint64Var(&p.Seed, "seed", 0, both("seed of all randomness (default 1)", "所有随机数的种子（默认 1）").In(lang))
	})
	section(set, both("Closed loop: the next request after the last answer", "闭环（收到上一个应答才发下一个请求）").In(lang), func() {
		set.IntVar(&p.VUs, "vus", 0, both("clients, each waiting for its answer (default 40)", "并发客户端数，各自等到应答再发下一个（默认 40）").In(lang))
		set.IntVar(&p.Loops, "loops", 0, both("requests per client", "每个客户端发几个请求").In(lang))
		set.IntVar(&p.Requests, "requests", 0, both("requests in all (default half as many again as there is stock, and at least one of each client)", "请求总数（默认为库存的 1.5 倍，且每个客户端至少一个）").In(lang))
		set.DurationVar(&p.Duration, "duration", 0, both("how long the load lasts (with --rate: default 10s)", "持续多久；带 --rate 时默认 10s").In(lang))
		set.BoolVar(&p.Burst, "burst", false, both("all clients send their first request at the same moment", "所有客户端在同一时刻发出第一个请求").In(lang))
		set.DurationVar(&p.SellOut, "sell-out", 0, both("with --requests: how much longer a run may take until the stock is sold out (default 1m if --requests is the default, otherwise 0)", "配合 --requests：请求发完而库存未售罄时，最多再跑多久（--requests 为默认值时默认 1m，否则 0）").In(lang))
	})
	section(set, both("Open loop: each request when it is due", "开环（请求到点就发）").In(lang), func() {
		set.Float64Var(&p.Rate, "rate", 0, both("arrivals per second, whether answers come or not", "每秒到达数，不管应答有没有回来").In(lang))
		set.StringVar(&f.stages, "stages", "", both("ramped arrivals per second, as in 10s:100,30s:2000", "阶梯式的每秒到达数，如 10s:100,30s:2000").In(lang))
		set.IntVar(&p.MaxInFlight, "max-in-flight", 0, both("most requests in flight; arrivals beyond that are dropped and counted (default 512)", "在途请求的上限，超出的到达会被丢弃并计数（默认 512）").In(lang))
	})
	section(set, both("Data", "数据").In(lang), func() {
		set.Int64Var(&p.Product, "product", 0, both("first product id (default 101)", "第一个商品的 id（默认 101）").In(lang))
		set.IntVar(&p.Products, "products", 0, both("how many products (default 1)", "商品数（默认 1）").In(lang))
		set.Float64Var(&p.Zipf, "zipf", 0, both("skew over the products, greater than 1; 0 is none", "请求在各商品间的偏斜程度，大于 1；0 表示均匀").In(lang))
		set.Int64Var(&p.Stock, "stock", 0, both("stock of each product at the start (default 500)", "每种商品的初始库存（默认 500）").In(lang))
		set.IntVar(&p.Segments, "segments", 0, both("segments of the stock; 0 is as many as the mode asks for", "库存分几段；0 表示由模式决定").In(lang))
		set.StringVar(&f.store, "store", "", both("where the count lives: redis, sql or etcd (default the mode's own)", "库存放在哪里：redis、sql 或 etcd（默认由模式决定）").In(lang))
	})
	section(set, both("Requests", "请求").In(lang), func() {
		set.Int64Var(&p.Quantity, "quantity", 0, both("units per request (default 1)", "每个请求买几件（默认 1）").In(lang))
		set.DurationVar(&p.Wait, "wait", 3*time.Second, both("how long a request may wait for a lock; 0 fails at once", "请求最多等锁多久；0 表示抢不到立即返回").In(lang))
		set.DurationVar(&p.Timeout, "timeout", 0, both("per request; a request that it cuts off is unknown, not failed (default --wait plus 7s)", "单个请求的超时；超时的请求结果未知，不算失败（默认 --wait 加 7s）").In(lang))
		set.IntVar(&p.Retry, "retry", 0, both("how often to repeat a request that was declined for now or is unknown, with its key", "被暂时拒绝或结果未知的请求，用同一个幂等键重试几次").In(lang))
		set.BoolVar(&p.RetryUnsafe, "retry-unsafe", false, both("retry even on modes that keep no keys, and see the double charge", "不记幂等键的模式也重试，好看到重复扣减").In(lang))
	})
}

// addTarget declares where the load goes.
func (f *loadtestFlags) addTarget(set *pflag.FlagSet) {
	set.StringVar(&f.url, "url", "http://localhost:8080", urlHelp.In(f.lang))
	set.StringVar(&f.mode, "mode", "", modeHelp.In(f.lang))
	set.StringVar(&f.token, "token", "", tokenHelp.In(f.lang))
	set.IntVar(&f.replicas, "replicas", 0, both("replicas behind the address; 0 is as many as answer, and then a missing one is not noticed", "该地址后面有几个副本；0 表示有几个应答就算几个，此时看不出缺了谁").In(f.lang))
	addRTT(set, f.lang, &f.rtt)
	set.Lookup("rtt").Usage += both("; starts a private stack of --replicas replicas, or 3", "；为此另起一套私有环境，副本数取 --replicas，不给则为 3").In(f.lang)
}

// addOutput declares what is reported, and how.
func (f *loadtestFlags) addOutput(cmd *cobra.Command) {
	set := cmd.Flags()
	f.output.add(cmd, f.lang, comparisonForms...)
	f.output.addBesides(cmd, formHTML, formMarkdown)
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
	f.service.register(set, f.lang)
	set.StringVar(&f.stockPath, "stock-json-path", "", both("the same as the pointer after '#' in --stock-url, as in data.items[0].stock", "等同于 --stock-url 中 '#' 之后的指针，如 data.items[0].stock").In(f.lang))
	set.StringVar(&f.redis, "redis", "", both("its Redis, for the flags that end in -redis", "它的 Redis，供以 -redis 结尾的选项使用").In(f.lang))
	set.StringVar(&f.sql, "sql", "", both("its MySQL or MariaDB, for the flags that end in -sql: mysql://user:password@host:port/db", "它的 MySQL 或 MariaDB，供以 -sql 结尾的选项使用：mysql://user:password@host:port/db").In(f.lang))
	set.StringVar(&f.name, "name", "", both("its name in the reports (default: the host of --url)", "它在报告中的名字（默认为 --url 的主机）").In(f.lang))
}

// planNames names the named plans.
func planNames() string {
	var names []string
	for _, p := range loadtest.All {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}

// planList says what each named plan is, a line each.
func planList(lang string) string {
	var b strings.Builder
	for _, p := range loadtest.All {
		fmt.Fprintf(&b, "  %-10s %s\n", p.Name, p.Title.In(lang))
	}
	return strings.TrimRight(b.String(), "\n")
}

// positives are the flags whose 0 would become the default, which is not what a user who gives 0 means.
var positives = []string{
	"vus", "loops", "requests", "duration", "rate", "max-in-flight", "timeout", "product", "products", "stock", "quantity", "repeat", "seed",
}

// positive refuses a zero that was given to one of the flags.
func positive(set *pflag.FlagSet, names ...string) error {
	for _, name := range names {
		if f := set.Lookup(name); f.Changed && (f.Value.String() == "0" || f.Value.String() == "0s") {
			return usage(both("--%s %s: want more than 0, or leave it out for the default", "--%s %s：应大于 0；要用默认值就不要给"), name, f.Value)
		}
	}
	return nil
}

// plans returns the plans to run: the named ones, or one without a name, with what was given on the command line.
func (f *planFlags) plans() ([]loadtest.Plan, error) {
	if err := positive(f.set, positives...); err != nil {
		return nil, err
	}
	plans := []loadtest.Plan{{Wait: f.plan.Wait}}
	if f.name != "" {
		named, ok := loadtest.Named(f.name)
		if !ok {
			return nil, usage(both("--plan %q: there are %s", "--plan %q：可选的有 %s"), f.name, planNames())
		}
		plans = named
	}
	if f.given("stages") {
		stages, err := loadtest.ParseStages(f.stages)
		if err != nil {
			return nil, misuse(err)
		}
		f.plan.Stages = stages
	}
	f.plan.Store = api.Store(f.store)
	for i := range plans {
		f.override(&plans[i])
		if err := plans[i].Validate(); err != nil {
			return nil, misuse(err)
		}
		if err := f.accepted(plans[i]); err != nil {
			return nil, err
		}
		plans[i] = plans[i].WithDefaults()
	}
	return plans, nil
}

// accepted refuses requests that lastitem would only refuse: such a load is a flood of 400s. Another service has its own limits.
func (f *planFlags) accepted(p loadtest.Plan) error {
	const most = handler.MaxWaitMS * time.Millisecond
	switch {
	case f.given("request"):
		return nil
	case p.Wait > most:
		return usage(both("--wait %v: the service takes at most %v", "--wait %v：服务最多接受 %v"), p.Wait, most)
	case p.Quantity > stock.MaxQuantity:
		return usage(both("--quantity %d: the service takes 1 to %d", "--quantity %d：服务接受 1 到 %d"), p.Quantity, stock.MaxQuantity)
	}
	return nil
}

// override copies the flags that were given onto p. A length replaces every other length, and a flag of an
// open loop resets those of a closed loop.
func (f *planFlags) override(p *loadtest.Plan) {
	if f.given(lengths...) {
		p.Loops, p.Requests, p.Duration, p.Rate, p.Stages, p.SellOut = 0, 0, 0, 0, nil, 0
	}
	if f.given(models...) {
		p.VUs, p.Burst = 0, false
	}
	if f.given("vus", "burst", "stock", "quantity", "products", "wait", "timeout", "retry", "retry-unsafe") || f.given(lengths...) {
		p.MustEnd = nil // it holds for the plan as it was written
	}
	if f.given("stock", "quantity") && !f.given(lengths...) {
		p.Requests = 0 // the default follows the stock
	}
	into, fresh := planFlags{}, pflag.NewFlagSet("", pflag.ContinueOnError)
	into.add(fresh, "en")
	into.plan = *p
	f.set.Visit(func(x *pflag.Flag) {
		if own := fresh.Lookup(x.Name); own != nil {
			_ = own.Value.Set(x.Value.String()) // which it has taken once
		}
	})
	*p = into.plan
	if f.given("stages") {
		p.Stages = f.plan.Stages
	}
	if f.given("store") {
		p.Store = f.plan.Store
	}
}

// given says whether any of the flags was given.
func (f *planFlags) given(names ...string) bool {
	for _, name := range names {
		if f.set.Changed(name) {
			return true
		}
	}
	return false
}

// check refuses what is wrong on its face, before anything is sent.
func (f *loadtestFlags) check() ([]loadtest.Threshold, error) {
	switch {
	case f.mode == "" && f.service.f.Request == "":
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
