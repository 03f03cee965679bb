package plan

import (
	"cmp"
	"math"
	"time"

	"lastitem/contract/api"
)

// Plan describes the load on one mode. Exactly one of Loops, Requests, Duration (closed loop) or Rate, Stages (open
// loop) decides how long it lasts; Duration also bounds Rate. Zero values mean the defaults of [Plan.WithDefaults],
// except where zero has its own meaning (Warmup, Wait, Retry, Zipf, Segments).
type Plan struct {
	Name string `json:"name,omitempty"`

	// Closed loop: VUs clients, each sending its next request after the answer to the last one.
	VUs      int           `json:"vus,omitempty"`
	Loops    int           `json:"loops,omitempty"`    // requests per VU
	Requests int           `json:"requests,omitempty"` // requests in all, shared by the VUs
	Duration time.Duration `json:"duration,omitempty"` // no request is sent after it

	// Open loop: arrivals that do not wait for answers, Rate per second, or ramped linearly through Stages, from 0.
	Rate        float64 `json:"rate,omitempty"`
	Stages      []Stage `json:"stages,omitempty"`
	MaxInFlight int     `json:"max_in_flight,omitempty"` // arrivals beyond it are dropped and counted

	// Stop, once closed, ends a plan with a Duration early, like the end of its Duration; nil = never. Such a run counts
	// as complete.
	Stop <-chan struct{} `json:"-"`

	// Burst releases the first request of every VU at the same moment, over connections that are open by then.
	Burst bool `json:"burst,omitempty"`

	Warmup  time.Duration `json:"warmup,omitempty"`  // sent before the run, on a separate product, not counted; 0 = none
	Timeout time.Duration `json:"timeout,omitempty"` // per request; after it the outcome is unknown
	// Retry is how often a request that was refused for now, or whose outcome is unknown, is sent again with the same
	// idempotency key. It is refused for modes that keep no keys, unless RetryUnsafe says that a double charge is wanted.
	Retry       int  `json:"retry,omitempty"`
	RetryUnsafe bool `json:"retry_unsafe,omitempty"`

	Product   int64         `json:"product"`            // first product id
	Products  int           `json:"products"`           // how many, from Product on
	Zipf      float64       `json:"zipf,omitempty"`     // skew over the products, > 1; 0 = uniform
	Stock     int64         `json:"stock"`              // of each product at the start
	Segments  int           `json:"segments,omitempty"` // 0 = as many as the mode asks for
	Quantity  int64         `json:"quantity"`
	Reserving Reserving     `json:"holding,omitzero"` // what buyers do who reserve first
	Adjust    float64       `json:"adjust,omitempty"` // share of the arrivals that add or take some units first
	Wait      time.Duration `json:"wait"`             // wait_ms of each request; 0 = fail at once
	Store     api.Store     `json:"store,omitempty"`
	Seed      uint64        `json:"seed"`

	Engine string `json:"engine"` // raw, resty
	Repeat int    `json:"repeat"` // repetitions, interleaved over the modes
	// Insist is how many extra runs a mode that claims to break gets while none has broken: the claim says what can
	// happen, and the scheduler decides whether it does. A mode that claims to be exact gets them only while its runs are
	// VACUOUS. Holds that may be scaled last twice as long after such a run.
	Insist int `json:"insist,omitempty"`
	// SellOut is how much longer a closed plan may run after its Requests, until a request is refused as sold out; 0 = not
	// at all. It matters on a slow service, which refuses many requests as busy: with stock left, the run would prove
	// nothing. It is for plans on one product with more demand than stock.
	SellOut time.Duration `json:"sell_out,omitempty"`

	// Direct sends the load to one replica, past the balancer. It needs a private stack, whose replicas are known.
	Direct bool `json:"direct,omitempty"`
	// Adapts makes a plan that deducts fit every mode, see [Plan.For].
	Adapts bool `json:"adapts,omitempty"`

	// Follow is over how many connections the plan asks what becomes of each ticket, until it has ended; 0 = it does not.
	Follow int `json:"follow,omitempty"`

	// MustEnd is the stock that an exact mode leaves after this plan; nil = nothing expected.
	MustEnd *int64 `json:"must_end,omitempty"`
}

// Stage ramps the rate linearly to Rate arrivals per second over For; a stage without length jumps to its rate.
type Stage struct {
	For  time.Duration `json:"for"`
	Rate float64       `json:"rate"`
}

