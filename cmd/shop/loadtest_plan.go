package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"lastitem/internal/api"
	"lastitem/loadtest"
	"lastitem/loadtest/plan"
)

// planFlags are the flags that describe a plan.
type planFlags struct {
	name   string
	plan   loadtest.Plan
	stages string
	store  string
	set    *pflag.FlagSet
}

// lengths are the flags that say how long a plan lasts: giving one of them replaces what a named plan says. models are the ones among them that
// belong to the open model.
var (
	lengths = []string{"loops", "requests", "duration", "rate", "stages"}
	models  = []string{"rate", "stages"}
)

// add declares the flags on set.
func (f *planFlags) add(set *pflag.FlagSet) {
	f.set = set
	p := &f.plan
	section(set, "Plan", func() {
		set.StringVar(&f.name, "plan", "", "a named plan, which the other flags override: "+planNames())
		set.StringVar(&p.Engine, "engine", "", "HTTP client: raw, nethttp or resty (default raw)")
		set.DurationVar(&p.Warmup, "warmup", 0, "load that is not counted, before each run")
		set.IntVar(&p.Repeat, "repeat", 0, "repetitions, interleaved over the modes (default 1)")
		set.IntVar(&p.Insist, "insist", 0, "repeat a mode that claims to break at most so often until it breaks (default 0; plan demo 4, five 19)")
		set.Uint64Var(&p.Seed, "seed", 0, "seed of all randomness (default 1)")
	})
	section(set, "Closed model: the next request after the last answer", func() {
		set.IntVar(&p.VUs, "vus", 0, "clients, each waiting for its answer (default 40)")
		set.IntVar(&p.Loops, "loops", 0, "requests per client")
		set.IntVar(&p.Requests, "requests", 0, "requests in all (default half as many again as there is stock)")
		set.DurationVar(&p.Duration, "duration", 0, "for how long; with --rate: for how long (default 10s)")
		set.BoolVar(&p.Burst, "burst", false, "all clients send their first request at the same moment")
		set.DurationVar(&p.SellOut, "sell-out", 0, "with --requests: how much longer a run may take until the stock is sold out (default 1m if --requests is the default, otherwise 0)")
	})
	section(set, "Open model: a request when it is due", func() {
		set.Float64Var(&p.Rate, "rate", 0, "arrivals per second, whether answers come or not")
		set.StringVar(&f.stages, "stages", "", "ramped arrivals per second, as in 10s:100,30s:2000")
		set.IntVar(&p.MaxInFlight, "max-in-flight", 0, "arrivals beyond it are dropped and counted (default 512)")
	})
	section(set, "Data", func() {
		set.Int64Var(&p.Product, "product", 0, "first product id (default 101)")
		set.IntVar(&p.Products, "products", 0, "how many products (default 1)")
		set.Float64Var(&p.Zipf, "zipf", 0, "skew over the products, greater than 1; 0 is none")
		set.Int64Var(&p.Stock, "stock", 0, "stock of each product at the start (default 500)")
		set.IntVar(&p.Segments, "segments", 0, "segments of the stock; 0 is as many as the mode asks for")
		set.StringVar(&f.store, "store", "", "where the count lives: redis, sql or etcd (default the mode's own)")
	})
	section(set, "Requests", func() {
		set.Int64Var(&p.Quantity, "quantity", 0, "units per request (default 1)")
		set.DurationVar(&p.Wait, "wait", 3*time.Second, "how long a request may wait for a lock; 0 fails at once")
		set.DurationVar(&p.Timeout, "timeout", 0, "per request; a request that it cuts off is unknown, not failed (default --wait and 7s)")
		set.IntVar(&p.Retry, "retry", 0, "how often to repeat a request that was declined for now or is unknown, with its key")
		set.BoolVar(&p.RetryUnsafe, "retry-unsafe", false, "retry even on modes that keep no keys, and see the double charge")
	})
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
func planList() string {
	var b strings.Builder
	for _, p := range plan.All {
		fmt.Fprintf(&b, "  %-10s %s\n", p.Name, p.Title.En)
	}
	return strings.TrimRight(b.String(), "\n")
}

// positives are the flags of which 0 would be taken for the default: whoever gives it means something else.
var positives = []string{
	"vus", "loops", "requests", "duration", "rate", "max-in-flight", "timeout", "product", "products", "stock", "quantity", "repeat", "seed",
}

// positive refuses a zero that was given to one of the flags.
func positive(set *pflag.FlagSet, names ...string) error {
	for _, name := range names {
		if f := set.Lookup(name); f.Changed && (f.Value.String() == "0" || f.Value.String() == "0s") {
			return usage("--%s %s: want more than 0, or leave it out for the default", name, f.Value)
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
		named, ok := plan.Named(f.name)
		if !ok {
			return nil, usage("--plan %q: there are %s", f.name, planNames())
		}
		plans = named
	}
	if f.given("stages") {
		stages, err := plan.ParseStages(f.stages)
		if err != nil {
			return nil, usage("%w", err)
		}
		f.plan.Stages = stages
	}
	f.plan.Store = api.Store(f.store)
	for i := range plans {
		f.override(&plans[i])
		if err := plans[i].Validate(); err != nil {
			return nil, usage("%w", err)
		}
		plans[i] = plans[i].WithDefaults()
	}
	return plans, nil
}

// override copies the flags that were given onto p. One that says how long replaces every other that does; one of the
// open model ends what belongs to the closed one.
func (f *planFlags) override(p *loadtest.Plan) {
	if f.given(lengths...) {
		p.Loops, p.Requests, p.Duration, p.Rate, p.Stages, p.SellOut = 0, 0, 0, 0, nil, 0
	}
	if f.given(models...) {
		p.VUs, p.Burst = 0, false
	}
	if f.given("vus", "burst", "stock", "quantity", "products", "retry", "retry-unsafe") || f.given(lengths...) {
		p.MustEnd = nil // it holds for the plan as it was written
	}
	if f.given("stock", "quantity") && !f.given(lengths...) {
		p.Requests = 0 // the default follows the stock
	}
	from := f.plan
	overrides := map[string]func(){
		"vus": func() { p.VUs = from.VUs }, "loops": func() { p.Loops = from.Loops },
		"requests": func() { p.Requests = from.Requests }, "duration": func() { p.Duration = from.Duration },
		"rate": func() { p.Rate = from.Rate }, "stages": func() { p.Stages = from.Stages },
		"max-in-flight": func() { p.MaxInFlight = from.MaxInFlight }, "burst": func() { p.Burst = from.Burst },
		"warmup": func() { p.Warmup = from.Warmup }, "timeout": func() { p.Timeout = from.Timeout },
		"retry": func() { p.Retry = from.Retry }, "retry-unsafe": func() { p.RetryUnsafe = from.RetryUnsafe },
		"product": func() { p.Product = from.Product }, "products": func() { p.Products = from.Products },
		"zipf": func() { p.Zipf = from.Zipf }, "stock": func() { p.Stock = from.Stock },
		"segments": func() { p.Segments = from.Segments }, "quantity": func() { p.Quantity = from.Quantity },
		"wait": func() { p.Wait = from.Wait }, "store": func() { p.Store = from.Store },
		"engine": func() { p.Engine = from.Engine }, "repeat": func() { p.Repeat = from.Repeat }, "insist": func() { p.Insist = from.Insist },
		"sell-out": func() { p.SellOut = from.SellOut }, "seed": func() { p.Seed = from.Seed },
	}
	for name, apply := range overrides {
		if f.given(name) {
			apply()
		}
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
