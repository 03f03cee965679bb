package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lastitem/contract/api"
	"lastitem/internal/cli"
	"lastitem/internal/handler/input"
	"lastitem/internal/stock"
	"lastitem/loadtest/compare"
	"lastitem/loadtest/plan"
	"lastitem/say/text"
)

// planFlags are the flags that describe a plan.
type planFlags struct {
	name   string
	plan   plan.Plan
	stages string
	adjust string
	store  string
	count  string   // of the products, or their names
	names  []string // nil = they are numbers
	set    *pflag.FlagSet
}

// lengths are the flags that set how long a plan lasts: giving one of them replaces the length of a named plan. models
// are those of them that belong to an open loop. Where one of scales is given, all times of holds are as the plan says.
var (
	lengths = []string{"loops", "requests", "duration", "rate", "stages"}
	models  = []string{"rate", "stages"}
	scales  = []string{"hold", "pay-from", "pay-to"}
)

// add declares the flags on set.
func (f *planFlags) add(set *pflag.FlagSet, lang string) {
	f.set = set
	p := &f.plan
	cli.Flags{
		{"plan", &f.name, nil, text.Of("a named plan, which the other flags override: %s").With(planNames())},
		{"engine", &p.Engine, nil, text.Of("HTTP client: raw or resty (default raw)")},
		{"warmup", &p.Warmup, nil, text.Of("load that is not counted, before each run")},
		{"repeat", &p.Repeat, nil, text.Of("repetitions, interleaved over the modes (default 1)")},
		{"insist", &p.Insist, nil, text.Of("extra runs for a mode that claims to break, at most so many, until it " +
			"breaks; and for a run that was VACUOUS (default 0; plan demo 4, five 19)")},
		{"seed", &p.Seed, nil, text.Of("seed of all randomness (default 1)")},
	}.Under(set, lang, text.Of("Plan"))
	cli.Flags{
		{"vus", &p.VUs, nil, text.Of("clients, each waiting for its answer (default 40)")},
		{"loops", &p.Loops, nil, text.Of("requests per client")},
		{"requests", &p.Requests, nil, text.Of("requests in all (default half as many again as there is stock, and " +
			"at least one of each client)")},
		{"duration", &p.Duration, nil, text.Of("how long the load lasts (with --rate: default 10s)")},
		{"burst", &p.Burst, nil, text.Of("all clients send their first request at the same moment")},
		{"sell-out", &p.SellOut, nil, text.Of("with --requests: how much longer a run may take until the " +
			"stock is sold out (default 1m if --requests is the default, otherwise 0)")},
	}.Under(set, lang, text.Of("Closed loop: the next request after the last answer"))
	cli.Flags{
		{"rate", &p.Rate, nil, text.Of("arrivals per second, whether answers come or not")},
		{"stages", &f.stages, nil, text.Of("ramped arrivals per second, as in 10s:100,30s:2000")},
		{"max-in-flight", &p.MaxInFlight, nil, text.Of("most requests in flight; arrivals beyond that are dropped " +
			"and counted (default 512)")},
	}.Under(set, lang, text.Of("Open loop: each request when it is due"))
	cli.Flags{
		{"product", &p.Product, nil, text.Of("first product id (default 101)")},
		{"products", &f.count, nil, text.Of("how many products (default 1), or with --request their names: " +
			"7f3e,SKU-1")},
		{"zipf", &p.Zipf, nil, text.Of("skew over the products, greater than 1; 0 is none")},
		{"stock", &p.Stock, nil, text.Of("stock of each product at the start (default 500)")},
		{"segments", &p.Segments, nil, text.Of("segments of the stock; 0 is as many as the mode asks for")},
		{"store", &f.store, nil, text.Of("where the count lives: redis, sql or etcd (default the mode's own)")},
	}.Under(set, lang, text.Of("Data"))
	cli.Flags{
		{"quantity", &p.Quantity, nil, text.Of("units per request (default 1)")},
		{"adjust", &f.adjust, nil, text.Of("share of the requests before which the stock is adjusted, as in 5%: two " +
			"requests' worth is added, or taken")},
		{"follow", &p.Follow, nil,
			text.Of("over how many connections to ask what becomes of each ticket, until it has ended; " +
				"0 does not ask")},
		{"wait", &p.Wait, 3 * time.Second, text.Of("how long a request may wait for a lock; 0 fails at once")},
		{"timeout", &p.Timeout, nil, text.Of("per request; a request that it cuts off is unknown, not failed " +
			"(default --wait plus 7s)")},
		{"retry", &p.Retry, nil, text.Of("how often to repeat a request that was declined for now or is unknown, " +
			"with its key")},
		{"retry-unsafe", &p.RetryUnsafe, nil, text.Of("retry even on modes that keep no keys, and see the " +
			"double charge")},
	}.Under(set, lang, text.Of("Requests"))
	h := &p.Reserving
	cli.Flags{
		{"hold", &h.For, nil, text.Of("how long a reservation holds (100ms to 1h; without it and --pay-*, longer where a " +
			"reserve takes long)")},
		{"pays", &h.Pays, nil, text.Of("share of the buyers that pays after --pay-from to --pay-to")},
		{"pays-late", &h.PaysLate, nil, text.Of("share that pays at the deadline or after it")},
		{"cancels", &h.Cancels, nil, text.Of("share that cancels; the rest leaves its reservation to expire")},
		{"pay-from", &h.PayFrom, nil, text.Of("shortest time from the reservation to the payment")},
		{"pay-to", &h.PayTo, nil, text.Of("longest time from the reservation to the payment")},
		{"extends", &h.Extends, nil, text.Of("share that extends its reservation; half of those who leave do so too")},
		{"returns", &h.Returns, nil, text.Of("share whose order is returned, and asked to be returned again")},
		{"carts", &h.Carts, nil, text.Of("share that wants a second product too, which has a limit per buyer: in one cart, " +
			"or alone where the mode takes no carts")},
		{"double-clicks", &h.DoubleClicks, nil, text.Of("share of the buyers that sends each request twice at once, with " +
			"the same key if it has one")},
		{"buyers", &h.Buyers, nil, text.Of("how many buyers there are; 0 is requests without a buyer, or with " +
			"--per-buyer twice as many as can buy the stock")},
		{"buyer-zipf", &h.BuyerZipf, nil, text.Of("skew over the buyers, greater than 1; 0 is none")},
		{"per-buyer", &h.PerBuyer, nil, text.Of("most units that a buyer may have; 0 is no limit")},
		{"late", &h.Late, nil, text.Of("what a payment after the deadline gets: refund, or rehold while units are free")},
	}.Under(set, lang, text.Of("Buyers; those who reserve first need --plan reserve"))
}

