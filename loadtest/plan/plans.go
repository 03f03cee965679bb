package plan

import (
	"cmp"
	"time"

	"lastitem/say/text"
)

// NamedPlan is a plan with a name, or several plans to run one after the other.
type NamedPlan struct {
	Name  string
	Title text.Text
	Plans []Plan
}

// waitAsWriteUps is how long the well-known write-ups let a request wait for the lock.
const waitAsWriteUps = 3 * time.Second

// costing is a plan that measures what an answer costs: more stock than any mode sells, and one load for all modes.
func costing(name string, p Plan) Plan {
	p.Name, p.VUs, p.Warmup, p.Wait, p.Repeat, p.Adapts = name, 64, 300*time.Millisecond, time.Second, 3, true
	p.Stock = cmp.Or(p.Stock, 1_000_000_000) // the most that the shop accepts
	p.Duration = cmp.Or(p.Duration, 1250*time.Millisecond)
	return p
}

// All lists the named plans. Those from jmeter to segments, except reserve and limit, are those of well-known
// write-ups, to compare numbers.
var All = []NamedPlan{
	{
		Name:  "demo",
		Title: text.Of("40 clients share 750 requests for a stock of 500"),
		Plans: []Plan{{VUs: 40, Requests: 750, Stock: 500, Product: 101, Wait: waitAsWriteUps, Warmup: 200 * time.Millisecond,
			Insist: 4, SellOut: defaultSellOut}},
	},
	{
		Name:  "jmeter",
		Title: text.Of("50 threads of 100 requests each, stock 5000"),
		Plans: []Plan{{VUs: 50, Loops: 100, Stock: 5000, Wait: waitAsWriteUps}},
	},
	{
		Name: "five",
		Title: text.Of("5 clients at once, stock 100: 95 must be left; a mode that claims to break is run up to 20 times, " +
			"until it is seen to"),
		Plans: []Plan{{VUs: 5, Loops: 1, Burst: true, Stock: 100, Wait: waitAsWriteUps, MustEnd: new(int64(95)), Insist: 19}},
	},
	{
		Name:  "flash",
		Title: text.Of("1000 buyers at once, stock 100"),
		Plans: []Plan{{VUs: 1000, Loops: 1, Burst: true, Stock: 100, Wait: waitAsWriteUps}},
	},
	{
		Name: "reserve",
		Title: text.Of("40 buyers at a time reserve one of 250 for 100 ms: 70% pay after 20 to 180 ms, 10% pay late, 10% " +
			"cancel, the others leave; 5% extend, 5% return, 8% want a second product, two to a buyer; where a reserve takes " +
			"long, measured first, holds and payments do too"),
		Plans: []Plan{{VUs: 40, Stock: 250, Wait: waitAsWriteUps, Warmup: 200 * time.Millisecond, Insist: 4,
			Reserving: Reserving{
				For: 100 * time.Millisecond, Pays: 0.7, PaysLate: 0.1, Cancels: 0.1, PayFrom: 20 * time.Millisecond,
				PayTo: 180 * time.Millisecond, Scaled: true, DoubleClicks: 0.05, Buyers: 1000, BuyerZipf: 1.1,
				Extends: 0.05, Returns: 0.05, Carts: 0.08,
			}}},
	},
	{
		Name: "limit",
		Title: text.Of("40 clients share 750 requests for a stock of 500, one to a buyer: 1000 buyers, and 20% of them " +
			"click twice"),
		Plans: []Plan{{VUs: 40, Requests: 750, Stock: 500, Wait: waitAsWriteUps, Warmup: 200 * time.Millisecond, Insist: 4,
			SellOut: defaultSellOut, Reserving: Reserving{DoubleClicks: 0.2, PerBuyer: 1}}},
	},
	{
		Name:  "tickets",
		Title: text.Of("40 clients share 3000 requests for a stock of 2000, and each ticket is followed to its end"),
		Plans: []Plan{{VUs: 40, Requests: 3000, Stock: 2000, Wait: waitAsWriteUps, Warmup: 200 * time.Millisecond,
			SellOut: defaultSellOut, Follow: 32}},
	},
	{
		Name:  "segments",
		Title: text.Of("stock 500 in 5 segments, then 1000 in 10"),
		Plans: []Plan{
			{VUs: 50, Requests: 600, Stock: 500, Segments: 5, Wait: waitAsWriteUps},
			{VUs: 50, Requests: 1200, Stock: 1000, Segments: 10, Wait: waitAsWriteUps},
		},
	},
	{
		Name: "costs",
		Title: text.Of("what an answer costs, 64 clients, with --durable: orders of one replica, without the balancer; of " +
			"all by way of it; refusals of one replica"),
		Plans: []Plan{
			costing("direct", Plan{Direct: true}), costing("nginx", Plan{}),
			costing("refusals", Plan{Direct: true, Stock: 1, Duration: 625 * time.Millisecond}), // they come evenly
		},
	},
	{
		Name: "far",
		Title: text.Of("the same, with --durable and --rtt: orders of one replica, for one product, for ten, and for one " +
			"in ten segments"),
		Plans: []Plan{
			costing("far", Plan{Direct: true}), costing("far-products", Plan{Direct: true, Products: 10}),
			costing("far-segments", Plan{Direct: true, Segments: 10}),
		},
	},
}

// Named returns the plans of a name, each with that name unless it has its own, without defaults; false if there is no
// such name.
func Named(name string) ([]Plan, bool) {
	for _, named := range All {
		if named.Name != name {
			continue
		}
		plans := make([]Plan, len(named.Plans))
		copy(plans, named.Plans)
		for i := range plans {
			plans[i].Name = cmp.Or(plans[i].Name, name)
		}
		return plans, true
	}
	return nil, false
}
