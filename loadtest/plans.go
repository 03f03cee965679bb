package loadtest

import (
	"time"

	"lastitem/internal/api"
)

// NamedPlan is a plan with a name, or several plans to run one after the other.
type NamedPlan struct {
	Name  string
	Title api.Text
	Plans []Plan
}

// waitAsWriteUps is how long the well-known write-ups let a request wait for the lock.
const waitAsWriteUps = 3 * time.Second

// All lists the named plans. All except demo are taken from well-known write-ups, to compare the numbers.
var All = []NamedPlan{
	{
		Name:  "demo",
		Title: api.Text{En: "40 clients share 750 requests for a stock of 500", Zh: "40 个客户端共发 750 个请求，库存 500"},
		Plans: []Plan{{VUs: 40, Requests: 750, Stock: 500, Product: 101, Wait: waitAsWriteUps, Warmup: 200 * time.Millisecond, Insist: 4, SellOut: defaultSellOut}},
	},
	{
		Name:  "jmeter",
		Title: api.Text{En: "50 threads of 100 requests each, stock 5000", Zh: "50 个线程各循环 100 次，库存 5000"},
		Plans: []Plan{{VUs: 50, Loops: 100, Stock: 5000, Wait: waitAsWriteUps}},
	},
	{
		Name:  "five",
		Title: api.Text{En: "5 clients at once, stock 100: 95 must be left; a mode that claims to break is run up to 20 times, until it is seen to", Zh: "5 个客户端同时下单，库存 100，必须剩 95；声明会出错的模式最多跑 20 次，直到看到出错"},
		Plans: []Plan{{VUs: 5, Loops: 1, Burst: true, Stock: 100, Wait: waitAsWriteUps, MustEnd: new(int64(95)), Insist: 19}},
	},
	{
		Name:  "flash",
		Title: api.Text{En: "1000 buyers at once, stock 100", Zh: "1000 个买家同时抢购，库存 100"},
		Plans: []Plan{{VUs: 1000, Loops: 1, Burst: true, Stock: 100, Wait: waitAsWriteUps}},
	},
	{
		Name:  "segments",
		Title: api.Text{En: "stock 500 in 5 segments, then 1000 in 10", Zh: "库存 500 分 5 段，再 1000 分 10 段"},
		Plans: []Plan{
			{VUs: 50, Requests: 600, Stock: 500, Segments: 5, Wait: waitAsWriteUps},
			{VUs: 50, Requests: 1200, Stock: 1000, Segments: 10, Wait: waitAsWriteUps},
		},
	},
}

// Named returns the plans of a name, each with that name, without defaults; false if there is no such name.
func Named(name string) ([]Plan, bool) {
	for _, named := range All {
		if named.Name != name {
			continue
		}
		plans := make([]Plan, len(named.Plans))
		copy(plans, named.Plans)
		for i := range plans {
			plans[i].Name = name
		}
		return plans, true
	}
	return nil, false
}