// addTarget declares where the load goes.
func (f *loadtestFlags) addTarget(set *pflag.FlagSet) {
	cli.Flags{
		{"url", &f.url, "http://localhost:8080", urlHelp},
		{"mode", &f.mode, nil, modeHelp},
		{"token", &f.token, nil, tokenHelp},
		{"insecure", &f.insecure, nil, text.Of("take the certificate of an https address as it is, such as one that you " +
			"have made yourself")},
		{"replicas", &f.replicas, nil, text.Of("replicas behind the address; 0 is as many as answer, and then a " +
			"missing one is not noticed")},
	}.Add(set, f.lang)
	addRTT(set, f.lang, &f.rtt)
	set.Lookup("rtt").Usage += text.Of("; starts a private stack of --replicas replicas, or 3").In(f.lang)
	cli.Flags{
		{"durable", &f.durable, nil, text.Of("start a private stack on real servers that keep every order: Redis appends " +
			"to a file that it syncs every second, SQL syncs its logs at each commit")},
	}.Add(set, f.lang)
}

// addOutput declares what is reported, and how.
func (f *loadtestFlags) addOutput(cmd *cobra.Command) {
	set := cmd.Flags()
	f.output.Add(cmd, f.lang, comparisonForms...)
	f.output.AddBesides(cmd, cli.HTML, cli.Markdown, cli.JUnit)
	cli.Flags{
		{"threshold", &f.thresholds, nil, text.Of("bound that must hold, repeatable: p(50|90|95|99|99.9), avg, med, min, " +
			"max of accepted; accepted/s, " +
			"requests/s; " +
			"oversold, leaked, lost_updates, unknown, busy, failed, dropped, accepted; of tickets age_p50, age_p99, lost, " +
			"completed/s")},
		{"details", &f.details, nil, text.Of("text: print the full report of every run; if there is only one, " +
			"it is always printed")},
		{"history", &f.history, nil, text.Of("write every request as its client saw it to a file, as JSON lines")},
	}.Add(set, f.lang)
	cli.AddLang(set, &f.lang)
	cli.Flags{
		{"quiet|q", &f.quiet, nil, quietHelp},
		{"no-color", &f.noColor, nil, noColorHelp},
	}.Add(set, f.lang)
}

