package plan

import (
	"encoding/xml"
	"errors"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lastitem/contract/api"
	"lastitem/testkit"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	stages := []Stage{{For: time.Second, Rate: 10}}
	tests := []struct {
		name string
		plan Plan
		want string // "" = valid
	}{
		{"zero", Plan{}, ""},
		{"loops", Plan{VUs: 5, Loops: 10, Burst: true}, ""},
		{"rate for a duration", Plan{Rate: 100, Duration: time.Minute}, ""},
		{"stages", Plan{Stages: stages, MaxInFlight: 9}, ""},
		{"a jump, then a ramp down to nothing", Plan{Stages: []Stage{{For: 0, Rate: 10}, {For: 10 * time.Second, Rate: 0}}},
			""},
		{"a jump alone", Plan{Stages: []Stage{{For: 0, Rate: 10}}}, "--stages has no arrivals"},
		{"several products", Plan{Products: 9, Zipf: 1.2}, ""},
		{"loops and duration", Plan{Loops: 1, Duration: 1}, "--loops and --duration exclude each other"},
		{"requests and loops", Plan{Loops: 1, Requests: 1}, "--loops and --requests exclude each other"},
		{"all", Plan{Loops: 1, Requests: 1, Duration: 1, Stages: stages},
			"--loops, --requests, --duration and --stages exclude each other"},
		{"rate and stages", Plan{Rate: 1, Stages: stages}, "--rate and --stages exclude each other"},
		{"rate and requests", Plan{Rate: 1, Requests: 5}, "--requests and --rate exclude each other"},
		{"vus", Plan{VUs: -1}, "--vus"},
		{"too many vus", Plan{VUs: 1 << 20}, "--vus"},
		{"negative loops", Plan{Loops: -1}, "--loops must not be negative"},
		{"negative rate", Plan{Rate: -1}, "--rate"},
		{"stage", Plan{Stages: []Stage{{For: -1, Rate: 1}}}, "--stages: stage 1"},
		{"no arrivals", Plan{Stages: []Stage{{For: time.Second}}}, "--stages has no arrivals"},
		{"open with vus", Plan{Rate: 1, VUs: 5}, "--vus belongs to a closed loop"},
		{"open with burst", Plan{Rate: 1, Burst: true}, "--burst belongs to a closed loop"},
		{"closed with max-in-flight", Plan{MaxInFlight: 5}, "--max-in-flight belongs to an open loop"},
		{"product", Plan{Product: -1}, "--product"},
		{"products", Plan{Products: -1}, "--products"},
		{"the last product", Plan{Product: math.MaxInt64 - 1, Products: 2}, ""},
		{"the highest product", Plan{Product: math.MaxInt64, Products: 1}, ""},
		{"beyond the last product", Plan{Product: math.MaxInt64, Products: 2},
			"--products 2 from --product 9223372036854775807 on"},
		{"too many products", Plan{Products: math.MaxInt}, "--products 9223372036854775807 from --product 101 on"},
		{"zipf", Plan{Products: 5, Zipf: 1}, "--zipf must be greater than 1"},
		{"zipf alone", Plan{Zipf: 1.5}, "--zipf needs --products"},
		{"stock", Plan{Stock: -1}, "--stock"},
		{"segments", Plan{Segments: -1}, "--segments"},
		{"quantity", Plan{Quantity: -1}, "--quantity"},
		{"store", Plan{Store: "disk"}, `--store must be redis, sql or etcd, not "disk"`},
		{"warmup", Plan{Warmup: -1}, "--warmup"},
		{"wait", Plan{Wait: -1}, "--wait"},
		{"timeout", Plan{Timeout: -1}, "--timeout"},
		{"timeout within wait", Plan{Timeout: time.Second, Wait: 3 * time.Second}, "--timeout 1s must exceed --wait 3s"},
		{"retry", Plan{Retry: -1}, "--retry"},
		{"unsafe without retry", Plan{RetryUnsafe: true}, "--retry-unsafe needs --retry"},
		{"repeat", Plan{Repeat: -1}, "--repeat"},
		{"a share", Plan{Reserving: Reserving{For: time.Second, Pays: 1.1}}, "--pays must be 0 to 1, not 1.1"},
		{"shares", Plan{Reserving: Reserving{For: time.Second, Pays: 0.7, Cancels: 0.4}},
			"--pays, --pays-late and --cancels"},
		{"a short hold", Plan{Reserving: Reserving{For: time.Millisecond}}, "--hold must be 100ms to 1h0m0s, not 1ms"},
		{"pay", Plan{Reserving: Reserving{For: time.Second, PayFrom: 2, PayTo: 1}}, "--pay-from and --pay-to"},
		{"buyers", Plan{Reserving: Reserving{For: time.Second, Buyers: -1}}, "--buyers"},
		{"buyer zipf", Plan{Reserving: Reserving{For: time.Second, BuyerZipf: 1}}, "--buyer-zipf"},
		{"a limit below 0", Plan{Reserving: Reserving{PerBuyer: -1}}, "--per-buyer"},
		{"late", Plan{Reserving: Reserving{For: time.Second, Late: "never"}}, `--late must be refund or rehold, not "never"`},
		{"segments of units that are held", Plan{Segments: 2, Reserving: Reserving{For: time.Second}}, "--segments"},
		{"without a hold", Plan{Reserving: Reserving{Pays: 1}}, "what buyers do"},
		{"engine", Plan{Engine: "curl"}, `--engine must be raw, resty, not "curl"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := tt.plan.Validate()
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("Validate() = %v, want nil", err)
			case tt.want == "":
				if err := tt.plan.WithDefaults().Validate(); err != nil {
					t.Errorf("WithDefaults().Validate() = %v, want nil", err)
				}
			case err == nil || !strings.Contains(err.Error(), "loadtest: "+tt.want):
				t.Errorf("Validate() = %v, want %q", err, tt.want)
			}
		})
	}
}

func TestValidateNamesEveryFault(t *testing.T) {
	t.Parallel()
	err := Plan{Loops: 1, Requests: 1, Stock: -1, Engine: "curl"}.Validate()
	for _, flag := range []string{"--loops", "--stock", "--engine"} {
		if err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("Validate() = %v, want it to name %s", err, flag)
		}
	}
}

func TestWithDefaults(t *testing.T) {
	t.Parallel()
	base := Plan{Product: 101, Products: 1, Stock: 500, Quantity: 1, Seed: 1, Engine: "raw", Repeat: 1,
		Timeout: 7 * time.Second}
	with := func(change func(*Plan)) Plan {
		p := base
		change(&p)
		return p
	}
	tests := []struct {
		name string
		plan Plan
		want Plan
	}{
		{"zero", Plan{}, with(func(p *Plan) { p.VUs, p.Requests, p.SellOut = 40, 750, time.Minute })},
		{"requests", Plan{Requests: 9}, with(func(p *Plan) { p.VUs, p.Requests = 40, 9 })},
		{"loops", Plan{Loops: 3}, with(func(p *Plan) { p.VUs, p.Loops = 40, 3 })},
		{"rate", Plan{Rate: 5}, with(func(p *Plan) { p.Rate, p.Duration, p.MaxInFlight = 5, 10*time.Second, 512 })},
		{"wait", Plan{Wait: 3 * time.Second}, with(func(p *Plan) {
			p.VUs, p.Requests, p.SellOut, p.Wait, p.Timeout = 40, 750, time.Minute, 3*time.Second, 10*time.Second
		})},
		{"by tens", Plan{Stock: 100, Quantity: 10, Products: 2}, with(func(p *Plan) {
			p.VUs, p.Requests, p.SellOut, p.Stock, p.Quantity, p.Products = 40, 40, time.Minute, 100, 10, 2
		})},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, tt.plan.WithDefaults()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// By default more is requested than there is, so that a mode that oversells can show it.
func TestDefaultRequestsExceedTheStock(t *testing.T) {
	t.Parallel()
	for stock := int64(1); stock <= 30; stock++ {
		for quantity := int64(1); quantity <= 35; quantity++ {
			p := Plan{Stock: stock, Quantity: quantity}.WithDefaults()
			if asked := int64(p.Requests) * quantity; asked <= stock {
				t.Errorf("stock %d, quantity %d: %d requests ask for %d units, want more than the stock", stock, quantity,
					p.Requests, asked)
			}
			if p.Requests < p.VUs {
				t.Errorf("stock %d, quantity %d: %d requests of %d VUs, want one of each", stock, quantity, p.Requests, p.VUs)
			}
		}
	}
}

// Holds last four times as long as a reserve takes; times that were given stay.
func TestHoldsAreScaled(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	reserve, _ := Named("reserve")
	plan := reserve[0]
	given := plan
	given.Reserving.Scaled = false
	for name, tt := range map[string]struct {
		plan     Plan
		hold, to time.Duration
	}{
		"not measured": {plan.Scaled(0), 100 * ms, 180 * ms}, "10 ms": {plan.Scaled(10 * ms), 100 * ms, 180 * ms},
		"150 ms": {plan.Scaled(150 * ms), 600 * ms, 680 * ms}, "900 ms": {plan.Scaled(900 * ms), 3600 * ms, 3680 * ms},
		"a minute": {plan.Scaled(time.Minute), SettleReservations, SettleReservations + 80*ms},
		"given":    {given.Scaled(900 * ms), 100 * ms, 180 * ms},
	} {
		if h := tt.plan.Reserving; h.For != tt.hold || h.PayFrom != 20*ms || h.PayTo != tt.to {
			t.Errorf("%s: held for %v, paid after %v to %v, want %v, 20ms, %v", name, h.For, h.PayFrom, h.PayTo, tt.hold, tt.to)
		}
	}
}

func TestNamedPlansAreValid(t *testing.T) {
	t.Parallel()
	for _, named := range All {
		plans, ok := Named(named.Name)
		if !ok || len(plans) == 0 || named.Title.En == "" || named.Title.Zh == "" {
			t.Errorf("Named(%s) = %v, %v, want plans with a title in both languages", named.Name, plans, ok)
		}
		for _, p := range plans {
			if err := p.WithDefaults().Validate(); err != nil || p.Name != named.Name && !p.Adapts {
				t.Errorf("plan %q of %s: %v", p.Name, named.Name, err)
			}
		}
	}
	if _, ok := Named("nothing"); ok {
		t.Error("Named(nothing) = true, want false")
	}
	if plans, _ := Named("segments"); len(plans) != 2 || plans[0].Segments != 5 || plans[1].Segments != 10 {
		t.Errorf("Named(segments) = %+v, want 5 and 10 segments", plans)
	}
}

func TestParseStages(t *testing.T) {
	t.Parallel()
	got, err := ParseStages("10s:100, 500ms:2.5")
	if diff := cmp.Diff([]Stage{{10 * time.Second, 100}, {500 * time.Millisecond, 2.5}}, got); diff != "" || err != nil {
		t.Errorf("ParseStages() error %v (-want +got):\n%s", err, diff)
	}
	for _, bad := range []string{"", "10s", "10:5", "10s:x", "10s:5,", ":5"} {
		if _, err := ParseStages(bad); err == nil {
			t.Errorf("ParseStages(%q) = nil error, want one", bad)
		}
	}
}

func TestSchedule(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		plan Plan
		want int
		at   map[int]float64 // arrival to seconds
	}{
		{"rate", Plan{Rate: 100, Duration: 3 * time.Second}, 300, map[int]float64{0: 0, 1: 0.01, 150: 1.5, 299: 2.99}},
		{"slow", Plan{Rate: 0.5, Duration: 5 * time.Second}, 3, map[int]float64{0: 0, 1: 2, 2: 4}},
		// Up from 0 to 100/s in 2 s: N(t) = 25 t².
		{"ramp", Plan{Stages: []Stage{{2 * time.Second, 100}}}, 100, map[int]float64{0: 0, 25: 1, 81: 1.8}},
		{"jump and hold", Plan{Stages: []Stage{{0, 50}, {2 * time.Second, 50}}}, 100, map[int]float64{0: 0, 50: 1, 99: 1.98}},
		{"up and down", Plan{Stages: []Stage{{time.Second, 100}, {time.Second, 0}}}, 100,
			map[int]float64{0: 0, 50: 1, 98: 1.8}},
		{"pause", Plan{Stages: []Stage{{0, 10}, {time.Second, 10}, {0, 0}, {time.Second, 0}, {0, 10}, {time.Second, 10}}}, 20,
			map[int]float64{9: 0.9, 10: 2, 11: 2.1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := NewSchedule(tt.plan.WithDefaults())
			if got := s.Len(); got != tt.want {
				t.Errorf("Len() = %d, want %d", got, tt.want)
			}
			last, n := time.Duration(0), 0
			for due, ok := s.Next(); ok; due, ok = s.Next() {
				if want, check := tt.at[n]; check && math.Abs(due.Seconds()-want) > 1e-6 {
					t.Errorf("arrival %d at %v, want %vs", n, due, want)
				}
				if due < last {
					t.Errorf("arrival %d at %v is before the one at %v", n, due, last)
				}
				last = due
				n++
			}
			if n != tt.want {
				t.Errorf("%d arrivals, want %d", n, tt.want)
			}
		})
	}
}

// What buyers do follows from the seed alone, and in the shares of the plan.
func TestVisits(t *testing.T) {
	t.Parallel()
	reserve, _ := Named("reserve")
	p := reserve[0]
	p.Seed = 7
	one, two, other := p.Visits(3), p.Visits(3), p.Visits(4)
	acts, twice, buyers, differ := map[Act]int{}, 0, map[string]int{}, 0
	extras := map[string]int{}
	const n = 20_000
	for range n {
		v := one()
		if again := two(); v != again {
			t.Fatalf("the same seed gives %+v and %+v", v, again)
		}
		if v != other() {
			differ++
		}
		acts[v.Act]++
		buyers[v.Buyer]++
		if v.Twice {
			twice++
		}
		for what, is := range map[string]bool{"extend": v.Extends && v.Act != Leaves, "return": v.Returns, "cart": v.Cart,
			"restock": v.Restock, "extend and leave": v.Extends && v.Act == Leaves} {
			if is {
				extras[what]++
			}
		}
		if v.Act != PaysLate && (v.After < p.Reserving.PayFrom || v.After > p.Reserving.PayTo) ||
			v.Act == PaysLate && v.After < p.Reserving.For {
			t.Fatalf("%+v: too early or too late", v)
		}
	}
	for what, got := range map[string][2]float64{
		"pay": {float64(acts[Pays]), 0.7}, "pay late": {float64(acts[PaysLate]), 0.1},
		"cancel": {float64(acts[Cancels]), 0.1},
		"leave":  {float64(acts[Leaves]), 0.1}, "click twice": {float64(twice), 0.05},
		"extend": {float64(extras["extend"]), 0.045}, "extend and leave": {float64(extras["extend and leave"]), 0.0525},
		"return": {float64(extras["return"]), 0.05}, "want two": {float64(extras["cart"]), 0.08},
		"restock": {float64(extras["restock"]), 0.5},
	} {
		if share := got[0] / n; share < got[1]-0.01 || share > got[1]+0.01 {
			t.Errorf("%.3f %s, want %.2f", share, what, got[1])
		}
	}
	if differ < n/2 || buyers["buyer-1"] < 10*buyers["buyer-100"] {
		t.Errorf("%d differ from another stream; %d of the first buyer, %d of the hundredth", differ, buyers["buyer-1"],
			buyers["buyer-100"])
	}
}

func TestPicker(t *testing.T) {
	t.Parallel()
	draw := func(p Plan, stream int) map[int64]int {
		pick, counts := p.Picker(stream), map[int64]int{}
		for range 10_000 {
			counts[pick()]++
		}
		return counts
	}
	if got := draw(Plan{Product: 5, Products: 1}, 0); got[5] != 10_000 {
		t.Errorf("one product: %v, want 5 alone", got)
	}
	uniform := draw(Plan{Product: 5, Products: 10, Seed: 1}, 0)
	for product := int64(5); product < 15; product++ {
		if uniform[product] < 700 || uniform[product] > 1300 {
			t.Errorf("uniform: product %d drawn %d times of 10000, want about 1000", product, uniform[product])
		}
	}
	skewed := draw(Plan{Product: 5, Products: 10, Zipf: 1.5, Seed: 1}, 0)
	if skewed[5] < 3*skewed[7] || len(skewed) > 10 {
		t.Errorf("skewed: %v, want the first product far ahead", skewed)
	}
	if diff := cmp.Diff(skewed, draw(Plan{Product: 5, Products: 10, Zipf: 1.5, Seed: 1}, 0)); diff != "" {
		t.Errorf("the same seed draws differently:\n%s", diff)
	}
	if cmp.Equal(skewed, draw(Plan{Product: 5, Products: 10, Zipf: 1.5, Seed: 1}, 1)) {
		t.Error("two workers draw the same products in the same order")
	}
}

// element is one of a JMeter test plan.
type element struct {
	Name  string    `xml:"name,attr"`
	Text  string    `xml:",chardata"`
	Below []element `xml:",any"`
}

// into adds the texts of the elements with a name.
func (e element) into(properties map[string][]string) {
	if text := strings.TrimSpace(e.Text); e.Name != "" && text != "" {
		properties[e.Name] = append(properties[e.Name], text)
	}
	for _, x := range e.Below {
		x.into(properties)
	}
}

// The shipped JMeter plan equals the plan "jmeter", so that both measure the same.
func TestJMeterPlanIsOurs(t *testing.T) {
	text, err := os.ReadFile("../jmeter/deduct_stock.jmx")
	var root element
	testkit.Must(t, errors.Join(err, xml.Unmarshal(text, &root)))
	properties := map[string][]string{}
	root.into(properties)
	plans, ok := Named("jmeter")
	if !ok || len(plans) != 1 {
		t.Fatalf("Named(jmeter) = %v, %t, want one plan", plans, ok)
	}
	p := plans[0].WithDefaults()
	want := map[string]string{
		"ThreadGroup.num_threads": "${__P(threads," + strconv.Itoa(p.VUs) + ")}",
		"LoopController.loops":    "${__P(loops," + strconv.Itoa(p.Loops) + ")}",
		"HTTPSampler.domain":      "${__P(host,localhost)}",
		"HTTPSampler.port":        "${__P(port,8080)}",
		"HTTPSampler.path": "/deduct_stock/${__P(mode,lua-lock)}?wait_ms=" +
			strconv.FormatInt(p.Wait.Milliseconds(), 10),
		"HTTPSampler.method": "POST",
		"Argument.value": `{"product_id":${__P(product,` + strconv.FormatInt(p.Product, 10) + `)},"quantity":` +
			strconv.FormatInt(p.Quantity, 10) + `}`,
	}
	for name, value := range want {
		testkit.Is(t, strings.Join(properties[name], "|"), value, "%s", name)
	}
	if got := strings.Join(properties["49586"], "|"); !strings.Contains(got, "200") || !strings.Contains(got, "409") {
		t.Errorf("response assertion accepts %q, want 200 and 409", got)
	}
}

// A plan that adapts has buyers for a mode that reserves, who pay at once, and fewer units where each has a row. Any
// other plan stays as it is.
func TestFor(t *testing.T) {
	t.Parallel()
	costs, _ := Named("costs")
	reserving := api.Mode{Name: "m", Reserves: true, Units: true}
	p := costs[0].For(reserving)
	if !p.Suits(reserving) || p.Reserving.Pays != 1 || p.Stock != mostUnits || p.WithDefaults().Validate() != nil {
		t.Errorf("direct for a mode that reserves: %+v, want buyers who all pay", p)
	}
	if p := costs[2].For(reserving); p.Stock != 1 {
		t.Errorf("refusals for a mode with units: stock %d, want 1", p.Stock)
	}
	if p := costs[1].For(api.Mode{Name: "m"}); p.Reserving.On() || p.Stock != costs[1].Stock {
		t.Errorf("nginx for a mode that deducts: %+v, want it as it is", p)
	}
	if p := (Plan{Stock: 7}).For(reserving); p.Reserving.On() || p.Stock != 7 {
		t.Errorf("a plan that does not adapt: %+v, want it as it is", p)
	}
	if p := (Plan{Segments: 10}); p.Suits(api.Mode{}) || !p.Suits(api.Mode{Segments: 4}) {
		t.Error("a plan with segments suits a mode that knows none, or no mode that does")
	}
}