// Reserving makes every arrival a buyer, who reserves and then pays, cancels or leaves. Without For it is a plan that
// deducts at once, for Buyers if there are any. The shares are of all buyers; those that are left over hold their units
// until the deadline.
type Reserving struct {
	For      time.Duration `json:"for,omitempty"`       // how long a reservation holds
	Pays     float64       `json:"pays,omitempty"`      // share that pays after PayFrom to PayTo
	PaysLate float64       `json:"pays_late,omitempty"` // share that pays at the deadline or after it
	Cancels  float64       `json:"cancels,omitempty"`   // share that cancels after PayFrom to PayTo
	PayFrom  time.Duration `json:"pay_from,omitempty"`
	PayTo    time.Duration `json:"pay_to,omitempty"`
	// Scaled says that For and PayTo are the least: a run measures a reserve first, and lengthens both as it needs.
	Scaled  bool    `json:"scaled,omitempty"`
	Extends float64 `json:"extends,omitempty"` // share that extends after PayFrom; half of those who leave do too
	Returns float64 `json:"returns,omitempty"` // share whose order is returned, if there is one
	// Carts is the share that wants a second product too, in one cart, or alone where the mode takes no carts. That
	// product has a limit per buyer.
	Carts float64 `json:"carts,omitempty"`
	// DoubleClicks is the share that sends each request twice at once, over two connections, with the same key if there
	// is one.
	DoubleClicks float64 `json:"double_clicks,omitempty"`
	// Buyers is how many there are; 0 = requests name none, or with PerBuyer twice as many as it takes to buy the stock.
	Buyers    int     `json:"buyers,omitempty"`
	BuyerZipf float64 `json:"buyer_zipf,omitempty"` // skew over the buyers, > 1; 0 = uniform
	PerBuyer  int64   `json:"per_buyer,omitempty"`  // the limit; 0 = none
	// Late is what a payment after the deadline gets: "refund" (the default), or "rehold" while units are free.
	Late string `json:"late,omitempty"`
}

// On says that the plan reserves.
func (h Reserving) On() bool { return h.For > 0 }

// The engines.
const (
	EngineRaw   = "raw"   // one keep-alive connection per worker, own parser: the least the generator can cost
	EngineResty = "resty" // resty over net/http
)

// EngineNames lists the engines, the default first.
var EngineNames = []string{EngineRaw, EngineResty}

// Defaults of a plan's zero values.
const (
	defaultVUs         = 40
	defaultMaxInFlight = 512
	defaultProduct     = 101
	defaultStock       = 500
	defaultRateFor     = 10 * time.Second
	// buyersPerUnit is how many times more requests a plan that reserves has, by default.
	buyersPerUnit = 5
	// AnswerTime is how long beyond Wait a request may take before the client gives up.
	AnswerTime = 7 * time.Second
	// defaultSellOut is SellOut if the number of requests is the default too.
	defaultSellOut = time.Minute
)

// Open reports whether the plan is an open loop.
func (p Plan) Open() bool { return p.Rate > 0 || len(p.Stages) > 0 }

// WithDefaults returns the plan with its zero values filled in: 40 VUs whose requests, of 1 unit each, ask for one and
// a half times the stock, but at least for more than there is, and at least one request of each VU; up to a minute more
// until it is sold out; product 101 with a stock of 500; for an open loop 10 s and at most 512 requests in flight; a
// timeout of 7 s beyond Wait; engine raw, seed 1, one repetition.
func (p Plan) WithDefaults() Plan {
	p.Product = cmp.Or(p.Product, defaultProduct)
	p.Products = cmp.Or(p.Products, 1)
	p.Stock = cmp.Or(p.Stock, defaultStock)
	p.Quantity = cmp.Or(p.Quantity, 1)
	p.Seed = cmp.Or(p.Seed, 1)
	p.Engine = cmp.Or(p.Engine, EngineRaw)
	p.Repeat = cmp.Or(p.Repeat, 1)
	p.Timeout = cmp.Or(p.Timeout, p.Wait+AnswerTime)
	if h := &p.Reserving; h.PerBuyer > 0 && h.Buyers == 0 {
		h.Buyers = int(min(max(2*p.Stock/h.PerBuyer, 1), math.MaxInt32))
	}
	if p.Open() {
		p.MaxInFlight = cmp.Or(p.MaxInFlight, defaultMaxInFlight)
		if p.Rate > 0 {
			p.Duration = cmp.Or(p.Duration, defaultRateFor)
		}
		return p
	}
	p.VUs = cmp.Or(p.VUs, defaultVUs)
	if p.Loops == 0 && p.Duration == 0 && p.Requests == 0 && p.Quantity > 0 {
		// More than the stock is requested, also of a stock that one request sells out: a mode must have something to refuse.
		// And each VU has a request, else a small stock would be sold by a few requests that hardly overlap.
		each := int(max(p.Stock*3/2/p.Quantity, p.Stock/p.Quantity+1))
		if p.Reserving.On() { // of many buyers the units come back
			p.Requests = max(buyersPerUnit*each*p.Products, p.VUs)
			return p
		}
		p.Requests = max(each*p.Products, p.VUs)
		p.SellOut = cmp.Or(p.SellOut, defaultSellOut)
	}
	return p
}

// SettleReservations is the longest deadline that is waited for.
const SettleReservations = 10 * time.Second

// holdPerReserve is how many times as long as a reserve a scaled hold is at least: the answer to the reserve and the
// payment may take as long each, and the buyer thinks in between.
const holdPerReserve = 4

// Scaled returns the plan with holds long enough for a reserve that takes so long, where they may be scaled. The pay
// window begins as before, and ends as long after the deadline as before.
func (p Plan) Scaled(took time.Duration) Plan {
	if h := &p.Reserving; h.Scaled {
		more := max(min((holdPerReserve*took).Round(time.Millisecond), SettleReservations)-h.For, 0)
		h.For, h.PayTo = h.For+more, h.PayTo+more
	}
	return p
}

// More returns the plan for another try after a run that was VACUOUS, in which a reserve took so long and a hold lasted
// so long.
func (p Plan) More(took, held time.Duration) Plan { return p.Scaled(max(took, 2*held/holdPerReserve)) }