// foreignFlags declares a service that is not lastitem.
func (f *loadtestFlags) foreignFlags(set *pflag.FlagSet) {
	f.service.register(set, f.lang)
	cli.Flags{
		{"stock-json-path", &f.stockPath, nil, text.Of("the same as the pointer after '#' in --stock-url, as in " +
			"data.items[0].stock")},
		{"redis", &f.redis, nil, text.Of("its Redis, for the flags that end in -redis")},
		{"sql", &f.sql, nil, text.Of("its MySQL, MariaDB or PostgreSQL, for the flags that end in -sql: " +
			"mysql://user:password@host:port/db, postgres://...")},
		{"settle", &f.settle, nil,
			text.Of("for how long its stock and orders must not change before they count, where they " +
				"do not add up at once (default 10s); if it is given, they are watched for at least so long")},
		{"name", &f.name, nil, text.Of("its name in the reports (default: the host of --url)")},
	}.Add(set, f.lang)
}

// planNames names the named plans.
func planNames() string {
	var names []string
	for _, p := range plan.All {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}

// planList says what each named plan is, a line each.
func planList(lang string) string {
	var b strings.Builder
	for _, p := range plan.All {
		fmt.Fprintf(&b, "  %-10s %s\n", p.Name, p.Title.In(lang))
	}
	return strings.TrimRight(b.String(), "\n")
}

// positives are the flags whose 0 would become the default, which is not what a user who gives 0 means.
var positives = []string{
	"vus", "loops", "requests", "duration", "rate", "max-in-flight", "timeout", "product", "products", "stock", "quantity",
	"repeat", "seed", "hold",
}

// plans returns the plans to run: the named ones, or one without a name, with what was given on the command line.
func (f *planFlags) plans() ([]plan.Plan, error) {
	if err := positive(f.set, positives...); err != nil {
		return nil, err
	}
	if f.given("hold") && f.name != "reserve" {
		return nil, cli.Usage(text.Of("--hold needs --plan reserve"))
	}
	plans := []plan.Plan{{Wait: f.plan.Wait}}
	if f.name != "" {
		named, ok := plan.Named(f.name)
		if !ok {
			return nil, cli.Usage(text.Of("--plan %q: there are %s"), f.name, planNames())
		}
		plans = named
	}
	if f.given("stages") {
		stages, err := plan.ParseStages(f.stages)
		if err != nil {
			return nil, cli.Misuse(err)
		}
		f.plan.Stages = stages
	}
	if f.names != nil { // of a file
		f.plan.Products = len(f.names)
	} else if n, err := strconv.Atoi(f.count); err == nil {
		f.plan.Products = n
	} else if f.given("products") {
		f.names = strings.Split(f.count, ",")
		f.plan.Products = len(f.names)
	}
	if f.given("adjust") {
		share, err := strconv.ParseFloat(strings.TrimSuffix(f.adjust, "%"), 64)
		if err != nil {
			return nil, cli.Usage(text.Of("--adjust %q: want a share like 5%%"), f.adjust)
		}
		f.plan.Adjust = share / 100
	}
	f.plan.Store = api.Store(f.store)
	for i := range plans {
		f.override(&plans[i])
		if err := plans[i].Validate(); err != nil {
			return nil, cli.Misuse(err)
		}
		if err := f.accepted(plans[i]); err != nil {
			return nil, err
		}
		plans[i] = plans[i].WithDefaults()
	}
	return plans, nil
}

// accepted refuses requests that lastitem would only refuse: such a load is a flood of 400s. Another service has its
// own limits.
func (f *planFlags) accepted(p plan.Plan) error {
	const most = input.MaxWaitMS * time.Millisecond
	switch {
	case f.given("request") && p.Reserving != plan.Reserving{}:
		return cli.Usage(text.Of("--plan reserve and --plan limit are for lastitem, not for a service of --request"))
	case f.given("request") && p.Adjust > 0:
		return cli.Usage(text.Of("--adjust is for lastitem, not for a service of --request"))
	case f.given("request"):
		return nil
	case f.names != nil:
		return cli.Usage(text.Of("--products %s: names need --request"), strings.Join(f.names, ","))
	case p.Wait > most:
		return cli.Usage(text.Of("--wait %v: the service takes at most %v"), p.Wait, most)
	case p.Quantity > stock.MaxQuantity:
		return cli.Usage(text.Of("--quantity %d: the service takes 1 to %d"), p.Quantity, stock.MaxQuantity)
	}
	return nil
}

// override copies the flags that were given onto p. A length replaces every other length, and a flag of an
// open loop resets those of a closed loop.
func (f *planFlags) override(p *plan.Plan) {
	if f.given(lengths...) {
		p.Loops, p.Requests, p.Duration, p.Rate, p.Stages, p.SellOut = 0, 0, 0, 0, nil, 0
	}
	if f.given(models...) {
		p.VUs, p.Burst = 0, false
	}
	if f.given("vus", "burst", "stock", "quantity", "products", "wait", "timeout", "retry", "retry-unsafe", "adjust") ||
		f.given(lengths...) {
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
	p.Reserving.Scaled = p.Reserving.Scaled && !f.given(scales...)
	if f.given("stages") {
		p.Stages = f.plan.Stages
	}
	if f.given("products") || f.names != nil {
		p.Products = f.plan.Products
	}
	if f.given("store") {
		p.Store = f.plan.Store
	}
	if f.given("adjust") {
		p.Adjust = f.plan.Adjust
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
func (f *loadtestFlags) check() ([]compare.Threshold, error) {
	switch {
	case f.mode == "" && f.service.f.Request == "":
		return nil, cli.Usage(text.Of("--mode wants a mode, or all; a service that is not lastitem wants --request or " +
			"--service"))
	case f.details && f.output.Form != cli.Text:
		return nil, cli.Usage(text.Of("--details goes with the text, not with --output %s"), f.output.Form)
	case f.replicas < 0:
		return nil, cli.Usage(text.Of("--replicas %d: want 0 or more"), f.replicas)
	case f.plan.given("settle") && f.settle <= 0:
		return nil, cli.Usage(notPositive, "settle", f.settle)
	case f.service.f.ResetWithin <= 0:
		return nil, cli.Usage(notPositive, "reset-within", f.service.f.ResetWithin)
	}
	thresholds := make([]compare.Threshold, len(f.thresholds))
	for i, said := range f.thresholds {
		var err error
		if thresholds[i], err = compare.ParseThreshold(said); err != nil {
			return nil, cli.Usage(text.Of("--threshold: %w"), err)
		}
	}
	return thresholds, nil
}
